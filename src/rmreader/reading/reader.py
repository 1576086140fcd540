"""The Reader: a question and a passage of any length in, answers with places, confidence and sentence out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rmreader.errors import UserError
from rmreader.reading.answers import Answer, Attention, Explanation
from rmreader.reading.engines import Engine, Pair, Scores, make_engine
from rmreader.reading.folder import Folder, open_folder
from rmreader.reading.sentences import sentence_around
from rmreader.reading.spans import best_spans, log_sum, span_scores
from rmreader.reading.windows import WINDOW, Window, windows
from rmreader.scoring.attention import log_attention
from rmreader.text.lexicon import Lexicon
from rmreader.text.tokens import Tokens, tokenize

__all__ = ["Answer", "Attention", "Explanation", "Reader"]

MAX_QUESTION = 10_000  # tokens


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

        Left alone, ``engine`` and ``precision`` are what the reader was made for, ``threads`` the processors there are.
        """
        names = str(name_or_path).split(",")
        if len(names) > 1 and not Path(name_or_path).exists():
            from rmreader.reading.ensemble import Ensemble

            return Ensemble.of(names, engine=engine, precision=precision, threads=threads, window=window)
        folder = open_folder(name_or_path)
        lexicon = Lexicon.load(folder.path)
        return cls(folder, make_engine(folder, lexicon, engine, precision, threads), window)

    def ask(self, question: str, passage: str, *, top: int = 1, min_confidence: float = 0.0) -> list[Answer]:
        """The ``top`` best answers, best first; those less sure than ``min_confidence`` are left out.

        An empty list says that there is no answer: none sure enough, or no word in the question or the passage.
        """
        asked = _Asked(self, question, passage)
        pairs = list(asked.pairs()) if len(asked.windows) == 1 else []
        scores = map(self.engine.read, pairs) if pairs else self.engine.read_many(asked.pairs(), 32)
        for one in scores:
            asked.add(one, top)
        return asked.answers(top, min_confidence)

    def ask_many(
        self, pairs: Iterable[tuple[str, str]], *, top: int = 1, min_confidence: float = 0.0, batch_size: int = 32
    ) -> Iterator[list[Answer]]:
        """``ask`` for each (question, passage), in order, several at a time; reads only a little ahead of its pairs."""
        waiting: deque[_Asked] = deque()

        def flow() -> Iterator[Pair]:
            for question, passage in pairs:
                waiting.append(_Asked(self, question, passage))
                yield from waiting[-1].pairs()

        for scores in self.engine.read_many(flow(), batch_size):
            while waiting[0].complete:  # nothing to read in it
                yield waiting.popleft().answers(top, min_confidence)
            waiting[0].add(scores, top)
            if waiting[0].complete:
                yield waiting.popleft().answers(top, min_confidence)
        while waiting:
            yield waiting.popleft().answers(top, min_confidence)

    def explain(self, question: str, passage: str) -> Explanation:
        """E and B of every round as the attentions they give, by token."""
        asked = _Asked(self, question, passage)
        if not asked.windows:
            return Explanation(asked.question_tokens, asked.passage_tokens, [])
        window, pair = asked.windows[0], next(asked.pairs())
        if len(asked.windows) > 1:
            for scores in self.engine.read_many(asked.pairs(), 32):
                asked.add(scores, 1)
            window = asked.found[0].window
            pair = asked.pair(window)
        rounds = [Attention(_attention(E), _attention(B)) for E, B in self.engine.attend(pair)]
        return Explanation(asked.question_tokens, asked.part(window), rounds)


@dataclass(frozen=True)
class _Found:
    """A span, by its tokens in the whole passage."""

    score: float
    start: int
    end: int
    window: Window


class _Asked:
    """One question while its windows are being read.

    Windows are compared by their logits, which normalising each by itself would level: p(A) is proportional to
    exp(start(i) + end(j)) over all windows, which for a single window is p₁(i)·p₂(j).
    """

    def __init__(self, reader: Reader, question: str, passage: str) -> None:
        self.reader, self.question, self.passage = reader, question, passage
        self.question_tokens, self.passage_tokens = tokenize(question), tokenize(passage)
        if len(self.question_tokens) > MAX_QUESTION:
            raise UserError(
                f"the question has {len(self.question_tokens):,} words; the most is {MAX_QUESTION:,}: shorten it."
            )
        length = len(self.passage_tokens) if len(self.question_tokens) else 0
        self.windows = windows(length, reader.max_length, reader.window)
        self.read = 0
        self.found: list[_Found] = []
        self.weight = -np.inf  # log of the sum over windows of Z₁·Z₂, which makes scores log-probabilities
        self.tempered = -np.inf  # log Σ exp(score / temperature) over every span that may be an answer

    @property
    def complete(self) -> bool:
        """Whether every window has been read."""
        return self.read == len(self.windows)

    def pairs(self) -> Iterator[Pair]:
        """What is to be read, window by window."""
        return map(self.pair, self.windows)

    def pair(self, window: Window) -> Pair:
        """One window to read."""
        tokens = self.passage_tokens
        text = self.passage
        if len(self.windows) > 1:
            text = text[int(tokens.starts[window.begin]) : int(tokens.ends[window.end - 1])]
        return Pair(self.question, text, self.question_tokens.words, tokens.words[window.begin : window.end])

    def part(self, window: Window) -> Tokens:
        """The tokens of one window."""
        here, tokens = slice(window.begin, window.end), self.passage_tokens
        return Tokens(tokens.words[here], tokens.starts[here], tokens.ends[here])

    def add(self, scores: Scores, top: int) -> None:
        """Take in what the engine says about the next window."""
        window = self.windows[self.read]
        self.read += 1
        own = scores.start[window.first - window.begin : window.last - window.begin]
        spans = span_scores(own, scores.end[window.first - window.begin :], self.reader.max_length)
        starts, ends, values = best_spans(spans, top)
        first = window.first
        found = zip(values.tolist(), starts.tolist(), ends.tolist(), strict=True)
        self.found += [_Found(value, first + start, first + end, window) for value, start, end in found]
        self.found = sorted(self.found, key=lambda one: -one.score)[:top]
        self.weight = float(np.logaddexp(self.weight, log_sum(own) + log_sum(scores.end)))
        self.tempered = float(np.logaddexp(self.tempered, log_sum(spans.ravel() / self.reader.temperature)))

    def answers(self, top: int, min_confidence: float) -> list[Answer]:
        """The answers found, best first."""
        answers = []
        for one in self.found[:top]:
            start, end = int(self.passage_tokens.starts[one.start]), int(self.passage_tokens.ends[one.end])
            confidence = float(np.exp(one.score / self.reader.temperature - self.tempered))
            if confidence >= min_confidence:
                sentence = sentence_around(self.passage, start, end)
                answers.append(
                    Answer(self.passage[start:end], start, end, one.score - self.weight, min(1.0, confidence), sentence)
                )
        return answers


def _attention(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """softmax(X_:j) of every column."""
    return np.asarray(np.exp(log_attention(logits[None], [len(logits)]))[0], np.float32)
