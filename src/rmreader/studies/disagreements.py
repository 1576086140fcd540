"""Figure 5: questions that two readers answer differently, side by side with the references, as one readable page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from rmreader.data.squad import Dataset
from rmreader.reading.answering.answers import Answer
from rmreader.scoring.squad import exact_match, f1, normalize
from rmreader.studies import report
from rmreader.studies.readers import answers, load
from rmreader.studies.report import text

MOST = 50
"""Cases of each kind on a page, the largest differences first."""
NOTHING = Answer("", 0, 0, 0.0, 0.0, "")
KINDS = {
    "exact": "exactly right where the other is not",
    "better": "better F1",
    "rough": "rough boundary: overlaps a reference without matching one",
}


@dataclass(frozen=True)
class Case:
    """A question with two different answers; each score is EM and F1 between 0 and 1."""

    id: str
    question: str
    passage: str
    references: list[str]
    first: Answer
    second: Answer
    first_score: tuple[float, float]
    second_score: tuple[float, float]

    @property
    def gap(self) -> float:
        """How much better the first answer is, in F1."""
        return self.first_score[1] - self.second_score[1]


def compare(folders: Sequence[Path], dataset: Dataset, device: str | None = None) -> list[Case]:
    """The questions to which two readers' answers differ once normalised."""
    both = [answers(load(folder, device), dataset) for folder in folders]
    cases = []
    for paragraph, question in dataset.questions():
        first, second = (found[question.id] or NOTHING for found in both)
        if normalize(first.text) != normalize(second.text):
            references = [reference.text for reference in question.answers]
            scores = [(exact_match(found.text, references), f1(found.text, references)) for found in (first, second)]
            cases.append(Case(question.id, question.text, paragraph.context, references, first, second, *scores))
    return cases


def counts(cases: Sequence[Case]) -> dict[str, int]:
    """Who is right where they disagree, and who has a rough boundary: some overlap with a reference, but no match."""
    found = {"total": len(cases)}
    for name, sides in (("first", (0, 1)), ("second", (1, 0))):
        pairs = [[(case.first_score, case.second_score)[side] for side in sides] for case in cases]
        found[f"{name}_exact"] = sum(own[0] > other[0] for own, other in pairs)
        found[f"{name}_better"] = sum(own[1] > other[1] for own, other in pairs)
        found[f"{name}_rough"] = sum(own[0] == 0 and own[1] > 0 for own, _ in pairs)
    return found


def page(title: str, names: tuple[str, str], cases: Sequence[Case], total: int) -> str:
    """The page: how often who is right, then the cases, those with the largest difference first."""
    found, share = counts(cases), 100 * len(cases) / max(1, total)
    rows = [(what, f"{found[f'first_{kind}']:,}", f"{found[f'second_{kind}']:,}") for kind, what in KINDS.items()]
    body = [f"<p>{len(cases):,} of {total:,} questions ({share:.1f} %) are answered differently.</p>"]
    body.append(report.grid(("", *names), rows))
    signs = {f"{names[0]} is better": 1, f"{names[1]} is better": -1, "Equally good or bad": 0}
    for heading, sign in signs.items():
        group = [case for case in cases if (case.gap > 0) - (case.gap < 0) == sign]
        if group:
            more = f", the first {MOST}" if len(group) > MOST else ""
            body.append(f'<h2>{text(heading)} <span class="soft">({len(group):,}{more})</span></h2>')
            body += [_article(case, names) for case in sorted(group, key=lambda case: -abs(case.gap))[:MOST]]
    return report.page(title, body)


def _article(case: Case, names: tuple[str, str]) -> str:
    given = zip(names, (case.first, case.second), (case.first_score, case.second_score), strict=True)
    rows = [(name, one.text or "none", f"EM {em:.0f} · F1 {100 * overlap:.0f}") for name, one, (em, overlap) in given]
    rows.append(("references", " · ".join(dict.fromkeys(case.references)) or "none", ""))
    return (
        f'<article class="case" id="{text(case.id)}"><h3>{text(case.question)}</h3>'
        f'{report.grid(("", "answer", "score"), rows)}<p class="passage">{marked(case)}</p></article>'
    )


def marked(case: Case) -> str:
    """The passage, escaped, with both answers marked in it."""
    places = {"in1": case.first, "in2": case.second}
    cuts = {0, len(case.passage), *(cut for one in places.values() for cut in (one.start, one.end))}
    parts = []
    for begin, end in pairwise(sorted(cuts)):
        inside = [kind for kind, one in places.items() if one.start <= begin and end <= one.end and one.text]
        piece = text(case.passage[begin:end])
        parts.append(f'<mark class="{" ".join(inside)}">{piece}</mark>' if inside else piece)
    return "".join(parts)
