"""Passages longer than a reader's window: read in portions, and the best places once more."""

from __future__ import annotations

import dataclasses
import math
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rmreader.reading.engine.engines import EncoderInput, Logits
from rmreader.reading.question import PendingQuestion
from rmreader.reading.reader import Reader
from rmreader.reading.rows import QuestionRow
from rmreader.reading.spans import log_softmax, span_scores
from rmreader.text.tokens import tokenize

QUESTION = "Which team did the Denver Broncos defeat?"
PASSAGE = (
    "Super Bowl 50 was an American football game. The American Football Conference (AFC) champion Denver Broncos "
    "defeated the National Football Conference (NFC) champion Carolina Panthers 24–10 to earn their third title."
)


@given(st.integers(1, 260))
@settings(max_examples=20, deadline=None)
def test_windowed_equals_unwindowed_whenever_it_fits(reader: Reader, windowed: Reader, words: int) -> None:
    text = " ".join((tokenize(PASSAGE).words * 10)[:words])
    wide = Reader(windowed.folder, reader.engine, window=400)
    ours, theirs = windowed.ask(QUESTION, text, top=3), wide.ask(QUESTION, text, top=3)
    if words <= 4 * (5 + 48):  # the smallest window for answers of up to 5 words
        assert ours == theirs
    for answer in ours:
        assert text[answer.start : answer.end] == answer.text


def test_long_passages_give_distinct_answers_best_first(windowed: Reader) -> None:
    text = " ".join(f"{PASSAGE} Paragraph {k}." for k in range(40))
    answers = windowed.ask(QUESTION, text, top=50)
    assert len({a.text for a in answers}) == len(answers) > 5
    assert [a.score for a in answers] == sorted((a.score for a in answers), reverse=True)
    assert all(text[a.start : a.end] == a.text for a in answers)
    assert [a.confidence for a in answers] == sorted((a.confidence for a in answers), reverse=True)
    assert windowed.ask(QUESTION, text, top=5) == answers[:5]
    assert math.fsum(math.exp(a.score) for a in windowed.ask(QUESTION, text, top=10**6)) <= 1.0


def test_the_best_places_of_all_windows_are_read_once_more_as_one_text(windowed: Reader) -> None:
    text = " ".join(f"{PASSAGE} Paragraph {k}." for k in range(20))
    seen: list[EncoderInput] = []

    class Watched:
        def read(self, pair: EncoderInput) -> Logits:
            seen.append(pair)
            return windowed.engine.read(pair)

        def read_many(self, pairs: Any, batch_size: int) -> Any:
            return windowed.engine.read_many(pairs, batch_size)

        def attend(self, pair: EncoderInput) -> Any:
            return windowed.engine.attend(pair)

    answers = Reader(windowed.folder, Watched(), window=1).ask(QUESTION, text, top=10**6)
    (last,) = seen
    assert 100 < len(last.context_words) <= 4 * (5 + 48)
    again = windowed.engine.read(last)
    every = span_scores(log_softmax(again.start), log_softmax(again.end), 5)
    assert np.abs(every - answers[0].score).min() < 1e-6  # a span of that reading, or gaps would be the better ones
    assert answers[0].score <= every.max() + 1e-6
    for answer in answers:  # none has a gap in it
        assert text[answer.start : answer.end] == answer.text
        assert 1 <= len(tokenize(answer.text)) <= 5


def test_what_is_read_again_is_around_the_highest_logits() -> None:
    asked = PendingQuestion(QuestionRow("", "Who?", " ".join(f"w{k}" for k in range(900))), 5, window=1)
    assert len(asked.portions) > 3
    peaks = {100: 9.0, 500: 8.0, 880: 7.0}  # by token of the passage
    for portion in asked.portions:
        m = portion.end - portion.begin
        start, end = np.zeros(m, np.float32), np.zeros(m, np.float32)
        for place, height in peaks.items():
            if portion.begin <= place < portion.end:
                start[place - portion.begin] = end[place - portion.begin] = height
        asked.add(Logits(start, end))
    assert asked.again
    assert set(peaks) <= set(asked.places.tolist())
    for place in peaks:
        assert set(range(max(0, place - 20), min(900, place + 21))) <= set(asked.places.tolist())
    m = len(asked.places)
    asked.add(Logits(np.zeros(m, np.float32), np.zeros(m, np.float32)))
    assert asked.complete
    assert asked.spans is not None
    for first, more in zip(*np.nonzero(np.isfinite(asked.spans)), strict=True):
        assert asked.places[first + more] - asked.places[first] == more


def test_a_readers_window_is_what_its_recipe_was_trained_on(folder: Path, reader: Reader) -> None:
    recipe = reader.folder.recipe
    short = dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, max_context=300))
    trained_on_less = Reader(dataclasses.replace(reader.folder, recipe=short), reader.engine)
    seen: list[int] = []

    class Watched:
        def read(self, pair: EncoderInput) -> Logits:
            seen.append(len(pair.context_words))
            return reader.engine.read(pair)

        def read_many(self, pairs: Any, batch_size: int) -> Any:
            return map(self.read, pairs)

    trained_on_less.engine = Watched()  # type: ignore[assignment]
    trained_on_less.ask(QUESTION, "word " * 350)
    assert len(seen) == 3  # two portions, and the best of them once more
    assert max(seen) <= 300
    assert Reader.load(folder).window == recipe.training.max_context
    assert Reader.load(folder, window=77).window == 77


def test_a_book_is_read_in_bounded_memory(reader: Reader) -> None:
    text = " ".join(f"{PASSAGE} Paragraph {k}." for k in range(1400))  # 50,000 words
    tracemalloc.start()
    (answer,) = reader.ask(QUESTION, text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert text[answer.start : answer.end] == answer.text
    assert peak < 60e6, f"{peak / 1e6:.0f} MB for a text of {len(text) / 1e6:.1f} MB"
