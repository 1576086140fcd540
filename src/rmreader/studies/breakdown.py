"""Where readers are right and what they still get wrong: by type of question, by lengths, and beside attacked twins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rmreader.files import write_whole
from rmreader.scoring.groups import GROUPS, each_question, each_twin, groups_of, unpack
from rmreader.studies import tables
from rmreader.studies.kept import Line
from rmreader.studies.readers import everyone, predictions
from rmreader.studies.report import Report, report
from rmreader.studies.scores import questions

MOST = 3
"""Failures of each type of question."""


def study_breakdown(
    models: Sequence[str], dev: Path, addsent: Path | None = None, device: str | None = None, out: Path | None = None
) -> list[Report]:
    """F1 of readers by group of questions, drawn, and examples of what none of them gets right."""
    dataset, attacked = questions(dev), questions(addsent) if addsent else None
    groups = groups_of(dataset)
    lines: list[Line] = []
    for seed, (name, reader) in enumerate((n, r) for n, r in everyone(models, device).items() if n != "ensemble"):
        texts = predictions(reader, dataset)
        line = {"row": name, "seed": seed, "texts": texts, "each": each_question(dataset, texts)}
        lines.append({**line, **({"twins": each_twin(attacked, predictions(reader, attacked))} if attacked else {})})
    made = tables.breakdown_table(lines, groups, ", ".join(models))
    if out and (drawing := tables.draw_breakdown(made.data)):
        made.files.append(out / "breakdown.svg")
        write_whole(made.files[-1], drawing)
    wrong, types = np.all([unpack(line["each"]) == 0 for line in lines], axis=0), unpack(groups["question"])
    failures = []
    for i, (paragraph, question) in enumerate(dataset.questions()):
        if wrong[i] and (wrong & (types == types[i]))[:i].sum() < MOST:
            references = dict.fromkeys(answer.text for answer in question.answers)
            words = {"question": question.text, "references": " · ".join(references)}
            words |= {"type": GROUPS["question"][types[i]], "words": str(len(paragraph.context.split()))}
            failures.append({**words, "answer": lines[0]["texts"][question.id] or "none"})
    failures.sort(key=lambda one: GROUPS["question"].index(one["type"]))
    return [made, report("failures", failures, {"failures": failures}, what=", ".join(models))]
