"""The cache of frozen vectors: what the encoder gives, computed once, whatever happens on the way."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.encoders import TEXTS, build_bert
from torch import Tensor

from rmreader.core.errors import UserError
from rmreader.data.batches import token_rows
from rmreader.data.encode import encode_pairs
from rmreader.data.encoded import Encoded
from rmreader.model.contextual import FrozenElmo, FrozenTransformer
from rmreader.training import frozen_vectors
from rmreader.training.frozen_vectors import FrozenVectors, open_vectors


class Counting(FrozenTransformer):
    """Counts the texts it is asked to encode; slow where asked."""

    asked = 0
    pause = 0.0

    def encode(self, table: Any, texts: Sequence[np.ndarray]) -> Tensor:
        self.asked += len(texts)
        time.sleep(self.pause)
        return super().encode(table, texts)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def encoder(folder: Path) -> Counting:
    return Counting(folder)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen_vectors, "_CHUNK", 60)


@pytest.fixture(scope="module")
def encoded() -> Encoded:
    pairs = [(f"What is number {k} of them?", " ".join(TEXTS[: k % 3 + 1]) * (1 + k % 4)) for k in range(9)]
    return encode_pairs([*pairs, ("", ""), (pairs[0][0], pairs[3][1])])


def same(one: FrozenVectors, other: FrozenVectors) -> bool:
    return torch.equal(one.contexts, other.contexts) and torch.equal(one.questions, other.questions)


def test_vectors_are_those_of_the_encoder_in_half_precision(
    encoder: Counting, encoded: Encoded, tmp_path: Path
) -> None:
    cache = open_vectors(encoded, encoder, tmp_path)
    table = encoder.table(encoded.vocabulary)
    for found, part in ((cache.contexts, "context"), (cache.questions, "question")):
        assert found.dtype == torch.float16
        tokens, bounds = encoded.arrays[f"{part}_tokens"], encoded.arrays[f"{part}_bounds"]
        assert found.shape == (1 + bounds[-1], 3, 32)
        assert not found[0].any()
        for begin, end in itertools.pairwise(bounds):
            if begin < end:
                alone = encoder.encode(table, [tokens[begin:end]])
                torch.testing.assert_close(found[begin + 1 : end + 1].float(), alone, atol=5e-3, rtol=2e-3)


def test_a_passage_is_encoded_once_however_many_questions_it_has(
    encoder: Counting, encoded: Encoded, tmp_path: Path
) -> None:
    first = open_vectors(encoded, encoder, tmp_path)
    texts = 9 + 10  # distinct passages and questions with words; the last passage is an earlier one
    assert encoder.asked == texts
    assert same(open_vectors(encoded, encoder, tmp_path), first)
    assert same(open_vectors(encoded.subset([2, 1]), encoder, tmp_path), first)
    assert encoder.asked == texts
    open_vectors(encode_pairs([("Other words?", "Another passage.")]), encoder, tmp_path)
    assert encoder.asked == texts + 2


def test_another_encoder_has_vectors_of_its_own(
    encoder: Counting, encoded: Encoded, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, real_data: Path
) -> None:
    first = open_vectors(encoded, encoder, tmp_path)
    narrower = Counting(build_bert(tmp_path_factory.mktemp("narrower"), window=90))
    assert narrower.fingerprint != encoder.fingerprint
    assert not same(open_vectors(encoded, narrower, tmp_path), first)
    elmo = open_vectors(encoded, FrozenElmo(real_data / "elmo-fixture"), tmp_path)
    assert elmo.contexts.shape[1:] == (3, 32)
    assert len(list((tmp_path / "contextual").iterdir())) == 3


def test_gather_gives_the_tokens_asked_for_and_zeros_behind(
    encoder: Counting, encoded: Encoded, tmp_path: Path
) -> None:
    cache = open_vectors(encoded, encoder, tmp_path)
    index, begin, lengths = np.array([4, 0, 10]), np.array([3, 0, 5]), np.array([6, 9, 2])
    rows = token_rows(encoded, index, begin, lengths, 12, 11)
    question, context = cache.gather(*map(torch.from_numpy, rows))
    assert question.shape == (3, 12, 3, 32)
    assert context.shape == (3, 11, 3, 32)
    for k, i in enumerate(index.tolist()):
        first = encoded.arrays["context_bounds"][encoded.paragraph[i]] + 1 + begin[k]
        assert torch.equal(context[k, : lengths[k]], cache.contexts[first : first + lengths[k]])
        assert not context[k, lengths[k] :].any()
        first, size = encoded.arrays["question_bounds"][i] + 1, encoded.question_lengths[i]
        assert torch.equal(question[k, :size], cache.questions[first : first + size])
        assert not question[k, size:].any()


def chunks_done(cache: Path) -> int:
    """As far as the manifest on disk says."""
    return sum(path.read_text().count("-") for path in cache.glob("contextual/*/context.json"))


def test_a_build_that_is_killed_goes_on_where_it_stood(encoder: Counting, encoded: Encoded, tmp_path: Path) -> None:
    whole = open_vectors(encoded, encoder, tmp_path / "whole")
    total = encoder.asked
    encoder.pause = 0.05
    for kills in range(1, 4):
        child = os.fork()
        if child == 0:
            open_vectors(encoded, encoder, tmp_path / "killed")
            os._exit(0)
        until = time.monotonic() + 300
        while chunks_done(tmp_path / "killed") < kills and time.monotonic() < until:
            time.sleep(0.005)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    encoder.asked = 0
    assert same(open_vectors(encoded, encoder, tmp_path / "killed"), whole)
    assert 0 < encoder.asked < total


@pytest.mark.parametrize("damage", ["chunk", "shorter", "manifest", "padding"])
def test_damage_is_found_and_made_good(encoder: Counting, encoded: Encoded, tmp_path: Path, damage: str) -> None:
    before = open_vectors(encoded, encoder, tmp_path)
    contexts, questions = before.contexts.clone(), before.questions.clone()
    del before
    total, encoder.asked = encoder.asked, 0
    (entry,) = (tmp_path / "contextual").iterdir()
    path = entry / "context.f16"
    content = bytearray(path.read_bytes())
    if damage == "chunk":
        content[len(content) // 2] ^= 255
        path.write_bytes(content)
    elif damage == "padding":
        content[0] = 1
        path.write_bytes(content)
    elif damage == "shorter":
        path.write_bytes(content[:-2])
    else:
        (entry / "context.json").write_text("{")
    after = open_vectors(encoded, encoder, tmp_path)
    assert torch.equal(after.contexts, contexts)
    assert torch.equal(after.questions, questions)
    assert encoder.asked < total
    assert (encoder.asked > 0) == (damage != "padding")


def test_nothing_need_be_written(encoder: Counting, encoded: Encoded, tmp_path: Path) -> None:
    kept = open_vectors(encoded, encoder, tmp_path / "kept")
    assert same(open_vectors(encoded, encoder, tmp_path / "other", keep=False), kept)
    assert not (tmp_path / "other").exists()


def test_too_little_room_is_said_before_anything_is_computed(
    encoder: Counting, encoded: Encoded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 1 << 20})
    monkeypatch.setattr(frozen_vectors.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(UserError, match="GB of disk; make room"):
        open_vectors(encoded, encoder, tmp_path)
    assert encoder.asked == 0
