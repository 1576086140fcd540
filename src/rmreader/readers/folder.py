"""A reader's folder, opened without torch: what it says of itself, and its weights as NumPy arrays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.config import Recipe, load_recipe
from rmreader.errors import UserError
from rmreader.text.vectors import file_sha256, map_safetensors

SHIPPED = Path(__file__).resolve().parent.parent / "readers"
MANIFEST, WEIGHTS = "reader.json", "weights.safetensors"
FORMAT = 1


@dataclass(frozen=True)
class Folder:
    """A reader's folder, whole: every file's checksum has been found right."""

    path: Path
    recipe: Recipe
    about: dict[str, Any]  # reader.json

    @property
    def temperature(self) -> float:
        """What scores are divided by before they become confidences."""
        return float(self.about.get("temperature", 1.0))

    @property
    def precision(self) -> str:
        """'int8' where the reader is meant to be run with 8-bit products, else 'float'."""
        return str(self.about.get("precision", "float"))

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """The network's weights as float32, by the names of its state dict."""
        path = self.path / WEIGHTS
        try:
            return dict(_weights(map_safetensors(path)))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path}: damaged ({type(error).__name__}: {error}); {_REMEDY}") from None


_REMEDY = "restore the folder, or reinstall rmreader if it came with it."


def find(name_or_path: str | Path) -> Path:
    """The folder of a reader given by its shipped name or by its path."""
    if not str(name_or_path).strip():
        raise UserError("the name of the reader is empty; give a shipped reader's name or a reader's folder.")
    for path in (Path(name_or_path), SHIPPED / str(name_or_path)):
        if (path / MANIFEST).is_file():
            return path
    if Path(name_or_path).exists():
        raise UserError(
            f"{name_or_path}: not a reader's folder, it has no {MANIFEST}; training leaves one in OUT/best."
        )
    names = ", ".join(sorted(path.parent.name for path in SHIPPED.glob(f"*/{MANIFEST}"))) or "none"
    raise UserError(f"{name_or_path}: no such reader; shipped are: {names}; or give a reader's folder.")


def reader_names(given: str | Path) -> list[str]:
    """The readers of an ensemble, given with commas between them; one alone is a list of one."""
    text = str(given)
    if text.strip() and Path(text).exists():  # whatever its name holds
        return [text]
    names = [name.strip() for name in text.split(",")]
    if len(names) > 1 and not all(names):
        raise UserError(f"{text!r}: a name is missing before or after a comma; give each reader's name or folder.")
    if (twice := next((name for place, name in enumerate(names) if name in names[:place]), None)) is not None:
        raise UserError(f"{text!r}: {twice} stands there twice; an ensemble has each reader once.")
    return names


def open_folder(name_or_path: str | Path) -> Folder:
    """Open a reader's folder, refused in one sentence where anything in it is missing or damaged."""
    path = find(name_or_path)
    try:
        about: dict[str, Any] = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        checksums: dict[str, str] = dict(about["checksums"])
        temperature = float(about.get("temperature", 1.0))
        if about["format"] != FORMAT:
            raise UserError(f"{path / MANIFEST}: made by another version (format {about['format']}); update rmreader.")
        if not 0 < temperature < np.inf:
            raise ValueError(f"the temperature is {temperature}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path / MANIFEST}: damaged ({type(error).__name__}: {error}); {_REMEDY}") from None
    for name in [*checksums, "recipe.yaml", WEIGHTS]:
        if not (path / name).is_file():
            raise UserError(f"{path / name}: missing; {_REMEDY}")
    for name, expected in checksums.items():
        if file_sha256(path / name) != expected:
            raise UserError(f"{path / name}: damaged (its checksum is not the one in {MANIFEST}); {_REMEDY}")
    return Folder(path, load_recipe(path / "recipe.yaml"), about)


def _weights(stored: dict[str, NDArray[np.generic]]) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Weights as float32, whether they are stored as that, in 16 bits, or in 8 with a scale a row."""
    for name, array in stored.items():
        if name.endswith(".scale") and name.removesuffix(".scale") in stored:
            continue
        weight = array.astype(np.float32)
        scale = stored.get(f"{name}.scale")
        if scale is not None:
            rows = scale.astype(np.float32)
            weight *= rows.reshape(rows.shape + (1,) * (weight.ndim - rows.ndim))
        yield name, weight
