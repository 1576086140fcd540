"""What a data file holds and what is wrong with it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmreader.console import progress
from rmreader.data.examples import read_data
from rmreader.data.squad import Problem
from rmreader.text.tokens import tokenize


@dataclass
class Checked:
    """Counts over the good rows, and the bad rows by name."""

    file: str
    articles: int
    paragraphs: int = 0
    questions: int = 0
    impossible: int = 0
    answers: int = 0
    on_boundaries: int = 0  # answers that start and end where a token does
    problems: tuple[Problem, ...] = ()
    ambiguous: tuple[Problem, ...] = ()  # rows of a table whose answer is in its passage several times

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data, with the share of answers on token boundaries."""
        return dataclasses.asdict(self) | {
            "on_boundaries_share": self.on_boundaries / self.answers if self.answers else None
        }


def check_file(path: str | Path) -> Checked:
    """Validate a file with answers, SQuAD or a table, and count what it holds."""
    dataset = read_data(path)
    report = Checked(str(path), len(dataset.articles), problems=dataset.problems, ambiguous=dataset.ambiguous)
    paragraphs = [paragraph for article in dataset.articles for paragraph in article.paragraphs]
    with progress("checking", total=len(paragraphs), unit="paragraphs") as advance:
        for paragraph in paragraphs:
            tokens = tokenize(paragraph.context)
            starts, ends = set(tokens.starts.tolist()), set(tokens.ends.tolist())
            spans = [(a.start, a.start + len(a.text)) for question in paragraph.questions for a in question.answers]
            report.paragraphs += 1
            report.questions += len(paragraph.questions)
            report.impossible += sum(question.impossible for question in paragraph.questions)
            report.answers += len(spans)
            report.on_boundaries += sum(start in starts and end in ends for start, end in spans)
            advance(1)
    return report
