"""Several trainings at once: each is what it would have been alone, and one failure leaves the
others be."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from support.processes import started
from typer.testing import CliRunner

from lab.cli import app
from lab.members import Member, Outcome, seeds, train_members, variants
from rmreader.core.errors import UserError
from rmreader.core.recipe import save_recipe
from rmreader.kernels.gpu_share import SHARE, ShareError, wrong_product
from rmreader.training.log import read_log
from rmreader.training.trainer import train

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.usefixtures("warm")


@pytest.fixture
def run_members(tiny: Any, tmp_path: Path) -> Any:
    recipe = tiny.recipe("training.epochs=1")
    save_recipe(recipe, tmp_path / "recipe.yaml")
    options = [
        "--train",
        str(tiny.folder / "train.json"),
        "--dev",
        str(tiny.folder / "dev.json"),
        "--device",
        "cpu",
    ]

    def run(members: list[Member], **more: Any) -> list[Outcome]:
        return train_members(
            tmp_path / "recipe.yaml", recipe, members, options, tmp_path / "out", **more
        )

    return run


def test_members_side_by_side_are_the_lone_runs(
    tiny: Any, run_members: Any, tmp_path: Path
) -> None:
    outcomes = run_members(seeds(2))
    assert [(outcome.name, outcome.status) for outcome in outcomes] == [
        ("seed-1", 0),
        ("seed-2", 0),
    ], outcomes
    assert all("dev" in outcome.scores for outcome in outcomes)
    recipe = tiny.recipe("training.epochs=1", "training.seed=2")
    alone = train(
        recipe,
        tiny.folder / "train.json",
        None,
        tmp_path / "alone",
        device="cpu",
        cache_dir=tiny.folder,
    )
    together = tmp_path / "out" / "seed-2" / "best" / "weights.safetensors"
    assert together.read_bytes() == (alone.best / "weights.safetensors").read_bytes()


def test_a_member_that_fails_says_why_and_stops_nobody(run_members: Any) -> None:
    members = [Member("none", ("network.blocks=0",)), Member("good", ())]
    none, good = run_members(members, at_once=1)
    assert none.status == 1
    assert "blocks must be at least 1; it is 0" in none.problem
    assert good.status == 0


def test_variants_are_run_with_every_seed() -> None:
    made = variants(["dot:network.attention=dot", "deep: network.blocks=4, network.hidden=50"], 2)
    assert [member.name for member in made] == [
        "dot-seed-1",
        "dot-seed-2",
        "deep-seed-1",
        "deep-seed-2",
    ]
    assert made[3].overrides == ("network.blocks=4", "network.hidden=50", "training.seed=2")
    listed = variants(["slow:training.betas=[0.9, 0.99],training.rate=1e-4"], 1)
    assert listed[0].overrides == (
        "training.betas=[0.9, 0.99]",
        "training.rate=1e-4",
        "training.seed=1",
    )
    with pytest.raises(UserError, match=r"training\.seed"):
        variants(["a:training.seed=9"], 1)
    for bad in (
        "network.blocks=2",
        "../out:network.blocks=2",
        "[red]:network.blocks=2",
        ":network.blocks=2",
    ):
        with pytest.raises(UserError, match="NAME:KEY=VALUE"):
            variants([bad], 1)


def test_two_members_of_one_name_are_refused(run_members: Any) -> None:
    with pytest.raises(UserError, match="same name"):
        run_members([Member("a", ()), Member("a", ())])


def test_a_member_whose_share_of_the_gpu_is_faulty_begins_again_without(
    run_members: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place of the training stands a program that fails as one would; no GPU is needed."""
    seen = tmp_path / "seen"
    program = tmp_path / "python"
    program.write_text(
        f'#!/bin/sh\necho "${SHARE}" >> {seen}\n[ "${SHARE}" != 40 ] || exit {ShareError.status}\n',
        encoding="utf-8",
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.delenv(SHARE, raising=False)
    assert [outcome.status for outcome in run_members(seeds(1), share=40)] == [0]
    assert seen.read_text(encoding="utf-8").split("\n") == ["40", "", ""]
    seen.unlink()
    run_members(seeds(8))  # so many have a share without asking, and fewer none
    run_members(seeds(8), at_once=7)
    assert seen.read_text(encoding="utf-8").split("\n") == ["12"] * 8 + [""] * 9


def test_a_product_that_is_wrong_in_one_place_is_found() -> None:
    device = torch.device("cpu")
    assert wrong_product(2, 4, device) is None
    for spoiled in (9.0, float("nan")):

        def multiply(a: torch.Tensor, b: torch.Tensor, spoiled: float = spoiled) -> torch.Tensor:
            product = a @ b
            if list(a.shape) == [64, 8]:
                product[-1, -1] += spoiled * product.abs().max()
            return product

        assert wrong_product(2, 4, device, multiply) == "[64, 8] by [8, 4]"


def test_a_member_begins_when_the_one_it_starts_from_is_done(
    run_members: Any, tmp_path: Path
) -> None:
    start = f"training.init={tmp_path / 'out' / 'a' / 'best'}"
    members = [
        Member("b", (start,), "a"),
        Member("a", ()),
        Member("d", (), "c"),
        Member("c", ("network.blocks=0",)),
    ]
    outcomes = {outcome.name: outcome for outcome in run_members(members)}
    assert {name: outcome.status for name, outcome in outcomes.items() if name != "c"} == {
        "a": 0,
        "b": 0,
    }
    assert outcomes["c"].status != 0  # so that d never begins
    begun = {name: (tmp_path / "out" / name / "run" / "run.json").stat().st_mtime for name in "ab"}
    assert (tmp_path / "out" / "a" / "log.jsonl").stat().st_mtime <= begun["b"]


def test_when_time_is_up_members_leave_a_checkpoint_and_go_on_later(
    run_members: Any, tmp_path: Path
) -> None:
    (outcome,) = run_members([Member("a", ())])
    endless = [Member("b", ("training.epochs=9999", "training.schedule=constant")), Member("c", ())]
    outcomes = run_members(endless, at_once=1, until=time.monotonic() + 1.5 * outcome.seconds)
    assert outcomes == []  # c was not reached
    assert (tmp_path / "out" / "b" / "last").is_dir()
    assert not (tmp_path / "out" / "c").exists()


def test_what_is_no_engine_is_refused(run_members: Any) -> None:
    with pytest.raises(UserError, match="not a known engine; give ray, or ray://HOST:PORT"):
        run_members(seeds(1), on="a cluster")


def test_members_on_ray_are_the_local_ones_and_resume(
    tiny: Any, run_members: Any, tmp_path: Path
) -> None:
    """A task's worker is killed once: its member is begun again and ends as if nothing had been."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'rmreader[ray]'")
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        lost: list[int] = []
        killer = threading.Thread(
            target=kill_the_worker_of, args=(tmp_path / "out" / "seed-1", lost), daemon=True
        )
        killer.start()
        outcomes = run_members([*seeds(2), Member("none", ("network.blocks=0",))], on="ray")
        killer.join()
    finally:
        ray.shutdown()
    assert lost
    assert [(outcome.name, outcome.status) for outcome in outcomes] == [
        ("seed-1", 0),
        ("seed-2", 0),
        ("none", 1),
    ]
    assert "blocks must be at least 1; it is 0" in outcomes[2].problem
    for seed in (1, 2):
        recipe = tiny.recipe("training.epochs=1", f"training.seed={seed}")
        out = tmp_path / f"alone-{seed}"
        alone = train(
            recipe, tiny.folder / "train.json", None, out, device="cpu", cache_dir=tiny.folder
        )
        there = tmp_path / "out" / f"seed-{seed}" / "best" / "weights.safetensors"
        assert there.read_bytes() == (alone.best / "weights.safetensors").read_bytes()


def kill_the_worker_of(out: Path, lost: list[int]) -> None:
    """Kill the process that started a member, as soon as the member has begun."""
    end = time.monotonic() + 300
    while not (out / "run").exists() and time.monotonic() < end:
        time.sleep(0.01)
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = status.read_bytes().split(b"\0")
            if b"train" in words and str(out).encode() in words:
                lost.append(int(words[words.index(b"--parent") + 1]))
                os.kill(lost[0], signal.SIGKILL)
                return


@pytest.fixture
def members(tiny: Any, tmp_path: Path) -> Iterator[Any]:
    """Starts `python -m lab members` on trainings without end, and comes back once each is
    learning."""
    save_recipe(
        tiny.recipe("training.epochs=100000", "training.patience=100000"), tmp_path / "recipe.yaml"
    )
    words = [
        "members",
        str(tmp_path / "recipe.yaml"),
        "--out",
        str(tmp_path / "out"),
        "--device",
        "cpu",
    ]
    words += ["--train", str(tiny.folder / "train.json"), "--dev", str(tiny.folder / "dev.json")]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
    }  # tests run side by side, and threads that wait spin
    stack = contextlib.ExitStack()

    def start(seeds: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "lab", *words, "--seeds", str(seeds)]
        options = {"env": environment, "cwd": ROOT, "stderr": subprocess.DEVNULL}
        process = stack.enter_context(started(command, **options))
        logs = [tmp_path / "out" / f"seed-{seed}" / "log.jsonl" for seed in range(1, seeds + 1)]
        deadline = time.monotonic() + 180
        while not all(log.exists() and read_log(log) for log in logs):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        return process

    with stack:
        yield start


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_terminating_all_terminates_each_member(
    members: Any, tmp_path: Path, number: signal.Signals
) -> None:
    process = members(1)
    process.send_signal(number)
    assert process.wait(60) == 130
    console = tmp_path / "out" / "seed-1" / "console.log"
    assert "stopped after step" in console.read_text(encoding="utf-8")  # the member too


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux ends a process with the one that started it"
)
def test_members_do_not_outlive_the_process_that_started_them(
    members: Any, tmp_path: Path, still_there: Any
) -> None:
    process = members(2)
    trainings = psutil.Process(process.pid).children()
    assert len(trainings) == 2
    process.kill()  # which it can pass on to nobody
    process.wait(60)
    assert not still_there(trainings)
    for seed in (1, 2):
        console = tmp_path / "out" / f"seed-{seed}" / "console.log"
        assert "stopped after step" in console.read_text(
            encoding="utf-8"
        )  # in order, with a checkpoint


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["good.yaml", "training.seed=7"], "training.seed: members have the seeds 1, 2, 3"),
        (["halve.yaml", "training.holdout=0"], "holdout"),
        (["good.yaml", "training.init=nowhere"], "training.init=nowhere: no such reader or run"),
    ],
)
def test_a_mistake_is_told_before_a_member_starts(
    words: list[str], sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "good.yaml").write_text("network: {blocks: 2}\n")
    (tmp_path / "halve.yaml").write_text("training: {schedule: halve}\n")
    recipe = str(tmp_path / words[0])
    options = ["--train", "t", "--dev", "d", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, ["members", recipe, *words[1:], *options])
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")
    assert sentence in done.stderr
    assert not (tmp_path / "out").exists()
