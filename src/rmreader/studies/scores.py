"""Readers on questions: Table 2 (SQuAD), Table 3 (adversarial), a breakdown with failures, and calibration.

Readers are asked as every other command asks them; torch only where it is needed.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rmreader.data.squad import Dataset, read_squad
from rmreader.errors import UserError
from rmreader.learning.kept import Line
from rmreader.readers.folder import MANIFEST, find, open_folder, reader_names
from rmreader.reading.answering.calibrate import judge
from rmreader.reading.answering.ensemble import Ensemble, Once
from rmreader.reading.answering.evaluate import best_answers
from rmreader.reading.answering.reader import Reader
from rmreader.scoring.adversarial import score_adversarial
from rmreader.scoring.groups import GROUPS, each_question, each_twin, groups_of, unpack
from rmreader.scoring.significance import summary
from rmreader.scoring.squad import score
from rmreader.studies import paper, plots
from rmreader.studies.report import Report, report, shown
from rmreader.studies.tables import breakdown_table

KEYS = ("exact_match", "f1")
MOST = 3  # failures of each type of question


def reader_folder(name_or_path: str | Path) -> Path:
    """The reader of that name, in that folder, or in ``best`` of a run's folder."""
    best = Path(name_or_path) / "best"
    return best if (best / MANIFEST).is_file() else find(name_or_path)


def load(model: str | Path, device: str | None = None) -> Reader:
    """A reader, or with commas an ensemble, as ``evaluate`` loads it; with a device, its network in torch there."""
    folders = [reader_folder(name) for name in reader_names(model)]
    if device is None:
        readers = [Reader.load(folder) for folder in folders]
    else:
        from rmreader.learning.engine import TorchEngine

        readers = [Reader(one, TorchEngine(one, device)) for one in map(open_folder, folders)]
    return readers[0] if len(readers) == 1 else Ensemble(readers)


def everyone(models: Sequence[str], device: str | None = None) -> dict[str, Reader]:
    """Each reader by its name, and several of them together as ``ensemble``; none reads a text twice."""
    folders = [tuple(reader_folder(name).resolve() for name in reader_names(model)) for model in models]
    if len(set(folders)) < len(models):
        raise UserError("a reader is given twice; name each once.")
    readers = [load(model, device) for model in models]
    for reader in readers:
        reader.engine = Once(reader.engine)
    names = ["./ensemble" if model == "ensemble" else str(model) for model in models]  # that row is all of them
    return dict(zip(names, readers, strict=True)) | ({"ensemble": Ensemble(readers)} if len(readers) > 1 else {})


def questions(path: Path) -> Dataset:
    """The questions of a file to score readers on."""
    dataset = read_squad(path)
    if next(dataset.questions(), None) is None:
        raise UserError(f"{path}: holds no question, so there is nothing to score; give other data.")
    return dataset


def predictions(reader: Reader, dataset: Dataset) -> dict[str, str]:
    """The text of the best answer to every question by id, as official files of predictions have it."""
    return {id: found.text if found else "" for id, found in best_answers(reader, dataset).items()}


def study_scores(asked: Mapping[str, Path], models: Sequence[str], device: str | None = None) -> Report:
    """Table 2 of ``dev``, or Table 3 of ``addsent`` and ``addonesent``: readers alone, their mean, and all together.

    What they answered is among the files, in the official format.
    """
    found: dict[str, dict[str, dict[str, float]]] = {data: {} for data in asked}
    readers, files = everyone(models, device), dict[str, Callable[[], bytes]]()
    for data, path in asked.items():
        dataset, stem = questions(path), path.name.partition(".")[0] if data == "dev" else data
        for place, (name, reader) in enumerate(readers.items(), 1):
            texts = predictions(reader, dataset)
            found[data][name] = (score if data == "dev" else score_adversarial)(dataset, texts).tree()
            who = name if name == "ensemble" else f"reader-{place}"
            files[f"{stem}-{who}.json"] = json.dumps(texts).encode
    names = [name for name in readers if name != "ensemble"]
    lists = {name: [name] for name in names}
    if len(names) > 1:
        lists |= {f"mean of {len(names)}": names, f"ensemble of {len(names)}*": ["ensemble"]}
    ours = [
        {"name": f"[{label}]"}
        | {f"{data}_{key}": [each[one][key] for one in chosen] for data, each in found.items() for key in KEYS}
        for label, chosen in lists.items()
    ]
    over = {data: {key: summary([each[name][key] for name in names]) for key in KEYS} for data, each in found.items()}
    if "dev" in asked:
        cut = len(names) + 1
        both = [
            ("single model", ours[:cut], paper.SINGLE),
            ("ensemble model", ours[cut:], paper.ENSEMBLE + paper.HUMAN),
        ]
        made = report("squad", _beside(both, "dev", "test"), {**found, "summary": over["dev"]})
    else:
        unattacked = ", ".join(f"{name} {shown(value['clean_f1'])}" for name, value in found["addsent"].items())
        rows = _beside([("", ours, paper.TABLE_3)], *asked)
        made = report("adversarial", rows, {**found, "summary": over}, unattacked=unattacked)
    made.files.update(files)
    return made


def _beside(parts: Sequence[tuple[str, list[Any], Sequence[paper.Published]]], *data: str) -> list[dict[str, Any]]:
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
    for seed, (name, reader) in enumerate((n, r) for n, r in everyone(models, device).items() if n != "ensemble"):
        texts = predictions(reader, dataset)
        lines.append({"row": name, "seed": seed, "texts": texts, "each": each_question(dataset, texts)})
        lines[-1] |= {"twins": each_twin(attacked, predictions(reader, attacked))} if attacked else {}
    made = breakdown_table(lines, groups, ", ".join(models))
    wrong, types = np.all([unpack(line["each"]) == 0 for line in lines], axis=0), unpack(groups["question"])
    failures = []
    for i, (paragraph, question) in enumerate(dataset.questions()):
        if wrong[i] and (wrong & (types == types[i]))[:i].sum() < MOST:
            references = " · ".join(dict.fromkeys(answer.text for answer in question.answers))
            about = {"question": question.text, "references": references, "type": GROUPS["question"][types[i]]}
            about["words"] = str(len(paragraph.context.split()))
            failures.append({**about, "answer": lines[0]["texts"][question.id] or "none"})
    failures.sort(key=lambda one: GROUPS["question"].index(one["type"]))
    return [made, report("failures", failures, {"failures": failures}, what=", ".join(models))]


def study_calibration(models: Sequence[str], data: Path, device: str | None = None) -> Report:
    """Expected calibration error of each reader on questions that no temperature was fitted on."""
    names = [Path(model).name for model in models]
    labels = names if len(set(names)) == len(names) else [f"{k}-{name}" for k, name in enumerate(names, 1)]
    records, found, files = [], {}, {}
    for label, (model, reader) in zip(labels, everyone(models, device).items(), strict=False):  # not of the ensemble
        found[model] = about = judge(reader, data)
        stages = {stage: about[stage] for stage in ("before", "after")}
        for stage, one in stages.items():
            records.append({**about, **one, "name": model, "stage": f"{stage}, T = {one['temperature']:.3f}"})
        title = f"{label}: {about['questions']:,} questions"
        files[f"reliability-{label}.png"] = partial(plots.reliability, title, stages)
    made = report("calibration", records, found, file=data.name)
    made.files.update(files)
    return made
