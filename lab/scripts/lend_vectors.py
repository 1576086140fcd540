"""Hold the frozen vectors of some files on the GPU, once for all trainings there.

    python -m lab.scripts.lend_vectors ENCODER FILE…
    python -m lab.scripts.lend_vectors --try ENCODER FILE

Computes what the cache lacks, says "lent" when trainings may begin, and holds the vectors until its
input ends or it is asked to stop. Under MPS it must be a client of the same server as the
trainings. With --try, while another process lends, it exits with 0 if the vectors of FILE can be
borrowed, else with 1.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import torch

from rmreader.data.encode import encode_file
from rmreader.model.contextual import frozen_encoder
from rmreader.training.frozen_vectors import open_vectors, vector_folder
from rmreader.training.lent_vectors import borrow, lend
from rmreader.training.run_folder import on_signals


def main() -> None:
    """Lend until nobody asks any more."""
    if sys.argv[1] == "--try":
        sys.exit(0 if can_borrow(*sys.argv[2:4]) else 1)
    name, *files = sys.argv[1:]
    device = torch.device("cuda")
    encoder = frozen_encoder(name).to(device)
    with contextlib.ExitStack() as lending, contextlib.suppress(KeyboardInterrupt):
        lending.enter_context(on_signals(_stop, "SIGTERM"))
        for file in files:
            encoded = encode_file(Path(file))
            vectors = open_vectors(encoded, encoder, device=device)
            tables = vectors.contexts, vectors.questions
            lending.enter_context(lend(vector_folder(encoded, encoder), tables))
            size = sum(table.nbytes for table in tables)
            print(f"{file}: {size / 1e9:.1f} GB", flush=True)
        print("lent", flush=True)
        sys.stdin.read()


def can_borrow(name: str, file: str) -> bool:
    """Whether a training here would have the lent vectors of a file."""
    folder = vector_folder(encode_file(Path(file)), frozen_encoder(name))
    parts = [folder / "context.f16", folder / "question.f16"]
    return borrow(folder, parts, torch.device("cuda")) is not None


def _stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
