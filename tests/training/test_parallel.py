"""Several processes under torchrun are one training: equal to each other, and to one process with the whole batch."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from support.processes import started

from rmreader.core.errors import UserError
from rmreader.training.parallel import World
from rmreader.training.parts import Part
from rmreader.training.trainer import Run

pytestmark = pytest.mark.usefixtures("warm")

ROOT = Path(__file__).parents[2]
STEPS = int(os.environ.get("RMREADER_STEPS", "9"))  # of the comparison with one process; 200 were run for the log
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}


def start(*words: object, together: bool = True) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    command = TORCHRUN if together else [sys.executable, "-m"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return started([*command, *words], env=ENVIRONMENT, **pipes)


def finished(*words: object, together: bool = True) -> str:
    """What a run said that ended well."""
    with start(*words, together=together) as process:
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return str(out + err)


def learned(out: Path, rank: int) -> dict[str, torch.Tensor]:
    return load_file(out.parent / f"{out.name}-ranks" / f"{rank}.safetensors")


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


@given(st.lists(st.integers(1, 3), min_size=1, max_size=20), st.integers(1, 7), st.booleans())
def test_every_row_is_in_one_part_and_a_group_in_one_too(sizes: list[int], size: int, grouped: bool) -> None:
    groups = np.repeat(np.random.default_rng(len(sizes)).permutation(len(sizes)), sizes)
    index = np.arange(len(groups))
    parts = [Part(rank, size).rows(index, groups if grouped else None) for rank in range(size)]
    assert np.concatenate(parts).tolist() == index.tolist()
    if grouped:
        seen = [set(groups[part].tolist()) for part in parts]
        assert sum(map(len, seen)) == len(sizes)
    else:
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("objective", ["ml", "dcrl"])
def test_the_parts_of_a_batch_add_up_to_its_step(tiny: Any, tmp_path: Path, objective: str) -> None:
    """Uneven parts, too; sampled answers are others in other rows, so reinforcement is only held to be finite."""
    runs = [Run(tiny.setup(tmp_path / name, "network.dropout=0", f"training.objective={objective}")) for name in "ab"]
    whole, parted = (run.learner for run in runs)
    index = runs[0].buckets.epoch(0)[0]
    batches = runs[0].setup.train.batches([index, index[:3], index[3:]])
    filled = [runs[0].setup.train.fill(batch) for _, batch in batches]
    whole.set_place(0, 10, 0)
    expected = whole.step(filled[0])["measures"]
    vector = torch.zeros(())
    for batch in filled[1:]:
        parted.set_place(0, 10, 0, len(batch.question) / len(index))
        vector = vector + parted.gradients(batch)["vector"]
    measures = parted.update(vector)["measures"]
    if objective == "dcrl":
        assert measures.isfinite().all()
        return
    torch.testing.assert_close(measures, expected, rtol=1e-5, atol=1e-6)
    for name, moment in whole.tensors().items():
        if name.endswith("exp_avg"):
            torch.testing.assert_close(moment, parted.tensors()[name], rtol=1e-3, atol=1e-6, msg=name)


def test_a_part_that_is_not_finite_makes_the_step_of_all_a_bad_one(tiny: Any, tmp_path: Path) -> None:
    run = Run(tiny.setup(tmp_path / "run"))
    ((_, batch),) = run.setup.train.batches([run.buckets.epoch(0)[0]])
    run.learner.set_place(0, 10, 0, 0.5)
    good = run.learner.gradients(run.setup.train.fill(batch))["vector"]
    before = {name: tensor.clone() for name, tensor in run.learner.network.state_dict().items()}
    for broken in (torch.nan, torch.inf):
        other = good.clone()
        other[7] = broken
        assert run.learner.update(good + other)["measures"][0] == 1
    assert equal(before, dict(run.learner.network.state_dict()))
    assert run.learner.update(good + good)["measures"][0] == 0
    assert not equal(before, dict(run.learner.network.state_dict()))


def test_two_processes_are_equal_and_learn_what_one_does(tiny: Any, tmp_path: Path) -> None:
    """Without dropout, whose masks are each process's own, and in 64 bits: see ``support.ranks``."""
    settings = ("--double", "network.dropout=0", f"training.epochs={STEPS / 6}", "training.evaluate_every=1000")
    finished("support.ranks", tiny.folder, tmp_path / "one", *settings, together=False)
    said = finished("support.ranks", tiny.folder, tmp_path / "two", *settings)
    assert said.count("this seldom pays") == said.count("questions of dev.") == 1  # one of them speaks
    one, first, second = learned(tmp_path / "one", 0), learned(tmp_path / "two", 0), learned(tmp_path / "two", 1)
    assert equal(first, second)
    assert json.loads((tmp_path / "two" / "last" / "state.json").read_text())["step"] == STEPS
    distances = {name: (one[name] - first[name]).abs().max().item() for name in one}
    print(f"{STEPS} steps: at most {max(distances.values()):.1e} from one process")
    assert max(distances.values()) <= 1e-6
    assert equal(first, load_file(tmp_path / "two" / "last" / "tensors.safetensors"))


def test_one_process_that_reads_in_two_parts_ends_where_two_processes_do(tiny: Any, tmp_path: Path) -> None:
    """In 32 bits and with dropout: a part's gradient and its random numbers do not depend on who computes it."""
    settings = ("training.parts=2", "training.ema=0.99", f"training.epochs={STEPS / 6}", "training.evaluate_every=1000")
    finished("support.ranks", tiny.folder, tmp_path / "one", *settings, together=False)
    finished("support.ranks", tiny.folder, tmp_path / "two", *settings)
    assert equal(learned(tmp_path / "one", 0), learned(tmp_path / "two", 0))
    whole = ("training.parts=1", *settings[1:])
    finished("support.ranks", tiny.folder, tmp_path / "whole", *whole, together=False)
    assert not equal(learned(tmp_path / "one", 0), learned(tmp_path / "whole", 0))  # other masks


def test_parts_that_the_processes_cannot_share_are_refused() -> None:
    device = torch.device("cpu")
    assert World(1, 2, device).parts(6) == [Part(3, 6), Part(4, 6), Part(5, 6)]
    assert World(1, 2, device).parts(1) == [Part(1, 2)]
    with pytest.raises(UserError, match=r"training\.parts=3: give a multiple of torchrun's 2 processes"):
        World(0, 2, device).parts(3)


@pytest.mark.parametrize("mode", ["frozen", "tuned"])
def test_encoders_and_dropout(tiny: Any, bert: Path, tmp_path: Path, mode: str) -> None:
    settings = (f"inputs.contextual={bert}", f"inputs.contextual_mode={mode}", "training.epochs=1")
    finished("support.ranks", tiny.folder, tmp_path / "two", *settings)
    first, second = (learned(tmp_path / "two", rank) for rank in (0, 1))
    assert equal(first, second)
    assert any(name.startswith("network.contextual.") for name in first) == (mode == "tuned")


def test_one_that_is_killed_ends_all_and_they_resume_to_the_same_bits(tiny: Any, tmp_path: Path) -> None:
    settings = ("training.epochs=6", "training.evaluate_every=2")
    finished("support.ranks", tiny.folder, tmp_path / "whole", *settings)
    out = tmp_path / "killed"
    with start("support.ranks", tiny.folder, out, *settings, "--slow") as process:
        wait_for(out / "last")
        os.kill(int((tmp_path / "killed-ranks" / "1.pid").read_text()), signal.SIGKILL)
        _, err = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "another process of this training has ended or cannot be reached" in err
    assert not (tmp_path / "killed-ranks" / "0.safetensors").exists()
    finished("support.ranks", tiny.folder, out, *settings, "--resume")
    for rank in (0, 1):
        assert equal(learned(out, rank), learned(tmp_path / "whole", 0))


def test_asked_to_stop_all_stop_after_the_same_step_and_the_command_goes_on(tiny: Any, tmp_path: Path) -> None:
    """By the command itself, which prints one result."""
    out, recipe = tmp_path / "run", tmp_path / "recipe.yaml"
    tree = {"inputs": {"vectors": str(tiny.folder / "vectors.txt")}, "network": {"hidden": 8}}
    recipe.write_text(json.dumps(tree | {"training": {"batch_size": 8, "holdout": 0.2, "epochs": 400}}))
    words = ["rmreader", "train", recipe, "--train", tiny.folder / "train.json", "--out", out, "--device", "cpu"]
    with start(*words) as process:
        wait_for(out / "last")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)
    assert process.returncode != 0
    assert err.count("add --resume to go on") == 1
    with start(*words[:3], "training.epochs=3", *words[3:], "--resume", "--json") as again:
        out_, err = again.communicate(timeout=120)
    assert again.returncode != 0
    assert err.count("the run was started with another recipe: training.epochs") == 1
    assert not out_


def wait_for(path: Path, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.02)
