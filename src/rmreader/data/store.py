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

_MANIFEST = "checksums.json"
_ABOUT = "about.json"


class Damaged(Exception):
    """The folder does not hold what was once written to it."""


def save_arrays(folder: Path, arrays: Arrays, about: Mapping[str, Any]) -> None:
    """Write ``NAME.npy`` for each array and ``about.json``.

    The folder appears in one step or not at all.
    """

    def fill(new: Path) -> dict[str, Any]:
        for name, array in arrays.items():
            np.save(new / f"{name}.npy", array, allow_pickle=False)
        tree = {"about": about, "arrays": list(arrays)}
        (new / _ABOUT).write_text(json.dumps(tree), encoding="utf-8")
        return {}

    folder.parent.mkdir(parents=True, exist_ok=True)
    # Another process may be writing the very same.
    with lock(folder.parent):
        write_folder(folder, _MANIFEST, fill)


def open_arrays(folder: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Open the arrays, memory-mapped, and what was said about them.

    ``Damaged`` unless every byte is as written.
    """
    problem = damage(folder, _MANIFEST)
    if problem is not None:
        raise Damaged(f"{folder}/{problem}")
    try:
        tree = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        arrays = {}
        for name in tree["arrays"]:
            mapped = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            # Plain arrays index several times faster than np.memmap does.
            arrays[name] = np.asarray(mapped)
        return arrays, tree["about"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{folder}: {error}") from None


def cached(
    folder: Path,
    make: Callable[[], tuple[Arrays, dict[str, Any]]],
    what: str,
) -> tuple[Arrays, dict[str, Any]]:
    """Open cached arrays, or compute and cache them."""
    with suppress(Damaged):
        return open_arrays(folder)
    arrays, about = make()
    try:
        save_arrays(folder, arrays, about)
        # Damaged: another process is just replacing it.
        with suppress(Damaged):
            return open_arrays(folder)
    except (OSError, UserError) as error:
        sentence = f"{folder}: the {what} cannot be kept ({error}); made anew next time"
        warnings.warn(printable(sentence), stacklevel=3)
    return arrays, about


def text_arrays(name: str, texts: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Store many strings as two arrays.

    ``NAME`` has their bytes one after the other, ``NAME_places`` where each begins.
    """
    # Lone surrogates are kept as they are.
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    return {
        name: np.frombuffer(b"".join(encoded), np.uint8),
        f"{name}_places": bounds_of([len(text) for text in encoded]),
    }


def text_at(arrays: Arrays, name: str, place: int) -> str:
    """Return one of the strings that ``text_arrays`` stored."""
    begin, end = arrays[f"{name}_places"][place : place + 2]
    return arrays[name][begin:end].tobytes().decode("utf-8", "surrogatepass")


def bounds_of(lengths: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Return where each of several runs begins when laid end to end, and where the last ends."""
    bounds = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds
