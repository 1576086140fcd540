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
from rmreader.data.squad import read_squad
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
    answered = [predictions(load(folder), dataset) for folder in folders]
    questions = [question for _, question in dataset.questions()]
    scores = [
        [f1(texts[q.id], [a.text for a in q.answers]) for q in questions] for texts in answered
    ]
    for kind, places in groups_of(dataset).items():
        for place in set(unpack(places).tolist()):
            inside = [i for i, one in enumerate(unpack(places)) if one == place]
            record = found["breakdown"][f"{kind}: {GROUPS[kind][place]}"]
            assert record["count"] == len(inside)
            expected = [100 * sum(each[i] for i in inside) / len(inside) for each in scores]
            assert record["f1"]["values"] == pytest.approx(
                expected, abs=0.2
            )  # a byte for each question
    twins = [record for name, record in found["breakdown"].items() if name.startswith("twins: ")]
    assert [record["count"] for record in twins] == [10] * 4
    for k in (0, 1):
        assert sum(record["f1"]["values"][k] for record in twins) == pytest.approx(100)
    wrong = {q.text for q, *both in zip(questions, *scores, strict=True) if not any(both)}
    assert {one["question"] for one in found["failures"]["failures"]} <= wrong
    assert bool(wrong) == bool(found["failures"]["failures"])
    assert (tmp_path / "breakdown.svg").read_bytes().startswith(b"<?xml")
    assert [line["study"] for line in results.read(tmp_path / "kept.jsonl")] == [
        "breakdown",
        "failures",
    ]


def lines(**gains: float) -> list[results.Line]:
    """Three seeds that are right on so many of the hundred questions of the second group, none
    of the first."""
    made = []
    for seed in (1, 2, 3):
        for row, right in gains.items():
            each = pack([0] * 100 + [255] * (int(right) + seed) + [0] * (100 - int(right) - seed))
            score = {"exact_match": 1.0, "f1": 1.0, "total": 200}
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
    trained = lines(full=40, dcrl_full=50, reattention_false=30, dcrl_reattention_false=47)
    found = breakdown_table(trained, ASKED).data
    first, second = (found[f"passage: {GROUPS['passage'][place]}"] for place in (0, 1))
    assert second["f1"]["mean"] == pytest.approx(
        52
    )  # 50 and 1, 2, 3 more: of the full network after DCRL alone
    assert second["reattention"] == pytest.approx([3, 3, 3])
    assert second["dcrl"] == pytest.approx([10, 10, 10])
    assert first["dcrl"] == pytest.approx([0, 0, 0])
    alone = breakdown_table(lines(full=40, reattention_false=30), ASKED).data["question: how much"]
    assert alone["reattention"] == pytest.approx(
        [10, 10, 10]
    )  # after maximum likelihood, where there is nothing else
    assert "dcrl" not in alone


def test_the_page_has_the_groups_of_the_kept_questions(tmp_path: Path) -> None:
    results.keep(tmp_path / "ablation.jsonl", lines(full=40, dcrl_full=50))
    save(build(tmp_path), tmp_path)
    assert "Where readers are right" not in (tmp_path / "index.html").read_text(encoding="utf-8")
    questions = {"kind": "questions", "study": "questions", "row": "dev 123", **ASKED}
    results.keep(tmp_path / "questions.jsonl", [questions])
    save(build(tmp_path), tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "Where readers are right" in page
    assert page.count("<img") == 2  # of Table 4 and of the groups
    assert "question: how much" in (tmp_path / "reproduction.md").read_text(encoding="utf-8")
