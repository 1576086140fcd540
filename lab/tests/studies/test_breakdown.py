"""Where readers are right: the means of plain loops over questions, from readers and from kept
lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lab import results
from lab.cli import app
from lab.studies.groups import GROUPS, groups_of, pack, unpack
from lab.studies.readers import load, predictions
from lab.studies.report import save
from lab.studies.reproduction import build
from lab.studies.tables import breakdown_table
from rmreader.data.squad import Dataset, read_squad
from rmreader.reading.reader import Reader
from rmreader.scoring.squad import f1


def test_each_group_has_the_mean_of_its_questions_and_failures_are_failures(
    tiny: Any, make_reader: Callable[..., Path], adversarial_file: Path, tmp_path: Path
) -> None:
    folders = [str(make_reader(seed)) for seed in (1, 2)]
    words = [
        "study",
        "breakdown",
        *folders,
        "--dev",
        str(tiny.dev),
        "--addsent",
        str(adversarial_file),
        "--json",
    ]
    done = CliRunner().invoke(
        app, [*words, "--out", str(tmp_path), "--keep", str(tmp_path / "kept.jsonl")]
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    dataset = read_squad(tiny.dev)
    scores = [f1_of_each(load(folder), dataset) for folder in folders]
    for kind, packed in groups_of(dataset).items():
        places = unpack(packed).tolist()
        for place in set(places):
            record = found["breakdown"][f"{kind}: {GROUPS[kind][place]}"]
            assert record["count"] == places.count(place)
            expected = [
                mean_of_group(
                    values,
                    places,
                    place,
                )
                for values in scores
            ]
            # A byte for each question.
            assert record["f1"]["values"] == pytest.approx(expected, abs=0.2)

    twins = [record for name, record in found["breakdown"].items() if name.startswith("twins: ")]
    assert [record["count"] for record in twins] == [10] * 4
    for k in (0, 1):
        assert sum(record["f1"]["values"][k] for record in twins) == pytest.approx(100)

    wrong = all_wrong(dataset, scores)
    failures = {failure["question"] for failure in found["failures"]["failures"]}
    assert failures <= wrong
    assert bool(wrong) == bool(failures)
    assert (tmp_path / "breakdown.svg").read_bytes().startswith(b"<?xml")
    assert [line["study"] for line in results.read(tmp_path / "kept.jsonl")] == [
        "breakdown",
        "failures",
    ]


def mean_of_group(values: list[float], places: list[int], place: int) -> float:
    """The mean of the questions of a group, in percent."""
    inside = []
    for value, own in zip(
        values,
        places,
        strict=True,
    ):
        if own == place:
            inside.append(value)
    return 100 * sum(inside) / len(inside)


def all_wrong(dataset: Dataset, scores: list[list[float]]) -> set[str]:
    """The questions that no reader gets right at all."""
    wrong = set()
    for (_, question), *each in zip(
        dataset.questions(),
        *scores,
        strict=True,
    ):
        if not any(each):
            wrong.add(question.text)
    return wrong


def f1_of_each(reader: Reader, dataset: Dataset) -> list[float]:
    """The F1 of a reader's answer to every question."""
    texts = predictions(reader, dataset)
    values = []
    for _, question in dataset.questions():
        references = [answer.text for answer in question.answers]
        values.append(f1(texts[question.id], references))
    return values


def lines(**gains: float) -> list[results.Line]:
    """Three seeds that are right on so many of the hundred questions of the second group, none
    of the first."""
    made = []
    for seed in (1, 2, 3):
        for row, right in gains.items():
            count = int(right) + seed
            each = pack([0] * 100 + [255] * count + [0] * (100 - count))
            score = {
                "exact_match": 1.0,
                "f1": 1.0,
                "total": 200,
            }
            line = {
                "kind": "training",
                "study": "ablation",
                "setting": "x",
                "row": row.replace("_", "-"),
                "seed": seed,
            }
            made.append(
                {
                    **line,
                    "dev": score,
                    "each": each,
                    "data": {"dev": "dev 123"},
                    "steps": 1,
                    "commit": "c",
                }
            )
    return made


ASKED = {kind: pack([0] * 100 + [1] * 100) for kind in GROUPS}


def test_what_reattention_and_dcrl_give_is_compared_seed_by_seed() -> None:
    trained = lines(
        full=40,
        dcrl_full=50,
        reattention_false=30,
        dcrl_reattention_false=47,
    )
    found = breakdown_table(trained, ASKED).data
    first, second = (found[f"passage: {GROUPS['passage'][place]}"] for place in (0, 1))
    # 50 and 1, 2, 3 more: of the full network after DCRL alone.
    assert second["f1"]["mean"] == pytest.approx(52)
    assert second["reattention"] == pytest.approx([3, 3, 3])
    assert second["dcrl"] == pytest.approx([10, 10, 10])
    assert first["dcrl"] == pytest.approx([0, 0, 0])
    alone = breakdown_table(lines(full=40, reattention_false=30), ASKED).data["question: how much"]
    # After maximum likelihood, where there is nothing else.
    assert alone["reattention"] == pytest.approx([10, 10, 10])
    assert "dcrl" not in alone


def test_the_page_has_the_groups_of_the_kept_questions(tmp_path: Path) -> None:
    results.keep(tmp_path / "ablation.jsonl", lines(full=40, dcrl_full=50))
    save(build(tmp_path), tmp_path)
    assert "Where readers are right" not in (tmp_path / "index.html").read_text(encoding="utf-8")
    questions = {
        "kind": "questions",
        "study": "questions",
        "row": "dev 123",
        **ASKED,
    }
    results.keep(tmp_path / "questions.jsonl", [questions])
    save(build(tmp_path), tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "Where readers are right" in page
    assert page.count("<img") == 2  # of Table 4 and of the groups
    assert "question: how much" in (tmp_path / "reproduction.md").read_text(encoding="utf-8")
