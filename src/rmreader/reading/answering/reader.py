"""The Reader: a question and a passage of any length in, answers with places, confidence and sentence out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rmreader.errors import UserError
from rmreader.readers.folder import Folder, open_folder, reader_names
from rmreader.reading.answering.answers import Answer, Attention, Explanation
from rmreader.reading.answering.asked import MAX_QUESTION, Asked, Decoding, read_all
from rmreader.reading.answering.windows import WINDOW
from rmreader.reading.running.engines import Engine, make_engine
from rmreader.scoring.attention import log_attention
from rmreader.text.lexicon import Lexicon

__all__ = ["MAX_QUESTION", "Answer", "Attention", "Explanation", "Reader"]


class Reader:
    """A trained reader.

    >>> reader = Reader.load("small")
    >>> reader.ask("Who wrote it?", "The letter was written by Ada Lovelace.")[0].text
    'Ada Lovelace'
    """

    def __init__(self, folder: Folder, engine: Engine, window: int = WINDOW) -> None:
        self.folder, self.engine, self.window = folder, engine, window
        self.max_length = folder.recipe.decoding.max_length
        self.temperature = folder.temperature

    @classmethod
    def load(
        cls,
        name_or_path: str | Path = "small",
        *,
        engine: Literal["onnx", "torch"] | None = None,
        precision: Literal["float", "int8"] | None = None,
        threads: int | None = None,
        window: int = WINDOW,
    ) -> Reader:
        """Load a shipped reader by name, or any by its folder; several with commas between them as an ensemble.

        Left alone, ``engine`` and ``precision`` are what the reader was made for, ``threads`` the processors there
        are. ``window``: passages of more tokens are read in overlapping windows of this many.
        """
        names = reader_names(name_or_path)
        _one_of("engine", engine, ("onnx", "torch"))
        _one_of("precision", precision, ("float", "int8"))
        _at_least_one(threads=threads, window=window)
        if len(names) > 1:
            from rmreader.reading.answering.ensemble import Ensemble

            return Ensemble.of(names, engine=engine, precision=precision, threads=threads, window=window)
        folder = open_folder(names[0])
        lexicon = Lexicon.load(folder.path)
        return cls(folder, make_engine(folder, lexicon, engine, precision, threads), window)

    def ask(self, question: str, passage: str, *, top: int = 1, min_confidence: float = 0.0) -> list[Answer]:
        """The ``top`` best answers, best first; those less sure than ``min_confidence`` are left out.

        An empty list says that there is no answer: none sure enough, or no word in the question or the passage.
        """
        _check(top, min_confidence)
        asked = self._asked(question, passage)
        if len(asked.windows) == 1:
            asked.add(self.engine.read(asked.pair(asked.windows[0])))
        else:
            (asked,) = read_all(self.engine, [asked], 32)
        return asked.answers(top, min_confidence)

    def ask_many(
        self, pairs: Iterable[tuple[str, str]], *, top: int = 1, min_confidence: float = 0.0, batch_size: int = 32
    ) -> Iterator[list[Answer]]:
        """``ask`` for each (question, passage), in order, several at a time; reads only a little ahead of its pairs."""
        _check(top, min_confidence)
        _at_least_one(batch_size=batch_size)
        return (
            asked.answers(top, min_confidence)
            for asked in read_all(self.engine, (self._asked(*pair) for pair in pairs), batch_size)
        )

    def explain(self, question: str, passage: str) -> Explanation:
        """E and B of every round as the attentions they give, by token."""
        asked = self._asked(question, passage)
        if not asked.windows:
            return Explanation(asked.question_tokens, asked.passage_tokens, [])
        if len(asked.windows) > 1:
            (asked,) = read_all(self.engine, [asked], 32)
        last = asked.windows[0]
        rounds = [Attention(_attention(E), _attention(B)) for E, B in self.engine.attend(asked.pair(last))]
        return Explanation(asked.question_tokens, asked.part(last), rounds)

    def spreads(
        self, pairs: Iterable[tuple[str, str]]
    ) -> Iterator[tuple[str, NDArray[np.float64], NDArray[np.float64]]]:
        """For each (question, passage) the best answer's text, the scores of all spans, unnormalised, and their
        overlaps with it: what confidences are made of. Empty where there is nothing to read."""
        for asked in read_all(self.engine, (self._asked(*pair) for pair in pairs), 32):
            best = [answer.text for answer in asked.answers(1)]
            yield best[0] if best else "", *asked.spread()

    def _asked(self, question: str, passage: str) -> Asked:
        return Asked(question, passage, Decoding(self.max_length, self.temperature, self.window))


def _check(top: int, min_confidence: float) -> None:
    _at_least_one(top=top)
    if not 0 <= min_confidence <= 1:
        raise UserError(f"min_confidence is between 0 and 1, not {min_confidence}.")


def _at_least_one(**numbers: int | None) -> None:
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise UserError(f"{name} is at least 1, not {number}.")


def _one_of(name: str, value: str | None, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        raise UserError(f"{name} is {' or '.join(map(repr, known))}, not {value!r}.")


def _attention(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """softmax(X_:j) of every column."""
    return np.asarray(np.exp(log_attention(logits[None], [len(logits)]))[0], np.float32)
