"""What reading in parts costs: two processes that each answer half of a file, against ``--workers 2`` and ``--on ray``.

Each round runs all of them, one after the other, so that a busy machine is as unfair to one as to the other, and prints
wall seconds and, where control groups can be made (Linux, as root), the processor seconds of everything they started.
On a busy machine the second tells more. Ray's start and end are timed apart: they are the same for any file.

  python benchmarks/cluster.py --data dev-v1.1.json.gz --questions 10570 --rounds 3
  python benchmarks/cluster.py --simulate 0.0043 --questions 1000000000 --cores 1600
"""

from __future__ import annotations

import heapq
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from _reader import arguments, texts

# no cluster of somebody else's; and at their usual niceness, 15, Ray's workers stand still beside other work
OWN = {**os.environ, "RAY_ADDRESS": "local", "RAY_worker_niceness": "0"}
ACCOUNTS = Path("/sys/fs/cgroup/cpuacct")


class Clock:
    """Runs commands side by side to their end: wall seconds, and processor seconds of all that they started."""

    def __init__(self) -> None:
        group = ACCOUNTS / f"rmreader-{os.getpid()}"
        try:
            group.mkdir()
            self.group: Path | None = group
        except OSError:
            self.group = None

    def run(self, *commands: Sequence[str]) -> tuple[float, float]:
        before, began = self._used(), time.perf_counter()
        how: dict[str, Any] = {"preexec_fn": self._enter, "stderr": subprocess.PIPE, "env": OWN}
        running = [subprocess.Popen(command, **how) for command in commands]
        for process in running:
            _, said = process.communicate()
            assert process.returncode == 0, said.decode()
        return time.perf_counter() - began, self._used() - before

    def _enter(self) -> None:
        if self.group is not None:
            (self.group / "cgroup.procs").write_text(str(os.getpid()))

    def _used(self) -> float:
        return int((self.group / "cpuacct.usage").read_text()) / 1e9 if self.group else float("nan")

    def close(self) -> None:
        if self.group is not None:
            self.group.rmdir()


def write(path: Path, pairs: list[tuple[str, str]], first: int) -> Path:
    rows = (
        {"id": str(number), "question": question, "passage": passage}
        for number, (question, passage) in enumerate(pairs, start=first)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def questions(data: str, count: int, words: int) -> list[tuple[str, str]]:
    """So many, of a SQuAD file as often as it takes, or invented ones about so many words."""
    if not data:
        return list(islice(cycle(texts("", words, 500)), count))
    from rmreader.data.squad import read_squad

    return list(islice(cycle([(q.text, p.context) for p, q in read_squad(Path(data)).questions()]), count))


def simulated(count: int, cores: int, seconds: float, rows: int, start: float, losses: float) -> tuple[float, float]:
    """Hours until the last shard is there, and the share of work done twice, where each process (one per core) needs
    ``start`` seconds to begin, is lost ``losses`` times per hour, and then begins its shard again."""
    chance, lost = random.Random(1), 0.0
    free = [start] * cores
    for _ in range(-(-count // rows)):
        at = heapq.heappop(free)
        while losses and (until := chance.expovariate(losses / 3600)) < rows * seconds:
            lost += until
            at += until + start
        heapq.heappush(free, at + rows * seconds)
    return max(free) / 3600, lost / (count * seconds)


def main() -> None:
    options = arguments(
        __doc__,
        questions={"type": int, "default": 4000},
        words={"type": int, "default": 120},
        rounds={"type": int, "default": 3},
        ways={"nargs": "+", "choices": ["workers", "ray"], "default": ["workers"]},
        simulate={
            "type": float,
            "default": 0.0,
            "help": "no measuring: a cluster of cores that each need so many seconds",
        },
        cores={"type": int, "default": 1600},
    )
    if options.simulate:
        for rows in (5_000, 50_000, 500_000):
            for losses in (0.0, 0.05, 0.5):
                hours, again = simulated(options.questions, options.cores, options.simulate, rows, 5.0, losses)
                print(
                    f"shards of {rows:,}, {losses} losses per process and hour: {hours:.2f} h, {again:.1%} done twice"
                )
        return
    pairs, clock = questions(options.data, options.questions, options.words), Clock()
    ratios: dict[str, list[tuple[float, float]]] = {way: [] for way in options.ways}
    with tempfile.TemporaryDirectory() as temporary:
        folder, half = Path(temporary), len(pairs) // 2
        whole = write(folder / "whole.jsonl", pairs, 0)
        halves = [write(folder / "a.jsonl", pairs[:half], 0), write(folder / "b.jsonl", pairs[half:], half)]
        words = [sys.executable, "-m", "rmreader", "predict", "--model", options.model or "small", "--threads", "1"]
        empty = write(folder / "none.jsonl", pairs[:1], 0)
        for number in range(options.rounds):
            print(f"round {number + 1}, load {os.getloadavg()[0]:.1f}", flush=True)
            out = [folder / f"out-{number}-{name}.jsonl" for name in ("a", "b")]
            two = clock.run(*([*words, str(data), "--out", str(to)] for data, to in zip(halves, out, strict=True)))
            print(f"  two processes  {two[0]:7.1f} s wall {two[1]:7.1f} s cpu  {len(pairs) / two[0]:6.0f} questions/s")
            expected = b"".join(path.read_bytes() for path in out)
            for way in options.ways:
                how = ["--workers", "2"] if way == "workers" else ["--on", "ray"]
                to, start = folder / f"{way}-{number}.jsonl", (0.0, 0.0)
                if way == "ray":
                    start = clock.run([*words, str(empty), "--out", str(folder / f"start-{number}.jsonl"), *how])
                wall, cpu = clock.run([*words, str(whole), "--out", str(to), *how])
                assert to.read_bytes() == expected, "the answers differ"
                wall, cpu = wall - start[0], cpu - start[1]
                ratios[way].append((two[0] / wall, two[1] / cpu))
                print(f"  {way:13}  {wall:7.1f} s wall {cpu:7.1f} s cpu  {len(pairs) / wall:6.0f} questions/s")
                print(f"    ratio {two[0] / wall:.3f} wall, {two[1] / cpu:.3f} cpu", flush=True)
                if way == "ray":
                    print(f"    its start and end, apart: {start[0]:.1f} s wall, {start[1]:.1f} s cpu", flush=True)
    for way, found in ratios.items():
        wall, cpu = (statistics.median(part) for part in zip(*found, strict=True))
        print(f"{way}: median ratio to two processes {wall:.3f} wall, {cpu:.3f} cpu")
    clock.close()


if __name__ == "__main__":
    main()
