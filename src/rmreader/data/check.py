"""What a data file holds and what is wrong with it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmreader.console import progress
from rmreader.data.squad import Problem, read_squad
from rmreader.text.tokens import tokenize


@dataclass(frozen=True)
class Report:
    """Counts over the good rows, and the bad rows by name."""

    file: str
    articles: int
    paragraphs: int
    questions: int
    impossible: int
    answers: int
    on_boundaries: int  # answers that start and end where a token does
    problems: tuple[Problem, ...]

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data, with the share of answers on token boundaries."""
        return dataclasses.asdict(self) | {
            "on_boundaries_share": self.on_boundaries / self.answers if self.answers else None
        }


def check_file(path: str | Path) -> Report:
    """Validate a SQuAD file and count what it holds."""
    dataset = read_squad(path)
    paragraphs = [paragraph for article in dataset.articles for paragraph in article.paragraphs]
    answers = on_boundaries = 0
    with progress("checking", total=len(paragraphs), unit="paragraphs") as advance:
        for paragraph in paragraphs:
            tokens = tokenize(paragraph.context)
            starts, ends = set(tokens.starts.tolist()), set(tokens.ends.tolist())
            spans = [(a.start, a.start + len(a.text)) for question in paragraph.questions for a in question.answers]
            answers += len(spans)
            on_boundaries += sum(start in starts and end in ends for start, end in spans)
            advance(1)
    questions = [question for paragraph in paragraphs for question in paragraph.questions]
    return Report(
        file=str(path),
        articles=len(dataset.articles),
        paragraphs=len(paragraphs),
        questions=len(questions),
        impossible=sum(question.impossible for question in questions),
        answers=answers,
        on_boundaries=on_boundaries,
        problems=dataset.problems,
    )
