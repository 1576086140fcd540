"""Reading on the CPU as a person meets it: latency of ``ask``, questions per second of ``predict``, cold start, memory.

    python benchmarks/ask.py [--model small] [--data dev-v1.1.json.gz] [--words 150] [--count 300]

Every passage is asked about once, as they come; words that were met before are remembered, as in real use.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from _reader import arguments, peak_memory, reader_folder, show, texts

COLD = """
import json, sys
from rmreader.cli import main
sys.argv = ["rmreader", "ask", "Who was first?", "--passage", sys.argv[1], "--model", sys.argv[2], "--json"]
try:
    main()
finally:
    heavy = sorted({"torch", "onnx", "transformers"} & set(sys.modules))
    peak = int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024
    print(json.dumps([peak, heavy]), file=sys.stderr)
"""


def cold_start(model: str, passage: str, times: int = 7) -> tuple[float, float, list[str]]:
    """Median seconds from process start to printed answer and exit, peak MB, heavy modules that were imported."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(passage)
        file.flush()
        seconds = []
        for _ in range(times):
            began = time.perf_counter()
            done = subprocess.run([sys.executable, "-c", COLD, file.name, model], capture_output=True, text=True)
            seconds.append(time.perf_counter() - began)
            assert done.returncode == 0, done.stderr
            memory, heavy = json.loads(done.stderr.splitlines()[-1])
    return statistics.median(seconds), memory, heavy


def main() -> None:
    more = {"words": {"type": int, "default": 150}, "count": {"type": int, "default": 300}}
    options = arguments(__doc__, **more)
    with tempfile.TemporaryDirectory() as folder:
        model = reader_folder(options.model, Path(folder))
        pairs = texts(options.data, options.words, options.count)
        print(f"{options.model or 'random weights'}, {len(pairs)} passages of about {options.words} words")
        print(f"{len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f}\n")
        rows = [measure(model, precision, pairs) for precision in ("float", "int8")]
        show(("products", "load ms", "first ms", "ask p50 ms", "p95 ms", "predict questions/s", "peak MB"), rows)
        seconds, memory, heavy = cold_start(model, pairs[0][1])
        print(f"cold start of `rmreader ask`: {seconds:.2f} s, {memory:.0f} MB")
        print(f"imported of torch, onnx, transformers: {heavy or 'none'}")


def measure(model: str, precision: str, pairs: list[tuple[str, str]]) -> tuple[object, ...]:
    """One line, in a process of its own so that memory is its own."""
    code = f"import sys; sys.path[:0] = [{str(Path(__file__).parent)!r}]; from ask import inner; inner()"
    given = json.dumps([model, precision, pairs])
    done = subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return tuple(json.loads(done.stdout))


def inner() -> None:
    """The measured process."""
    model, precision, pairs = json.load(sys.stdin)
    began = time.perf_counter()
    from rmreader import Reader

    reader = Reader.load(model, precision=precision)
    loaded = time.perf_counter()
    reader.ask(*pairs[0])
    first = time.perf_counter()
    seconds = []
    for pair in pairs:
        start = time.perf_counter()
        reader.ask(*pair)
        seconds.append(time.perf_counter() - start)
    start = time.perf_counter()
    answered = sum(1 for _ in reader.ask_many(pairs))
    rate = answered / (time.perf_counter() - start)
    p50, p95 = (1000 * float(x) for x in np.percentile(seconds, [50, 95]))
    print(
        json.dumps(
            [precision, 1000 * (loaded - began), 1000 * (first - loaded), p50, p95, round(rate), round(peak_memory())]
        )
    )


if __name__ == "__main__":
    main()
