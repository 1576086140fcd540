"""Batches hold each question once an epoch, and their arrays say what the texts say."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmreader.core.recipe import Inputs
from rmreader.data.batch import Batch
from rmreader.data.batches import Buckets, Padding, assemble_rows, crop, list_letters, look_up
from rmreader.data.encode import encode_file, encode_pairs
from rmreader.data.encoded import Encoded
from rmreader.text.lexicon import Lexicon
from rmreader.text.tokens import tokenize
from rmreader.text.words import Words

Tree = dict[str, Any]
LENGTHS = st.lists(st.integers(1, 700), max_size=200).map(np.array)
SEEDS = st.integers(-(2**63), 2**64)


def assemble(
    encoded: Encoded, words: Words[Any], index: np.ndarray, pad: Padding | None = None, max_context: int | None = None
) -> Batch[Any]:
    """The batch of some questions, ready to be read; ``words`` is ``lexicon.look_up(encoded.vocabulary)``."""
    missing = (pad or Padding()).characters - words.characters.shape[1]
    if missing > 0:
        words = replace(words, characters=np.pad(words.characters, ((0, 0), (0, missing))))
    return look_up(assemble_rows(encoded, words.lengths, index, pad, max_context), words)


@settings(max_examples=300, deadline=None)
@given(lengths=LENGTHS, size=st.integers(1, 64), seed=SEEDS, epoch=st.integers(0, 1000), drop=st.booleans())
def test_each_question_stands_once_in_an_epoch(
    lengths: np.ndarray, size: int, seed: int, epoch: int, drop: bool
) -> None:
    batches = Buckets(lengths, size, seed, drop_last=drop).epoch(epoch)
    questions = [int(number) for batch in batches for number in batch]
    assert len(set(questions)) == len(questions)
    assert set(questions) <= set(range(len(lengths)))
    short = [len(batch) for batch in batches if len(batch) != size]
    if drop:
        assert not short
        assert len(questions) == len(lengths) // size * size
    else:
        assert len(questions) == len(lengths)
        assert short == [len(lengths) % size][: len(lengths) % size]
    again = Buckets(lengths.copy(), size, seed, drop_last=drop).epoch(epoch)
    assert all(np.array_equal(one, other) for one, other in zip(batches, again, strict=True))


@settings(max_examples=300, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=80), size=st.integers(4, 40), seed=SEEDS, drop=st.booleans()
)
def test_a_group_is_never_parted_and_every_epoch_has_as_many_batches(
    sizes: list[int], size: int, seed: int, drop: bool
) -> None:
    draw = np.random.default_rng(seed % 2**64)
    groups = draw.permutation(np.repeat(np.arange(len(sizes)), sizes))
    lengths = draw.integers(1, 700, len(groups))
    for epoch in range(3):
        batches = Buckets(lengths, size, seed, drop_last=drop, groups=groups).epoch(epoch)
        questions = np.concatenate([*batches, np.zeros(0, np.int64)]).astype(int)
        assert len(set(questions.tolist())) == len(questions)
        assert all(0 < len(batch) <= size for batch in batches)
        for batch in batches:
            assert (
                np.bincount(groups[batch], minlength=len(sizes))[groups[batch]] == np.array(sizes)[groups[batch]]
            ).all()
            assert (np.diff(groups[batch]) != 0).sum() == len(set(groups[batch].tolist())) - 1  # neighbours
        if drop:
            assert len(batches) == len(groups) // size
        else:
            assert len(questions) == len(groups)


def test_with_some_singles_among_the_groups_every_batch_is_full_and_of_similar_length() -> None:
    draw = np.random.default_rng(0)
    groups = draw.permutation(np.repeat(np.arange(3000), draw.choice([1, 2, 3], 3000, p=[0.6, 0.3, 0.1])))
    lengths = draw.integers(20, 400, 3000)[groups]  # of one length, so that a batch can be of one
    buckets = Buckets(lengths, 64, seed=1, drop_last=True, groups=groups)
    batches = buckets.epoch(3)
    assert {len(batch) for batch in batches} == {64}
    assert np.mean([lengths[batch].mean() / lengths[batch].max() for batch in batches]) > 0.85
    assert all(np.array_equal(*pair) for pair in zip(batches, buckets.epoch(3), strict=True))


def test_groups_of_one_are_the_batches_without_groups() -> None:
    lengths = np.random.default_rng(0).integers(20, 400, 1000)
    for drop in (False, True):
        alone, grouped = (Buckets(lengths, 48, 1, drop_last=drop, groups=g).epoch(2) for g in (None, np.arange(1000)))
        assert all(np.array_equal(*pair) for pair in zip(alone, grouped, strict=True))


def test_batches_are_those_of_before() -> None:
    """Which questions are together is part of a run's identity: a resumed run must meet the same ones."""
    buckets = Buckets(np.arange(1, 24), 5, seed=7, drop_last=True)
    assert [batch.tolist() for batch in buckets.epoch(1)] == [
        [0, 1, 2, 3, 4],
        [5, 6, 7, 8, 9],
        [10, 11, 15, 16, 14],
        [17, 18, 19, 20, 22],
    ]


def test_epochs_and_seeds_differ_and_depend_on_nothing_before_them() -> None:
    lengths = np.random.default_rng(0).integers(20, 400, 1000)
    buckets = Buckets(lengths, 48, seed=1)
    orders = {
        tuple(np.concatenate(Buckets(lengths, 48, seed).epoch(k)).tolist()) for seed in (1, 2, 3) for k in range(3)
    }
    assert len(orders) == 9
    late = buckets.epoch(7)
    for k in range(7):
        buckets.epoch(k)
    assert np.array_equal(np.concatenate(late), np.concatenate(buckets.epoch(7)))


def test_batches_are_of_similar_length_but_not_always_the_same_questions() -> None:
    lengths = np.random.default_rng(0).integers(20, 400, 4800)
    buckets = Buckets(lengths, 48, seed=1)
    first, second = buckets.epoch(0), buckets.epoch(1)
    filled = [lengths[batch].mean() / lengths[batch].max() for batch in first]
    assert np.mean(filled) > 0.85  # batches at random fill about half
    assert np.corrcoef([lengths[b].mean() for b in first], range(len(first)))[0, 1] < 0.3  # no order by length
    mates = [{frozenset(pair) for pair in zip(b[:-1].tolist(), b[1:].tolist(), strict=True)} for b in second]
    kept = sum(frozenset((a, b)) in pairs for batch in first for a, b in [batch[:2].tolist()] for pairs in mates)
    assert kept < len(first) / 4


def test_other_questions_are_dropped_in_each_epoch() -> None:
    buckets = Buckets(np.arange(1, 100), 48, seed=5, drop_last=True)
    dropped = [set(range(99)) - set(np.concatenate(buckets.epoch(k)).tolist()) for k in range(20)]
    assert {len(rest) for rest in dropped} == {3}
    assert len(set().union(*dropped)) > 20


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return Lexicon.build(["a", "small", "lexicon", "of", "letters"], Inputs())


TEXTS = st.text(st.sampled_from("ab Cd1.é\u0301 日\ud800"), min_size=1, max_size=80).filter(lambda t: bool(t.strip()))


def texts_of(batch: Batch[Any], names: np.ndarray, part: str) -> list[list[str]]:
    rows, lengths = getattr(batch, part), getattr(batch, f"{part}_lengths")
    for row, length in zip(rows, lengths, strict=True):
        assert (row[:length] > 0).all()
        assert not row[length:].any()
    return [[names[k] for k in row[:length]] for row, length in zip(rows, lengths, strict=True)]


def name_rows(batch: Batch[Any], encoded: Encoded, words: Words[Any]) -> np.ndarray:
    """The word of each row of a batch's table, found by its characters and vector in the whole table."""
    width = batch.words.characters.shape[1]
    whole = np.zeros((len(words.lengths), width), dtype=np.int64)
    shared = min(width, words.characters.shape[1])
    whole[:, :shared] = words.characters[:, :shared]
    names = []
    for row in range(len(batch.words.lengths)):
        same = (whole == batch.words.characters[row]).all(axis=1) & (words.keys == batch.words.keys[row])
        same &= (words.vectors == batch.words.vectors[row]).all(axis=1) & (words.lengths == batch.words.lengths[row])
        names.append(int(np.flatnonzero(same)[0]))
    return np.array(["", *encoded.vocabulary], dtype=object)[names]


@settings(max_examples=200, deadline=None)
@given(
    pairs=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=6),
    pad=st.none()
    | st.builds(Padding, *(st.sampled_from([1, 7, 8, 32]) for _ in range(3)), st.sampled_from([0, 16, 20])),
    data=st.data(),
)
def test_a_batch_says_what_the_texts_say(
    lexicon: Lexicon, pairs: list[tuple[str, str]], pad: Padding | None, data: st.DataObject
) -> None:
    encoded = encode_pairs(pairs)
    words = replace(lexicon.look_up(encoded.vocabulary), keys=np.arange(-1, len(encoded.vocabulary)))  # tell all apart
    index = np.array(data.draw(st.permutations(range(len(pairs)))))[: data.draw(st.integers(1, len(pairs)))]
    batch = assemble(encoded, words, index, pad)
    names = name_rows(batch, encoded, words)
    assert texts_of(batch, names, "question") == [tokenize(pairs[i][0]).words for i in index]
    assert texts_of(batch, names, "context") == [tokenize(pairs[i][1]).words for i in index]
    used = len({k for part in (batch.question, batch.context) for k in part.ravel().tolist()} | {0})
    filling = batch.words.take(slice(used, None))
    assert not filling.vectors.any()
    assert not filling.characters.any()
    assert (filling.lengths == 1).all()
    assert (filling.keys == -1).all()
    pad = pad or Padding()
    assert batch.question.shape[1] % pad.question == batch.context.shape[1] % pad.context == 0
    assert len(batch.words.lengths) % pad.words == 0
    assert len(batch.words.lengths) - used < pad.words
    assert batch.words.characters.shape[1] == max(pad.characters, batch.words.lengths.max())
    assert batch.target is None


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_vectors_keep_their_kind(lexicon: Lexicon, kind: type) -> None:
    encoded = encode_pairs([("what ?", "a small text")])
    words = lexicon.look_up(encoded.vocabulary)
    batch = assemble(encoded, replace(words, vectors=words.vectors.astype(kind)), np.array([0]), Padding(words=64))
    assert batch.words.vectors.dtype == kind


@pytest.mark.parametrize("pair", [("", "text"), ("what?", ""), ("what?", " \n")])
def test_an_empty_text_has_no_batch(lexicon: Lexicon, pair: tuple[str, str]) -> None:
    encoded = encode_pairs([pair])
    with pytest.raises(ValueError, match="a token"):
        assemble(encoded, lexicon.look_up(encoded.vocabulary), np.array([0]))


def one_long(start: int, end: int, length: int) -> Tree:
    """A passage of numbered words whose answer runs from one of them to another."""
    words = [f"w{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(length)]
    text = " ".join(words)
    answer = " ".join(words[start : end + 1])
    row = {"id": "q", "question": "Where?", "answers": [{"text": answer, "answer_start": start * 4}]}
    return {"data": [{"title": "", "paragraphs": [{"context": text, "qas": [row]}]}]}


@settings(max_examples=150, deadline=None)
@given(data=st.data(), length=st.integers(1, 300), limit=st.integers(1, 320))
def test_a_long_passage_is_cut_to_a_window_with_the_answer(
    tmp_path_factory: pytest.TempPathFactory, lexicon: Lexicon, data: st.DataObject, length: int, limit: int
) -> None:
    start = data.draw(st.integers(0, length - 1))
    end = data.draw(st.integers(start, length - 1))
    folder = tmp_path_factory.mktemp("cut")
    path = folder / "long.json"
    path.write_text(json.dumps(one_long(start, end, length)), encoding="utf-8")
    encoded = encode_file(path, folder)
    words = lexicon.look_up(encoded.vocabulary)
    whole, cut = (assemble(encoded, words, np.array([0]), max_context=most) for most in (None, limit))
    assert (whole.target.start.tolist(), whole.target.end.tolist(), whole.context.shape[1]) == ([start], [end], length)
    assert cut.context_lengths.tolist() == [min(length, limit)]
    first, last = int(cut.target.start[0]), int(cut.target.end[0])
    assert 0 <= first <= last < min(length, limit)
    assert last - first == min(end - start, limit - 1)
    begin, size = (int(part[0]) for part in crop(encoded, np.array([0]), limit))
    assert (begin + first, size) == (start, min(length, limit))
    tokens = encoded.context_tokens(0)[begin : begin + size]
    order = np.unique(np.concatenate([[0], tokens, encoded.question_tokens(0)]))
    order = order[np.argsort(words.lengths[order], kind="stable")]  # short words first
    assert np.array_equal(order[cut.context[0]], tokens)


def test_windows_say_nothing_about_where_the_answer_stands(tmp_path: Path, lexicon: Lexicon) -> None:
    """Centred windows would put every answer of a long passage in the middle."""
    row = one_long(300, 301, 600)["data"][0]["paragraphs"][0]
    rows = [row["qas"][0] | {"id": str(n)} for n in range(300)]
    path = tmp_path / "long.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [row | {"qas": rows}]}]}), encoding="utf-8")
    encoded = encode_file(path, tmp_path)
    batch = assemble(encoded, lexicon.look_up(encoded.vocabulary), np.arange(300), max_context=100)
    shares = np.histogram(batch.target.start, bins=5, range=(0, 99))[0] / 300
    assert (np.abs(shares - 0.2) < 0.08).all()
    alone = assemble(encoded, lexicon.look_up(encoded.vocabulary), np.array([17]), max_context=100)
    assert alone.target.start[0] == batch.target.start[17]  # whatever else is in the batch
    some = encoded.subset([17])
    again = assemble(some, lexicon.look_up(some.vocabulary), np.array([0]), max_context=100)
    assert again.target.start[0] == batch.target.start[17]


def test_a_question_without_an_answer_has_minus_one(
    tree: Tree, write: Callable[..., Path], tmp_path: Path, lexicon: Lexicon
) -> None:
    encoded = encode_file(write(tree), tmp_path / "cache")
    words = lexicon.look_up(encoded.vocabulary)
    batch = assemble(encoded, words, np.arange(5), max_context=8)
    assert (batch.target.start[3], batch.target.end[3]) == (-1, -1)
    assert (np.delete(batch.target.start, 3) >= 0).all()


@pytest.mark.data
def test_a_batch_of_48_is_assembled_in_about_a_millisecond(real_data: Path, tmp_path: Path) -> None:
    encoded = encode_file(real_data / "squad-v1.1" / "dev-v1.1.json.gz", tmp_path)
    words = Lexicon.build(encoded.vocabulary, Inputs()).look_up(encoded.vocabulary)
    pad = Padding(question=8, context=32, words=256, characters=16)
    spent, shapes = [], set()
    batches = Buckets(encoded.context_lengths, 48, seed=1).epoch(0)
    for index in batches:
        began = time.process_time()
        batch = assemble(encoded, words, index, pad, max_context=400)
        spent.append(time.process_time() - began)
        shapes.add((batch.question.shape, batch.context.shape, batch.words.vectors.shape))
    assert np.median(spent) < 0.004  # 0.7 ms on an idle core
    assert len(shapes) < len(batches) / 2


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_letters_are_listed_word_by_word(lengths: list[int]) -> None:
    words, places = list_letters(np.array(lengths))
    expected = [(word, place) for word, length in enumerate(lengths) for place in range(length)]
    assert list(zip(words, places, strict=True))[: len(expected)] == expected
    assert not words[len(expected) :].any()
    assert not places[len(expected) :].any()
    assert len(words) in [each * len(lengths) for each in (8, 16, 32, 64)]  # few sizes, so that shapes repeat
