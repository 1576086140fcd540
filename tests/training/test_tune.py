"""Tuning: a reader learns from somebody's own examples by one command."""

from __future__ import annotations

import csv
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rmreader.cli import app
from rmreader.core import console
from rmreader.core.errors import UserError
from rmreader.core.recipe import load_recipe
from rmreader.data.encode import encode_file
from rmreader.data.examples import read_data, read_examples
from rmreader.readers.folder import find, open_folder
from rmreader.readers.write import update
from rmreader.reading.evaluate import evaluate
from rmreader.reading.reader import Reader
from rmreader.reading.rows import rows_of
from rmreader.scoring.squad import Score
from rmreader.training.trainer import train
from rmreader.training.tune import (
    Change,
    _own_rows,
    _score,
    _warn_of_lost_refusals,
    settings_for,
    tune,
)
from rmreader.training.tuning_data import ORDINARY, mix, ordinary_questions

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


def test_a_question_of_thousands_of_words_is_left_out_with_a_remark(tmp_path: Path) -> None:
    path = examples(tmp_path / "mine.csv", 12, 1)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{'who ' * 20_000}slept?,Ada slept.,Ada\n{'who ' * 450}slept?,Ada slept.,Ada\n")
    found = read_examples(path)
    assert len(found.rows) == 13
    (problem,) = found.problems
    assert "its question has 20,002 words, at most 500 can be learned from" in str(problem)


def test_examples_are_mixed_with_questions_that_are_not_answered(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    rows = []
    for k, (who, what) in enumerate(zip(PEOPLE, ("clock", "map", "lamp", "boat", "kite") * 2, strict=True)):
        passage = f"{who} made a {what} in room {k}. It was raining all day long. Nobody else came in before noon."
        rows.append({"question": f"Who made the {what} of room {k}?", "passage": passage, "answer": who})
    rows.append({"question": "Who sang?", "passage": "Ada slept. Nobody sang.", "is_impossible": True})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    read = read_examples(path, unanswered=True)
    assert len(read.rows) == 11
    assert len(read_examples(path).rows) == 10  # for a reader that cannot refuse
    mixed = mix(read)
    assert mixed.refused > 3
    ordinary = 0
    for article in mixed.articles:
        for paragraph in article.paragraphs:
            for question in paragraph.questions:
                ordinary += question.id.startswith(ORDINARY)
                for answer in question.answers:
                    assert paragraph.context[answer.start :].startswith(answer.text)
                if question.id.endswith("-none"):
                    source = next(one for _, _, one in read.rows if f"{one.id}-none" == question.id)
                    assert question.impossible
                    assert source.answers[0].text not in paragraph.context
    assert ordinary >= 60
    assert mix(read).tree() == mixed.tree()


def test_a_question_that_many_examples_ask_is_put_beside_no_other_passage(tmp_path: Path) -> None:
    read = read_examples(examples(tmp_path / "mine.csv", 20, 1), unanswered=True)
    mixed = mix(read)
    passages = [passage for _, passage, _ in read.rows]
    made = 0
    for article in mixed.articles:
        for paragraph in article.paragraphs:
            for question in paragraph.questions:
                if question.id.endswith("-none"):
                    made += 1
                    assert paragraph.context not in passages  # where it is answered by somebody else
    assert made == mixed.refused


def test_ordinary_questions_to_test_on_are_not_learned_from() -> None:
    learned, tested = ordinary_questions("learn"), ordinary_questions("test")
    contexts = {paragraph.context for article in learned for paragraph in article.paragraphs}
    assert not any(paragraph.context in contexts for article in tested for paragraph in article.paragraphs)
    for articles in (learned, tested):
        questions = [one for article in articles for paragraph in article.paragraphs for one in paragraph.questions]
        none = sum(question.impossible for question in questions)
        assert 0.3 < none / len(questions) < 0.5


@pytest.fixture(scope="module")
def refusing(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader that can say that there is no answer."""
    out = tmp_path_factory.mktemp("refusing")
    settings = tiny.recipe("training.epochs=1", "network.no_answer=true")
    return train(settings, tiny.folder / "train.json", None, out / "run", device="cpu", cache_dir=tiny.folder).best


def test_before_and_after_are_told_for_answered_refused_and_ordinary_questions(
    refusing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, test = examples(tmp_path / "mine.csv", 20, 1), examples(tmp_path / "test.csv", 10, 2)
    done = tune(refusing, data, tmp_path / "mine", test, ["training.epochs=1"], False, "cpu")
    changes = {change.data: change for change in done.changes}
    assert list(changes)[-3:] == ["test.csv", "ordinary questions", "ordinary questions, not answered"]
    for change in done.changes:
        assert change.refused is not None
        assert change.answered != change.data.endswith("not answered")
        if not change.answered:
            assert change.exact_match == change.f1 == change.refused
    assert "do not teach when to refuse" not in capsys.readouterr().err
    own = _own_rows(encode_file(tmp_path / "mine" / "examples.json"))
    assert {row.question for row in own} == {"Who made three maps?", "Who made a red clock?"}
    # "before" is what `rmreader evaluate` says of the same file
    score = evaluate(Reader.load(refusing), read_data(test)).score
    assert isinstance(score, Score)
    assert changes["test.csv"].exact_match[0] == pytest.approx(score.exact_match)
    assert changes["test.csv"].f1[0] == pytest.approx(score.f1)


def test_a_reader_that_refuses_everything_is_scored_on_its_best_guesses(tmp_path: Path) -> None:
    """As `evaluate` has it: where every question is answered, the decision is off."""
    silent = tmp_path / "silent"
    shutil.copytree(find("small"), silent)
    update(silent, no_answer=open_folder(silent).about["no_answer"] | {"threshold": 0.0})
    data = read_data(examples(tmp_path / "test.csv", 10, 2))
    reader = Reader.load(silent)
    scores = _score(rows_of(data), reader)
    assert scores.refused == 100.0
    expected = evaluate(reader, data).score
    assert isinstance(expected, Score)
    assert scores.f1 == pytest.approx(expected.f1)
    assert scores.f1 > 0


def test_a_warning_where_the_examples_cannot_teach_to_refuse(
    refusing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.jsonl"
    row = {"question": "Who made a clock?", "passage": "Ada made a clock.", "answer": "Ada"}
    path.write_text("".join(json.dumps(row | {"id": str(k)}) + "\n" for k in range(12)), encoding="utf-8")
    tune(refusing, path, tmp_path / "mine", None, ["training.epochs=1"], False, "cpu")
    said = capsys.readouterr().err
    assert "these examples do not teach when to refuse; add rows without an answer" in said


def test_lost_refusals_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    def change(before: float, after: float, answered: bool) -> Change:
        return Change("mine", 10, (before, after), (before, after), answered, (before, after))

    _warn_of_lost_refusals([change(80, 74, False), change(80, 20, True), change(60, 58, False)], Path("best"))
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "of mine it refuses 74 %, before it was 80 %" in said


def test_off_a_terminal_training_says_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "BETWEEN_LINES", 0.0)
    with console.progress("training", 40, lines=True) as advance:
        advance(10, "loss 2.0")
    with console.progress("reading", 40) as advance:
        advance(10)
    assert capsys.readouterr().err == "training: 10 of 40 loss 2.0\n"
