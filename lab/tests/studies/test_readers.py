"""Readers that point: alone as the trainer's own scoring does, together as the mean of their
probabilities."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lab_support.networks import open_network
from typer.testing import CliRunner

from lab.cli import app
from lab.studies.cached import CachedEngine
from lab.studies.readers import load, predictions
from lab.studies.report import Report, save
from lab.studies.scores import study_scores
from rmreader.cli import app as reading
from rmreader.core.errors import UserError
from rmreader.data.encode import encode_file
from rmreader.data.squad import Article, Dataset, Paragraph, Question, read_squad
from rmreader.readers.write import update
from rmreader.reading.engine.engines import EncoderInput
from rmreader.reading.ensemble import Ensemble
from rmreader.reading.evaluate import best_answers as answers
from rmreader.reading.evaluate import evaluate
from rmreader.scoring.squad import normalize, score, score_adversarial
from rmreader.text.tokens import tokenize
from rmreader.training.evaluate import predict

CPU = torch.device("cpu")


def study_squad(dev: Path, models: list[str], device: str | None = None) -> Report:
    return study_scores(
        {"dev": dev},
        models,
        device,
    )


@pytest.fixture(scope="module")
def folders(make_reader: Callable[..., Path]) -> list[str]:
    return [str(make_reader(seed)) for seed in (1, 2, 3)]


def test_a_lone_reader_answers_as_the_trainer_scores_it(tiny: Any, folders: list[str]) -> None:
    encoded = encode_file(tiny.dev)
    dataset = read_squad(tiny.dev)
    network, feed, recipe = open_network(
        folders[0],
        encoded,
        CPU,
    )
    for device in (None, "cpu"):
        found = answers(load(folders[0], device), dataset)
        trained = predict(
            network,
            feed,
            recipe.decoding.max_length,
        )[0]
        # A reader leaves out marks at the edges of an answer, and the trainer does not.
        texts = [normalize(one.text) for one in found.values() if one]
        assert texts == [normalize(text) for text in trained]
        for i, one in enumerate(found.values()):
            assert one is not None
            assert encoded.passage(i)[one.start : one.end] == one.text


def test_an_ensemble_is_the_mean_of_probabilities(tiny: Any, folders: list[str]) -> None:
    encoded = encode_file(tiny.dev)
    for device in (None, "cpu"):
        readers = [load(folder, device) for folder in folders]
        together = Ensemble(readers)
        for i in range(
            0,
            len(encoded),
            7,
        ):
            question = encoded.question(i)
            passage = encoded.passage(i)
            pair = encoder_input(question, passage)
            scores = [reader.engine.read(pair) for reader in readers]
            for name in ("start", "end"):
                mean = np.mean([softmax(getattr(one, name)) for one in scores], axis=0)
                np.testing.assert_allclose(
                    softmax(getattr(together.engine.read(pair), name)), mean, rtol=1e-4, atol=1e-7
                )
                assert mean.sum() == pytest.approx(1, abs=1e-4)


def encoder_input(question: str, passage: str) -> EncoderInput:
    return EncoderInput(
        question,
        passage,
        tokenize(question).words,
        tokenize(passage).words,
    )


def softmax(logits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    exponents = np.exp(logits.astype(np.float64) - logits.max())
    return np.asarray(exponents / exponents.sum())


def test_study_squad_and_evaluate_print_the_same_scores(
    tiny: Any, folders: list[str], tmp_path: Path
) -> None:
    long = json.loads(tiny.dev.read_text(encoding="utf-8"))
    # So that it is read in windows, and then once more.
    context = " ".join(["Nothing was there."] * 150)
    for paragraph in long["data"][0]["paragraphs"]:
        paragraph["context"] += " " + context
    data = tmp_path / "long.json"
    data.write_text(json.dumps(long), encoding="utf-8")
    both = ",".join(folders[:2])
    done = CliRunner().invoke(app, ["study", "squad", "--dev", str(data), *folders, "--json"])
    assert done.exit_code == 0, done.output
    ours = json.loads(done.stdout)["dev"] | study_squad(data, [both]).data["dev"]
    models = {name: name for name in (*folders, both)}
    models["ensemble"] = ",".join(folders)
    for name, model in models.items():
        words = ["evaluate", str(data), "--model", model, "--json"]
        done = CliRunner().invoke(reading, words)
        theirs = json.loads(done.stdout)
        for key in ("exact_match", "f1", "total"):
            assert ours[name][key] == theirs[key]
    done = CliRunner().invoke(
        reading,
        ["predict", str(data), "--model", ",".join(folders), "--out", str(tmp_path / "p.json")],
    )
    assert done.exit_code == 0, done.output
    save(study_squad(data, folders), tmp_path)
    predicted = json.loads((tmp_path / "p.json").read_text(encoding="utf-8"))
    studied = json.loads((tmp_path / "long-ensemble.json").read_text(encoding="utf-8"))
    assert predicted == studied


def test_a_reader_that_may_say_nothing_answers_where_every_question_has_an_answer(
    tiny: Any, make_reader: Callable[..., Path]
) -> None:
    folder = make_reader(8, "network.no_answer=true")
    update(
        folder,
        no_answer={
            "scale": 0.001,
            "shift": 9.0,
            "threshold": 0.5,
        },
    )  # it doubts everything
    dataset = read_squad(tiny.dev)
    assert not any(found for _, found in load(folder).predict(dataset))
    found = study_squad(tiny.dev, [str(folder)]).data["dev"][str(folder)]
    judged = evaluate(load(folder), dataset).score
    assert (found["exact_match"], found["f1"]) == (judged.exact_match, judged.f1)
    assert found["f1"] > 0


def test_an_engine_that_remembers_reads_everything_once_and_in_order(
    tiny: Any, folders: list[str]
) -> None:
    reader = load(folders[0])
    read: list[str] = []

    class Counted:
        attend = reader.engine.attend

        def read_many(self, pairs: Any, batch_size: int) -> Any:
            pairs = list(pairs)
            read.extend(pair.question for pair in pairs)
            return reader.engine.read_many(pairs, batch_size)

    pairs = []
    for k in range(9):
        pairs.append(encoder_input(f"Who made {k % 3}?", f"It was Ada of {k % 2}."))
    once = CachedEngine(Counted())  # type: ignore[arg-type]
    expected = [reader.engine.read(one) for one in pairs]
    for _ in range(2):
        for found, true in zip(
            once.read_many(pairs, 4),
            expected,
            strict=True,
        ):
            np.testing.assert_allclose(
                found.start,
                true.start,
                rtol=1e-5,
                atol=1e-6,
            )
    np.testing.assert_allclose(
        once.read(pairs[5]).end,
        expected[5].end,
        rtol=1e-5,
        atol=1e-6,
    )
    assert len(read) == 6


def test_where_there_is_nothing_to_read_there_is_no_answer(folders: list[str]) -> None:
    asked = [("a", " ", "Ada."), ("b", "Who was it?", "It was Ada."), ("c", "Who?", "")]
    paragraphs = tuple(
        Paragraph(
            passage,
            (
                Question(
                    id,
                    text,
                    (),
                ),
            ),
        )
        for id, text, passage in asked
    )
    dataset = Dataset((Article("t", paragraphs),))
    reader = load(folders[0])
    found = answers(reader, dataset)
    assert found["a"] is None
    assert found["b"] is not None
    assert predictions(reader, dataset) == {
        "a": "",
        "b": found["b"].text,
        "c": "",
    }


def test_a_reader_counts_once(tiny: Any, folders: list[str]) -> None:
    same = str(Path(folders[0]).parent)  # the run's folder, whose best it is
    with pytest.raises(UserError, match="given twice"):
        study_squad(tiny.dev, [folders[0], same])


def test_table_2_scores_each_reader_and_all_together(
    tiny: Any, folders: list[str], tmp_path: Path
) -> None:
    report = study_squad(
        tiny.dev,
        folders,
        "cpu",
    )
    dataset = read_squad(tiny.dev)
    files = save(report, tmp_path)[2:]
    assert len(files) == 4
    for path, scored in zip(
        files,
        report.data["dev"].values(),
        strict=True,
    ):
        found = score(dataset, json.loads(path.read_text(encoding="utf-8")))
        assert found.missing == 0
        assert (found.exact_match, found.f1) == (scored["exact_match"], scored["f1"])
    assert list(report.data["dev"]) == [*folders, "ensemble"]
    labels = [row[0] for row in report.rows]
    assert labels[1:5] == [*(f"[{folder}]" for folder in folders), "[mean of 3]"]
    assert "[ensemble of 3*]" in labels
    assert ("R.M-Reader", "81.2", "87.9", "82.3", "88.5") in report.rows


def test_a_reader_called_ensemble_is_not_taken_for_one(
    tiny: Any, folders: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folders[0], "ensemble")
    report = study_squad(tiny.dev, ["ensemble", folders[1]])
    assert list(report.data["dev"]) == ["./ensemble", folders[1], "ensemble"]
    alone = study_squad(tiny.dev, folders[:1])
    assert report.data["dev"]["./ensemble"] == alone.data["dev"][folders[0]]


def test_table_3_scores_the_worst_variant(
    tiny: Any, folders: list[str], adversarial_file: Path, tmp_path: Path
) -> None:
    report = study_scores(
        {"addsent": adversarial_file, "addonesent": adversarial_file}, folders[:1], "cpu"
    )
    files = save(report, tmp_path)[2:]
    assert [path.name for path in files] == ["addsent-reader-1.json", "addonesent-reader-1.json"]
    predictions = json.loads(files[0].read_text(encoding="utf-8"))
    found = score_adversarial(read_squad(adversarial_file), predictions)
    assert found.attacked == 10
    assert report.data["addsent"][folders[0]]["f1"] == found.f1
    assert report.data["addonesent"][folders[0]]["clean_f1"] == found.clean.f1
    assert report.rows[0][1:3] == (f"{found.exact_match:.2f}", f"{found.f1:.2f}")
    assert report.rows[-1] == ("R.M-Reader", "53.0", "58.5", "60.9", "67.0")


def test_the_commands_print_tables_and_json(tiny: Any, folders: list[str], tmp_path: Path) -> None:
    words = ["study", "squad", "--dev", str(tiny.dev), "--device", "cpu", *folders[:2]]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "Table 2: SQuAD" in done.stdout
    table = (tmp_path / "squad.md").read_text(encoding="utf-8")
    assert table.startswith("# Table 2: SQuAD\n\n| model | dev EM |")
    data = json.loads((tmp_path / "squad.json").read_text(encoding="utf-8"))
    done = CliRunner().invoke(app, [*words, "--json"])
    assert json.loads(done.stdout) == data
    done = CliRunner().invoke(app, ["study", "squad", "--dev", str(tiny.dev), str(tmp_path)])
    assert done.exit_code == 1
    assert "not a reader's folder" in done.stderr


def test_a_file_without_questions_is_named(folders: list[str], tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text('{"version": "1.1", "data": []}')
    with pytest.raises(UserError, match=r"empty\.json: holds no question"):
        study_squad(empty, folders[:1])
