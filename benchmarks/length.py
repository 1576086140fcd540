"""What a question costs against the length of its passage, 50 to 4,000 words: a table and a drawing.

    python benchmarks/length.py [--model small] [--data dev-v1.1.json.gz] [--out length.png]

Passages above the window (400 tokens) are read in overlapping windows, so the curve has a small step at every new one.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from _reader import arguments, reader_folder, show, texts

from rmreader import Reader
from rmreader.reading.portions import portions
from rmreader.text.tokens import tokenize

LENGTHS = (50, 75, 100, 150, 200, 250, 300, 320, 340, 360, 400, 500, 600, 800, 1000, 1500, 2000, 3000, 4000)


def main() -> None:
    more = {"out": {"default": ""}, "repeats": {"type": int, "default": 25}, "precision": {"default": None}}
    options = arguments(__doc__, **more)
    with tempfile.TemporaryDirectory() as folder:
        reader = Reader.load(reader_folder(options.model, Path(folder)), precision=options.precision)
    print(f"{len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f}\n")
    rows: list[tuple[object, ...]] = []
    points = []
    for words in LENGTHS:
        question, passage = texts(options.data if words < 400 else "", words, 1)[0]
        tokens = len(tokenize(passage))
        count = len(portions(tokens, reader.max_length, reader.window))
        reader.ask(question, passage)
        seconds = []
        for _ in range(options.repeats):
            began = time.perf_counter()
            reader.ask(question, passage)
            seconds.append(time.perf_counter() - began)
        milliseconds = 1000 * min(seconds)  # whatever else runs on the machine only adds
        points.append((tokens, milliseconds))
        rows.append((words, tokens, count, milliseconds, 1000 * milliseconds / tokens))
    longest = max(milliseconds for _, milliseconds in points)
    drawn = [(*row, "█" * max(1, round(40 * float(str(row[3])) / longest))) for row in rows]
    show(("words", "tokens", "windows", "least ms", "µs a token", ""), drawn)
    if options.out:
        draw(points, options.out)


def draw(points: list[tuple[int, float]], out: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
    axis.plot(*zip(*points, strict=True), marker="o", markersize=3)
    axis.axvline(400, color="grey", linewidth=0.8, linestyle=":")
    axis.set(xlabel="tokens of passage", ylabel="ms per question", xlim=(0, None), ylim=(0, None))
    figure.savefig(out, dpi=150)


if __name__ == "__main__":
    main()
