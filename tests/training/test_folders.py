"""What is in a run's folder is never lost, mixed up or passed over in silence."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.processes import started

from rmreader.core.errors import UserError
from rmreader.core.recipe import save_recipe
from rmreader.training.log import read_log
from rmreader.training.run_folder import alone
from rmreader.training.trainer import TrainResult, train

pytestmark = pytest.mark.usefixtures("warm")


@pytest.fixture
def go(tiny: Any, tmp_path: Path) -> Any:
    def run(*overrides: str, data: str = "train.json", dev: str | None = None, **more: Any) -> TrainResult:
        recipe = tiny.recipe("training.epochs=1", *overrides)
        dev_path = None if dev is None else tiny.folder / dev
        return train(
            recipe, tiny.folder / data, dev_path, tmp_path / "out", device="cpu", cache_dir=tiny.folder, **more
        )

    return run


def manifest(result: TrainResult) -> dict[str, Any]:
    about: dict[str, Any] = json.loads((result.best / "reader.json").read_text(encoding="utf-8"))
    return about


def test_two_trainings_do_not_share_a_folder(go: Any, tmp_path: Path) -> None:
    with alone(tmp_path / "out"), pytest.raises(UserError, match="another process"):
        go()
    assert not (tmp_path / "out").exists()  # nothing was written, so nothing is left
    go()
    go(resume=True)


def test_resuming_what_has_ended_leaves_the_reader_as_it_is(go: Any) -> None:
    first = go(dev="dev.json")
    changed = manifest(first) | {"temperature": 0.3, "calibration": {"questions": 9}}
    (first.best / "reader.json").write_text(json.dumps(changed), encoding="utf-8")
    again = go(dev="dev.json", resume=True)
    assert again.dev == first.dev
    assert manifest(again) == changed
    events = [event["event"] for event in read_log(first.best.parent / "log.jsonl")]
    assert events.count("end") == 1
    assert events[-1] == "end"


def test_a_run_without_dev_has_an_end_too(go: Any) -> None:
    last = read_log(go().best.parent / "log.jsonl")[-1]
    assert last["event"] == "end"
    assert "dev" not in last["scores"]


def test_a_lost_reader_is_made_again_from_the_checkpoint_or_told_of(
    go: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = go("training.holdout=0", "training.schedule=anneal").best / "weights.safetensors"
    before = weights.read_bytes()
    shutil.rmtree(tmp_path / "out" / "best")
    go("training.holdout=0", "training.schedule=anneal", resume=True)
    assert weights.read_bytes() == before
    assert "made again from last/" in capsys.readouterr().err


def test_without_run_nothing_is_resumed(go: Any, tmp_path: Path) -> None:
    go()
    shutil.rmtree(tmp_path / "out" / "run")
    with pytest.raises(UserError, match="holds last/ and best/ but not run/"):
        go(resume=True)


def test_a_network_that_cannot_be_made_leaves_no_run_behind(go: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        go("training.init=/nowhere")
    assert not (tmp_path / "out").exists()


def test_a_log_that_is_none_is_named_with_its_line(go: Any, tmp_path: Path) -> None:
    go()
    log = tmp_path / "out" / "log.jsonl"
    log.write_text(log.read_text(encoding="utf-8") + "no event\n", encoding="utf-8")
    count = len(log.read_text(encoding="utf-8").splitlines())
    with pytest.raises(UserError, match=rf"log.jsonl: line {count} "):
        go(resume=True)


@pytest.mark.parametrize("line", ["[]", "{}", '{"step": "5"}', '{"step": 5.5}', '{"step": null}'])
def test_a_line_whose_step_is_no_number_of_steps_is_no_event(tmp_path: Path, line: str) -> None:
    (tmp_path / "log.jsonl").write_text(f'{{"step": 4}}\n{line}\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"log\.jsonl: line 2 is not an event of a run"):
        read_log(tmp_path / "log.jsonl")


def test_rows_that_are_left_out_are_named(
    tiny: Any, go: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads((tiny.folder / "train.json").read_text(encoding="utf-8"))
    data["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]["answer_start"] = 10**6
    (tiny.folder / "spoiled.json").write_text(json.dumps(data), encoding="utf-8")
    go(data="spoiled.json")
    assert "skipped: " in capsys.readouterr().err
    (tiny.folder / "none.json").write_text('{"data": []}', encoding="utf-8")
    with pytest.raises(UserError, match=r"none.json: has no question"):
        go(dev="none.json", resume=True)


def test_no_number_in_the_log_is_none_of_json(go: Any, tmp_path: Path) -> None:
    go()

    def refuse(name: str) -> None:
        raise AssertionError(name)

    for line in (tmp_path / "out" / "log.jsonl").read_text(encoding="utf-8").splitlines():
        json.loads(line, parse_constant=refuse)


@pytest.mark.parametrize("device", ["meta", "mps", "nonsense"])
def test_devices_that_cannot_train_are_refused(tiny: Any, tmp_path: Path, device: str) -> None:
    with pytest.raises(UserError, match="take cpu, cuda"):
        train(tiny.recipe(), tiny.folder / "train.json", None, tmp_path / "out", device=device)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with the one that started it")
def test_a_member_whose_starter_is_gone_before_it_can_look_begins_nothing(tiny: Any, tmp_path: Path) -> None:
    save_recipe(tiny.recipe(), tmp_path / "recipe.yaml")
    with started([sys.executable, "-c", ""]) as gone:
        assert gone.wait(60) == 0
    words = ["train", tmp_path / "recipe.yaml", "--train", tiny.folder / "train.json", "--out", tmp_path / "out"]
    command = [sys.executable, "-m", "rmreader", *map(str, words), "--device", "cpu", "--parent", str(gone.pid)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == -signal.SIGTERM
    assert not (tmp_path / "out").exists()
