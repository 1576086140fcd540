"""The lexicon: what it says about a word, and that a saved one says the same."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmreader.core.errors import UserError
from rmreader.core.recipe import Inputs
from rmreader.text.lexicon import Lexicon
from rmreader.text.tokens import tokenize
from rmreader.text.vectors import SHIPPED, SubwordTable

TRAINING = ["the", "The", "queen", "of", "the", "sea", "Zürich", "xqzzy"]
ANY_WORDS = st.lists(st.text(st.characters(exclude_categories=()), min_size=1, max_size=40), max_size=30)


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return Lexicon.build(TRAINING, Inputs())


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    path = tmp_path / "glove.txt"
    path.write_text("the 1 2 3\nqueen 4 5 6\nof 7 8 9\nsea 1 1 1\nwhale 2 2 2\nunused 3 3 3\n", encoding="utf-8")
    return path


def test_without_vectors_a_word_is_its_characters_alone(tmp_path: Path) -> None:
    lexicon = Lexicon.build(TRAINING, Inputs(vectors=""))
    lexicon.save(tmp_path)
    for one in (lexicon, Lexicon.load(tmp_path)):
        rows = one.look_up(["sea", "seas"])
        assert rows.vectors.shape == (3, 0)
        assert rows.characters[1, :3].all()


@settings(max_examples=300, deadline=None)
@given(words=ANY_WORDS)
def test_rows_say_what_the_words_are(lexicon: Lexicon, words: list[str]) -> None:
    rows = lexicon.look_up(words)
    assert rows.vectors.shape == (len(words) + 1, lexicon.dim)
    assert {len(getattr(rows, name)) for name in ("characters", "lengths", "keys", "trainable")} == {len(words) + 1}
    # row 0 is padding
    assert not rows.vectors[0].any()
    assert not rows.characters[0].any()
    assert (rows.lengths[0], rows.keys[0], rows.trainable[0]) == (1, -1, 0)
    known = {character: lexicon.characters.index(ord(character)) + 2 for word in TRAINING for character in word}
    for row, word in enumerate(words, start=1):
        length = min(len(word), 16)
        assert rows.lengths[row] == length
        assert rows.characters[row, :length].tolist() == [known.get(c, 1) for c in word[:16]]
        assert not rows.characters[row, length:].any()
        assert rows.keys[row] >= 0
        assert [k for k in range(len(words)) if rows.keys[k + 1] == rows.keys[row]] == [
            k for k, other in enumerate(words) if other.casefold() == word.casefold()
        ]
    assert not rows.trainable.any()
    assert rows.characters.max() < lexicon.character_count


def test_keys_are_equal_whatever_the_case(lexicon: Lexicon) -> None:
    words = ["The", "the", "THE", "then", "Straße", "STRASSE", "straße", "Σ", "ς", "σ"]
    assert lexicon.look_up(words).keys.tolist() == [-1, 0, 0, 0, 1, 2, 2, 2, 3, 3, 3]


def test_characters_are_numbered_by_how_often_they_stand_in_training() -> None:
    counted = Lexicon.build({"ab": 1, "b": 5, "c": 2}, Inputs())
    spelled_out = Lexicon.build(["ab", *"bbbbb", "c", "c"], Inputs())
    assert [chr(point) for point in counted.characters] == ["b", "c", "a"]
    assert counted.fingerprint == spelled_out.fingerprint
    assert counted.character_count == 5


def test_long_words_are_cut() -> None:
    lexicon = Lexicon.build(["abcdefgh"], Inputs(max_characters=3))
    rows = lexicon.look_up(["abcdefgh", "a"])
    assert rows.characters.shape == (3, 3)
    assert rows.lengths.tolist() == [1, 3, 1]


def test_a_subword_table_has_a_vector_for_every_word_and_trains_none(lexicon: Lexicon) -> None:
    assert lexicon.trainable_count == 1
    rows = lexicon.look_up(["never", "seenbefore", "🎉"])
    assert np.array_equal(rows.vectors[1:], SubwordTable.load("pieces").look_up(["never", "seenbefore", "🎉"]))


def test_glove_vectors_are_frozen_and_the_other_training_words_get_rows_of_their_own(glove: Path) -> None:
    lexicon = Lexicon.build([*TRAINING, "xqzzy"], Inputs(vectors=str(glove)), also=["whale", "kraken"])
    assert (lexicon.dim, lexicon.trainable_count) == (3, 4)  # none, unknown, xqzzy, Zürich
    words = ["The", "queen", "whale", "xqzzy", "Zürich", "kraken", "unused"]
    rows = lexicon.look_up(words)
    assert dict(zip(words, rows.trainable[1:].tolist(), strict=True)) == {
        "The": 0,
        "queen": 0,
        "whale": 0,  # known through `also`
        "xqzzy": 2,  # the more frequent first
        "Zürich": 3,
        "kraken": 1,  # never seen in training
        "unused": 1,  # only the wanted words were kept
    }
    assert rows.vectors[1:].tolist() == [[1, 2, 3], [4, 5, 6], [2, 2, 2], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]


def same(one: Lexicon, other: Lexicon, words: list[str]) -> bool:
    first, second = one.look_up(words), other.look_up(words)
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in first.__dataclass_fields__)


def test_a_saved_lexicon_is_the_same_lexicon(lexicon: Lexicon, glove: Path, tmp_path: Path) -> None:
    own_table = tmp_path / "own.safetensors"
    shutil.copy(SHIPPED / "pieces.safetensors", own_table)
    kinds = {
        "shipped": lexicon,
        "glove": Lexicon.build(TRAINING, Inputs(vectors=str(glove))),
        "own": Lexicon.build(TRAINING, Inputs(vectors=str(own_table))),
        "empty": Lexicon.build([], Inputs()),
    }
    words = ["The", "xqzzy", "whale", "Zürich", "\ud800", "日本", "x" * 50]
    for name, original in kinds.items():
        original.save(tmp_path / name)
        again = Lexicon.load(tmp_path / name)
        assert same(original, again, words)
        assert again.fingerprint == original.fingerprint
        assert (again.dim, again.character_count, again.trainable_count) == (
            original.dim,
            original.character_count,
            original.trainable_count,
        )
        again.save(tmp_path / name)  # over itself
        assert same(original, Lexicon.load(tmp_path / name), words)
    assert [path.name for path in (tmp_path / "shipped").iterdir()] == ["lexicon.json"]
    glove.unlink()
    own_table.unlink()
    for name in ("glove", "own"):  # the folder needs nothing but itself
        assert same(kinds[name] if name == "glove" else lexicon, Lexicon.load(tmp_path / name), words)


def test_fingerprints_tell_lexicons_apart(lexicon: Lexicon, glove: Path) -> None:
    others = [
        Lexicon.build(["other"], Inputs()),
        Lexicon.build(TRAINING, Inputs(max_characters=15)),
        Lexicon.build(TRAINING, Inputs(vectors=str(glove))),
        Lexicon.build(["the", "queen"], Inputs(vectors=str(glove))),
    ]
    assert len({lexicon.fingerprint, *(other.fingerprint for other in others)}) == 5


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda tree: tree["vectors"].update(sha256="0" * 64), "not the vectors this reader was trained with"),
        (lambda tree: tree["vectors"].update(table="gone"), "gone: no such word vectors"),
        (lambda tree: tree.update(format=99), "another version"),
        (lambda tree: tree.pop("characters"), "damaged"),
        (lambda tree: tree.update(characters=["a"]), "damaged"),
        (lambda tree: tree.update(characters=[-5]), "damaged"),
        (lambda tree: tree.update(vectors=3), "damaged"),
        (lambda tree: tree.update(max_characters="16"), "max_characters is '16'"),
        (lambda tree: tree.update(max_characters=-1), "max_characters is -1"),
        (lambda tree: tree.update(max_characters=10**9), "max_characters is 1000000000"),
        (lambda tree: tree.update(trained=[5]), "a word is not text"),
        (lambda tree: tree.update(words=[None]), "a word is not text"),
    ],
)
def test_a_spoilt_lexicon_is_one_clear_sentence(lexicon: Lexicon, tmp_path: Path, spoil: object, message: str) -> None:
    lexicon.save(tmp_path)
    path = tmp_path / "lexicon.json"
    tree = json.loads(path.read_text(encoding="utf-8"))
    spoil(tree)  # type: ignore[operator]
    path.write_text(json.dumps(tree), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        Lexicon.load(tmp_path)


def test_missing_and_cut_files_are_named(glove: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"lexicon\.json: no such file"):
        Lexicon.load(tmp_path / "nowhere")
    folder = tmp_path / "reader"
    Lexicon.build(TRAINING, Inputs(vectors=str(glove))).save(folder)
    whole = (folder / "vectors.safetensors").read_bytes()
    (folder / "vectors.safetensors").write_bytes(whole[:-4])
    with pytest.raises(UserError, match=r"vectors\.safetensors: these are not the vectors"):
        Lexicon.load(folder)
    (folder / "vectors.safetensors").unlink()
    with pytest.raises(UserError, match=r"vectors\.safetensors: .* missing"):
        Lexicon.load(folder)
    (folder / "lexicon.json").write_text('{"format": 1, "vec', encoding="utf-8")
    with pytest.raises(UserError, match=r"lexicon\.json: line 1, column 15: not valid JSON"):
        Lexicon.load(folder)


def test_looking_up_a_passage_takes_about_a_millisecond(lexicon: Lexicon) -> None:
    words = sorted(set(tokenize(" ".join(f"{k} word{k} plays in the town of Ulm" for k in range(150))).words))
    assert 150 < len(words) < 500
    spent = []
    for _ in range(20):
        began = time.process_time()
        lexicon.look_up(words)
        spent.append(time.process_time() - began)
    assert min(spent) < 0.003
