"""Readers that point: alone as the trainer's own scoring does, together as the mean of their probabilities."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from rmreader.cli import app
from rmreader.data.encode import encode_file, encode_pairs
from rmreader.data.squad import read_squad
from rmreader.errors import UserError
from rmreader.learning.evaluate import predict
from rmreader.reading.answering.ensemble import Ensemble
from rmreader.scoring.adversarial import score_adversarial
from rmreader.scoring.squad import score
from rmreader.studies.readers import NOTHING, answer, average, decode, open_reader, point
from rmreader.studies.scores import study_adversarial, study_squad

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folders(make_reader: Callable[..., Path]) -> list[str]:
    return [str(make_reader(seed)) for seed in (1, 2, 3)]


def test_a_lone_reader_answers_as_the_trainer_scores_it(tiny: Any, folders: list[str]) -> None:
    encoded = encode_file(tiny.dev)
    network, feed, recipe = open_reader(folders[0], encoded, CPU)
    found = decode(point(network, feed, batch_size=7), encoded, recipe.decoding.max_length, batch_size=3)
    assert [one.text for one in found] == predict(network, feed, recipe.decoding.max_length).texts
    assert all(encoded.passage(i)[one.start : one.end] == one.text for i, one in enumerate(found))


def test_an_ensemble_is_the_mean_of_probabilities(tiny: Any, folders: list[str]) -> None:
    encoded = encode_file(tiny.dev)
    members = [point(*open_reader(folder, encoded, CPU)[:2]) for folder in folders]
    together = average(members)
    for i in range(len(encoded)):
        for name in ("log_p1", "log_p2"):
            mean = np.mean([np.exp(getattr(member, name)[i]) for member in members], axis=0)
            np.testing.assert_allclose(np.exp(getattr(together, name)[i]), mean, rtol=1e-4, atol=1e-7)
            assert mean.sum() == pytest.approx(1, abs=1e-4)
    assert average(members[:1]) is members[0]


def test_the_ensemble_of_the_studies_is_the_ensemble_of_the_reading_room(tiny: Any, folders: list[str]) -> None:
    encoded = encode_file(tiny.dev)
    ours = answer(folders, encoded, CPU).together
    assert ours is not None
    pairs = [(encoded.question(i), encoded.passage(i)) for i in range(len(encoded))]
    theirs = [found[0].text for found in Ensemble.of(folders, threads=1).ask_many(pairs)]
    assert [one.text for one in ours] == theirs


def test_where_there_is_nothing_to_read_there_is_no_answer(folders: list[str]) -> None:
    encoded = encode_pairs([("Who?", ""), ("", "Ada."), ("Who was it?", "It was Ada.")])
    found = answer(folders[:1], encoded, CPU)
    assert found.together is None
    assert found.singles[folders[0]][:2] == [NOTHING, NOTHING]
    assert found.singles[folders[0]][2].text


def test_a_reader_counts_once(tiny: Any, folders: list[str]) -> None:
    same = str(Path(folders[0]).parent)  # the run's folder, whose best it is
    with pytest.raises(UserError, match="given twice"):
        answer([folders[0], same], encode_file(tiny.dev), CPU)


def test_table_2_scores_each_reader_and_all_together(tiny: Any, folders: list[str], tmp_path: Path) -> None:
    report = study_squad(tiny.dev, folders, CPU, tmp_path)
    dataset = read_squad(tiny.dev)
    assert len(report.files) == 4
    for path, scored in zip(report.files, report.data["dev"].values(), strict=True):
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
    report = study_squad(tiny.dev, ["ensemble", folders[1]], CPU)
    assert list(report.data["dev"]) == ["./ensemble", folders[1], "ensemble"]
    assert report.data["dev"]["./ensemble"] == study_squad(tiny.dev, folders[:1], CPU).data["dev"][folders[0]]


def test_table_3_scores_the_worst_variant(
    tiny: Any, folders: list[str], adversarial_file: Path, tmp_path: Path
) -> None:
    report = study_adversarial(adversarial_file, adversarial_file, folders[:1], CPU, tmp_path)
    assert [path.name for path in report.files] == ["addsent-reader-1.json", "addonesent-reader-1.json"]
    predictions = json.loads(report.files[0].read_text(encoding="utf-8"))
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
    assert (tmp_path / "squad.md").read_text(encoding="utf-8").startswith("# Table 2: SQuAD\n\n| model | dev EM |")
    done = CliRunner().invoke(app, [*words, "--json"])
    assert json.loads(done.stdout) == json.loads((tmp_path / "squad.json").read_text(encoding="utf-8"))
    done = CliRunner().invoke(app, ["study", "rounds", "network.blocks=2"])
    assert "[this network]  2            2     Parallel" in done.stdout
    done = CliRunner().invoke(app, ["study", "squad", "--dev", str(tiny.dev), str(tmp_path)])
    assert done.exit_code == 1
    assert "not a reader's folder" in done.stderr


def test_a_file_without_questions_is_named(folders: list[str], tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text('{"version": "1.1", "data": []}')
    with pytest.raises(UserError, match=r"empty\.json: holds no question"):
        study_squad(empty, folders[:1], CPU)
