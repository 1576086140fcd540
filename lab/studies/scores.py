"""Readers on questions: Table 2 (SQuAD), Table 3 (adversarial), a breakdown, and calibration."""

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
from lab.studies.report import Report, cell_text, report
from lab.studies.significance import summary
from lab.studies.tables import breakdown_table
from rmreader.data.squad import Dataset
from rmreader.reading.calibrate import judge
from rmreader.scoring.squad import score, score_adversarial

KEYS = ("exact_match", "f1")
MOST = 3  # failures of each type of question
ENSEMBLE = "ensemble"  # the name of all readers together

# By data set and reader: the scores.
Scores = dict[str, dict[str, dict[str, float]]]


def study_scores(
    data: Mapping[str, Path],
    models: Sequence[str],
    device: str | None = None,
) -> Report:
    """Table 2 of ``dev``, or Table 3 of ``addsent`` and ``addonesent``.

    Rows are the readers alone, their mean, and all together. What they answered is among the files,
    in the official format.
    """
    readers = everyone(models, device)
    scores: Scores = {name: {} for name in data}
    files: dict[str, Callable[[], bytes]] = {}
    for data_name, path in data.items():
        dataset = questions(path)
        is_dev = data_name == "dev"
        stem = path.name.partition(".")[0] if is_dev else data_name
        score_all = score if is_dev else score_adversarial
        for place, (name, reader) in enumerate(readers.items(), 1):
            texts = predictions(reader, dataset)
            scores[data_name][name] = score_all(dataset, texts).tree()
            who = name if name == ENSEMBLE else f"reader-{place}"
            files[f"{stem}-{who}.json"] = json.dumps(texts).encode

    names = [name for name in readers if name != ENSEMBLE]
    if "dev" in data:
        made = _table_2(scores, names)
    else:
        made = _table_3(scores, names)
    made.files.update(files)
    return made


def _table_2(scores: Scores, names: Sequence[str]) -> Report:
    """SQuAD dev: ours and the paper's, single models above ensembles."""
    alone, together = _our_rows(scores, names)
    columns = ("dev", "test")
    records = [
        _heading("single model", columns),
        *alone,
        *_published(paper.SINGLE, columns),
        _heading("ensemble model", columns),
        *together,
        *_published(paper.ENSEMBLE + paper.HUMAN, columns),
    ]
    means = _means(scores, names)
    return report("squad", records, {**scores, "summary": means["dev"]})


def _table_3(scores: Scores, names: Sequence[str]) -> Report:
    """Adversarial SQuAD: ours and the paper's."""
    alone, together = _our_rows(scores, names)
    unattacked = []
    for name, value in scores["addsent"].items():
        unattacked.append(f"{name} {cell_text(value['clean_f1'])}")
    records = [
        *alone,
        *together,
        *_published(paper.TABLE_3, list(scores)),
    ]
    return report(
        "adversarial",
        records,
        {**scores, "summary": _means(scores, names)},
        unattacked=", ".join(unattacked),
    )


def _our_rows(
    scores: Scores,
    names: Sequence[str],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Our rows: each reader with their mean, and the ensemble."""
    alone = [_our_row(name, scores, [name]) for name in names]
    if len(names) == 1:
        return alone, []
    alone.append(_our_row(f"mean of {len(names)}", scores, names))
    ensemble = _our_row(f"ensemble of {len(names)}*", scores, [ENSEMBLE])
    return alone, [ensemble]


def _our_row(label: str, scores: Scores, names: Sequence[str]) -> dict[str, Any]:
    """A row of ours: the scores of some readers, by data set and measure."""
    row: dict[str, Any] = {"name": f"[{label}]"}
    for data_name, by_reader in scores.items():
        for key in KEYS:
            values = [by_reader[name][key] for name in names]
            row[f"{data_name}_{key}"] = values
    return row


def _means(scores: Scores, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """By data set and measure, the mean over readers, and their spread."""
    means: dict[str, dict[str, Any]] = {}
    for data_name, by_reader in scores.items():
        means[data_name] = {}
        for key in KEYS:
            values = [by_reader[name][key] for name in names]
            means[data_name][key] = summary(values)
    return means


def _heading(heading: str, data: Sequence[str]) -> dict[str, Any]:
    """A row that is a heading, with empty cells."""
    row = {"name": heading}
    for data_name in data:
        for key in KEYS:
            row[f"{data_name}_{key}"] = ""
    return row


def _published(rows: Sequence[paper.Published], data: Sequence[str]) -> list[dict[str, Any]]:
    """The paper's rows, with the one digit that it prints."""
    records = []
    for model, *pairs in rows:
        record: dict[str, Any] = {"name": model}
        for data_name, pair in zip(data, pairs, strict=True):
            for k, key in enumerate(KEYS):
                record[f"{data_name}_{key}"] = f"{pair[k]:.1f}" if pair else None
        records.append(record)
    return records


def study_breakdown(
    models: Sequence[str],
    dev: Path,
    addsent: Path | None = None,
    device: str | None = None,
) -> list[Report]:
    """F1 of readers by group of questions, drawn, and examples of what none of them gets right."""
    dataset = questions(dev)
    attacked = questions(addsent) if addsent else None
    groups = groups_of(dataset)
    lines: list[Line] = []
    for name, reader in everyone(models, device).items():
        if name == ENSEMBLE:
            continue
        texts = predictions(reader, dataset)
        line = {
            "row": name,
            "seed": len(lines),
            "texts": texts,
            "each": each_question(dataset, texts),
        }
        if attacked:
            line["twins"] = each_twin(attacked, predictions(reader, attacked))
        lines.append(line)
    what = ", ".join(models)
    failures = _failures(dataset, lines, groups["question"])
    return [
        breakdown_table(lines, groups, what),
        report("failures", failures, {"failures": failures}, what=what),
    ]


def _failures(dataset: Dataset, lines: Sequence[Line], packed: str) -> list[dict[str, str]]:
    """The first questions of each type to which every reader's answer is all wrong."""
    wrong = np.all([unpack(line["each"]) == 0 for line in lines], axis=0)
    types = unpack(packed)
    by_type: dict[str, list[dict[str, str]]] = {name: [] for name in GROUPS["question"]}
    for i, (paragraph, question) in enumerate(dataset.questions()):
        type_name = GROUPS["question"][types[i]]
        examples = by_type[type_name]
        if wrong[i] and len(examples) < MOST:
            references = dict.fromkeys(answer.text for answer in question.answers)
            example = {
                "question": question.text,
                "references": " · ".join(references),
                "type": type_name,
                "words": str(len(paragraph.context.split())),
                "answer": lines[0]["texts"][question.id] or "none",
            }
            examples.append(example)
    failures = []
    for examples in by_type.values():
        failures += examples
    return failures


def study_calibration(
    models: Sequence[str],
    data: Path,
    device: str | None = None,
) -> Report:
    """Expected calibration error of each reader on questions that no temperature was fitted on."""
    names = [Path(model).name for model in models]
    if len(set(names)) < len(names):
        names = [f"{k}-{name}" for k, name in enumerate(names, 1)]
    readers = everyone(models, device)
    records = []
    judged = {}
    files = {}
    # Readers come in the order of the models; the ensemble, which is last, is left out.
    for label, (model, reader) in zip(names, readers.items(), strict=False):
        about = judge(reader, data)
        judged[model] = about
        stages = {stage: about[stage] for stage in ("before", "after")}
        for stage, values in stages.items():
            records.append(
                {
                    **about,
                    **values,
                    "name": model,
                    "stage": f"{stage}, T = {values['temperature']:.3f}",
                }
            )
        title = f"{label}: {about['questions']:,} questions"
        files[f"reliability-{label}.png"] = partial(plots.reliability, title, stages)
    made = report("calibration", records, judged, file=data.name)
    made.files.update(files)
    return made
