"""What the reward costs beside a training step: time of R(Aˢ) and R(Â) alone, of a step with ML, of one with DCRL.

    python benchmarks/rewards.py [--train FILE] [--batch 48] [--hidden 100] [--device cuda]

Without a file, on invented passages of about 150 words. On a GPU steps are replayed graphs, as in training.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rmreader.core.recipe import recipe_from
from rmreader.data.batch import Batch
from rmreader.kernels.graphs import Graphed
from rmreader.training.objectives import Span
from rmreader.training.prepare import prepare
from rmreader.training.step import Learner
from rmreader.training.trainer import Run


def invent(path: Path, articles: int = 40) -> None:
    generator = random.Random(1)
    words = ["".join(generator.choices("abcdefghijklmnop", k=generator.randint(1, 9))) for _ in range(2000)]
    data: list[dict[str, Any]] = []
    for number in range(articles):
        context = " ".join(generator.choices([*words, "the", "a", "–", "(x)"], k=150))
        qas = []
        for k in range(8):
            start = context.index(" ", generator.randrange(len(context) - 200)) + 1
            text = " ".join(context[start:].split(" ")[: generator.randint(1, 6)])
            question = " ".join(generator.choices(words, k=11)) + "?"
            qas.append(
                {"id": f"{number}-{k}", "question": question, "answers": [{"text": text, "answer_start": start}]}
            )
        data.append({"title": str(number), "paragraphs": [{"context": context, "qas": qas}]})
    path.write_text(json.dumps({"version": "1.1", "data": data}), encoding="utf-8")


def seconds(act: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Median time of an act, the device's work included."""
    times = []
    for _ in range(repeats + 2):
        began = time.perf_counter()
        act()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return statistics.median(times[2:])


def captured(act: Callable[[Batch[Tensor]], dict[str, Tensor]], learner: Learner) -> Graphed:
    return Graphed(act, lambda: list(learner.tensors().values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--hidden", type=int, default=100)
    parser.add_argument("--device")
    parser.add_argument("--repeats", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if options.train is None:
            options.train = folder / "invented.json"
            invent(options.train)
        steps: dict[str, float] = {}
        for objective in ("ml", "dcrl"):
            tree = {
                "network": {"hidden": options.hidden},
                "training": {
                    "objective": objective,
                    "batch_size": options.batch,
                    "holdout": 0,
                    "schedule": "constant",
                    "precision": "bf16",
                },
            }
            setup = prepare(recipe_from(tree), options.train, None, folder / objective, False, options.device, None)
            run, feed = Run(setup), setup.train
            repeats = options.repeats or (50 if setup.device.type == "cuda" else 3)
            _, batch = next(feed.batches(run._upcoming()))
            step = captured(lambda b, r=run, f=feed: r.learner.step(f.fill(b)), run.learner)  # type: ignore[misc]
            run.learner.set_place(0, run.total, 0)
            steps[objective] = seconds(lambda s=step, b=batch: s(b), setup.device, repeats)  # type: ignore[misc]
        rewards, learner = setup.rewards, run.learner
        assert rewards is not None
        assert batch.target is not None
        span = Span(batch.target.start, batch.target.end)
        look = captured(lambda b: {"reward": torch.cat(learner._rewards(b, span, span))}, learner)
        reward = seconds(lambda: look(batch), setup.device, 10 * repeats)
        shape = f"batch {options.batch}, {batch.context.shape[1]} tokens, hidden {options.hidden}, {setup.device}"
        print(f"{shape}; median of {repeats}\n")
        print(f"{'':24}{'ms':>10}{'of a DCRL step':>18}")
        for name, took in (("rewards alone", reward), ("step, ML", steps["ml"]), ("step, DCRL", steps["dcrl"])):
            print(f"{name:24}{1000 * took:10.3f}{100 * took / steps['dcrl']:17.2f}%")


if __name__ == "__main__":
    main()
