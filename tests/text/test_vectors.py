"""Subword tables: the pieces BERT would take, their mean, the shipped file, and files that are no table."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmreader.core.errors import UserError
from rmreader.text.tokens import tokenize
from rmreader.text.vectors import SHIPPED, SubwordTable, plain


@pytest.fixture(scope="module")
def shipped() -> SubwordTable:
    return SubwordTable.load("pieces")


def small_table() -> SubwordTable:
    pieces = ["[UNK]", "un", "##aff", "##able", "affable", "##a", "a", "é"]
    rows = np.arange(len(pieces) * 4, dtype=np.int8).reshape(-1, 4)
    return SubwordTable(pieces, rows, np.linspace(0.5, 1.2, len(pieces), dtype=np.float32))


WORDS = st.text(st.sampled_from("abcdeghilmnorstuzABÉéñßİỆ\u0301日本1 2.,—"), max_size=30) | st.text(
    st.characters(exclude_categories=()), max_size=30
)


@pytest.fixture(scope="module")
def reference(shipped: SubwordTable) -> Any:
    models = pytest.importorskip("tokenizers.models", reason="tokenizers is not installed")
    vocabulary = {piece: number for number, piece in enumerate(shipped.pieces)}
    return models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100)


@settings(max_examples=1000, deadline=None)
@given(word=WORDS)
def test_pieces_are_those_of_the_reference_wordpiece(shipped: SubwordTable, reference: Any, word: str) -> None:
    text = plain(word)
    if not text or any("\ud800" <= c <= "\udfff" for c in text):  # the reference takes neither
        assert [shipped.pieces[k] for k in shipped.split(word)] == ["[UNK]"]
    else:
        assert shipped.split(word) == tuple(token.id for token in reference.tokenize(text))


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("Café", "cafe"),
        ("E\u0301cole", "ecole"),
        ("İstanbul", "istanbul"),
        ("STRASSE", "strasse"),
        ("ß", "ß"),
        ("Ω", "ω"),
    ],
)
def test_words_are_lowered_and_lose_their_accents(word: str, text: str) -> None:
    assert plain(word) == text


def test_longest_match_first_and_unknown_as_a_whole() -> None:
    table = small_table()
    named = {
        word: [table.pieces[k] for k in table.split(word)] for word in ("unaffable", "Affable", "unx", "", "a" * 101)
    }
    assert named == {
        "unaffable": ["un", "##aff", "##able"],
        "Affable": ["affable"],
        "unx": ["[UNK]"],
        "": ["[UNK]"],
        "a" * 101: ["[UNK]"],
    }
    assert len(table.split("a" * 100)) == 100


def test_a_vector_is_the_mean_of_its_pieces() -> None:
    table = small_table()
    rows = table.vectors.astype(np.float64) * table.scale[:, None]
    expected = np.stack([rows[[1, 2, 3]].mean(axis=0), rows[4], rows[0]])
    found = table.look_up(["unaffable", "affable", "?"])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert table.look_up([]).shape == (0, 4)


@settings(max_examples=50, deadline=None)
@given(words=st.lists(WORDS, min_size=1, max_size=40))
def test_a_word_has_the_same_vector_whatever_is_looked_up_with_it(shipped: SubwordTable, words: list[str]) -> None:
    together = shipped.look_up(words)
    for row, word in zip(together, words, strict=True):
        assert np.array_equal(row, shipped.look_up([word])[0])


def test_the_shipped_table_is_as_described(shipped: SubwordTable) -> None:
    assert shipped.dim == 320
    assert (SHIPPED / "pieces.safetensors").stat().st_size <= 10_200_000
    assert not any(piece.startswith("[unused") for piece in shipped.pieces)
    words = tokenize("What is the name of the team that was in Paris in 1990? Who, when and how many?").words
    assert 0.2 < float(np.sqrt((shipped.look_up(words) ** 2).mean())) < 0.8
    # related words stand closer than unrelated ones
    king, queen, banana = shipped.look_up(["king", "queen", "banana"])
    assert king @ queen > 2 * abs(king @ banana)


def test_loading_and_looking_up_are_quick(shipped: SubwordTable) -> None:
    def best(action: Callable[[], Any], times: int = 5) -> float:
        spent = []
        for _ in range(times):
            began = time.process_time()
            action()
            spent.append(time.process_time() - began)
        return min(spent)

    assert best(lambda: SubwordTable.load("pieces")) < 0.05
    sentence = tokenize("In what city did Super Bowl 50 take place?").words
    assert best(lambda: shipped.look_up(sentence), 50) < 0.0005
    many = [f"word{number:x}s" for number in range(100_000)]
    assert best(lambda: shipped.look_up(many), 1) < 6


def test_the_memory_of_split_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmreader.text.vectors._CACHED_WORDS", 10)
    table = small_table()
    for number in range(100):
        table.split(f"a{number}")
    table.split("a" * 100_000)
    assert len(table._cache) <= 10
    assert max(map(len, table._cache)) <= 100


def test_a_table_survives_its_file(tmp_path: Path) -> None:
    table = small_table()
    path = tmp_path / "own.safetensors"
    path.write_bytes(table.to_bytes())
    again = SubwordTable.load(path)
    assert again.pieces == table.pieces
    assert again.sha256 == table.sha256
    assert again.shipped == ""
    assert np.array_equal(again.look_up(["unaffable"]), table.look_up(["unaffable"]))
    assert again.to_bytes() == table.to_bytes()


def spoil(content: bytes) -> dict[str, bytes]:
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    missing = {name: entry for name, entry in header.items() if name != "scale"}
    twisted = header | {"vectors": header["vectors"] | {"dtype": "F32"}}
    far = header | {"vectors": header["vectors"] | {"data_offsets": [0, 10**9]}}

    def with_header(tree: object) -> bytes:
        text = json.dumps(tree).encode()
        return struct.pack("<Q", len(text)) + text + content[8 + length :]

    return {
        "empty": b"",
        "cut in the header": content[:40],
        "cut in the data": content[:-20],
        "not safetensors": b"\xff" * 200,
        "no header object": with_header([1, 2]),
        "scale missing": with_header(missing),
        "vectors of another kind": with_header(twisted),
        "offsets outside": with_header(far),
        "pieces not UTF-8": content.replace("é".encode(), b"\xc3\xc3"),
        "piece twice": content.replace(b"##aff\n", b"##abl\n").replace(b"##able", b"##abl\n"),
    }


@pytest.mark.parametrize("how", list(spoil(small_table().to_bytes())))
def test_a_damaged_table_is_one_clear_sentence(tmp_path: Path, how: str) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(spoil(small_table().to_bytes())[how])
    with pytest.raises(UserError, match=r"bad\.safetensors: not a subword table \(.+\); .+\.$") as caught:
        SubwordTable.load(path)
    assert "\n" not in str(caught.value)


def test_an_unknown_name_names_what_there_is() -> None:
    with pytest.raises(UserError, match=r"pices: no such word vectors; .*\(pieces\)"):
        SubwordTable.load("pices")
