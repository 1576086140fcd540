"""Encoders packed in 8 bits, to be carried to another machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

OTHER_FILES = ("config.json", "tokenizer.json")


def pack(encoder: Path, out: Path, parts: int) -> None:
    """Write an encoder's matrices as 8-bit rows with a scale each.

    They are spread over some files of equal size.
    """
    out.mkdir(parents=True, exist_ok=True)
    weights = load_file(encoder / "model.safetensors")
    files: list[dict[str, np.ndarray]] = []
    for _ in range(parts):
        files.append({})
    sizes = [0] * parts
    # The largest first, each into the emptiest file.
    for name in sorted(weights, key=lambda name: -weights[name].size):
        emptiest = sizes.index(min(sizes))
        arrays = _packed(name, weights[name])
        files[emptiest].update(arrays)
        sizes[emptiest] += sum(array.nbytes for array in arrays.values())
    for number, arrays in enumerate(files):
        save_file(arrays, out / f"part-{number}.safetensors")
    for name in OTHER_FILES:
        shutil.copy(encoder / name, out / name)


def _packed(name: str, weight: np.ndarray) -> dict[str, np.ndarray]:
    """One weight as what is written of it.

    A matrix has 8 bits per number and a scale per row, anything else 32 bits.
    """
    if weight.ndim != 2:
        if weight.dtype.kind == "f":
            weight = weight.astype(np.float32)
        return {name: weight}
    largest = np.abs(weight).max(axis=1, keepdims=True)
    scale = np.maximum(largest / 127, 1e-12).astype(np.float32)
    rounded = np.round(weight / scale)
    return {
        f"{name}/8": rounded.astype(np.int8),
        f"{name}/scale": scale,
    }


def unpack(packed: Path, out: Path) -> None:
    """The encoder's folder again, with weights that differ by the rounding to 8 bits."""
    out.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, np.ndarray] = {}
    for path in sorted(packed.glob("part-*.safetensors")):
        arrays.update(load_file(path))
    weights = {}
    for name, array in arrays.items():
        if name.endswith("/8"):
            whole = name.removesuffix("/8")
            scale = arrays[f"{whole}/scale"]
            weights[whole] = array.astype(np.float32) * scale
        elif not name.endswith("/scale"):
            weights[name] = array
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    for name in OTHER_FILES:
        shutil.copy(packed / name, out / name)
