"""Named arrays in a folder: written whole or not at all, checked when opened, memory-mapped."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]


class Damaged(Exception):
    """The folder does not hold what was once written to it."""


def save_arrays(folder: Path, arrays: Arrays, about: Mapping[str, Any]) -> None:
    """Write ``NAME.npy`` for each array and ``about.json``; the folder appears in one step or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.glob(f".{folder.name}-*"):  # by a process that was killed while writing
        if time.time() - left.stat().st_mtime > 3600:
            shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for name, array in arrays.items():
            np.save(work / f"{name}.npy", array, allow_pickle=False)
        sums = {name: _checksum(work / f"{name}.npy") for name in arrays}
        (work / "about.json").write_text(json.dumps({"about": about, "checksums": sums}), encoding="utf-8")
        _move(work, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _move(work: Path, folder: Path) -> None:
    """Put the new folder in place, unless another process was faster: its folder is as good."""
    try:
        os.rename(work, folder)
    except OSError:
        try:
            open_arrays(folder)
        except Damaged:
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(work, folder)


def open_arrays(folder: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays, memory-mapped, and what was said about them; ``Damaged`` unless every byte is as written."""
    try:
        tree = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        arrays: dict[str, NDArray[Any]] = {}
        for name, checksum in tree["checksums"].items():
            path = folder / f"{name}.npy"
            if _checksum(path) != checksum:
                raise Damaged(f"{path}: changed since it was written")
            # np.asarray: plain arrays index several times faster than np.memmap does
            arrays[name] = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
        return arrays, tree["about"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"{folder}: {error}") from None


def _checksum(path: Path) -> int:
    value = 0
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            value = zlib.crc32(block, value)
    return value


class Texts(Sequence[str]):
    """Many strings in two arrays: their bytes one after the other, and where each begins."""

    def __init__(self, content: NDArray[np.uint8], bounds: NDArray[np.int64]) -> None:
        self.content, self.bounds = content, bounds

    @classmethod
    def of(cls, texts: Sequence[str]) -> Texts:
        """Pack the strings; lone surrogates are kept as they are."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        content = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        return cls(content, bounds_of([len(text) for text in encoded]))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[k] for k in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        place %= len(self)
        begin, end = self.bounds[place : place + 2]
        return self.content[begin:end].tobytes().decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return (self[k] for k in range(len(self)))


def bounds_of(lengths: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Where each of several runs begins when laid end to end, and where the last one ends."""
    bounds = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds
