"""One question while its passage is being read, window by window: what has been found, and how much weight all has."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rmreader.errors import UserError
from rmreader.reading.answers import Answer
from rmreader.reading.engines import Engine, Pair, Scores
from rmreader.reading.sentences import sentence_around
from rmreader.reading.spans import best_spans, log_sum, overlaps, span_scores
from rmreader.reading.windows import WINDOW, Window, windows
from rmreader.text.tokens import Tokens, tokenize

MAX_QUESTION = 10_000  # tokens


@dataclass(frozen=True)
class Decoding:
    """How answers are read off: the longest, in tokens; what scores are divided by; how much is read at once."""

    max_length: int
    temperature: float = 1.0
    window: int = WINDOW


@dataclass(frozen=True)
class Found:
    """A span, by its first and last token in the whole passage."""

    score: float
    near: float
    """log Σ F1(span, this one)·exp(score / temperature) over all spans that share a word with it."""
    start: int
    end: int
    window: Window


class Asked:
    """A question and its passage.

    Windows are compared by their logits, which normalising each by itself would level: p(A) is proportional to
    exp(start(i) + end(j)) over all windows, which for a single window is p₁(i)·p₂(j).

    The confidence of an answer is the F1 to expect of it: its overlap with every span that may be the right one,
    weighted by p at the reader's temperature. Doubt about an answer's bounds then costs less than a rival elsewhere.
    """

    def __init__(self, question: str, passage: str, decoding: Decoding, keep: bool = False) -> None:
        """``keep``: remember the score of every span, for calibration."""
        self.question, self.passage, self.decoding, self.keep = question, passage, decoding, keep
        self.question_tokens, self.passage_tokens = tokenize(question), tokenize(passage)
        if len(self.question_tokens) > MAX_QUESTION:
            raise UserError(
                f"the question has {len(self.question_tokens):,} words; the most is {MAX_QUESTION:,}: shorten it."
            )
        length = len(self.passage_tokens) if len(self.question_tokens) else 0
        self.windows = windows(length, decoding.max_length, decoding.window)
        self.found: list[Found] = []
        self.kept: list[tuple[int, NDArray[np.float64]]] = []  # first word, ``span_scores`` from there on
        self._read = 0
        self._weight = -np.inf  # log of the sum over windows of Z₁·Z₂, which makes scores log-probabilities
        self._tempered = -np.inf  # log Σ exp(score / temperature) over every span that may be an answer

    @property
    def complete(self) -> bool:
        """Whether every window has been read."""
        return self._read == len(self.windows)

    def pairs(self) -> Iterator[Pair]:
        """What is to be read, window by window."""
        return map(self.pair, self.windows)

    def pair(self, window: Window) -> Pair:
        """One window to read."""
        tokens, text = self.passage_tokens, self.passage
        if len(self.windows) > 1:
            text = text[int(tokens.starts[window.begin]) : int(tokens.ends[window.end - 1])]
        return Pair(self.question, text, self.question_tokens.words, tokens.words[window.begin : window.end])

    def part(self, window: Window) -> Tokens:
        """The tokens of one window."""
        here, tokens = slice(window.begin, window.end), self.passage_tokens
        return Tokens(tokens.words[here], tokens.starts[here], tokens.ends[here])

    def add(self, scores: Scores, top: int) -> None:
        """Take in what the engine says about the next window."""
        window = self.windows[self._read]
        self._read += 1
        first = window.first - window.begin
        own, ends = scores.start[first : window.last - window.begin], scores.end[first:]
        spans = span_scores(own, ends, self.decoding.max_length)
        for start, end, score in zip(*(part.tolist() for part in best_spans(spans, top)), strict=True):
            near = self._near(scores, first + start, first + end)
            self.found.append(Found(score, near, window.first + start, window.first + end, window))
        self.found = sorted(self.found, key=lambda one: -one.score)[:top]  # of equals the earlier stays first
        self._weight = float(np.logaddexp(self._weight, log_sum(own) + log_sum(scores.end)))
        self._tempered = float(np.logaddexp(self._tempered, log_sum(spans.ravel() / self.decoding.temperature)))
        if self.keep:
            self.kept.append((window.first, spans))

    def _near(self, scores: Scores, start: int, end: int) -> float:
        """``Found.near`` of a span of the window that was just read."""
        longest = self.decoding.max_length
        first = max(0, start - longest + 1)
        around = span_scores(scores.start[first : end + 1], scores.end[first:], longest)
        share = np.log(np.maximum(overlaps(first, around.shape, start, end), 1e-300))
        return log_sum((around / self.decoding.temperature + share).ravel())

    def spread(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Where ``keep`` is set: the score of every span, and its overlap with the best one."""
        nothing = np.empty(0)
        scores, shares = [nothing], [nothing]
        for first, spans in self.kept:
            real = np.isfinite(spans)
            scores.append(spans[real])
            shares.append(overlaps(first, spans.shape, self.found[0].start, self.found[0].end)[real])
        return np.concatenate(scores), np.concatenate(shares)

    def answers(self, min_confidence: float = 0.0) -> list[Answer]:
        """The answers found, best first, none surer than the one before it."""
        answers: list[Answer] = []
        confidence = 1.0
        for one in self.found:
            confidence = min(confidence, float(np.exp(one.near - self._tempered)))
            if confidence >= min_confidence:
                start, end = int(self.passage_tokens.starts[one.start]), int(self.passage_tokens.ends[one.end])
                sentence = sentence_around(self.passage, start, end)
                text = self.passage[start:end]
                answers.append(Answer(text, start, end, one.score - self._weight, confidence, sentence))
        return answers


def read_all(engine: Engine, questions: Iterable[Asked], top: int, batch_size: int) -> Iterator[Asked]:
    """Read every question, several at a time, and give them back in order when they are complete."""
    waiting: deque[Asked] = deque()

    def flow() -> Iterator[Pair]:
        for asked in questions:
            waiting.append(asked)
            yield from asked.pairs()

    for scores in engine.read_many(flow(), batch_size):
        while waiting[0].complete:  # nothing to read in it
            yield waiting.popleft()
        waiting[0].add(scores, top)
        if waiting[0].complete:
            yield waiting.popleft()
    yield from waiting
