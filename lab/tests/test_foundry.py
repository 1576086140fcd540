"""The foundry from end to end on a processor: small encoders, little data, every stage."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from safetensors.torch import load_file
from support.encoders import build_bert, build_mpnet

from lab.foundry.data import PEOPLE, SENTENCES
from lab.foundry.encoders import pack, unpack
from lab.foundry.fetch import GTE_SHA256, check, weights_of
from lab.foundry.made_texts import made_texts
from lab.foundry.words import KNOWN, let_truth_win, mean_of
from rmreader.core.errors import UserError
from rmreader.data.encode import encode_file
from rmreader.reading.reader import Reader

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = (
    "training.epochs=1",
    "training.evaluate_every=1",
    "training.warmup=0",
    "training.batch_size=16",
    "network.hidden=8",
    "inputs.character_size=4",
)


def paragraph(number: int) -> dict[str, Any]:
    """A paragraph with a question that it answers, one that it does not, and two sentences more."""
    name = f"Harbour {number}"
    context = (
        f"{name} was built in {1800 + number} by the mason Ada Berg. "
        f"It has {number + 3} cranes. A ferry leaves {name} every hour."
    )
    year = str(1800 + number)
    answered = {
        "id": f"q{number}",
        "question": f"When was {name} built?",
        "answers": [{"text": year, "answer_start": context.index(year)}],
    }
    unanswered = {
        "id": f"n{number}",
        "question": f"Who paid for {name}?",
        "answers": [],
        "is_impossible": True,
    }
    return {"context": context, "qas": [answered, unanswered]}


def write(path: Path, articles: int, unanswered: bool = True) -> None:
    """A SQuAD file of some articles with three paragraphs each."""
    tree: dict[str, Any] = {"version": "2.0", "data": []}
    for article in range(articles):
        paragraphs = [paragraph(3 * article + k) for k in range(3)]
        if not unanswered:
            for row in paragraphs:
                row["qas"] = row["qas"][:1]
        tree["data"].append({"title": f"Coast {article}", "paragraphs": paragraphs})
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(
        path,
        "wt",
        encoding="utf-8",
    ) as file:
        json.dump(tree, file)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data and encoders, laid out as the foundry expects them."""
    folder = tmp_path_factory.mktemp("sources")
    write(folder / "data/squad-v2.0/train-v2.0-rebuilt.json.gz", 60)
    for name in (*PEOPLE, *SENTENCES):
        write(
            folder / f"data/more-questions/{name}.json.gz",
            2,
            unanswered=False,
        )
    for name in ("squad-v1.1/dev-v1.1", "adversarial/addsent", "adversarial/addonesent"):
        write(
            folder / f"data/{name}.json.gz",
            3,
            unanswered=False,
        )
    write(folder / "data/squad-v2.0/dev-v2.0-rebuilt.json.gz", 3)
    for name, build in (("mpnet", build_mpnet), ("gte-small", build_bert)):
        (folder / "encoders" / name).mkdir(parents=True)
        build(folder / "encoders" / name)
    return folder


def run(sources: Path, work: Path, *words: str) -> str:
    """Run the foundry; what it printed."""
    command = [sys.executable, "-m", "lab.foundry", "--data", str(sources / "data")]
    command += ["--encoders", str(sources / "encoders"), "--work", str(work), "--share", "0.002"]
    done = subprocess.run(
        [*command, *words, *SETTINGS],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_every_stage_runs_once_and_ends_in_readers_that_answer(
    sources: Path, tmp_path: Path
) -> None:
    work = tmp_path / "foundry"
    first = run(
        sources,
        work,
        "--teachers",
        "mpnet-a",
        "--until",
        "teachers",
    )
    assert "questions" in first
    assert "words" not in first
    made = (work / "mpnet-a" / "best" / "reader.json").stat().st_mtime_ns

    students = ("base", "small")
    run(
        sources,
        work,
        "--teachers",
        "mpnet-a",
        "--students",
        *students,
        "--until",
        "shipped",
    )
    assert (work / "mpnet-a" / "best" / "reader.json").stat().st_mtime_ns == made
    for name in students:
        reader = Reader.load(work / "shipped" / name)
        passage = "It was built in 1843 by Ada Berg."
        answers = reader.ask(
            "When was it built?",
            passage,
            always=True,
        )
        assert answers[0].text in passage
    costs = (work / "costs.jsonl").read_text().splitlines()
    assert json.loads(costs[-1])["stage"] == "shipped"


def test_an_encoder_packed_in_8_bits_comes_back_nearly_as_it_was(
    sources: Path, tmp_path: Path
) -> None:
    encoder = sources / "encoders" / "mpnet"
    pack(
        encoder,
        tmp_path / "packed",
        parts=3,
    )
    assert len(list((tmp_path / "packed").glob("part-*.safetensors"))) == 3
    unpack(tmp_path / "packed", tmp_path / "again")
    before = load_file(encoder / "model.safetensors")
    after = load_file(tmp_path / "again" / "model.safetensors")
    assert before.keys() == after.keys()
    for name, weight in before.items():
        apart = (weight - after[name]).abs()
        largest = weight.abs()
        if weight.ndim == 2:  # every row has a scale of its own
            apart = apart.amax(dim=1)
            largest = largest.amax(dim=1)
        assert (apart <= largest / 200 + 1e-9).all(), name


def test_an_onnx_graph_gives_back_the_weights_it_was_made_of() -> None:
    draw = np.random.default_rng(4)
    matrix = draw.normal(size=(3, 2)).astype(np.float32)
    bias = draw.normal(size=3).astype(np.float32)
    node = helper.make_node(
        "MatMul", ["x", "onnx::MatMul_7"], ["y"], name="/encoder/layer.0/output/dense/MatMul"
    )
    values = [
        numpy_helper.from_array(np.ascontiguousarray(matrix.T), "onnx::MatMul_7"),
        numpy_helper.from_array(bias, "encoder.layer.0.output.dense.bias"),
    ]
    graph = helper.make_graph(
        [node],
        "encoder",
        [],
        [],
        values,
    )
    weights = weights_of(helper.make_model(graph).SerializeToString())
    dense = "encoder.layer.0.output.dense"
    assert set(weights) == {f"{dense}.weight", f"{dense}.bias"}
    np.testing.assert_array_equal(weights[f"{dense}.weight"], matrix)

    # A weight that no product has would be lost in silence.
    graph = helper.make_graph(
        [],
        "encoder",
        [],
        [],
        values,
    )
    with pytest.raises(UserError, match="weights of no product: onnx::MatMul_7"):
        weights_of(helper.make_model(graph).SerializeToString())


def test_another_file_than_the_published_one_is_refused() -> None:
    with pytest.raises(UserError, match="gte-small: not the published file"):
        check(
            b"another",
            GTE_SHA256,
            "gte-small",
        )


def test_the_truth_wins_where_it_is_known_and_nowhere_else(sources: Path, tmp_path: Path) -> None:
    path = sources / "data/squad-v2.0/train-v2.0-rebuilt.json.gz"
    learned = encode_file(path, tmp_path / "cache")
    assert KNOWN.search("57-cut")
    assert KNOWN.search("2-everyday-5-1")
    assert not KNOWN.search("q1")
    said = {
        "no_answer": np.full(
            len(learned),
            -2.0,
            np.float32,
        )
    }
    assert let_truth_win(said, learned) == 0
    assert (said["no_answer"] == -2).all()
    none = learned.start < 0
    assert none.any()
    assert not none.all()
    known: Any = SimpleNamespace(ids=[f"{name}-cut" for name in learned.ids], start=learned.start)
    assert let_truth_win(said, known) == none.sum()  # the teachers said that all are answered
    assert ((said["no_answer"] > 0) == none).all()


def test_teachers_are_averaged_as_chances(sources: Path) -> None:
    bounds = np.array([0, 2])
    first = {"bounds": bounds, "no_answer": np.array([2.0])}
    second = {"bounds": bounds, "no_answer": np.array([-2.0])}
    for said, chance in ((first, 0.9), (second, 0.5)):
        said["start"] = np.log([chance, 1 - chance])
        said["end"] = said["start"]
    mean = mean_of([first, second])
    np.testing.assert_allclose(
        np.exp(mean["start"]),
        [0.7, 0.3],
        rtol=1e-5,
    )
    assert mean["no_answer"][0] == pytest.approx(0, abs=1e-6)


def test_made_texts_ask_each_question_with_and_without_its_answer() -> None:
    with_answer: dict[str, str] = {}
    without: dict[str, str] = {}
    for article in made_texts(seed=5, count=300):
        for paragraph_ in article.paragraphs:
            for question in paragraph_.questions:
                name = question.id.removesuffix("-other")
                side = without if question.impossible else with_answer
                side[name] = question.text
                for answer in question.answers:
                    end = answer.start + len(answer.text)
                    assert paragraph_.context[answer.start : end] == answer.text
    assert len(with_answer) > 500
    assert with_answer == without
    assert all(KNOWN.search(name) for name in with_answer)


def test_a_value_that_was_taken_out_is_not_in_its_row_any_more() -> None:
    for article in made_texts(seed=6, count=60):
        answered = {}
        unanswered = []
        for paragraph_ in article.paragraphs:
            for question in paragraph_.questions:
                if question.impossible:
                    unanswered.append((paragraph_.context, question))
                else:
                    answered[question.id] = (paragraph_.context, question.answers[0])
        for context, question in unanswered:
            whole, answer = answered[question.id.removesuffix("-other")]
            begin = (
                whole.rfind(
                    "\n",
                    0,
                    answer.start,
                )
                + 1
            )
            row, _, _ = whole[begin:].partition("\n")
            assert row not in context.split("\n")
