"""Readers on questions: Table 2 (SQuAD), Table 3 (adversarial), a breakdown with failures, and
calibration."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lab.results import Line
from lab.studies import paper, plots
from lab.studies.groups import GROUPS, each_question, each_twin, groups_of, unpack
from lab.studies.readers import everyone, predictions, questions
from lab.studies.report import Report, report, shown
from lab.studies.significance import summary
from lab.studies.tables import breakdown_table
from rmreader.reading.calibrate import judge
from rmreader.scoring.squad import score, score_adversarial

KEYS = ("exact_match", "f1")
MOST = 3  # failures of each type of question


def study_scores(
    asked: Mapping[str, Path], models: Sequence[str], device: str | None = None
) -> Report:
    """Table 2 of ``dev``, or Table 3 of ``addsent`` and ``addonesent``: readers alone, their mean,
    and all together.

    What they answered is among the files, in the official format.
    """
    found: dict[str, dict[str, dict[str, float]]] = {data: {} for data in asked}
    readers, files = everyone(models, device), dict[str, Callable[[], bytes]]()
    for data, path in asked.items():
        dataset, stem = questions(path), path.name.partition(".")[0] if data == "dev" else data
        for place, (name, reader) in enumerate(readers.items(), 1):
            texts = predictions(reader, dataset)
            found[data][name] = (score if data == "dev" else score_adversarial)(
                dataset, texts
            ).tree()
            who = name if name == "ensemble" else f"reader-{place}"
            files[f"{stem}-{who}.json"] = json.dumps(texts).encode
    names = [name for name in readers if name != "ensemble"]
    lists = {name: [name] for name in names}
    if len(names) > 1:
        lists |= {f"mean of {len(names)}": names, f"ensemble of {len(names)}*": ["ensemble"]}
    ours = [
        {"name": f"[{label}]"}
        | {
            f"{data}_{key}": [each[one][key] for one in chosen]
            for data, each in found.items()
            for key in KEYS
        }
        for label, chosen in lists.items()
    ]
    over = {
        data: {key: summary([each[name][key] for name in names]) for key in KEYS}
        for data, each in found.items()
    }
    if "dev" in asked:
        cut = len(names) + 1
        both = [
            ("single model", ours[:cut], paper.SINGLE),
            ("ensemble model", ours[cut:], paper.ENSEMBLE + paper.HUMAN),
        ]
        made = report("squad", _beside(both, "dev", "test"), {**found, "summary": over["dev"]})
    else:
        unattacked = ", ".join(
            f"{name} {shown(value['clean_f1'])}" for name, value in found["addsent"].items()
        )
        rows = _beside([("", ours, paper.TABLE_3)], *asked)
        made = report("adversarial", rows, {**found, "summary": over}, unattacked=unattacked)
    made.files.update(files)
    return made


def _beside(
    parts: Sequence[tuple[str, list[Any], Sequence[paper.Published]]], *data: str
) -> list[dict[str, Any]]:
    """Our rows and the paper's, with the one digit that it prints, below their headings."""
    cells, rows = [f"{name}_{key}" for name in data for key in KEYS], list[dict[str, Any]]()
    for heading, ours, published in parts:
        rows += [*([{"name": heading, **dict.fromkeys(cells, "")}] if heading else []), *ours]
        for model, *pairs in published:
            printed = [value and f"{value:.1f}" for pair in pairs for value in pair or (None, None)]
            rows.append({"name": model} | dict(zip(cells, printed, strict=True)))
    return rows


def study_breakdown(
    models: Sequence[str], dev: Path, addsent: Path | None = None, device: str | None = None
) -> list[Report]:
    """F1 of readers by group of questions, drawn, and examples of what none of them gets right."""
    dataset, attacked = questions(dev), questions(addsent) if addsent else None
    groups, lines = groups_of(dataset), list[Line]()
    for seed, (name, reader) in enumerate(
        (n, r) for n, r in everyone(models, device).items() if n != "ensemble"
    ):
        texts = predictions(reader, dataset)
        lines.append(
            {"row": name, "seed": seed, "texts": texts, "each": each_question(dataset, texts)}
        )
        lines[-1] |= (
            {"twins": each_twin(attacked, predictions(reader, attacked))} if attacked else {}
        )
    made = breakdown_table(lines, groups, ", ".join(models))
    wrong, types = (
        np.all([unpack(line["each"]) == 0 for line in lines], axis=0),
        unpack(groups["question"]),
    )
    failures = []
    for i, (paragraph, question) in enumerate(dataset.questions()):
        if wrong[i] and (wrong & (types == types[i]))[:i].sum() < MOST:
            references = " · ".join(dict.fromkeys(answer.text for answer in question.answers))
            about = {
                "question": question.text,
                "references": references,
                "type": GROUPS["question"][types[i]],
            }
            about["words"] = str(len(paragraph.context.split()))
            failures.append({**about, "answer": lines[0]["texts"][question.id] or "none"})
    failures.sort(key=lambda one: GROUPS["question"].index(one["type"]))
    return [made, report("failures", failures, {"failures": failures}, what=", ".join(models))]


def study_calibration(models: Sequence[str], data: Path, device: str | None = None) -> Report:
    """Expected calibration error of each reader on questions that no temperature was fitted on."""
    names = [Path(model).name for model in models]
    labels = (
        names
        if len(set(names)) == len(names)
        else [f"{k}-{name}" for k, name in enumerate(names, 1)]
    )
    records, found, files = [], {}, {}
    for label, (model, reader) in zip(
        labels, everyone(models, device).items(), strict=False
    ):  # not of the ensemble
        found[model] = about = judge(reader, data)
        stages = {stage: about[stage] for stage in ("before", "after")}
        for stage, one in stages.items():
            records.append(
                {**about, **one, "name": model, "stage": f"{stage}, T = {one['temperature']:.3f}"}
            )
        title = f"{label}: {about['questions']:,} questions"
        files[f"reliability-{label}.png"] = partial(plots.reliability, title, stages)
    made = report("calibration", records, found, file=data.name)
    made.files.update(files)
    return made
