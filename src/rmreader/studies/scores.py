"""Table 2 and Table 3: SQuAD and the adversarial sets, ours beside the paper's, single and as an ensemble."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rmreader.data.squad import Dataset, read_squad
from rmreader.errors import UserError
from rmreader.files import write_whole
from rmreader.reading.answering.ensemble import Ensemble
from rmreader.scoring.adversarial import score_adversarial
from rmreader.scoring.squad import score
from rmreader.studies import paper
from rmreader.studies.readers import Once, load, predictions, refuse_twice
from rmreader.studies.report import DASH, Report, report, shown, summary

Scored = dict[str, dict[str, float]]
"""By reader, and 'ensemble': EM, F1 and what else belongs to the score."""


def study_squad(dev: Path, models: Sequence[str], device: str | None = None, out: Path | None = None) -> Report:
    """Table 2: exact match and F1 on dev of readers, each alone and all together."""
    sets, files = _ask({dev.name.partition(".")[0]: dev}, models, device, out, attacked=False)
    (found,) = sets.values()
    ours, together = ([(*row, DASH, DASH) for row in rows] for rows in _ours([found]))
    parts = [("single model", "", "", "", "")], ours, map(_published, paper.SINGLE)
    more = [("ensemble model", "", "", "", "")], together, map(_published, [*paper.ENSEMBLE, paper.HUMAN])
    rows = [row for part in (*parts, *more) for row in part]
    made = report("squad", rows, {"dev": found, "summary": _summary(found)})
    made.files.extend(files)
    return made


def study_adversarial(
    addsent: Path, addonesent: Path, models: Sequence[str], device: str | None = None, out: Path | None = None
) -> Report:
    """Table 3: AddSent and AddOneSent, by their authors' rule."""
    sets, files = _ask({"addsent": addsent, "addonesent": addonesent}, models, device, out, attacked=True)
    ours, together = _ours(list(sets.values()))
    data = {**sets, "summary": {name: _summary(found) for name, found in sets.items()}}
    unattacked = ", ".join(f"{name} {shown(value['clean_f1'])}" for name, value in sets["addsent"].items())
    rows = [*ours, *together, *map(_published, paper.TABLE_3)]
    made = report("adversarial", rows, data, unattacked=unattacked)
    made.files.extend(files)
    return made


def scored(dataset: Dataset, texts: Mapping[str, str], attacked: bool) -> dict[str, float]:
    """EM and F1 by the official rule, or by that of AddSent with the clean score beside it."""
    if not attacked:
        plain = score(dataset, texts)
        return {"exact_match": plain.exact_match, "f1": plain.f1, "total": plain.total}
    found = score_adversarial(dataset, texts)
    clean = {"clean_exact_match": found.clean.exact_match, "clean_f1": found.clean.f1}
    return {"exact_match": found.exact_match, "f1": found.f1, "total": found.total, **clean}


def _ask(
    data: Mapping[str, Path], models: Sequence[str], device: str | None, out: Path | None, attacked: bool
) -> tuple[dict[str, Scored], list[Path]]:
    """On each set the scores of every reader and of the ensemble; predictions go to ``out`` in the official format."""
    sets = {stem: read_squad(path) for stem, path in data.items()}
    for stem, dataset in sets.items():
        if next(dataset.questions(), None) is None:
            raise UserError(f"{data[stem]}: holds no question, so there is nothing to score; give other data.")
    refuse_twice(models)
    readers = [load(model, device) for model in models]
    for reader in readers:
        reader.engine = Once(reader.engine)
    names = ["./ensemble" if model == "ensemble" else str(model) for model in models]  # that row is all of them
    everyone = dict(zip(names, readers, strict=True)) | ({"ensemble": Ensemble(readers)} if len(readers) > 1 else {})
    found: dict[str, Scored] = {stem: {} for stem in sets}
    files = []
    for stem, dataset in sets.items():
        for place, (name, reader) in enumerate(everyone.items(), 1):
            texts = predictions(reader, dataset)
            found[stem][name] = scored(dataset, texts, attacked)
            if out is not None:
                files.append(out / f"{stem}-{name if name == 'ensemble' else f'reader-{place}'}.json")
                write_whole(files[-1], json.dumps(texts).encode())
    return found, files


def _ours(sets: Sequence[Scored]) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Rows of single readers, their mean where there are several, and the ensemble's row, if any."""

    def row(label: str, names: Sequence[str]) -> tuple[str, ...]:
        cells = (shown([found[name][key] for name in names]) for found in sets for key in ("exact_match", "f1"))
        return (f"[{label}]", *cells)

    names = [name for name in sets[0] if name != "ensemble"]
    singles = [row(name, [name]) for name in names]
    if len(names) < 2:
        return singles, []
    return [*singles, row(f"mean of {len(names)}", names)], [row(f"ensemble of {len(names)}*", ["ensemble"])]


def _summary(found: Scored) -> dict[str, Any]:
    singles = [value for name, value in found.items() if name != "ensemble"]
    return {key: summary([one[key] for one in singles]) for key in ("exact_match", "f1")}


def _published(row: paper.Published) -> tuple[str, ...]:
    cells = (DASH if pair is None else f"{pair[k]:.1f}" for pair in (row.first, row.second) for k in (0, 1))
    return (row.model, *cells)
