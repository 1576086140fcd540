"""Frozen contextual vectors, computed once for each passage and question and kept on disk in half precision.

One flat file for the passages and one for the questions, [1 + tokens, layers, size], memory-mapped; row 0 is zero and
stands for padding. They are written in chunks, and a manifest says which chunks are whole and their checksums: a build
that is killed goes on where it stood, and a damaged chunk is made anew.
"""

from __future__ import annotations

import itertools
import json
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rmreader.console import progress
from rmreader.data.encoded import Encoded
from rmreader.errors import UserError
from rmreader.files import cache_folder, lock, write_whole
from rmreader.model.contextual import FrozenEncoder

_FORMAT = 1
_CHUNK = 32_768  # tokens; 176 MB for seven layers of 384 numbers
_PARTS = ("context", "question")


@dataclass(frozen=True)
class ContextualCache:
    """The vectors of one encoded file, in memory-mapped arrays or on a device."""

    contexts: Tensor  # float16 [1 + tokens, layers, size]
    questions: Tensor

    def gather(self, question: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """The layers of these rows (``token_rows``), [B, n, layers, size] and [B, m, layers, size]; zero at padding."""
        return _take(self.questions, question), _take(self.contexts, context)

    @property
    def device(self) -> torch.device:
        """Where the vectors are."""
        return self.contexts.device


def _take(table: Tensor, rows: Tensor) -> Tensor:
    return table.index_select(0, rows.flatten()).view(*rows.shape, *table.shape[1:])


def open_cache(
    encoded: Encoded,
    encoder: FrozenEncoder,
    cache_dir: str | Path | None = None,
    device: torch.device | str = "cpu",
    keep: bool = True,
) -> ContextualCache:
    """Open the vectors of a file, computing what is not yet there (the encoder runs where it stands).

    ``device``: where the vectors are to lie; on the CPU they stay on disk, memory-mapped, on a GPU a batch is one
    indexed read there. ``keep=False`` writes nothing to disk and computes them straight into memory.
    """
    if not keep:
        return ContextualCache(*(_in_memory(encoded, encoder, part, torch.device(device)) for part in _PARTS))
    folder = cache_folder("contextual", cache_dir) / f"{encoder.fingerprint}-{encoded.content}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock(folder):  # one process builds, others that want the same vectors wait for it
            tables = [_complete(folder, part, encoded, encoder) for part in _PARTS]
    except OSError as error:
        raise UserError(f"{folder}: contextual vectors cannot be kept ({error.strerror or error}).") from None
    return ContextualCache(*(table.to(device) for table in tables))


def _complete(folder: Path, part: str, encoded: Encoded, encoder: FrozenEncoder) -> Tensor:
    """One of the two files, whole: chunks that the manifest does not vouch for are computed."""
    bounds = encoded.arrays[f"{part}_bounds"]
    shape = (1 + int(bounds[-1]), encoder.layers, encoder.size)
    path, manifest = folder / f"{part}.f16", folder / f"{part}.json"
    size = 2 * shape[0] * shape[1] * shape[2]
    whole: dict[str, int] = {}
    if path.is_file() and path.stat().st_size == size:
        whole = _read_manifest(manifest)
    else:
        if shutil.disk_usage(folder).free < size + (1 << 28):
            raise UserError(
                f"{folder}: the contextual vectors need {size / 1e9:.1f} GB of disk; make room or set RMREADER_CACHE."
            )
        with path.open("wb") as file:
            file.truncate(size)
    chunks = _chunks(bounds)
    table = np.memmap(path, dtype=np.float16, mode="r+", shape=shape)
    table[0] = 0
    missing = [c for c in chunks if _name(c) not in whole or whole[_name(c)] != _checksum(table, bounds, c)]
    with progress(f"Contextual vectors, {part}s", len(missing), "chunks") as advance:
        fill = _filler(encoded, encoder, part)
        for chunk in missing:
            first, last = bounds[chunk[0]] + 1, bounds[chunk[1]] + 1
            table[first:last] = fill(chunk).cpu().numpy()
            table.flush()
            whole[_name(chunk)] = _checksum(table, bounds, chunk)
            _write_manifest(manifest, whole)
            advance(1)
    # "c": torch wants to be able to write; what it would write never reaches the file
    return torch.from_numpy(np.asarray(np.memmap(path, dtype=np.float16, mode="c", shape=shape)))


def _in_memory(encoded: Encoded, encoder: FrozenEncoder, part: str, device: torch.device) -> Tensor:
    bounds = encoded.arrays[f"{part}_bounds"]
    table = torch.zeros(1 + int(bounds[-1]), encoder.layers, encoder.size, dtype=torch.float16, device=device)
    chunks = _chunks(bounds)
    bar = progress(f"Contextual vectors, {part}s", len(chunks), "chunks")
    with bar if len(chunks) > 1 else nullcontext(lambda _: None) as advance:
        fill = _filler(encoded, encoder, part)
        for chunk in chunks:
            table[bounds[chunk[0]] + 1 : bounds[chunk[1]] + 1] = fill(chunk).to(device)
            advance(1)
    return table


def _chunks(bounds: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Spans of texts of about ``_CHUNK`` tokens each."""
    cuts = np.searchsorted(bounds, np.arange(_CHUNK, bounds[-1], _CHUNK))
    edges = np.unique(np.concatenate([[0], cuts, [len(bounds) - 1]])).tolist()
    return list(itertools.pairwise(edges))


def _filler(encoded: Encoded, encoder: FrozenEncoder, part: str) -> Callable[[tuple[int, int]], Tensor]:
    """A function that computes the vectors of a chunk, in order, float16 [tokens, layers, size]."""
    tokens, bounds = encoded.arrays[f"{part}_tokens"], encoded.arrays[f"{part}_bounds"]
    table: list[Any] = []

    def fill(chunk: tuple[int, int]) -> Tensor:
        if not table:
            table.append(encoder.table(encoded.vocabulary))
        begin = int(bounds[chunk[0]])
        out = torch.empty(int(bounds[chunk[1]]) - begin, encoder.layers, encoder.size, dtype=torch.float16)
        texts = [k for k in range(*chunk) if bounds[k + 1] > bounds[k]]
        for group in _groups(texts, np.diff(bounds), _budget(encoder)):
            found = encoder.encode(table[0], [np.asarray(tokens[bounds[k] : bounds[k + 1]]) for k in group]).half()
            if out.device != found.device:
                out = out.to(found.device)
            lengths = [int(bounds[k + 1] - bounds[k]) for k in group]
            for k, vectors in zip(group, found.split(lengths), strict=True):  # type: ignore[no-untyped-call]
                out[bounds[k] - begin : bounds[k + 1] - begin] = vectors
        return out

    return fill


def _groups(texts: Sequence[int], lengths: NDArray[np.int64], budget: int) -> Iterator[list[int]]:
    """Texts of about the same length together, at most ``budget`` tokens padded."""
    group: list[int] = []
    for text in sorted(texts, key=lambda k: -int(lengths[k])):
        if group and lengths[group[0]] * (len(group) + 1) > budget:
            yield group
            group = []
        group.append(text)
    if group:
        yield group


def _budget(encoder: FrozenEncoder) -> int:
    parameters = encoder.parameters() if isinstance(encoder, torch.nn.Module) else iter(())
    on_device = next(parameters, torch.empty(0)).is_cuda
    return 16_384 if on_device else 2_048


def _name(chunk: tuple[int, int]) -> str:
    return f"{chunk[0]}-{chunk[1]}"


def _checksum(table: NDArray[np.float16], bounds: NDArray[np.int64], chunk: tuple[int, int]) -> int:
    return zlib.crc32(table[bounds[chunk[0]] + 1 : bounds[chunk[1]] + 1].data)


def _read_manifest(path: Path) -> dict[str, int]:
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        return dict(tree["chunks"]) if tree["format"] == _FORMAT else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}  # nothing is vouched for


def _write_manifest(path: Path, whole: dict[str, int]) -> None:
    write_whole(path, json.dumps({"format": _FORMAT, "chunks": whole}).encode())
