#!/usr/bin/env python3
"""How fast a SQuAD file is encoded, alone and in parallel, how much memory that takes, and how fast it is reopened.

    python benchmarks/encode.py train-v1.1.json.gz dev-v1.1.json.gz

Each line is measured in a process of its own, against an empty cache.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from rmreader.data.encode import encode_file


def measure(path: Path, workers: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:
        began = time.perf_counter()
        encoded = encode_file(path, cache, workers=workers)
        seconds = time.perf_counter() - began
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # of the largest; shared pages count in both
        began = time.perf_counter()
        again = encode_file(path, cache)
        reopened = time.perf_counter() - began
        assert len(again) == len(encoded)
        kept = sum(file.stat().st_size for file in Path(cache).rglob("*.npy"))
    return {
        "questions": len(encoded),
        "seconds": seconds,
        "peak": (own + children * (workers if children else 0)) / 1024,
        "reopened": reopened * 1000,
        "kept": kept / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, len(os.sched_getaffinity(0))])
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.files[0], options.workers[0])))
        return
    table = Table("file", "processes", "seconds", "questions/s", "peak MiB (at most)", "cache MB", "reopened in ms")
    for path in options.files:
        for workers in dict.fromkeys(options.workers):
            command = [sys.executable, __file__, str(path), "--workers", str(workers), "--measure"]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            speed = found["questions"] / found["seconds"]
            cells = (f"{found['seconds']:.2f}", f"{speed:,.0f}", f"{found['peak']:.0f}", f"{found['kept']:.1f}")
            table.add_row(path.name, str(workers), *cells, f"{found['reopened']:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
