"""One reader made of several that were trained from the same start: the mean of their weights, which often reads better
than each of them and costs no more than one (a "model soup": Wortsman et al., ICML 2022)."""

from __future__ import annotations

import dataclasses
import datetime
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from rmreader.config import Recipe
from rmreader.errors import UserError
from rmreader.learning.checkpoint import write_folder
from rmreader.learning.readerfolder import MANIFEST, WEIGHTS, model_card, read_reader
from rmreader.model.contextual import ENCODER_FILES
from rmreader.text.extras import ENCODER, FILE
from rmreader.text.lexicon import Lexicon
from rmreader.version import __version__

_EXTRAS = (FILE, *(f"{ENCODER}/{name}" for name in ENCODER_FILES))  # absent where the recipe asks for none
_REMEDY = "average only readers that were trained from one start, with the same inputs, network, decoding and words."


def average(folders: Sequence[Path], target: Path) -> float:
    """Write the mean of readers, as float32, with the first one's recipe; returns its temperature, their mean."""
    if len(folders) < 2:
        raise UserError(f"{', '.join(map(str, folders))}: an average needs at least two readers; name another one.")
    if target.exists():
        raise UserError(f"{target}: there already; remove it or choose another place.")
    sums: dict[str, Tensor] = {}
    traits: dict[str, str] = {}
    members: list[dict[str, Any]] = []
    for folder in folders:
        weights, lexicon, recipe, about = read_reader(folder)
        own = _traits(weights, lexicon, recipe, about["checksums"])
        traits = traits or own
        for trait in {**traits, **own}:
            if (here := own.get(trait, "absent")) != (there := traits.get(trait, "absent")):
                raise UserError(f"{folder}: {trait} is {here} here and {there} in {folders[0]}; {_REMEDY}")
        for name, weight in weights.items():
            sums.setdefault(name, torch.zeros(weight.shape, dtype=torch.float64)).add_(weight)
        member = {"reader": "/".join(folder.resolve().parts[-2:]), "weights_sha256": about["checksums"].get(WEIGHTS)}
        members.append(member | {key: about.get(key) for key in ("temperature", "scores", "provenance")})
    temperature = sum(float(member["temperature"] or 1) for member in members) / len(members)

    def fill(new: Path) -> dict[str, Any]:
        save_file({name: (total / len(members)).float() for name, total in sums.items()}, new / WEIGHTS)
        lexicon.save(new)  # all have the same
        for name in ("recipe.yaml", *_EXTRAS):
            if (folders[0] / name).is_file():
                (new / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(folders[0] / name, new / name)
        facts = {
            "weights": f"the mean of {len(members)} readers: {', '.join(member['reader'] for member in members)}",
            "scores": "not measured",
            "temperature": f"{temperature:.3f}, the mean of theirs; `rmreader calibrate` fits it anew",
        }
        (new / "README.md").write_text(model_card(target.name, {}, facts), encoding="utf-8")
        created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        provenance = {"rmreader": __version__, "created": created, "average_of": members}
        return {"format": 1, "kind": "rmreader", "temperature": temperature, "scores": {}, "provenance": provenance}

    write_folder(target, MANIFEST, fill, keep_previous=False)
    return temperature


def _traits(
    weights: Mapping[str, Tensor], lexicon: Lexicon, recipe: Recipe, checksums: Mapping[str, str]
) -> dict[str, str]:
    """All in which readers must agree, from what people set to what follows from it."""
    tree = dataclasses.asdict(recipe)
    parts = "inputs", "network", "decoding"
    settings = {f"{part}.{key}": repr(value) for part in parts for key, value in tree[part].items()}
    files = {name: checksums[name][:16] for name in _EXTRAS if name in checksums}
    shapes = {f"the shape of {name}": str(list(weight.shape)) for name, weight in weights.items()}
    return {**settings, "the lexicon": lexicon.fingerprint[:16], **files, **shapes}
