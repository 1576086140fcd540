"""Frozen contextual vectors, computed once for each passage and question and kept on disk in half
precision.

One flat file for the passages and one for the questions, [1 + tokens, layers, size], memory-mapped;
row 0 is zero and is padding's. They are written in chunks, and a manifest says which chunks are
whole and their checksums: a build that is killed goes on from there, and a damaged chunk is made
anew.
"""

import itertools
import json
import shutil
import zlib
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rmreader.core.console import progress
from rmreader.core.errors import UserError, user_error_on
from rmreader.core.files.atomic import lock, write_whole
from rmreader.core.files.cache import cache_folder
from rmreader.data.encoded import Encoded
from rmreader.model.contextual import FrozenEncoder
from rmreader.model.encoder import take_rows
from rmreader.training.lent_vectors import borrow

_FORMAT = 1
_CHUNK = 32_768  # tokens; 176 MB for seven layers of 384 numbers
_PARTS = ("context", "question")
Chunk = tuple[int, int]  # the first text, and the one after the last


@dataclass(frozen=True)
class FrozenVectors:
    """The vectors of one encoded file, in memory-mapped arrays or on a device."""

    contexts: Tensor  # float16 [1 + tokens, layers, size]
    questions: Tensor

    def gather(self, question: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """The layers of these rows (``token_rows``), [B, n, layers, size] and [B, m, layers, size];
        zero at padding."""
        return take_rows(self.questions, question), take_rows(self.contexts, context)

    @property
    def device(self) -> torch.device:
        """Where the vectors are."""
        return self.contexts.device


def open_vectors(
    encoded: Encoded,
    encoder: FrozenEncoder,
    cache_dir: str | Path | None = None,
    device: torch.device | str = "cpu",
    keep: bool = True,
) -> FrozenVectors:
    """Open the vectors of a file, computing what is not yet there (the encoder runs on the device
    that it is on).

    ``device``: where the vectors are to be; on the CPU they stay on disk, memory-mapped, on a GPU a
    batch is one indexed read there. ``keep=False`` writes nothing to disk and computes them
    straight into memory.
    """
    if not keep:
        place = torch.device(device)
        tables = [_in_memory(encoded, encoder, part, place) for part in _PARTS]
        return FrozenVectors(*tables)

    folder = vector_folder(encoded, encoder, cache_dir)
    files = [folder / f"{part}.f16" for part in _PARTS]
    lent = borrow(folder, files, next(encoder.parameters()).device)
    if lent is not None:
        return FrozenVectors(*lent)
    with user_error_on(f"{folder}: contextual vectors cannot be kept ({{why}}).", OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with lock(folder):  # one process builds, others that want the same vectors wait for it
            tables = [_complete(folder, part, encoded, encoder) for part in _PARTS]

    return FrozenVectors(*(table.to(device) for table in tables))


def vector_folder(
    encoded: Encoded, encoder: FrozenEncoder, cache_dir: str | Path | None = None
) -> Path:
    """Where the vectors of a file are kept, by the content of encoder and texts."""
    name = f"{encoder.fingerprint}-{encoded.content}"
    return cache_folder("contextual", cache_dir) / name


def _in_memory(encoded: Encoded, encoder: FrozenEncoder, part: str, device: torch.device) -> Tensor:
    """The vectors of all passages, or of all questions, without a file."""
    bounds = encoded.arrays[f"{part}_bounds"]
    shape = (1 + int(bounds[-1]), encoder.layers, encoder.size)
    table = torch.zeros(shape, dtype=torch.float16, device=device)
    for chunk, vectors in _compute(encoded, encoder, part, _chunks(bounds)):
        table[_rows(bounds, chunk)] = vectors.to(device)

    return table


def _complete(folder: Path, part: str, encoded: Encoded, encoder: FrozenEncoder) -> Tensor:
    """One of the two files, whole: chunks that the manifest does not vouch for are computed."""
    bounds = encoded.arrays[f"{part}_bounds"]
    shape = (1 + int(bounds[-1]), encoder.layers, encoder.size)
    path = folder / f"{part}.f16"
    manifest = folder / f"{part}.json"
    size = 2 * shape[0] * shape[1] * shape[2]
    whole: dict[str, int] = {}
    if path.is_file() and path.stat().st_size == size:
        whole = _read_manifest(manifest)
    else:
        if shutil.disk_usage(folder).free < size + (1 << 28):
            raise UserError(
                f"{folder}: the contextual vectors need {size / 1e9:.1f} GB of disk; make room or "
                "set RMREADER_CACHE."
            )

        with path.open("wb") as file:
            file.truncate(size)

    table = np.memmap(path, dtype=np.float16, mode="r+", shape=shape)
    table[0] = 0

    def checksum(chunk: Chunk) -> int:
        return zlib.crc32(table[_rows(bounds, chunk)].data)

    missing = [chunk for chunk in _chunks(bounds) if whole.get(_name(chunk)) != checksum(chunk)]
    for chunk, vectors in _compute(encoded, encoder, part, missing):
        table[_rows(bounds, chunk)] = vectors.cpu().numpy()
        table.flush()
        whole[_name(chunk)] = checksum(chunk)
        write_whole(manifest, json.dumps({"format": _FORMAT, "chunks": whole}).encode())

    # "c": torch wants to be able to write; what it would write never reaches the file
    mapped = np.memmap(path, dtype=np.float16, mode="c", shape=shape)
    return torch.from_numpy(np.asarray(mapped))


def _read_manifest(path: Path) -> dict[str, int]:
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        return dict(tree["chunks"]) if tree["format"] == _FORMAT else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}  # nothing is vouched for


def _chunks(bounds: NDArray[np.int64]) -> list[Chunk]:
    """Spans of texts of about ``_CHUNK`` tokens each."""
    cuts = np.searchsorted(bounds, np.arange(_CHUNK, bounds[-1], _CHUNK))
    edges = np.unique(np.concatenate([[0], cuts, [len(bounds) - 1]]))
    return list(itertools.pairwise(edges.tolist()))


def _rows(bounds: NDArray[np.int64], chunk: Chunk) -> slice:
    return slice(int(bounds[chunk[0]]) + 1, int(bounds[chunk[1]]) + 1)


def _name(chunk: Chunk) -> str:
    return f"{chunk[0]}-{chunk[1]}"


def _compute(
    encoded: Encoded,
    encoder: FrozenEncoder,
    part: str,
    chunks: Sequence[Chunk],
) -> Iterator[tuple[Chunk, Tensor]]:
    """Each chunk with its vectors, float16 [tokens, layers, size], where the encoder is."""
    if not chunks:
        return

    tokens = encoded.arrays[f"{part}_tokens"]
    bounds = encoded.arrays[f"{part}_bounds"]
    words: Any = encoder.table(encoded.vocabulary)
    budget = 16_384 if next(encoder.parameters()).is_cuda else 2_048
    bar = progress(f"Contextual vectors, {part}s", len(chunks), "chunks")
    with bar if len(chunks) > 1 else nullcontext(lambda _: None) as advance:
        for chunk in chunks:
            begin = int(bounds[chunk[0]])
            count = int(bounds[chunk[1]]) - begin
            # empty where none of the texts has a word
            whole = torch.empty(0, encoder.layers, encoder.size)
            for group in _groups(chunk, np.diff(bounds), budget):
                texts = [np.asarray(tokens[bounds[k] : bounds[k + 1]]) for k in group]
                vectors = encoder.encode(words, texts).half()
                if not len(whole):
                    whole = vectors.new_empty(count, encoder.layers, encoder.size)

                place = 0
                for k, text in zip(group, texts, strict=True):
                    rows = slice(bounds[k] - begin, bounds[k + 1] - begin)
                    whole[rows] = vectors[place : place + len(text)]
                    place += len(text)

            yield chunk, whole
            advance(1)


def _groups(chunk: Chunk, lengths: NDArray[np.int64], budget: int) -> Iterator[list[int]]:
    """The texts that have a word, those of about the same length together, at most ``budget``
    tokens padded."""
    group: list[int] = []
    texts = [k for k in range(*chunk) if lengths[k]]
    for text in sorted(texts, key=lambda k: -int(lengths[k])):
        if group and lengths[group[0]] * (len(group) + 1) > budget:
            yield group
            group = []

        group.append(text)

    if group:
        yield group
