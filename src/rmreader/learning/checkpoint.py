"""Checkpoints: folders that are whole or not there at all, whatever moment the machine dies at.

A folder is written beside its place as ``NAME.new``, file by file down to the disk, its manifest with the SHA-256 of
every file last; then two renames put it in place. ``settle`` undoes what a kill between any two of these acts leaves.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from rmreader.errors import UserError

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
        raise UserError(f"{folder}: {problem}; this checkpoint cannot be loaded.")
    return load_file(folder / _TENSORS), json.loads((folder / _STATE).read_text(encoding="utf-8"))


def write_folder(target: Path, manifest: str, fill: Callable[[Path], dict[str, Any]], keep_previous: bool) -> None:
    """Replace the folder ``target``, never leaving a moment without a whole one on the disk.

    ``fill`` writes the files into the folder it is given and returns what the manifest says beside the checksums.
    """
    new, old = _beside(target, "new"), _beside(target, "old")
    _remove(new)
    new.mkdir(parents=True)
    about = fill(new)
    checksums = {str(path.relative_to(new)): sha256(path) for path in sorted(new.rglob("*")) if path.is_file()}
    content = json.dumps({**about, "checksums": checksums}, indent=1) + "\n"
    (new / manifest).write_text(content, encoding="utf-8")
    for path in [*new.rglob("*"), new]:
        _to_disk(path)
    if target.exists():
        _remove(old)
        os.rename(target, old)
    os.rename(new, target)
    _to_disk(target.parent)
    if not keep_previous:
        _remove(old)


def settle(target: Path, manifest: str) -> list[str]:
    """Put the newest whole folder in its place after a kill or damage; says in sentences what had to be done.

    Afterwards ``target`` is whole or absent. A damaged folder is set aside as ``NAME.damaged``, never deleted.
    """
    problem = damage(target, manifest)
    if problem is None:
        return []
    notes = []
    if target.exists():
        _remove(_beside(target, "damaged"))
        os.rename(target, _beside(target, "damaged"))
        notes.append(f"{target}: {problem}; it is set aside as {target.name}.damaged.")
    for suffix in ("new", "old"):
        candidate = _beside(target, suffix)
        if damage(candidate, manifest) is None:
            os.rename(candidate, target)
            if notes:
                notes.append(f"{target}: going on from {candidate.name}, the last whole one.")
            break
    return notes


def damage(folder: Path, manifest: str) -> str | None:
    """What is wrong with a folder that ``write_folder`` wrote, or None where it is whole."""
    try:
        about = json.loads((folder / manifest).read_text(encoding="utf-8"))
        checksums: dict[str, str] = dict(about["checksums"])
    except FileNotFoundError:
        return f"{manifest} is missing"
    except (OSError, ValueError, KeyError, TypeError):
        return f"{manifest} is damaged"
    for name, checksum in checksums.items():
        if not (folder / name).is_file():
            return f"{name} is missing"
        if sha256(folder / name) != checksum:
            return f"{name} is damaged (its checksum does not match)"
    return None


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _beside(target: Path, suffix: str) -> Path:
    return target.with_name(f"{target.name}.{suffix}")


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
