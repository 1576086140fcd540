"""Frozen vectors that one process holds on a GPU, lent to all trainings there.

Those of SQuAD take 22 GB. Trainings that run side by side would each hold a copy; lent ones are
mapped into every process (CUDA's memory between processes). Whoever cannot borrow has its own copy.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rmreader.core.console import say
from rmreader.core.files.atomic import write_whole
from rmreader.kernels.beyond import lend_memory, map_memory

_NOTE = "lent.json"
_COMPARED = 64  # rows that are compared with those on disk before borrowed ones are used


@contextlib.contextmanager
def lend(folder: Path, tables: Sequence[Tensor]) -> Iterator[None]:
    """Lend tables that are on a GPU, for as long as this context is open."""
    note = folder / _NOTE
    parts = [{"memory": lend_memory(table), "shape": list(table.shape)} for table in tables]
    write_whole(note, json.dumps({"process": os.getpid(), "tables": parts}).encode())
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def borrow(folder: Path, files: Sequence[Path], device: torch.device) -> list[Tensor] | None:
    """Map the tables that another process holds on this GPU; None where none can be had.

    ``files`` are the same numbers on disk.
    """
    note = folder / _NOTE
    if device.type != "cuda" or not note.is_file():
        return None
    # Torch and the driver refuse in many ways; a copy of one's own is always possible.
    try:
        lent = json.loads(note.read_text(encoding="utf-8"))
        os.kill(lent["process"], 0)
        tables = [map_memory(part["memory"], part["shape"]) for part in lent["tables"]]
        if all(map(_is_same, tables, files)):
            return tables
        say(f"{folder}: what is lent there differs from the files; not borrowed.")
    except Exception as error:
        say(f"{folder}: what is lent there cannot be borrowed ({error}).")
    return None


def _is_same(table: Tensor, file: Path) -> bool:
    """Whether some rows, spread over the whole table, are as they are on disk."""
    shape: Any = tuple(table.shape)
    whole = np.memmap(file, dtype=np.float16, mode="r", shape=shape)
    rows = np.linspace(0, shape[0] - 1, _COMPARED).astype(np.int64)
    ours = table[torch.from_numpy(rows).to(table.device)].cpu().numpy()
    return bool(np.array_equal(ours, whole[rows]))
