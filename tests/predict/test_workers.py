"""Processes side by side: any of them may be killed at any moment, and no answer is lost or there twice."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest
from support.processes import started
from support.questions import Deadly, write_questions

from rmreader.core.errors import UserError
from rmreader.predict.job import PredictJob
from rmreader.predict.rows import read_rows
from rmreader.predict.shards import make_plan, plan_facts
from rmreader.predict.workers import answer_here

Run = Callable[..., subprocess.CompletedProcess[str]]
KILLS = int(os.environ.get("RMREADER_KILLS", "3"))
"""How often the whole is killed; 20 before a release."""


def children() -> list[psutil.Process]:
    found = psutil.Process().children()
    return [one for one in found if "spawn_main" in " ".join(one.cmdline()) and one.status() != psutil.STATUS_ZOMBIE]


def test_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    data = write_questions(tmp_path / "data.jsonl", 400)
    job = PredictJob.of("small")
    plan = make_plan(tmp_path / "parts", plan_facts(data, job, 20), read_rows(data))
    made = answer_here(plan, job, plan.missing(), 2)
    done = [next(made), next(made)]
    workers = children()
    assert len(workers) == 2
    for worker in workers:
        worker.kill()
    assert sorted([*done, *made]) == list(range(20))
    assert not {worker.pid for worker in children()}
    expected = b"".join(job.answer_lines(plan.content(index)) for index in range(20))
    assert b"".join(plan.read_part(index) for index in range(20)) == expected


def test_a_shard_that_ends_every_process_is_named(tmp_path: Path) -> None:
    data = write_questions(tmp_path / "data.jsonl", 9)
    job = Deadly.of("small")
    plan = make_plan(tmp_path / "parts", plan_facts(data, job, 3), read_rows(data))
    with pytest.raises(UserError, match="shard 0: the process that read it ended with status 9, 3 times"):
        list(answer_here(plan, job, [0, 1, 2], 2))
    assert 0 in plan.missing()
    assert children() == []


def test_what_is_wrong_in_a_worker_is_said_here(tmp_path: Path) -> None:
    data = write_questions(tmp_path / "data.jsonl", 4)
    stranger = PredictJob(("small",), "0" * 64)
    plan = make_plan(tmp_path / "parts", plan_facts(data, stranger, 2), read_rows(data))
    with pytest.raises(UserError, match="another reader"):
        list(answer_here(plan, stranger, [0, 1], 2))
    (tmp_path / "parts" / "rows.jsonl").unlink()
    with pytest.raises(UserError, match=r"rows\.jsonl: No such file"):
        list(answer_here(plan, PredictJob.of("small"), [0, 1], 2))


@pytest.mark.slow
def test_killed_at_random_moments_it_goes_on_and_loses_nothing(
    tmp_path: Path, rmreader: Run, still_there: Callable[[Sequence[psutil.Process]], list[psutil.Process]]
) -> None:
    data, out, chance = write_questions(tmp_path / "data.jsonl", 1600), tmp_path / "out.jsonl", random.Random(5)
    rmreader("predict", data, "-o", tmp_path / "one.jsonl")
    words = [sys.executable, "-m", "rmreader", "predict", str(data), "-o", str(out), "--workers", "2", "--resume"]
    began = time.monotonic()
    subprocess.run(words, check=True, capture_output=True)
    seconds, kills, finished = time.monotonic() - began, 0, 0
    moments: list[str] = []
    while True:
        if out.exists() and not out.with_name("out.jsonl.parts").exists():
            finished += 1
            assert out.read_bytes() == (tmp_path / "one.jsonl").read_bytes()
            out.unlink()
            if kills >= KILLS:
                break
        with started(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            if kills < KILLS:
                time.sleep(chance.uniform(0, seconds))
                theirs = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
                if process.poll() is None:
                    process.kill()
                    kills += 1
                    parts = len(list(tmp_path.glob("out.jsonl.parts/part-*")))
                    plan = (tmp_path / "out.jsonl.parts/plan.json").exists()
                    moments.append(f"{parts} parts" if plan else "no plan")
                process.wait()
                assert still_there(theirs) == []
            else:
                assert process.wait() == 0, process.stderr.read() if process.stderr else ""
    print(f"{kills} kills, {finished} times finished; killed at: {', '.join(moments)}")
