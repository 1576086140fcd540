"""Cold start and memory of ``ask`` against another checkout, as ratios: CPU seconds and peak memory, in turns.

    python benchmarks/start.py OTHER_CHECKOUT [--model small] [--times 15]

CPU time, not wall time, and each checkout in turn, so that a busy machine does both the same harm.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def ask(checkout: Path, model: str) -> tuple[float, float]:
    """CPU seconds and peak MiB of one ``rmreader ask`` in a new process."""
    command = [sys.executable, "-m", "rmreader", "ask", "Who was first?", "--model", model]
    command += ["--text", "Ada Lovelace was the first to write a program, in 1843."]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(checkout / "src")}
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{checkout}: `ask` failed with status {process.returncode}.")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("other", type=Path)
    parser.add_argument("--model", default="small")
    parser.add_argument("--times", type=int, default=15)
    args = parser.parse_args()
    runs: dict[Path, list[tuple[float, float]]] = {args.other: [], ROOT: []}
    for checkout in runs:  # whose bytecode is compiled and files are read now
        ask(checkout, args.model)
    for _ in range(args.times):
        for checkout, found in runs.items():
            found.append(ask(checkout, args.model))
    medians = []
    for found in runs.values():
        seconds, memory = zip(*found, strict=True)
        medians.append((statistics.median(seconds), min(seconds), statistics.median(memory)))
    names = ("CPU seconds, median", "CPU seconds, least", "peak MiB, median")
    for name, before, now in zip(names, *medians, strict=True):
        print(f"{name}: other {before:.3f}, this {now:.3f}, ratio {now / before:.3f}")


if __name__ == "__main__":
    main()
