"""What reattention adds, against loops; and what a reader answers without it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from lab.cli import app
from lab.results import read
from lab.studies.mechanism import evenness, set_gammas, sizes_of, study_reattention
from rmreader.core.errors import UserError


def softmax(values: Any) -> Any:
    powers = np.exp(values - values.max())
    return powers / powers.sum()


def test_sizes_are_those_of_loops_over_words() -> None:
    rng = np.random.default_rng(1)
    n = 3
    m = 5
    rounds = []
    for _ in range(2):
        E = rng.normal(size=(n, m))
        B = rng.normal(size=(m, m))
        rounds.append((E, B))
    found = sizes_of(
        rounds,
        [[2.0, -1.0]],
        "none",
    )
    assert list(found) == ["E2", "B2"]

    # Ẽ, word by word.
    (E, B), (second_E, _) = rounds
    overlap = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            overlap[i, j] = softmax(E[i]) @ softmax(B[:, j])

    # What γẼ moves, column by column.
    moved = []
    ranges = []
    added = []
    for j in range(m):
        now = second_E[:, j]
        change = softmax(now) - softmax(now - 2.0 * overlap[:, j])
        moved.append(np.abs(change).sum() / 2)
        ranges.append(np.ptp(now))
        added.append(2.0 * np.ptp(overlap[:, j]))

    size = found["E2"]
    assert size.overlap == pytest.approx(overlap.mean())
    assert size.added == pytest.approx(np.mean(added))
    assert size.logits == pytest.approx(np.mean(ranges))
    assert size.moved == pytest.approx(np.mean(moved))


def test_evenness_is_one_of_a_uniform_attention_and_none_of_a_sure_one() -> None:
    assert evenness(np.zeros((4, 2))) == pytest.approx(1.0)
    sure = np.where(
        np.eye(4) > 0,
        500.0,
        0.0,
    )
    assert evenness(sure) == pytest.approx(0.0, abs=1e-9)
    assert evenness(np.zeros((1, 1))) == 1.0


def test_a_large_gamma_changes_answers_and_no_file(
    tiny: Any, make_reader: Any, tmp_path: Path
) -> None:
    folder = make_reader(3)
    weights = folder / "weights.safetensors"
    before = weights.read_bytes()
    keep = tmp_path / "reattention.jsonl"
    words = ["study", "reattention", str(folder)]
    words += ["--data", str(tiny.dev), "--device", "cpu"]
    words += ["--gamma", "300", "--out", str(tmp_path), "--keep", str(keep)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    (line,) = read(keep)
    assert line["changed"] > 0
    assert set(line["gammas"].values()) == {3.0}
    assert 0 < line["entropy"] <= 1
    assert list(line["divergences"]) == ["E1 to E2", "E2 to E3", "B1 to B2", "B2 to B3"]
    for row in line["divergences"].values():
        assert row["gain"] == pytest.approx(row["as_is"] - row["other"])
        assert row["gain"] != 0
        assert row["error"] > 0
    assert (tmp_path / "reattention.svg").read_bytes().startswith(b"<?xml")
    assert weights.read_bytes() == before

    report = study_reattention(
        [str(folder)],
        tiny.dev,
        "cpu",
        gamma=3.0,
    )
    (same,) = report.data["lines"]
    assert same["changed"] == 0
    assert same["as_is"] == same["other"] == line["as_is"]
    for name, row in same["divergences"].items():
        assert row["gain"] == 0
        assert row["as_is"] == line["divergences"][name]["as_is"]


def test_only_the_aligners_gammas_are_set() -> None:
    aligner = torch.nn.Module()
    aligner.gamma_E = torch.nn.Parameter(torch.tensor(3.0))
    network = torch.nn.Module()
    network.aligner = aligner
    network.gamma = torch.nn.Parameter(torch.tensor(1.5))  # as a mix of layers has one
    set_gammas(SimpleNamespace(network=network), 0.0)  # type: ignore[arg-type]
    assert aligner.gamma_E.item() == 0.0
    assert network.gamma.item() == 1.5


def test_limit_takes_the_first_questions(tiny: Any, make_reader: Any) -> None:
    found = study_reattention(
        [str(make_reader(3))],
        tiny.dev,
        "cpu",
        limit=3,
    )
    assert found.data["lines"][0]["as_is"]["total"] == 3


def test_a_reader_without_reattention_is_refused(tiny: Any, make_reader: Any) -> None:
    folder = make_reader(1, "network.reattention=false")
    with pytest.raises(UserError, match="has no reattention"):
        study_reattention(
            [str(folder)],
            tiny.dev,
            "cpu",
        )
