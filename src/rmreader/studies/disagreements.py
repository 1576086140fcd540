"""Figure 5: questions that two readers answer differently, side by side with the references, as one readable page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch

from rmreader.data.encoded import Encoded
from rmreader.scoring.squad import exact_match, f1, normalize
from rmreader.studies import html
from rmreader.studies.readers import Found, decode, open_reader, point

MOST = 150
"""Cases on a page, the largest differences first."""


@dataclass(frozen=True)
class Case:
    """A question with two different answers; each score is EM and F1 between 0 and 1."""

    id: str
    question: str
    passage: str
    references: list[str]
    first: Found
    second: Found
    first_score: tuple[float, float]
    second_score: tuple[float, float]

    @property
    def gap(self) -> float:
        """How much better the first answer is, in F1."""
        return self.first_score[1] - self.second_score[1]


def compare(first: Path, second: Path, encoded: Encoded, device: torch.device) -> list[Case]:
    """The questions of which two readers' answers differ once normalised."""
    answers = []
    for folder in (first, second):
        network, feed, recipe = open_reader(folder, encoded, device)
        answers.append(decode(point(network, feed), encoded, recipe.decoding.max_length))
    return [
        case
        for i in range(len(encoded))
        if normalize(answers[0][i].text) != normalize(answers[1][i].text)
        for case in [_case(encoded, i, answers[0][i], answers[1][i])]
    ]


def _case(encoded: Encoded, i: int, first: Found, second: Found) -> Case:
    references = encoded.references(i)
    scores = [(exact_match(found.text, references), f1(found.text, references)) for found in (first, second)]
    return Case(
        encoded.ids[i], encoded.question(i), encoded.passage(i), references, first, second, scores[0], scores[1]
    )


def counts(cases: Sequence[Case]) -> dict[str, int]:
    """Who is right where they disagree, and who has a rough boundary: some overlap with a reference, but no match."""
    return {
        "total": len(cases),
        "first_exact": sum(case.first_score[0] > case.second_score[0] for case in cases),
        "second_exact": sum(case.second_score[0] > case.first_score[0] for case in cases),
        "first_better": sum(case.gap > 0 for case in cases),
        "second_better": sum(case.gap < 0 for case in cases),
        "first_rough": sum(_rough(case.first_score) for case in cases),
        "second_rough": sum(_rough(case.second_score) for case in cases),
    }


def _rough(score: tuple[float, float]) -> bool:
    return score[0] == 0 and score[1] > 0


_STYLE = """
.case { background: var(--box); border: 1px solid var(--line); border-radius: .6rem; padding: 1rem 1.2rem;
        margin: 1rem 0; }
.case h3 { font-size: 1rem; margin: 0 0 .5rem; }
.answers { display: grid; grid-template-columns: max-content 1fr max-content; gap: .15rem .9rem; margin: .5rem 0; }
.tag { font-weight: 600; } .first { color: var(--first); } .second { color: var(--second); }
.true { color: var(--true); }
.passage { font-size: .92rem; } .passage mark { background: none; color: inherit; padding-bottom: 1px; }
mark.in1 { border-bottom: 2px solid var(--first); } mark.in2 { border-bottom: 2px dashed var(--second); }
mark.in1.in2 { border-bottom: 2px solid var(--first); box-shadow: 0 3px 0 -1px var(--second); }
summary { cursor: pointer; color: var(--soft); }
"""


def page(title: str, names: tuple[str, str], cases: Sequence[Case], total: int) -> str:
    """The page: how often who is right, then the cases, those with the largest difference first."""
    found = counts(cases)
    share = 100 * len(cases) / max(1, total)
    rows = [
        ("exactly right where the other is not", found["first_exact"], found["second_exact"]),
        ("better F1", found["first_better"], found["second_better"]),
        ("rough boundary: overlaps a reference without matching one", found["first_rough"], found["second_rough"]),
    ]
    a, b = (html.text(name) for name in names)
    body = [
        f'<p class="soft">{len(cases):,} of {total:,} questions ({share:.1f} %) are answered differently.</p>',
        f'<table><tr><th></th><th class="n first">{a}</th><th class="n second">{b}</th></tr>',
        *(f'<tr><td>{name}</td><td class="n">{x:,}</td><td class="n">{y:,}</td></tr>' for name, x, y in rows),
        "</table>",
    ]
    groups = {
        f"{names[0]} is better": sorted((c for c in cases if c.gap > 0), key=lambda c: -c.gap),
        f"{names[1]} is better": sorted((c for c in cases if c.gap < 0), key=lambda c: c.gap),
        "Equally good or bad": [c for c in cases if c.gap == 0],
    }
    for heading, group in groups.items():
        if not group:
            continue
        most = MOST // 3
        more = f", the first {most}" if len(group) > most else ""
        body.append(f'<h2>{html.text(heading)} <span class="soft">({len(group):,}{more})</span></h2>')
        body += [_case_html(case, (a, b)) for case in group[:most]]
    return html.page(title, "\n".join(body), _STYLE)


def _case_html(case: Case, names: tuple[str, str]) -> str:
    both = zip(
        names, ("first", "second"), (case.first, case.second), (case.first_score, case.second_score), strict=True
    )
    lines = [
        f'<span class="tag {kind}">{name}</span><span>{html.text(found.text) or "<i>none</i>"}</span>'
        f'<span class="soft">EM {score[0]:.0f} · F1 {100 * score[1]:.0f}</span>'
        for name, kind, found, score in both
    ]
    references = " · ".join(html.text(reference) for reference in dict.fromkeys(case.references)) or "<i>none</i>"
    lines.append(f'<span class="tag true">references</span><span>{references}</span><span></span>')
    return (
        f'<article class="case" id="{html.text(case.id)}"><h3>{html.text(case.question)}</h3>'
        f'<div class="answers">{"".join(lines)}</div>'
        f'<details open><summary>passage</summary><p class="passage">{marked(case)}</p></details></article>'
    )


def marked(case: Case) -> str:
    """The passage, escaped, with both answers marked in it."""
    passage, first, second = case.passage, case.first, case.second
    cuts = sorted({0, len(passage), first.start, first.end, second.start, second.end})
    parts = []
    for begin, end in pairwise(cuts):
        inside = [
            kind
            for kind, one in (("in1", first), ("in2", second))
            if one.start <= begin and end <= one.end and one.text
        ]
        piece = html.text(passage[begin:end])
        parts.append(f'<mark class="{" ".join(inside)}">{piece}</mark>' if inside else piece)
    return "".join(parts)
