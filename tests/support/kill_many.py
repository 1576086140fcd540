"""Kill training runs with SIGKILL at random moments, resume them, and hold the end to the uninterrupted run's bits.

    PYTHONPATH=tests python -m support.kill_many [--kills 20] [--seed 1] [--stages ml dcrl]

For each stage as many kills fall anywhere in the run, and as many while a checkpoint is being written (there every act
of writing is slowed down, and the moment is chosen by watching for the half-written folder).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from safetensors.torch import load_file

from support import tiny_run
from support.warm import warm

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
STAGES = {"ml": [], "dcrl": ["training.objective=dcrl", "training.rate=0.001"]}


class Runs:
    """Training runs as processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.errors = folder, folder / "errors.txt"

    def start(self, out: Path, settings: list[str], slow: bool = False) -> None:
        words = [str(self.folder), str(out), *settings, *(["--slow-writes"] if slow else [])]
        with self.errors.open("wb") as errors:
            self._run = subprocess.Popen(
                [sys.executable, "-m", "support.tiny_run", *words], stderr=errors, env=ENVIRONMENT
            )

    def alive(self) -> bool:
        return self._run.poll() is None

    def kill(self) -> bool:
        """Whether it was still running."""
        self._run.kill()
        return self.wait() == -signal.SIGKILL

    def wait(self) -> int:
        """0 where it ended by itself, else minus the signal that ended it."""
        code = self._run.wait()
        if code > 0:
            raise SystemExit(f"a run failed:\n{self.errors.read_text()}")
        return code

    def finish(self, out: Path, settings: list[str]) -> float:
        """Run to the end; the seconds it takes once it has begun."""
        self.start(out, settings)
        began = time.monotonic()
        self.wait()
        return time.monotonic() - began


def check_equal(one: Path, two: Path) -> None:
    """Every tensor, the state, the log, and the reader that was kept are the same in both runs."""
    for name in ("last/tensors.safetensors", "best/weights.safetensors"):
        a, b = load_file(one / name), load_file(two / name)
        if a.keys() != b.keys() or not all(a[key].equal(b[key]) for key in a):
            raise SystemExit(f"{name} differs: {two}")
    states = [json.loads((out / "last" / "state.json").read_text()) for out in (one, two)]
    if states[0] != states[1]:
        raise SystemExit(f"the state differs: {states}")
    logs = [(out / "log.jsonl").read_text() for out in (one, two)]  # the run is too short for a line that has its speed
    if logs[0] != logs[1]:
        raise SystemExit(f"the log differs:\n{logs[0]}\n{logs[1]}")


def torture(folder: Path, stage: str, kills: int, generator: random.Random, in_write: bool) -> Counter[str]:
    """Runs killed so often in all, resumed each time and finished; what the kills hit."""
    runs, settings = Runs(folder), STAGES[stage]
    name, whole = f"{stage}-{'write' if in_write else 'any'}", folder / f"{stage}-whole-{in_write}"
    hits: Counter[str] = Counter()
    finished = 0
    seconds = runs.finish(whole, settings)
    while sum(count for hit, count in hits.items() if not in_write or hit.startswith("writing")) < kills:
        out = folder / f"{name}-{finished}"
        runs.start(out, settings, slow=in_write)
        left = seconds * (1 - step(out) / step(whole))  # else it ends before it is killed again
        time.sleep(generator.uniform(0, left))
        if in_write:
            while runs.alive() and not any(out.glob("*.new")):
                time.sleep(0.001)
            time.sleep(generator.uniform(0, 0.08))
        if runs.kill():
            hits[place(out)] += 1
        else:  # another run takes the kills that are left
            finished += 1
            check_equal(whole, out)
    runs.finish(out, settings)
    check_equal(whole, out)
    return hits


def place(out: Path) -> str:
    """Where in its life a killed run stood."""
    half = sorted(path.name for path in out.glob("*.new"))
    return f"{'writing ' + half[0] if half else 'between writes'} after step {step(out)}"


def step(out: Path) -> int:
    """That of a run's last checkpoint."""
    try:
        return int(json.loads((out / "last" / "state.json").read_text())["step"])
    except FileNotFoundError:
        return 0


def data_folder(parent: Path) -> Path:
    tiny_run.write_data(parent)
    return parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    options = parser.parse_args()
    generator = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as temporary, warm():
        folder = data_folder(Path(temporary))
        for stage in options.stages:
            for in_write in (False, True):
                began = time.monotonic()
                hits = torture(folder, stage, options.kills, generator, in_write)
                where = "aimed at checkpoint writes" if in_write else "anywhere"
                seconds = time.monotonic() - began
                print(f"{stage}, {hits.total()} kills {where}: weights, state and log equal; {seconds:.0f} s")
                for hit, count in sorted(hits.items()):
                    print(f"  {count:3} {hit}", flush=True)


if __name__ == "__main__":
    main()
