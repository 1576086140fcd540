"""Kill training runs with SIGKILL at random moments, resume them, and hold the end to the uninterrupted run's bits.

    python tests/learning/kill_many.py [--kills 20] [--seed 1] [--stages ml dcrl]

For each stage as many kills fall anywhere in the run, and as many while a checkpoint is being written (there every act
of writing is slowed down, and the moment is chosen by watching for the half-written folder).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

SCRIPT = Path(__file__).with_name("tiny_run.py")
STAGES = {"ml": [], "dcrl": ["training.objective=dcrl", "training.rate=0.001"]}


def start(folder: Path, out: Path, settings: list[str], slow: bool = False) -> subprocess.Popen[bytes]:
    """A run that has read its modules and goes on with whatever is in ``out``."""
    command = [sys.executable, str(SCRIPT), str(folder), str(out), *(["--slow-writes"] if slow else []), *settings]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def finish(folder: Path, out: Path, settings: list[str]) -> float:
    """Run to the end; the seconds it takes."""
    process, began = start(folder, out, settings), time.monotonic()
    _, errors = process.communicate(timeout=300)
    if process.returncode:
        raise SystemExit(f"a run failed:\n{errors.decode()}")
    return time.monotonic() - began


def kill_in_write(process: subprocess.Popen[bytes], out: Path, generator: random.Random) -> str:
    """Wait until a folder is being written, then for a random part of what that takes, then kill."""
    while process.poll() is None and not any(out.glob("*.new")):
        time.sleep(0.001)
    time.sleep(generator.uniform(0, 0.08))
    return kill(process, out)


def kill(process: subprocess.Popen[bytes], out: Path) -> str:
    process.send_signal(signal.SIGKILL)
    _, errors = process.communicate()
    if process.returncode not in (0, -signal.SIGKILL):
        raise SystemExit(f"a resume failed:\n{errors.decode()}")
    if process.returncode == 0:
        return "finished"
    return "in a write" if any(out.glob("*.new")) else "between writes"


def check_equal(one: Path, two: Path) -> None:
    """Every tensor, the state, and the reader that was kept are the same in both runs."""
    for name in ("last/tensors.safetensors", "best/weights.safetensors"):
        a, b = load_file(one / name), load_file(two / name)
        if a.keys() != b.keys() or not all(a[key].equal(b[key]) for key in a):
            raise SystemExit(f"{name} differs: {two}")
    states = [json.loads((out / "last" / "state.json").read_text()) for out in (one, two)]
    if states[0] != states[1]:
        raise SystemExit(f"the state differs: {states}")


def torture(folder: Path, stage: str, kills: int, generator: random.Random, in_write: bool) -> dict[str, int]:
    """Runs killed so often in all, resumed each time and finished; what the kills hit."""
    settings, whole = STAGES[stage], folder / f"{stage}-whole"
    name = f"{stage}-{'write' if in_write else 'any'}"
    seconds = finish(folder, whole, settings)
    hits: dict[str, int] = {"in a write": 0, "between writes": 0, "finished": 0}
    while hits["in a write"] + hits["between writes"] < kills:
        out = folder / f"{name}-{hits['finished']}"
        process = start(folder, out, settings, slow=in_write)
        time.sleep(generator.uniform(0, seconds))
        hit = kill_in_write(process, out, generator) if in_write else kill(process, out)
        hits[hit] += 1
        if hit == "finished":  # another run takes the kills that are left
            check_equal(whole, out)
    finish(folder, out, settings)
    check_equal(whole, out)
    return hits


def data_folder(parent: Path) -> Path:
    spec = importlib.util.spec_from_file_location("tiny_run", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.write_data(parent)
    return parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    options = parser.parse_args()
    generator = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as temporary:
        folder = data_folder(Path(temporary))
        for stage in options.stages:
            for in_write in (False, True):
                began = time.monotonic()
                hits = torture(folder, stage, options.kills, generator, in_write)
                where = "aimed at checkpoint writes" if in_write else "anywhere"
                print(
                    f"{stage}, {where}: {hits}, weights and state equal; {time.monotonic() - began:.0f} s", flush=True
                )


if __name__ == "__main__":
    main()
