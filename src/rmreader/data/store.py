"""Named arrays in a folder: written whole or not at all, checked when opened, memory-mapped."""

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError, printable
from rmreader.core.files.atomic import lock
from rmreader.core.files.manifest import damage, write_folder

Arrays = Mapping[str, NDArray[Any]]
_MANIFEST, _ABOUT = "checksums.json", "about.json"


class Damaged(Exception):
    """The folder does not hold what was once written to it."""


def save_arrays(folder: Path, arrays: Arrays, about: Mapping[str, Any]) -> None:
    """Write ``NAME.npy`` for each array and ``about.json``; the folder appears in one step or not at all."""

    def fill(new: Path) -> dict[str, Any]:
        for name, array in arrays.items():
            np.save(new / f"{name}.npy", array, allow_pickle=False)
        (new / _ABOUT).write_text(json.dumps({"about": about, "arrays": list(arrays)}), encoding="utf-8")
        return {}

    folder.parent.mkdir(parents=True, exist_ok=True)
    with lock(folder.parent):  # another process may be writing the very same
        write_folder(folder, _MANIFEST, fill)


def open_arrays(folder: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays, memory-mapped, and what was said about them; ``Damaged`` unless every byte is as written."""
    if (problem := damage(folder, _MANIFEST)) is not None:
        raise Damaged(f"{folder}/{problem}")
    try:
        tree = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        # np.asarray: plain arrays index several times faster than np.memmap does
        arrays = {
            name: np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False))
            for name in tree["arrays"]
        }
        return arrays, tree["about"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{folder}: {error}") from None


def cached(folder: Path, make: Callable[[], tuple[Arrays, dict[str, Any]]], what: str) -> tuple[Arrays, dict[str, Any]]:
    """What ``open_arrays`` finds; where that is nothing whole, what ``make`` gives, kept there if it can be."""
    with suppress(Damaged):
        return open_arrays(folder)
    arrays, about = make()
    try:
        save_arrays(folder, arrays, about)
        with suppress(Damaged):  # another process is just replacing it
            return open_arrays(folder)
    except (OSError, UserError) as error:
        sentence = f"{folder}: the {what} cannot be kept ({error}); made anew next time"
        warnings.warn(printable(sentence), stacklevel=3)
    return arrays, about


def text_arrays(name: str, texts: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Many strings as two arrays: ``NAME``, their bytes one after the other, and ``NAME_places``, where each begins."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]  # lone surrogates are kept as they are
    return {name: np.frombuffer(b"".join(encoded), np.uint8), f"{name}_places": bounds_of([*map(len, encoded)])}


def text_at(arrays: Arrays, name: str, place: int) -> str:
    """One of them."""
    begin, end = arrays[f"{name}_places"][place : place + 2]
    return arrays[name][begin:end].tobytes().decode("utf-8", "surrogatepass")


def bounds_of(lengths: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Where each of several runs begins when laid end to end, and where the last one ends."""
    bounds = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds
