"""The last step of training: confidences are calibrated, the same from Python and from the command line, or it is said
that they are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rmreader.cli import app
from rmreader.core.recipe import save_recipe
from rmreader.readers.folder import find, open_folder
from rmreader.training.trainer import TrainResult, train

EVERYTHING = ("training.holdout=0", "training.schedule=anneal", "training.epochs=1")


@pytest.fixture
def go(tiny: Any) -> Any:
    def run(out: Path, *overrides: str, resume: bool = False) -> TrainResult:
        files = tiny.folder / "train.json", tiny.folder / "dev.json"
        return train(tiny.recipe(*overrides), *files, out, resume, "cpu", cache_dir=tiny.folder)

    return run


def about(result: TrainResult) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads((result.best / "reader.json").read_text(encoding="utf-8"))
    return tree


def test_training_from_python_is_training_from_the_command_line(tiny: Any, go: Any, tmp_path: Path) -> None:
    ours = about(go(tmp_path / "python"))
    save_recipe(tiny.recipe(), tmp_path / "recipe.yaml")
    words = ["--train", tiny.folder / "train.json", "--dev", tiny.folder / "dev.json", "--out", tmp_path / "line"]
    done = CliRunner().invoke(app, ["train", str(tmp_path / "recipe.yaml"), *map(str, words), "--device", "cpu"])
    assert done.exit_code == 0, done.output
    theirs = json.loads((tmp_path / "line" / "best" / "reader.json").read_text(encoding="utf-8"))
    assert ours["calibration"]["questions"] == 10  # of the one article that is held out
    assert ours["temperature"] != 1
    for key in ("temperature", "calibration", "scores"):
        assert ours[key] == theirs[key]
    assert ours["checksums"]["weights.safetensors"] == theirs["checksums"]["weights.safetensors"]


def test_a_finished_run_that_is_resumed_keeps_its_calibration(go: Any, tmp_path: Path) -> None:
    manifest = go(tmp_path / "run").best / "reader.json"
    changed = json.loads(manifest.read_text()) | {"temperature": 0.25}  # as a person may have fitted it meanwhile
    manifest.write_text(json.dumps(changed))
    assert about(go(tmp_path / "run", resume=True)) == changed


def test_a_run_that_was_killed_before_its_last_step_is_calibrated_by_the_next(go: Any, tmp_path: Path) -> None:
    whole = about(go(tmp_path / "run"))
    manifest = tmp_path / "run" / "best" / "reader.json"
    early = {key: value for key, value in whole.items() if key != "calibration"} | {"temperature": 1.0}
    manifest.write_text(json.dumps(early))
    again = about(go(tmp_path / "run", resume=True))
    assert (again["temperature"], again["calibration"]) == (whole["temperature"], whole["calibration"])


def test_without_held_out_articles_the_temperature_is_inherited_and_that_is_said(
    go: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = about(go(tmp_path / "first"))
    capsys.readouterr()
    second = about(go(tmp_path / "second", f"training.init={tmp_path / 'first'}", *EVERYTHING))
    assert second["temperature"] == first["temperature"] != 1
    assert "calibration" not in second
    said = capsys.readouterr().err
    assert f"as sure as training.init={tmp_path / 'first'}, temperature {first['temperature']:.3f}" in said
    (tmp_path / "first").rename(tmp_path / "gone")  # a run remembers what it inherited
    overrides = f"training.init={tmp_path / 'first'}", *EVERYTHING
    assert about(go(tmp_path / "second", *overrides, resume=True))["temperature"] == first["temperature"]


def test_confidences_that_nothing_was_fitted_on_are_said_to_be_so(
    go: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert about(go(tmp_path / "run", *EVERYTHING))["temperature"] == 1
    assert "confidences are not calibrated, since no articles are held out" in capsys.readouterr().err


def test_a_shipped_reader_is_started_from_by_its_name(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    from rmreader.core.recipe import load_recipe
    from rmreader.training.prepare import prepare
    from rmreader.training.reader_folder import read_weights

    monkeypatch.chdir(tmp_path)
    words = ["training.init=small", "training.teacher=", "training.shared_norm=false"]
    words += [*EVERYTHING, "training.precision=fp32"]
    recipe = load_recipe(find("small") / "recipe.yaml", words)
    setup = prepare(recipe, tiny.folder / "train.json", None, tmp_path / "run", False, "cpu", tiny.folder)
    reader = open_folder("small")
    weights = read_weights(reader)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in setup.network.state_dict().items())
    assert setup.lexicon.fingerprint == reader.lexicon.fingerprint
    assert setup.temperature == reader.temperature
    prepare(recipe, tiny.folder / "train.json", None, tmp_path / "run", True, "cpu", tiny.folder)  # knows it again


def test_a_start_that_is_not_there_is_told_what_there_could_be(go: Any, tmp_path: Path) -> None:
    from rmreader.core.errors import UserError

    with pytest.raises(UserError, match=r"training\.init=smal: no such reader or run; give a run's or a reader's"):
        go(tmp_path / "run", "training.init=smal")
    assert not (tmp_path / "run").exists()


def test_a_warm_up_longer_than_the_run_is_said(go: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    go(tmp_path / "run", "training.warmup=500", "training.epochs=1")
    assert "training.warmup=500: the run has 6 steps" in capsys.readouterr().err
