#!/usr/bin/env python3
"""What contextual input costs: building and reading the cache of frozen vectors, and a training step with each kind.

    python benchmarks/contextual.py train-v1.1.json.gz [--encoder minilm] [--passages 150] [--steps 30]

All in one process on the same questions: the first passages of the file, all of them with --passages 0. On a GPU steps
are as in the recipes, in bf16 and replayed. The last line compares the losses of a run that reads the cache with those
of one that computes the vectors for every batch, both in float32 and eager.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from rmreader.core.recipe import recipe_from
from rmreader.data.encode import encode_file
from rmreader.model.contextual import frozen_encoder
from rmreader.training.frozen_vectors import open_vectors
from rmreader.training.prepare import pick_device, prepare
from rmreader.training.trainer import Run

KINDS = {
    "none": (),
    "frozen, cached": ("inputs.contextual_mode=frozen",),
    "frozen, computed each time": ("inputs.contextual_cache=none", "training.graphs=false"),
    "tuned, apart": ("inputs.contextual_mode=tuned",),
    "tuned, together": ("inputs.contextual_mode=tuned", "inputs.contextual_pairing=together"),
}


def some_of(path: Path, passages: int, folder: Path) -> Path:
    """The first passages of a SQuAD file as a file of its own."""
    if not passages:
        return path
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        tree = json.load(file)
    for article in tree["data"]:
        article["paragraphs"] = article["paragraphs"][:passages]
        passages -= len(article["paragraphs"])
    tree["data"] = [article for article in tree["data"] if article["paragraphs"]]
    (folder / "some.json").write_text(json.dumps(tree))
    return folder / "some.json"


def build(path: Path, encoder_name: str, folder: Path, device: torch.device) -> Table:
    """Build the cache, read it again."""
    encoded = encode_file(path, folder)
    encoder = frozen_encoder(encoder_name).to(device)
    tokens = sum(int(encoded.arrays[f"{part}_bounds"][-1]) for part in ("context", "question"))
    table = Table("cache of frozen vectors", "seconds", "tokens/s", "MB")
    size = 2 * tokens * encoder.layers * encoder.size / 1e6
    for name in ("built", "opened again, checked"):
        began = time.perf_counter()
        open_vectors(encoded, encoder, folder)
        seconds = time.perf_counter() - began
        table.add_row(name, f"{seconds:.2f}", f"{tokens / seconds:,.0f}", f"{size:,.0f}")
    return table


def step_times(
    path: Path, overrides: tuple[str, ...], folder: Path, device: torch.device, steps: int, batch: int
) -> dict[str, Any]:
    """Time of making a batch and of a whole step (on a GPU once its shape was seen before), and the losses."""
    tree = {"network": {"dropout": 0.2}, "training": {"batch_size": batch, "holdout": 0, "schedule": "constant"}}
    with tempfile.TemporaryDirectory() as out:
        setup = prepare(recipe_from(tree, overrides), path, None, Path(out) / "run", False, str(device), folder)
        run = Run(setup)
        batches = [index for _, index in zip(range(steps), run._upcoming(), strict=False)]
        began = time.perf_counter()
        for index in batches:
            setup.train._make(index)
        made = (time.perf_counter() - began) / steps
        step, times, losses = run._step(), [], []
        for _ in range(2 if device.type == "cuda" else 1):
            times = []
            for number, (_, made_batch) in enumerate(setup.train.batches(batches)):
                run.learner.set_place(number, steps, 0)
                began = time.perf_counter()
                measures = step(made_batch)["measures"]
                losses.append(float(measures[run.learner.measures.index("loss")]))  # waits for the device
                times.append(time.perf_counter() - began)
        memory = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else float("nan")
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        run.log.close()
    return {"made": 1000 * made, "step": 1000 * float(np.median(times)), "losses": losses[:steps], "memory": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--passages", type=int, default=150)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--device")
    parser.add_argument("--cache", type=Path, help="folder for what is computed; a temporary one by default")
    options = parser.parse_args()
    device = pick_device(options.device)
    console = Console()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.cache or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        path = some_of(options.file, options.passages, Path(temporary))
        console.print(build(path, options.encoder, folder, device))
        table = Table("contextual input", "batch made ms", "step ms", "ratio", "GPU MiB")
        found = {}
        for name, overrides in KINDS.items():
            named = (f"inputs.contextual={options.encoder}", *overrides) if overrides else ()
            fast = ("training.precision=bf16",) if device.type == "cuda" else ()
            found[name] = times = step_times(path, named + fast, folder, device, options.steps, options.batch)
            ratio = times["step"] / found["none"]["step"]
            table.add_row(
                name, f"{times['made']:.1f}", f"{times['step']:.1f}", f"{ratio:.2f}", f"{times['memory']:,.0f}"
            )
        console.print(table)
        exact = f"inputs.contextual={options.encoder}", "training.graphs=false"
        cached, computed = (
            np.array(step_times(path, (*exact, *KINDS[name]), folder, device, options.steps, options.batch)["losses"])
            for name in ("frozen, cached", "frozen, computed each time")
        )
        apart = abs(cached - computed).max()
        console.print(f"losses, cached against computed, in {len(cached)} steps: at most {apart:.1e} apart")


if __name__ == "__main__":
    main()
