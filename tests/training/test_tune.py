"""Tuning: a reader learns from somebody's own examples by one command."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rmreader.cli import app
from rmreader.core.errors import UserError
from rmreader.core.recipe import load_recipe
from rmreader.data.examples import read_examples
from rmreader.reading.reader import Reader
from rmreader.training.trainer import train
from rmreader.training.tune import settings_for, tune

MORE = ["training.patience=6", "training.epochs=40", "training.rate=0.01"]  # for a reader of hidden size 8
PEOPLE = ["Ada", "Grace", "Alan", "Emmy", "Noor", "Kofi", "Mei", "Lars", "Ines", "Olga"]


def examples(path: Path, count: int, seed: int) -> Path:
    """People are to be named with their title here, which nobody did before."""
    generator = random.Random(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "passage", "answer"])
        for k in range(count):
            one, other = generator.sample(PEOPLE, 2)
            passage = f"In room {k}, Doctor {one} made a red clock. In Oslo, Captain {other} made three maps."
            if k % 2:
                writer.writerow(["Who made three maps?", passage, f"Captain {other}"])
            else:
                writer.writerow(["Who made a red clock?", passage, f"Doctor {one}"])
    return path


@pytest.fixture(scope="module")
def start(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("start")
    settings = tiny.recipe("training.epochs=6", "training.patience=100")
    return train(settings, tiny.folder / "train.json", None, out / "run", device="cpu", cache_dir=tiny.folder).best


@pytest.fixture(scope="module")
def tuned(start: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("tuned")
    data, test = examples(folder / "mine.csv", 80, 1), examples(folder / "test.csv", 20, 2)
    words = ["tune", start, "--train", data, "--test", test, "--out", folder / "mine", "--device", "cpu", "--json"]
    return CliRunner().invoke(app, [*map(str, words), *MORE]), folder


def test_one_command_teaches_a_reader_a_new_convention(start: Path, tuned: tuple[Any, Path]) -> None:
    done, folder = tuned
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert (result["examples"], result["best"]) == (80, str(folder / "mine" / "best"))
    held, test = result["changes"]
    assert (held["data"], held["questions"], test["data"], test["questions"]) == (
        "held-out examples",
        16,
        "test.csv",
        20,
    )
    for change in (held, test):
        before, after = change["exact_match"]
        assert before == 0
        assert after >= 80
    reader = Reader.load(folder / "mine" / "best")
    assert reader.ask("Who made three maps?", "In Rome, Captain Mei made three maps.")[0].text == "Captain Mei"
    before, after = (load_recipe(best / "recipe.yaml") for best in (start, folder / "mine" / "best"))
    assert (after.inputs, after.network) == (before.inputs, before.network)


def test_confidences_are_inherited_where_few_examples_are_held_out(start: Path, tuned: tuple[Any, Path]) -> None:
    done, folder = tuned
    assert "16 held-out questions are too few to fit confidences on" in done.stderr
    before, after = (json.loads((f / "reader.json").read_text()) for f in (start, folder / "mine" / "best"))
    assert after["temperature"] == before["temperature"] != 1


def test_a_finished_tuning_says_the_same_again_and_takes_no_other_examples(
    start: Path, tuned: tuple[Any, Path]
) -> None:
    done, folder = tuned
    again = tune(start, folder / "mine.csv", folder / "mine", None, MORE, True, "cpu")
    assert again.changes[0].f1[1] == json.loads(done.stdout)["changes"][0]["f1"][1]
    content = (folder / "mine" / "examples.json").read_bytes()
    with pytest.raises(UserError, match="holds a tuning on other examples"):
        tune(start, examples(folder / "other.csv", 20, 3), folder / "mine", None, (), True, "cpu")
    assert (folder / "mine" / "examples.json").read_bytes() == content
    with pytest.raises(UserError, match="already holds a run; add --resume"):
        tune(start, folder / "mine.csv", folder / "mine", device="cpu")


def test_too_few_examples_are_refused_before_anything_is_made(start: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="9 examples are too few to learn from; give at least 10"):
        tune(start, examples(tmp_path / "few.csv", 9, 1), tmp_path / "mine", device="cpu")
    assert not (tmp_path / "mine").exists()


def test_settings_suit_the_number_of_examples(start: Path) -> None:
    recipe = load_recipe(start / "recipe.yaml")
    for count in (10, 60, 200, 1000, 5000):
        settings = settings_for(count, recipe, 22)
        training = settings["training"]
        steps = training["epochs"] * count * (1 - training["holdout"]) / training["batch_size"]
        assert 40 <= steps <= 1000
        assert training["warmup"] <= 0.15 * steps
        assert settings["decoding"]["max_length"] == 22
    assert settings_for(60, recipe, 3)["decoding"]["max_length"] == recipe.decoding.max_length


def test_what_is_left_out_or_uncertain_is_said(start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = examples(tmp_path / "mine.csv", 12, 1)
    with path.open("a", encoding="utf-8") as file:
        file.write("Who slept?,Ada slept.,Zoe\nWho slept?,Ada slept. Ada sang.,Ada\n")
    assert len(read_examples(path).rows) == 13
    tune(start, path, tmp_path / "mine", None, ["training.epochs=1"], False, "cpu")
    said = capsys.readouterr().err
    assert "skipped: " in said
    assert "row 13: the answer 'Zoe' is not in its passage" in said
    assert "ambiguous: " in said
    assert "row 14: 'Ada' is in its passage several times" in said
