"""Everything a newcomer asks, in one run: how fast data are encoded, a network trains, and questions are answered.

    python benchmarks/overview.py DATA [--model small] [--steps 6] [--batch 32] [--device cpu]

DATA is a SQuAD-format file. Training is timed on steps of the paper's network (hidden 100, three blocks), reading on
passages of the file. Every figure is of this machine as it is now; compare ratios, not days.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from itertools import islice
from pathlib import Path

import ask
import encode
from _reader import show, texts


def training(data: Path, device: str, batch: int, steps: int, folder: Path) -> tuple[object, ...]:
    """Questions per second of the whole training step, the first two steps left out."""
    import torch

    from rmreader.core.recipe import recipe_from
    from rmreader.training.prepare import prepare
    from rmreader.training.trainer import Run

    settings = {"batch_size": batch, "holdout": 0.0, "schedule": "anneal", "precision": "bf16", "graphs": False}
    run = Run(prepare(recipe_from({"training": settings}), data, None, folder / "run", False, device, folder))
    batches, times = run.setup.train.batches(run._upcoming()), []
    for number, (_, made) in enumerate(islice(batches, steps + 2)):
        began = time.perf_counter()
        run.learner.set_place(number, 1000, 0)
        loss = float(run.learner.step(run.setup.train.fill(made))["measures"][1])
        times.append(time.perf_counter() - began)
    batches.close()
    assert loss == loss, "the loss is not a number"
    seconds = sorted(times[2:])[len(times[2:]) // 2]
    return device, torch.get_num_threads(), batch, 1000 * seconds, round(batch / seconds, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default="small")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    processors = len(os.sched_getaffinity(0))
    print(f"{options.data.name}; {processors} processors, load {os.getloadavg()[0]:.1f}\n\nEncoding")
    found = encode.measure(options.data, processors)
    speed = round(found["questions"] / found["seconds"])
    header = ("questions", "seconds", "questions/s", "peak MiB", "reopened in ms")
    show(header, [(found["questions"], found["seconds"], speed, found["peak"], found["reopened"])])
    print("Reading on the CPU, passages of about 150 words")
    pairs = texts(str(options.data), 150, 200)
    rows = [ask.measure(options.model, precision, pairs) for precision in ("float", "int8")]
    show(("products", "load ms", "first ms", "ask p50 ms", "p95 ms", "predict questions/s", "peak MB"), rows)
    print("Training")
    with tempfile.TemporaryDirectory() as folder:
        row = training(options.data, options.device, options.batch, options.steps, Path(folder))
    show(("device", "threads", "batch", "ms per step", "questions/s"), [row])


if __name__ == "__main__":
    main()
