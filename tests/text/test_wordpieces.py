"""Our word pieces are those of the package ``tokenizers``, piece for piece."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rmreader.data.squad import read_squad
from rmreader.readers.folder import SHIPPED
from rmreader.text import pieces as rules
from rmreader.text.pieces import MOST_PIECES, Pieces
from rmreader.text.tokens import tokenize
from rmreader.text.wordpieces import WordPieces
from rmreader.text.words import encodable

ENCODER = SHIPPED / "base" / "encoder"
# Blocks that have not changed for long: tokenizers knows Unicode as of version 8, and has no categories for some 500
# characters of rare scripts that came later.
BLOCKS = [
    (0, 0x5FF),
    (0x1E00, 0x2E42),
    (0x3000, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xF900, 0xFFEF),
    (0x1F300, 0x1F5FF),
    (0x20000, 0x2A6DF),
]
LETTERS = st.one_of(*(st.characters(min_codepoint=first, max_codepoint=last) for first, last in BLOCKS))
ODD = ["don't", "naïve", "ΣΑΣ", "中文x", "a\u200bb", "[CLS]x", "x[SEP]", "ﬁ", "İ", "\x00", "\ufffd"]
ODD += ["a\tb\u3000c", "e\u0301"]


@pytest.fixture(scope="module")
def tree() -> Any:
    return json.loads((ENCODER / "tokenizer.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def ours(tree: Any) -> WordPieces:
    pieces = WordPieces.from_tree(tree)
    assert pieces is not None
    return pieces


@pytest.fixture(scope="module")
def theirs(tree: Any) -> Any:
    pytest.importorskip("tokenizers")
    return rules._Foreign(tree)


@given(st.lists(st.text(LETTERS, max_size=12) | st.sampled_from(ODD), max_size=4).map("".join))
@example("a" * 101)
@example("")
@settings(max_examples=400, deadline=None)
def test_a_word_has_the_same_pieces(ours: WordPieces, theirs: Any, word: str) -> None:
    (expected,) = theirs.split_words([encodable(word)])
    assert ours.split(encodable(word)) == expected


def test_every_piece_of_the_vocabulary_and_every_odd_word(ours: WordPieces, theirs: Any, tree: Any) -> None:
    words = [*tree["model"]["vocab"], *ODD]
    assert [ours.split(word) for word in words] == list(theirs.split_words(words))


@pytest.mark.data
@pytest.mark.parametrize("name", ["dev-v1.1.json.gz", "train-v1.1.json.gz"])
def test_every_word_of_squad(ours: WordPieces, theirs: Any, real_data: Path, name: str) -> None:
    texts = set()
    for paragraph, question in read_squad(real_data / "squad-v1.1" / name).questions():
        texts |= {paragraph.context, question.text}
    words = sorted({encodable(word) for text in texts for word in tokenize(text).words})
    assert len(words) > 25_000
    assert [ours.split(word) for word in words] == list(theirs.split_words(words))


def test_what_is_around_texts_is_the_same(theirs: Any) -> None:
    pieces = Pieces(ENCODER)
    assert isinstance(pieces._tokenizer, rules._Own)
    assert pieces.single == theirs.frame("a")
    assert pieces.pair == theirs.frame("a", "b")
    table = pieces.table(["a", "", "x " * 40])
    assert table.offsets.tolist() == [0, 0, 1, 2, 2 + MOST_PIECES]


@pytest.mark.parametrize("part", ["normalizer", "pre_tokenizer", "model", "added_tokens"])
def test_another_kind_is_left_to_the_package(tree: Any, part: str) -> None:
    other = dict(tree)
    if part == "model":
        other["model"] = tree["model"] | {"continuing_subword_prefix": "@@"}
    elif part == "added_tokens":
        other["added_tokens"] = [tree["added_tokens"][0] | {"normalized": True}]
    else:
        other[part] = None
    assert WordPieces.from_tree(other) is None


def test_a_damaged_vocabulary_is_refused(tree: Any) -> None:
    for number in (-1, "7", True, 1 << 40):
        model = tree["model"] | {"vocab": tree["model"]["vocab"] | {"zebra": number}}
        with pytest.raises(ValueError, match="the number of the piece 'zebra'"):
            WordPieces.from_tree(tree | {"model": model})


def test_the_shipped_base_reads_without_the_package() -> None:
    script = """
        import sys
        sys.modules["tokenizers"] = None
        sys.modules["huggingface_hub"] = None
        from rmreader import Reader
        print(Reader.load("base").ask("Who wrote it?", "The letter was written by Ada Lovelace.")[0].text)
    """
    lines = "\n".join(line.strip() for line in script.splitlines())
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False, timeout=600)
    assert done.stdout == "Ada Lovelace\n", done.stderr
