"""Checkpoints: the tensors and the plain data of a run in one folder, whole or not there at all."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from rmreader.errors import UserError
from rmreader.files import damage, write_folder

MANIFEST = "checkpoint.json"
_TENSORS, _STATE = "tensors.safetensors", "state.json"


def save_checkpoint(target: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Write tensors and plain data as one checkpoint; the one before is kept as ``NAME.old``."""

    def fill(folder: Path) -> dict[str, Any]:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, folder / _TENSORS)
        (folder / _STATE).write_text(json.dumps(state), encoding="utf-8")
        return {"format": 1, "step": state.get("step")}

    write_folder(target, MANIFEST, fill, keep_previous=True)


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the plain data of a checkpoint, refused unless every byte is as it was written."""
    if (problem := damage(folder, MANIFEST)) is not None:
        raise UserError(f"{folder}/{problem}; this checkpoint cannot be loaded.")
    return load_file(folder / _TENSORS), json.loads((folder / _STATE).read_text(encoding="utf-8"))
