"""The tokenizer: exact offsets on any text, and how well its rule fits SQuAD's answers."""

from __future__ import annotations

import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmreader.data.squad import read_squad
from rmreader.text.tokens import tokenize

# Any code points at all, lone surrogates too, and mixtures in which the interesting ones meet.
ANY = st.text(st.characters(exclude_categories=()))
TRICKY = st.text(st.sampled_from("aZé\u0301\u0903\u20dd09٣²½ⅠⅫ_-.\u200b\u00a0\u3000 \n\x00\x1c\ud800\udfffß日🎉"))


def slowly(text: str) -> list[tuple[int, int]]:
    """The rule as the module docstring gives it, one character after the other."""
    spans: list[tuple[int, int]] = []
    open_kind = ""
    for place, character in enumerate(text):
        category = unicodedata.category(character)
        kind = "letter" if category[0] == "L" else "digit" if category == "Nd" else "other"
        if kind == "other" and category[0] == "M" and open_kind == "letter":
            kind = "letter"
        if character.isspace():
            open_kind = ""
        elif kind == open_kind and kind != "other":
            spans[-1] = (spans[-1][0], place + 1)
        else:
            spans.append((place, place + 1))
            open_kind = kind
    return spans


@settings(max_examples=10_000, deadline=None)
@given(ANY | TRICKY)
def test_tokens_follow_the_rule_and_tile_the_non_space_characters_of_any_text(text: str) -> None:
    tokens = tokenize(text)
    spans = list(zip(tokens.starts.tolist(), tokens.ends.tolist(), strict=True))
    assert spans == slowly(text)
    assert tokens.words == [text[start:end] for start, end in spans]
    assert "".join(tokens.words) == "".join(c for c in text if not c.isspace())
    assert len(tokens) == len(tokens.words)
    assert tokens.starts.dtype == tokens.ends.dtype == "int32"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \n\t ", []),
        ("U.S. $5km", ["U", ".", "S", ".", "$", "5", "km"]),
        ("can't 1,487.5", ["can", "'", "t", "1", ",", "487", ".", "5"]),
        ("café cafe\u0301", ["café", "cafe\u0301"]),
        ("\u0301a 5\u0301", ["\u0301", "a", "5", "\u0301"]),
        ("m² ½ Ⅻ", ["m", "²", "½", "Ⅻ"]),
        ("snake_case", ["snake", "_", "case"]),
        ("24–10", ["24", "–", "10"]),
        ("a\u200bb", ["a", "\u200b", "b"]),
        ("٣٤ \x00", ["٣٤", "\x00"]),
    ],
)
def test_words_of(text: str, words: list[str]) -> None:
    assert tokenize(text).words == words


@pytest.mark.parametrize("unit", ["a", "é", "a\u0301", "\u0301", "1", "²", ".", "\ud800", "日", "🎉 ", "a1", " "])
def test_time_is_linear_in_the_length(unit: str) -> None:
    began = time.process_time()
    tokenize(unit * 500_000)
    assert time.process_time() - began < 5  # about half a second where every character is a token


@pytest.mark.data
@pytest.mark.parametrize(
    ("part", "answers", "inside_words", "questions_without"), [("train", 87_599, 222, 222), ("dev", 34_726, 71, 1)]
)
def test_squad_answers_lie_on_token_boundaries(
    real_data: Path, part: str, answers: int, inside_words: int, questions_without: int
) -> None:
    """docs/data.md gives these shares. What is missed are answers that cut a word, which no rule for words can meet."""
    total = missed = without = 0
    for article in read_squad(real_data / "squad-v1.1" / f"{part}-v1.1.json.gz").articles:
        for paragraph in article.paragraphs:
            context, tokens = paragraph.context, tokenize(paragraph.context)
            starts, ends = set(tokens.starts.tolist()), set(tokens.ends.tolist())
            for question in paragraph.questions:
                met = [a.start in starts and a.start + len(a.text) in ends for a in question.answers]
                total, missed, without = total + len(met), missed + met.count(False), without + (not any(met))
                for answer, is_met in zip(question.answers, met, strict=True):
                    end = answer.start + len(answer.text)
                    assert is_met or cuts_a_word(context, answer.start) or cuts_a_word(context, end)
    assert (total, missed, without) == (answers, inside_words, questions_without)


def cuts_a_word(text: str, place: int) -> bool:
    """Whether two letters or two digits stand on the two sides of a place."""
    sides = text[place - 1 : place + 1] if place else ""
    return len(sides) == 2 and (sides.isalpha() or sides.isdigit())
