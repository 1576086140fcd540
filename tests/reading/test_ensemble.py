"""An ensemble averages probabilities and is otherwise a reader like any other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rmreader.cli import app
from rmreader.core.errors import UserError
from rmreader.readers.folder import open_folder
from rmreader.reading.engine.engines import EncoderInput
from rmreader.reading.ensemble import Ensemble
from rmreader.reading.export import ensemble
from rmreader.reading.reader import Reader
from rmreader.text.tokens import tokenize

PASSAGE = "The lamp of Gull Rock was lit by Ada in 1874. Grace, the last keeper, left the rock for Oslo in 1986."
QUESTION = "Who was the last keeper?"
LONG = " ".join(f"{PASSAGE} In the year {year} nothing happened at all on the rock." for year in range(1900, 1925))


@pytest.fixture(scope="module")
def members(make_reader: Callable[..., Path]) -> list[Reader]:
    """Three readers of other weights, one of other depth and one that runs in torch."""
    folders = make_reader(seed=11), make_reader(seed=12, blocks=3), make_reader(seed=13)
    return [
        Reader.load(path, threads=2, engine=kind) for path, kind in zip(folders, (None, None, "torch"), strict=True)
    ]


def softmax(logits: np.ndarray) -> np.ndarray:
    exponents = np.exp(logits.astype(np.float64) - logits.max())
    return np.asarray(exponents / exponents.sum())


def test_an_answer_is_the_best_span_of_the_mean_probabilities(members: list[Reader]) -> None:
    tokens = tokenize(PASSAGE)
    pair = EncoderInput(QUESTION, PASSAGE, tokenize(QUESTION).words, tokens.words)
    scores = [member.engine.read(pair) for member in members]
    p1 = np.mean([softmax(one.start) for one in scores], axis=0)
    p2 = np.mean([softmax(one.end) for one in scores], axis=0)
    best = max(
        (p1[i] * p2[j], i, j) for i in range(len(tokens)) for j in range(i, min(i + members[0].max_length, len(tokens)))
    )
    (answer,) = Ensemble(members).ask(QUESTION, PASSAGE)
    assert answer.text == PASSAGE[tokens.starts[best[1]] : tokens.ends[best[2]]]
    assert answer.score == pytest.approx(np.log(best[0]), abs=1e-5)
    assert {member.ask(QUESTION, PASSAGE)[0].text for member in members} != {answer.text}  # else nothing was shown


@pytest.mark.parametrize("passage", [PASSAGE, LONG], ids=["short", "windows"])
def test_an_ensemble_of_one_is_its_member(members: list[Reader], passage: str) -> None:
    for member in members[:2]:
        ours, its = Ensemble([member]).ask(QUESTION, passage, top=5), member.ask(QUESTION, passage, top=5)
        assert [answer.text for answer in ours] == [answer.text for answer in its]
        for one, other in zip(ours, its, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-4)
            assert one.confidence == pytest.approx(other.confidence, rel=1e-4)


def test_many_questions_are_answered_as_each_alone_whatever_the_order_of_members(members: list[Reader]) -> None:
    pairs = [(QUESTION, PASSAGE), ("", PASSAGE), ("When was the lamp lit?", LONG), (QUESTION, ""), ("Where?", PASSAGE)]
    ensemble, turned = Ensemble(members), Ensemble(members[::-1])
    for (question, passage), answers in zip(pairs, ensemble.ask_many(pairs, top=2, batch_size=2), strict=True):
        if not question:
            assert answers == []
            continue
        alone, other = ensemble.ask(question, passage, top=2), turned.ask(question, passage, top=2)
        assert [a.text for a in answers] == [a.text for a in alone] == [a.text for a in other]
        assert [a.score for a in answers] == pytest.approx([a.score for a in alone], abs=1e-4)
        assert [a.score for a in answers] == pytest.approx([a.score for a in other], abs=1e-4)


def test_the_attention_shown_is_the_mean_of_the_members(members: list[Reader]) -> None:
    shown, each = Ensemble(members).explain(QUESTION, PASSAGE), [one.explain(QUESTION, PASSAGE) for one in members]
    assert len(shown.rounds) == min(len(one.rounds) for one in each) == 2
    for t, attention in enumerate(shown.rounds):
        np.testing.assert_allclose(
            attention.interactive, np.mean([one.rounds[t].interactive for one in each], axis=0), atol=1e-5
        )
        np.testing.assert_allclose(attention.self, np.mean([one.rounds[t].self for one in each], axis=0), atol=1e-5)


def test_it_loads_by_name_and_takes_the_mean_temperature(make_reader: Callable[..., Path]) -> None:
    names = [make_reader(seed=21), make_reader(seed=22)]
    ensemble = Reader.load(",".join(map(str, names)), threads=1)
    assert isinstance(ensemble, Ensemble)
    assert ensemble.ask(QUESTION, PASSAGE) == Ensemble.of(names, threads=1).ask(QUESTION, PASSAGE)
    readers = [Reader.load(name, threads=1) for name in names]
    readers[1].temperature = 2.0
    assert Ensemble(readers).temperature == 1.5
    with pytest.raises(UserError, match="at least one"):
        Ensemble([])


def test_an_ensemble_is_a_folder_that_loads_by_one_name(make_reader: Callable[..., Path], tmp_path: Path) -> None:
    one, other = str(make_reader(seed=11)), str(make_reader(seed=12, blocks=3))
    out = tmp_path / "pair"
    done = CliRunner().invoke(app, ["export", "ensemble", one, other, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "2 readers" in done.stderr
    assert "ms per question" in done.stderr
    named, given = (Reader.load(name, threads=1) for name in (out, f"{one},{other}"))
    assert isinstance(named, Ensemble)
    ours, its = (reader.ask(QUESTION, PASSAGE, top=3) for reader in (named, given))
    assert [(a.text, a.score) for a in ours] == [(a.text, a.score) for a in its]
    card = (out / "README.md").read_text(encoding="utf-8")
    assert card.count("\n| ") == 4  # what each costs, and all
    assert [path.name for path in tmp_path.iterdir()] == ["pair"]
    with pytest.raises(UserError, match="pair: an ensemble, where one reader is wanted"):
        open_folder(out)
    member = next(path for path in sorted(out.iterdir()) if path.is_dir())
    (member / "weights.safetensors").write_bytes(b"")
    with pytest.raises(UserError, match=r"weights\.safetensors: damaged"):
        Reader.load(out)


@pytest.mark.parametrize("members", [[], "1-best", [1], ["../1-best"], ["/etc"], ["absent"]])
def test_an_ensemble_that_names_what_is_not_in_it_is_refused(
    make_reader: Callable[..., Path], tmp_path: Path, members: object
) -> None:
    ensemble([str(make_reader(seed=11)), str(make_reader(seed=12))], tmp_path / "pair")
    about = json.loads((tmp_path / "pair" / "reader.json").read_text(encoding="utf-8"))
    (tmp_path / "pair" / "reader.json").write_text(json.dumps(about | {"members": members}), encoding="utf-8")
    with pytest.raises(UserError) as caught:
        Reader.load(tmp_path / "pair")
    assert "\n" not in str(caught.value)
