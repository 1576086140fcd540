"""Table 2 and Table 3: SQuAD and the adversarial sets, ours beside the paper's, single and as an ensemble."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from rmreader.data.encode import encode_file
from rmreader.data.squad import Dataset, read_squad
from rmreader.errors import UserError
from rmreader.scoring.adversarial import score_adversarial
from rmreader.scoring.squad import score
from rmreader.studies import paper
from rmreader.studies.readers import answer
from rmreader.studies.report import DASH, Report, shown, summary

Scored = dict[str, dict[str, float]]
"""By reader, and 'ensemble': EM, F1 and what else belongs to the score."""


def study_squad(dev: Path, models: Sequence[str], device: torch.device, out: Path | None = None) -> Report:
    """Table 2: exact match and F1 on dev of readers, each alone and all together."""
    files: list[Path] = []
    scored = _scores(dev, models, device, _squad, out, files)
    ours, together = _ours([scored])
    rows: list[tuple[str, ...]] = [("single model", "", "", "", "")]
    rows += [(*row, DASH, DASH) for row in ours]
    rows += [_published(row) for row in paper.SINGLE]
    rows += [("ensemble model", "", "", "", "")]
    rows += [(*row, DASH, DASH) for row in together]
    rows += [_published(row) for row in paper.ENSEMBLE]
    rows += [_published(paper.HUMAN)]
    return Report(
        name="squad",
        title="Table 2: SQuAD",
        header=("model", "dev EM", "dev F1", "test EM", "test F1"),
        rows=rows,
        data={"dev": scored, "summary": _summary(scored)},
        notes=["Rows in [brackets] are ours. The hidden test set is not at hand, so it is the paper's alone."],
        files=files,
    )


def study_adversarial(
    addsent: Path, addonesent: Path, models: Sequence[str], device: torch.device, out: Path | None = None
) -> Report:
    """Table 3: AddSent and AddOneSent, by their authors' rule."""
    files: list[Path] = []
    sets = {
        name: _scores(path, models, device, _adversarial, out, files, name)
        for name, path in (("addsent", addsent), ("addonesent", addonesent))
    }
    ours, together = _ours(list(sets.values()))
    clean = sets["addsent"]
    unattacked = ", ".join(f"{name} {shown(value['clean_f1'])}" for name, value in clean.items())
    return Report(
        name="adversarial",
        title="Table 3: adversarial SQuAD",
        header=("model", "AddSent EM", "AddSent F1", "AddOneSent EM", "AddOneSent F1"),
        rows=[*ours, *together, *(_published(row) for row in paper.TABLE_3)],
        data={**sets, "summary": {name: _summary(scored) for name, scored in sets.items()}},
        notes=[
            "Rows in [brackets] are ours; * is an ensemble.",
            f"F1 on the same questions unattacked: {unattacked}.",
        ],
        files=files,
    )


def _squad(dataset: Dataset, predictions: Mapping[str, str]) -> dict[str, float]:
    found = score(dataset, predictions)
    return {"exact_match": found.exact_match, "f1": found.f1, "total": found.total}


def _adversarial(dataset: Dataset, predictions: Mapping[str, str]) -> dict[str, float]:
    found = score_adversarial(dataset, predictions)
    clean = {"clean_exact_match": found.clean.exact_match, "clean_f1": found.clean.f1}
    return {"exact_match": found.exact_match, "f1": found.f1, "total": found.total, **clean}


def _scores(
    path: Path,
    models: Sequence[str],
    device: torch.device,
    rule: Callable[[Dataset, Mapping[str, str]], dict[str, float]],
    out: Path | None,
    files: list[Path],
    stem: str = "",
) -> Scored:
    """Scores of every reader and of the ensemble; their predictions go to ``out``, in the official format, named by
    ``stem`` or else as the data."""
    encoded, dataset = encode_file(path), read_squad(path)
    if not len(encoded):
        raise UserError(f"{path}: holds no question, so there is nothing to score; give other data.")
    answers = answer(models, encoded, device)
    everyone = answers.singles | ({"ensemble": answers.together} if answers.together is not None else {})
    scored = {}
    for place, (name, found) in enumerate(everyone.items()):
        predictions = {id: one.text for id, one in zip(encoded.ids, found, strict=True)}
        scored[name] = rule(dataset, predictions)
        if out is not None:
            label = name if name == "ensemble" else f"reader-{place + 1}"
            files.append(out / f"{stem or path.name.partition('.')[0]}-{label}.json")
            files[-1].parent.mkdir(parents=True, exist_ok=True)
            files[-1].write_text(json.dumps(predictions), encoding="utf-8")
    return scored


def _ours(sets: Sequence[Scored]) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Rows of single readers, their mean where there are several, and the ensemble's row, if any."""

    def row(label: str, parts: Sequence[Sequence[Mapping[str, float]]]) -> tuple[str, ...]:
        cells = (shown([one[key] for one in part]) for part in parts for key in ("exact_match", "f1"))
        return (f"[{label}]", *cells)

    names = [name for name in sets[0] if name != "ensemble"]
    singles = [row(name, [[scored[name]] for scored in sets]) for name in names]
    if len(names) < 2:
        return singles, []
    singles.append(row(f"mean of {len(names)}", [[scored[name] for name in names] for scored in sets]))
    return singles, [row(f"ensemble of {len(names)}*", [[scored["ensemble"]] for scored in sets])]


def _summary(scored: Scored) -> dict[str, Any]:
    singles = [value for name, value in scored.items() if name != "ensemble"]
    return {key: summary([one[key] for one in singles]) for key in ("exact_match", "f1")}


def _published(row: paper.Published) -> tuple[str, ...]:
    cells = (DASH if pair is None else f"{pair[k]:.1f}" for pair in (row.first, row.second) for k in (0, 1))
    return (row.model, *cells)
