"""Figure 5: questions that two readers answer differently, as one page with the references."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from lab.studies import report
from lab.studies.readers import load
from lab.studies.report import Report
from rmreader.data.squad import Dataset
from rmreader.reading.answers import Answer
from rmreader.reading.evaluate import best_answers
from rmreader.scoring.squad import exact_match, f1, normalize

MOST = 50  # cases of each kind on a page, the largest differences first
# Where a reader gives none.
NOTHING = Answer("", 0, 0, 0.0, 0.0, "", 0)
# What is counted of each reader.
KINDS = {
    "exact": "exactly right where the other is not",
    "better": "better F1",
    "rough": "rough boundary: overlaps a reference without matching one",
}


@dataclass(frozen=True)
class Case:
    """A question with two different answers, and EM and F1 of each between 0 and 1."""

    id: str
    question: str
    passage: str
    references: list[str]
    answers: tuple[Answer, Answer]
    scores: tuple[tuple[float, float], tuple[float, float]]

    @property
    def gap(self) -> float:
        """The F1 of the first answer less that of the second."""
        return self.scores[0][1] - self.scores[1][1]


def compare(folders: Sequence[Path], dataset: Dataset, device: str | None = None) -> list[Case]:
    """The questions to which two readers' answers differ once normalised."""
    first_reader, second_reader = (load(folder, device) for folder in folders)
    first_answers = best_answers(first_reader, dataset)
    second_answers = best_answers(second_reader, dataset)
    cases = []
    for paragraph, question in dataset.questions():
        first = first_answers[question.id] or NOTHING
        second = second_answers[question.id] or NOTHING
        if normalize(first.text) != normalize(second.text):
            references = [reference.text for reference in question.answers]
            case = Case(
                question.id,
                question.text,
                paragraph.context,
                references,
                answers=(first, second),
                scores=(_score(first, references), _score(second, references)),
            )
            cases.append(case)
    return cases


def _score(answer: Answer, references: Sequence[str]) -> tuple[float, float]:
    """EM and F1 of an answer."""
    return exact_match(answer.text, references), f1(answer.text, references)


def counts(cases: Sequence[Case]) -> dict[str, int]:
    """Who is right where they disagree, and who has a rough boundary.

    A rough boundary overlaps a reference and matches none.
    """
    totals = {"total": len(cases)}
    for k, name in enumerate(("first", "second")):
        exact = 0
        better = 0
        rough = 0
        for case in cases:
            own_exact, own_f1 = case.scores[k]
            other_exact, other_f1 = case.scores[1 - k]
            exact += own_exact > other_exact
            better += own_f1 > other_f1
            rough += own_exact == 0 and own_f1 > 0
        totals[f"{name}_exact"] = exact
        totals[f"{name}_better"] = better
        totals[f"{name}_rough"] = rough
    return totals


def page(title: str, names: tuple[str, str], cases: Sequence[Case], total: int) -> bytes:
    """The page: how often who is right, then the cases, those with the largest difference first."""
    totals = counts(cases)
    rows = []
    for kind, what in KINDS.items():
        first = f"{totals[f'first_{kind}']:,}"
        second = f"{totals[f'second_{kind}']:,}"
        rows.append((what, first, second))
    share = 100 * len(cases) / max(1, total)
    note = f"{len(cases):,} of {total:,} questions ({share:.1f} %) are answered differently."
    sections = [Report("", "", ("", *names), rows, [note])]

    first_better = [case for case in cases if case.gap > 0]
    second_better = [case for case in cases if case.gap < 0]
    equal = [case for case in cases if case.gap == 0]
    sections += _group(f"{names[0]} is better", first_better, names)
    sections += _group(f"{names[1]} is better", second_better, names)
    sections += _group("Equally good or bad", equal, names)
    return report.page(title, sections)


def _group(heading: str, cases: Sequence[Case], names: tuple[str, str]) -> list[Report]:
    """A heading and its cases, the largest differences first; nothing without cases."""
    if not cases:
        return []
    more = f", the first {MOST}" if len(cases) > MOST else ""
    largest_first = sorted(cases, key=lambda case: -abs(case.gap))
    sections = [Report("", f"{heading} ({len(cases):,}{more})")]
    for case in largest_first[:MOST]:
        sections.append(_section(case, names))
    return sections


def _section(case: Case, names: tuple[str, str]) -> Report:
    """A case: both answers with their scores, and where they are in the passage."""
    rows = []
    for name, answer, (exact, overlap) in zip(names, case.answers, case.scores, strict=True):
        scores = f"EM {exact:.0f} · F1 {100 * overlap:.0f}"
        rows.append((name, answer.text or "none", scores))
    references = " · ".join(dict.fromkeys(case.references))
    rows.append(("references", references or "none", ""))

    # The passage is cut wherever an answer begins or ends.
    cuts = {0, len(case.passage)}
    for answer in case.answers:
        cuts |= {answer.start, answer.end}
    pieces = []
    for begin, end in pairwise(sorted(cuts)):
        marks = []
        for number, answer in enumerate(case.answers, 1):
            if answer.text and answer.start <= begin and end <= answer.end:
                marks.append(f"in{number}")
        pieces.append((" ".join(marks), case.passage[begin:end]))
    return Report(
        case.id,
        case.question,
        ("", "answer", "score"),
        rows,
        passage=pieces,
    )
