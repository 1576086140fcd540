"""Figure 5: questions that two readers answer differently, side by side with the references, as
one readable page."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from lab.studies import report
from lab.studies.readers import load
from lab.studies.report import WORDS, Report
from rmreader.data.squad import Dataset
from rmreader.reading.answers import Answer
from rmreader.reading.evaluate import best_answers
from rmreader.scoring.squad import exact_match, f1, normalize

MOST = 50  # cases of each kind on a page, the largest differences first
# Where a reader gives none.
NOTHING = Answer("", 0, 0, 0.0, 0.0, "", 0)


@dataclass(frozen=True)
class Case:
    """A question with two different answers, and EM and F1 of each between 0 and 1."""

    id: str
    question: str
    passage: str
    references: list[str]
    given: tuple[Answer, Answer]
    scores: tuple[tuple[float, float], tuple[float, float]]


def compare(folders: Sequence[Path], dataset: Dataset, device: str | None = None) -> list[Case]:
    """The questions to which two readers' answers differ once normalised."""
    one, other = (best_answers(load(folder, device), dataset) for folder in folders)
    cases = []
    for paragraph, question in dataset.questions():
        given = one[question.id] or NOTHING, other[question.id] or NOTHING
        if normalize(given[0].text) != normalize(given[1].text):
            references = [reference.text for reference in question.answers]
            first, second = (
                (exact_match(found.text, references), f1(found.text, references)) for found in given
            )
            cases.append(
                Case(
                    question.id,
                    question.text,
                    paragraph.context,
                    references,
                    given,
                    (first, second),
                )
            )
    return cases


def counts(cases: Sequence[Case]) -> dict[str, int]:
    """Who is right where they disagree, and who has a rough boundary: some overlap with a
    reference, but no match."""
    found = {"total": len(cases)}
    for k, name in enumerate(("first", "second")):
        found[f"{name}_exact"] = sum(case.scores[k][0] > case.scores[1 - k][0] for case in cases)
        found[f"{name}_better"] = sum(case.scores[k][1] > case.scores[1 - k][1] for case in cases)
        found[f"{name}_rough"] = sum(case.scores[k][0] == 0 < case.scores[k][1] for case in cases)
    return found


def page(title: str, names: tuple[str, str], cases: Sequence[Case], total: int) -> bytes:
    """The page: how often who is right, then the cases, those with the largest difference first."""
    found, share = counts(cases), 100 * len(cases) / max(1, total)
    kinds = WORDS["disagreements"].items()
    rows = [
        (what, f"{found[f'first_{kind}']:,}", f"{found[f'second_{kind}']:,}")
        for kind, what in kinds
    ]
    note = f"{len(cases):,} of {total:,} questions ({share:.1f} %) are answered differently."
    sections = [Report("", "", ("", *names), rows, [note])]
    for heading, sign in {
        f"{names[0]} is better": 1,
        f"{names[1]} is better": -1,
        "Equally good or bad": 0,
    }.items():
        gaps = [(case.scores[0][1] - case.scores[1][1], case) for case in cases]  # in F1
        group = [(-abs(gap), case) for gap, case in gaps if (gap > 0) - (gap < 0) == sign]
        more = f", the first {MOST}" if len(group) > MOST else ""
        sections += [Report("", f"{heading} ({len(group):,}{more})")] if group else []
        sections += [
            _section(case, names) for _, case in sorted(group, key=lambda one: one[0])[:MOST]
        ]
    return report.page(title, sections)


def _section(case: Case, names: tuple[str, str]) -> Report:
    """A case: both answers with their scores, and where they are in the passage."""
    scores = [f"EM {em:.0f} · F1 {100 * overlap:.0f}" for em, overlap in case.scores]
    rows = [*zip(names, [one.text or "none" for one in case.given], scores, strict=True)]
    rows.append(("references", " · ".join(dict.fromkeys(case.references)) or "none", ""))
    cuts, pieces = (
        {0, len(case.passage), *(cut for one in case.given for cut in (one.start, one.end))},
        [],
    )
    for begin, end in pairwise(sorted(cuts)):
        inside = [
            f"in{k}"
            for k, one in enumerate(case.given, 1)
            if one.start <= begin and end <= one.end and one.text
        ]
        pieces.append((" ".join(inside), case.passage[begin:end]))
    return Report(case.id, case.question, ("", "answer", "score"), rows, passage=pieces)
