"""What the reading benchmarks share: a reader to time, texts to time it on, and clocks."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

COMMON = """the of and in to a was is for as on by with that it from at his an were are which be this has also had or
its not first their after new who they two her she been other when there all during into school time may years more most
only over city some world would where later up such used many can state about national out known university united then
made south between born under war part while town season river album member people church century"""


def arguments(about: str | None, **more: dict[str, object]) -> argparse.Namespace:
    """The command line that all of them have, and options of their own."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="", help="a reader; without one, the paper's network with random weights")
    parser.add_argument("--data", default="", help="a SQuAD-format file; without one, invented texts")
    for name, options in more.items():
        parser.add_argument(f"--{name.replace('_', '-')}", **options)  # type: ignore[arg-type]
    return parser.parse_args()


def reader_folder(model: str, folder: Path) -> str:
    """The reader asked for, or one of the default recipe with random weights: as fast, and as good as none."""
    if model:
        return model
    import torch

    from rmreader.core.recipe import Recipe
    from rmreader.text.lexicon import Lexicon
    from rmreader.training.reader_folder import make_network, write_reader

    recipe = Recipe()
    lexicon = Lexicon.build(["abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,"], recipe.inputs)
    torch.manual_seed(1)
    write_reader(folder / "random", make_network(recipe, lexicon).state_dict(), lexicon, recipe, {}, {})
    return str(folder / "random")


def texts(data: str, words: int, count: int) -> list[tuple[str, str]]:
    """Questions about passages of about so many words: real ones, or invented ones with as many rare words."""
    rng, common = random.Random(words), COMMON.split()
    if data:
        from rmreader.data.squad import read_squad

        near = (0.9 * words, 1.1 * words)
        every = [
            (q.text, p.context) for p, q in read_squad(data).questions() if near[0] <= len(p.context.split()) <= near[1]
        ]
        rng.shuffle(every)
        if len(every) >= count:
            return every[:count]

    def word() -> str:
        if rng.random() < 0.7:
            return rng.choice(common)
        return "".join(rng.choice("etaoinshrdlucm") for _ in range(rng.randint(4, 9)))

    def sentence(length: int) -> str:
        return " ".join(word() for _ in range(length)).capitalize() + rng.choice([".", ", 1987.", " (AFC).", "."])

    def passage() -> str:
        return " ".join(sentence(15) for _ in range(-(-words // 15)))

    return [(sentence(11)[:-1] + "?", " ".join(passage().split()[:words])) for _ in range(count)]


def interleaved(
    calls: dict[str, Callable[[int], object]],
    rounds: int,
    each: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Any]:
    """Seconds of every call; the calls take turns of ``each`` in a row, so that all meet the same machine."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call(0)  # warm
    for number in range(0, rounds * each, each):
        for name, call in calls.items():
            for k in range(number, number + each):
                began = clock()
                call(k)
                seconds[name].append(clock() - began)
    return {name: np.array(times) for name, times in seconds.items()}


def show(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A Markdown table, as log/2026-11-15-reading-speed.md keeps it."""
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row) + " |")
    print()


def peak_memory() -> float:
    """Most MB this process has had in memory at once (``ru_maxrss`` would count its parent's before the start)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
