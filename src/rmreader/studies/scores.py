"""Table 2 and Table 3: SQuAD and the adversarial sets, ours beside the paper's, single and as an ensemble."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rmreader.data.squad import Dataset, read_squad
from rmreader.errors import UserError
from rmreader.files import write_whole
from rmreader.scoring.adversarial import score_adversarial
from rmreader.scoring.squad import score
from rmreader.studies import paper
from rmreader.studies.readers import everyone, predictions
from rmreader.studies.report import Report, report, shown, summary

Scored = dict[str, dict[str, float]]
"""By reader, and 'ensemble': EM, F1 and what else belongs to the score."""
KEYS = ("exact_match", "f1")


def study_squad(dev: Path, models: Sequence[str], device: str | None = None, out: Path | None = None) -> Report:
    """Table 2: exact match and F1 on dev of readers, each alone and all together."""
    found, files = _ask(dev.name.partition(".")[0], dev, models, device, out, attacked=False)
    single, together = _ours({"dev": found})
    single += _published(paper.SINGLE, "dev", "test")
    together += _published([*paper.ENSEMBLE, paper.HUMAN], "dev", "test")
    blank = {f"{data}_{key}": "" for data in ("dev", "test") for key in KEYS}
    rows = [{"name": "single model", **blank}, *single, {"name": "ensemble model", **blank}, *together]
    made = report("squad", rows, {"dev": found, "summary": _summary(found)})
    made.files.extend(files)
    return made


def study_adversarial(
    addsent: Path, addonesent: Path, models: Sequence[str], device: str | None = None, out: Path | None = None
) -> Report:
    """Table 3: AddSent and AddOneSent, by their authors' rule."""
    asked = {"addsent": addsent, "addonesent": addonesent}
    both = {name: _ask(name, path, models, device, out, attacked=True) for name, path in asked.items()}
    sets = {name: found for name, (found, _) in both.items()}
    single, together = _ours(sets)
    data = {**sets, "summary": {name: _summary(found) for name, found in sets.items()}}
    unattacked = ", ".join(f"{name} {shown(value['clean_f1'])}" for name, value in sets["addsent"].items())
    rows = [*single, *together, *_published(paper.TABLE_3, *asked)]
    made = report("adversarial", rows, data, unattacked=unattacked)
    made.files.extend(path for _, files in both.values() for path in files)
    return made


def scored(dataset: Dataset, texts: Mapping[str, str], attacked: bool) -> dict[str, float]:
    """EM and F1 by the official rule, or by that of AddSent with the clean score beside it."""
    if not attacked:
        plain = score(dataset, texts)
        return {"exact_match": plain.exact_match, "f1": plain.f1, "total": plain.total}
    found = score_adversarial(dataset, texts)
    clean = {"clean_exact_match": found.clean.exact_match, "clean_f1": found.clean.f1}
    return {"exact_match": found.exact_match, "f1": found.f1, "total": found.total, **clean}


def questions(path: Path) -> Dataset:
    """The questions of a file to score readers on."""
    dataset = read_squad(path)
    if next(dataset.questions(), None) is None:
        raise UserError(f"{path}: holds no question, so there is nothing to score; give other data.")
    return dataset


def _ask(
    stem: str, path: Path, models: Sequence[str], device: str | None, out: Path | None, attacked: bool
) -> tuple[Scored, list[Path]]:
    """The scores of every reader and of the ensemble; predictions go to ``out`` in the official format."""
    found, files, dataset = {}, [], questions(path)
    for place, (name, reader) in enumerate(everyone(models, device).items(), 1):
        texts = predictions(reader, dataset)
        found[name] = scored(dataset, texts, attacked)
        if out is not None:
            files.append(out / f"{stem}-{name if name == 'ensemble' else f'reader-{place}'}.json")
            write_whole(files[-1], json.dumps(texts).encode())
    return found, files


def _ours(sets: Mapping[str, Scored]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of single readers, their mean where there are several, and the ensemble's row, if any."""
    names = [name for name in next(iter(sets.values())) if name != "ensemble"]
    rows = {name: [name] for name in names}
    if len(names) > 1:
        rows |= {f"mean of {len(names)}": names, f"ensemble of {len(names)}*": ["ensemble"]}
    records = [
        {"name": f"[{label}]"}
        | {f"{data}_{key}": [found[one][key] for one in chosen] for data, found in sets.items() for key in KEYS}
        for label, chosen in rows.items()
    ]
    return records[: len(names) + 1], records[len(names) + 1 :]


def _summary(found: Scored) -> dict[str, Any]:
    return {key: summary([one[key] for name, one in found.items() if name != "ensemble"]) for key in KEYS}


def _published(rows: Sequence[paper.Published], *data: str) -> list[dict[str, Any]]:
    """The paper's rows, with the one digit that it prints."""
    records = []
    for row in rows:
        pairs = {name: pair for name, pair in zip(data, row[1:], strict=True) if pair}
        cells = {f"{name}_{key}": f"{pair[k]:.1f}" for name, pair in pairs.items() for k, key in enumerate(KEYS)}
        records.append({"name": row.model, **cells})
    return records
