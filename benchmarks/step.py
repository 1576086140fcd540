"""A whole training step on a GPU: the plain packed network beside the fused one, eager, replayed and compiled.

    python benchmarks/step.py [--batch 48,64] [--compile] [--members 1,4,12] [--json FILE]

Invented batches with lengths like SQuAD's, the same ones for every way, in one process. `--members` also measures
several trainings side by side, as processes that share the GPU (under MPS where its daemon runs).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rmreader.core.recipe import Recipe, recipe_from
from rmreader.data.batch import Batch, Target
from rmreader.data.batches import list_letters
from rmreader.kernels.graphs import Graphed
from rmreader.model.network import Network, Sizes
from rmreader.text.words import Words
from rmreader.training.step import Learner

QUESTIONS = 87_599  # in SQuAD's training file
N, M, C = 16, 160, 16  # most words of a question and of a passage, most characters of a word
VECTORS, CHARACTERS, WORDS = 384, 1500, 48 * 64  # widths as in the recipe `base`; distinct words of a batch of 48
DEVICE = "cuda"
WAYS = {
    "plain packed, eager": ["network.lstm=plain"],
    "fused fp32, eager": ["network.lstm=fused"],
    "fused fp32, replayed": ["network.lstm=fused", "graphs"],
    "fused bf16, eager": ["network.lstm=fused", "training.precision=bf16"],
    "fused bf16, replayed": ["network.lstm=fused", "training.precision=bf16", "graphs"],
}
COMPILED = {"fused bf16, compiled, replayed": [*WAYS["fused bf16, replayed"], "training.compile=true"]}


def invent(size: int, seed: int) -> Batch[Tensor]:
    """A batch of one length bucket: passages of 130-160 words, questions of 5-16, words of mostly few letters."""
    draw = torch.Generator().manual_seed(seed)

    def whole(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high + 1, shape, generator=draw)

    words = WORDS * size // 48
    letters = whole(1, 8, words) + whole(0, 8, words) * (torch.rand(words, generator=draw) < 0.3)
    question_lengths, context_lengths = whole(5, N, size), whole(130, M, size)
    start = (torch.rand(size, generator=draw) * (context_lengths - 5)).long()

    def text(lengths: Tensor, steps: int) -> Tensor:
        return whole(1, words - 1, size, steps) * (torch.arange(steps) < lengths[:, None])

    rare = torch.rand(words, C, generator=draw) < 7e-4  # as in SQuAD: nearly all letters are among the first few
    characters = torch.where(rare, whole(2, CHARACTERS - 1, words, C), whole(2, 40, words, C))
    characters *= torch.arange(C) < letters[:, None]
    table = Words(torch.randn(words, VECTORS, generator=draw), characters, letters, whole(0, words, words), letters * 0)
    batch = Batch(
        text(question_lengths, N), text(context_lengths, M), question_lengths, context_lengths, table,
        target=Target(start, start + whole(0, 4, size)), letters=torch.from_numpy(list_letters(letters.numpy())),
    )  # fmt: skip
    return batch.map(lambda tensor: tensor.to(DEVICE))


def learner(overrides: Sequence[str]) -> Learner:
    recipe: Recipe = recipe_from({}, ["training.ema=0.999", *(o for o in overrides if "=" in o)])
    torch.set_float32_matmul_precision("high" if recipe.training.precision == "bf16" else "highest")  # as in training
    torch.manual_seed(1)
    network = Network(recipe.network, recipe.inputs, Sizes(VECTORS, CHARACTERS, 1)).to(DEVICE)
    made = Learner(network, recipe)
    made.set_place(1000, 100_000, 0)
    return made


def stepper(overrides: Sequence[str]) -> tuple[Learner, Callable[[Batch[Tensor]], dict[str, Tensor]]]:
    made = learner(overrides)
    if "graphs" not in overrides:
        return made, made.step
    graphed = Graphed(made.step, lambda: list(made.tensors().values()))
    return made, graphed


def milliseconds(act: Callable[[Batch[Tensor]], object], batches: Sequence[Batch[Tensor]], repeats: int) -> float:
    """Median time of a step, by events, over the batches in turn."""
    for batch in batches:
        act(batch)
    spans = []
    for place in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        act(batches[place % len(batches)])
        end.record()
        end.synchronize()
        spans.append(begin.elapsed_time(end))
    return statistics.median(spans)


def measure(name: str, overrides: Sequence[str], batches: Sequence[Batch[Tensor]], repeats: int) -> dict[str, Any]:
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    made, act = stepper(overrides)
    began = time.monotonic()
    act(batches[0])
    torch.cuda.synchronize()
    first = time.monotonic() - began
    row: dict[str, Any] = {"way": name, "first": first, "ms": milliseconds(act, batches, repeats)}
    row["again"] = milliseconds(act, batches, repeats)
    row["MiB"] = (torch.cuda.max_memory_allocated() - before) / 2**20
    row["captured"] = "graphs" not in overrides or not act.failed  # type: ignore[attr-defined]
    del made, act
    gc.collect()
    torch.cuda.empty_cache()
    return row


def table(size: int, ways: dict[str, list[str]], repeats: int) -> list[dict[str, Any]]:
    batches = [invent(size, seed) for seed in range(3)]
    print(f"\nbatch {size}, n={N}, m={M}, {batches[0].words.lengths.numel()} distinct words")
    print(f"{'':32}{'ms':>8}{'again':>8}{'ratio':>8}{'question/s':>12}{'s/epoch':>9}{'MiB':>7}")
    rows: list[dict[str, Any]] = []
    for name, overrides in ways.items():
        row = {"batch": size} | measure(name, overrides, batches, repeats)
        rows.append(row)
        row["ratio"], row["speed"] = rows[0]["ms"] / row["ms"], 1e3 * size / row["ms"]
        row["epoch"] = QUESTIONS / row["speed"]
        print(
            f"{name:32}{row['ms']:8.2f}{row['again']:8.2f}{row['ratio']:7.1f}x{row['speed']:12.0f}{row['epoch']:9.1f}"
            f"{row['MiB']:7.0f}{'' if row['captured'] else '  NOT CAPTURED'}",
            flush=True,
        )
    return rows


def breakdown(size: int, overrides: Sequence[str], steps: int = 3) -> list[dict[str, Any]]:
    """Where the time of a step goes: its kernels by total time."""
    from torch.profiler import ProfilerActivity, profile

    batch = invent(size, 0)
    _, act = stepper(overrides)
    for _ in range(3):
        act(batch)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(steps):
            act(batch)
        torch.cuda.synchronize()
    kernels = [
        {"kernel": event.key, "ms": event.self_device_time_total / 1e3 / steps, "calls": event.count / steps}
        for event in profiled.key_averages()
        if event.self_device_time_total > 0 and str(event.device_type).endswith("CUDA")
    ]
    kernels.sort(key=lambda kernel: -kernel["ms"])
    total = sum(kernel["ms"] for kernel in kernels) or 1.0
    walk = sum(kernel["ms"] for kernel in kernels if kernel["kernel"].startswith("bilstm_"))
    calls = sum(kernel["calls"] for kernel in kernels)
    print(f"\n{total:.2f} ms of kernels a step in {calls:.0f} launches; {100 * walk / total:.0f} % in the LSTM walks")
    for kernel in kernels[:15]:
        share = 100 * kernel["ms"] / total
        print(f"{kernel['ms']:8.3f} ms {share:5.1f} % {kernel['calls']:6.0f}x  {kernel['kernel'][:80]}")
    return kernels


def member(size: int, overrides: Sequence[str]) -> None:
    """One of several trainings at once: gets ready, then replays steps for as many seconds as each line asks for."""
    batches = [invent(size, seed) for seed in range(3)]
    _, act = stepper(overrides)
    for batch in batches:
        act(batch)
    torch.cuda.synchronize()
    print("ready", flush=True)
    for line in sys.stdin:
        bad, done, began = torch.zeros((), device=DEVICE), 0, time.perf_counter()
        while time.perf_counter() - began < float(line):
            for batch in batches:
                bad += act(batch)["measures"][0]
            torch.cuda.synchronize()
            done += len(batches)
        ms = 1e3 * (time.perf_counter() - began) / done
        print(json.dumps({"ms": ms, "bad": bad.item() / done}), flush=True)


class Crowd:
    """So many trainings side by side, each on at most ``share`` % of the multiprocessors; idle until asked to run."""

    def __init__(self, count: int, share: int, size: int, compiled: bool) -> None:
        self.count, self.share = count, share
        command = [sys.executable, __file__, "--member", "--batch", str(size), *["--compile"] * compiled]
        environment = {**os.environ, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(share)}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
        self.processes = [subprocess.Popen(command, **pipes) for _ in range(count)]

    def wait(self) -> None:
        for process in self.processes:
            while process.stdout.readline() not in ("ready\n", ""):  # type: ignore[union-attr]
                pass

    def run(self, seconds: float) -> tuple[float, float]:
        """Milliseconds of a step, the slowest member's, and the greatest part of steps that were not finite."""
        for process in self.processes:
            print(seconds, file=process.stdin, flush=True)
        found = [json.loads(process.stdout.readline()) for process in self.processes]  # type: ignore[union-attr]
        return max(f["ms"] for f in found), max(f["bad"] for f in found)

    def close(self) -> None:
        for process in self.processes:
            process.communicate()


def members(crowds: Sequence[tuple[int, int]], size: int, compiled: bool, seconds: float = 2.0) -> list[dict[str, Any]]:
    """Trainings side by side, each crowd in turn, three times; so many at once, each on at most so much of the GPU."""
    running = [Crowd(count, share, size, compiled) for count, share in crowds]
    for crowd in running:
        crowd.wait()
    found = [[crowd.run(seconds) for crowd in running] for _ in range(3)]
    for crowd in running:
        crowd.close()
    mps = "under MPS" if Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")).exists() else "without MPS"
    print(f"\ntrainings at once {mps}, batch {size}: the slowest member's step, median of three turns")
    rows: list[dict[str, Any]] = []
    for crowd, turns in zip(running, zip(*found, strict=True), strict=True):
        row = {"members": crowd.count, "share": crowd.share, "ms": statistics.median(ms for ms, _ in turns)}
        rows.append(row)
        row |= {"turns": [ms for ms, _ in turns], "bad": max(bad for _, bad in turns)}
        row["ratio"] = row["ms"] / rows[0]["ms"]
        wrong = f"  {100 * row['bad']:.0f} % OF THE STEPS NOT FINITE" if row["bad"] else ""
        who = f"{crowd.count:2} at once, at most {crowd.share:3} % of the GPU each"
        turns_ms = ", ".join(f"{ms:.2f}" for ms in row["turns"])
        print(f"{who}:{row['ms']:8.2f} ms{row['ratio']:7.2f}x  ({turns_ms}){wrong}", flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batch", default="48,64", help="sizes of batches")
    parser.add_argument("--compile", action="store_true", help="also with compiled blocks")
    parser.add_argument("--only", default="", help="only the ways whose name holds this text")
    parser.add_argument("--members", default="", help="numbers of trainings side by side")
    parser.add_argument("--share", default="100,12", help="most of the GPU that a training may take, in %%, if several")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--member", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("benchmarks/step.py: no GPU here.", file=sys.stderr)
        return 1
    sizes = [int(size) for size in options.batch.split(",")]
    ways = WAYS | (COMPILED if options.compile else {})
    fastest = list(ways.values())[-1]
    if options.member:
        member(sizes[0], fastest)
        return 0
    ways = {name: way for name, way in ways.items() if options.only in name}
    rows = [row for size in sizes for row in table(size, ways, options.repeats)]
    kernels = breakdown(sizes[0], fastest)
    counts, shares = ([int(n) for n in text.split(",") if n] for text in (options.members, options.share))
    crowds = [(count, share) for count in counts for share in (shares if count > 1 else [100])]
    crowd = members(crowds, sizes[0], options.compile) if crowds else []
    print(f"\n{torch.cuda.get_device_name()}, torch {torch.__version__}")
    if options.json:
        facts = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
        facts |= {"steps": rows, "kernels": kernels, "members": crowd}  # type: ignore[dict-item]
        options.json.write_text(json.dumps(facts, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
