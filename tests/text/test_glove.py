"""GloVe text files: only what is wanted is kept, and a malformed line is named."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from rmreader.core.errors import UserError
from rmreader.text.glove import read_glove

LINES = "the 0.5 -1.25 3\nParis 1 2 3\nparis 4 5 6\n. . . 7 8 9\ncafé 1e-3 0 -0\n"


def write(folder: Path, text: str | bytes, name: str = "glove.txt") -> Path:
    path = folder / name
    content = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


@pytest.mark.parametrize("name", ["glove.txt", "glove.txt.gz"])
def test_wanted_words_are_found_as_they_are_and_then_lowered(tmp_path: Path, name: str) -> None:
    known = read_glove(write(tmp_path, LINES, name), ["The", "Paris", "PARIS", "café", ". . .", "missing"])
    assert known.dim == 3
    rows = {word: known.row(word) for word in ("The", "the", "Paris", "PARIS", "paris", "café", ". . .", "missing")}
    assert rows.pop("missing") is None
    vectors = {word: known.vectors[row].tolist() for word, row in rows.items() if row is not None}
    assert vectors["The"] == vectors["the"] == [0.5, -1.25, 3]
    assert vectors["Paris"] == [1, 2, 3]
    assert vectors["PARIS"] == vectors["paris"] == [4, 5, 6]
    assert vectors[". . ."] == [7, 8, 9]
    assert known.vectors.dtype == np.float32


def test_only_wanted_words_are_kept(tmp_path: Path) -> None:
    assert list(read_glove(write(tmp_path, LINES), ["the"]).rows) == ["the"]
    nothing = read_glove(write(tmp_path, LINES), [])
    assert nothing.vectors.shape == (0, 3)
    assert nothing.row("the") is None


def test_a_header_line_windows_line_ends_and_odd_spaces_are_taken(tmp_path: Path) -> None:
    text = "2 3\r\nthe 1 2 3 \r\nnew\u00a0york 4 5 6\r\n"  # word2vec's header; fastText's trailing space; GloVe's nbsp
    known = read_glove(write(tmp_path, text), ["the", "new\u00a0york"])
    assert {word: known.vectors[row].tolist() for word, row in known.rows.items()} == {
        "the": [1, 2, 3],
        "new\u00a0york": [4, 5, 6],
    }


def test_the_first_of_two_lines_for_a_word_counts(tmp_path: Path) -> None:
    known = read_glove(write(tmp_path, "a 1 2\na 3 4\n"), ["a"])
    assert known.vectors.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1 2 3\nb 1 2\n", r"line 2: malformed vector \(expected a word and 3 numbers\)"),
        ("a 1 2 3\n\nb 1 2 3\n", r"line 2: malformed"),
        ("alone\n", r"line 1: malformed"),
        ("a 1 2 x3\n", r"line 1: malformed vector \(could not convert"),
        ("b 1 2 3\na 1 nan 3\n", r"line 2: malformed .*not a number"),
        ("a 1 inf 3\n", r"line 1: malformed .*infinite"),
        ("a 1 1e60 3\n", r"line 1: malformed .*infinite"),
        ("", r"holds no vectors"),
        ("3 100\n", r"holds no vectors"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=rf"glove\.txt: {message}"):
        read_glove(write(tmp_path, text), ["a", "b"])


def test_files_that_cannot_be_read_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_glove(tmp_path / "none.txt", ["a"])
    with pytest.raises(UserError, match="cannot be read"):
        read_glove(tmp_path, ["a"])
    whole = gzip.compress(("word 1 2 3\n" * 9999).encode())
    for cut in (whole[: len(whole) // 2], whole[:-4], whole[:50] + b"\0\0\0\0" + whole[54:]):
        with pytest.raises(UserError, match="cut short or damaged"):
            read_glove(write(tmp_path, cut, "cut.txt"), ["a"])


@pytest.mark.data
def test_true_glove_vectors_are_read(real_data: Path) -> None:
    known = read_glove(real_data / "glove" / "glove.6B.100d.subset.txt.gz", ["The", "qwertyzxcv"])
    assert list(known.rows) == ["the"]
    np.testing.assert_allclose(known.vectors[0, :4], [-0.038194, -0.24487, 0.72812, -0.39961], rtol=1e-6)


def test_a_line_without_an_end_is_not_read_to_it(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_bytes(b"word 1 2 3\n" + b"1 " * (1 << 20))
    with pytest.raises(UserError, match=r"line 2: malformed vector \(more than 1,048,576 bytes\)"):
        read_glove(path, ["word"])
