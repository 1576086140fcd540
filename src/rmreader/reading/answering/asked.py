"""One question while its passage is being read: in one go, or window by window and then what looked best once more."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rmreader.errors import UserError
from rmreader.reading.answering.answers import Answer
from rmreader.reading.answering.sentences import sentence_around
from rmreader.reading.answering.spans import best_spans, log_sum, overlaps, span_scores
from rmreader.reading.answering.windows import WINDOW, Window, room, windows
from rmreader.reading.running.engines import Engine, Pair, Scores
from rmreader.text.tokens import Tokens, tokenize

MAX_QUESTION = 10_000  # tokens

_CANDIDATES = 40  # spans of a window that may be read again
_AROUND = 20  # tokens on either side that are read again with them


@dataclass(frozen=True)
class Decoding:
    """How answers are read off: the longest, in tokens; what scores are divided by; how much is read at once."""

    max_length: int
    temperature: float = 1.0
    window: int = WINDOW


class Asked:
    """A question and its passage.

    Scores of different windows cannot be compared: the network was only ever taught to choose within one text. So of a
    passage in several windows, the surroundings of the spans with the highest logits, as many as one window holds, are
    read once more, as one text. Answers, scores and confidences are those of this last reading.

    The confidence of an answer is the F1 to expect of it: its overlap with every span that may be the right one,
    weighted by p at the reader's temperature. Doubt about an answer's bounds then costs less than a rival elsewhere.
    """

    def __init__(self, question: str, passage: str, decoding: Decoding) -> None:
        self.question, self.passage, self.decoding = question, passage, decoding
        self.question_tokens, self.passage_tokens = tokenize(question), tokenize(passage)
        if len(self.question_tokens) > MAX_QUESTION:
            raise UserError(
                f"the question has {len(self.question_tokens):,} words; the most is {MAX_QUESTION:,}: shorten it."
            )
        length = len(self.passage_tokens) if len(self.question_tokens) else 0
        self.places = np.arange(length)  # the tokens of the passage that are being read
        self.windows = windows(length, decoding.max_length, decoding.window)
        self.spans: NDArray[np.float64] | None = None  # ``span_scores`` of the last reading
        self._read = 0
        self._weight = 0.0  # log Z₁·Z₂, which makes scores log-probabilities
        self._best: list[tuple[float, int, int]] = []  # of earlier readings: score, first and last token

    @property
    def complete(self) -> bool:
        """Whether there is nothing (more) to read."""
        return self.spans is not None or not self.windows

    @property
    def again(self) -> bool:
        """Whether all windows were read and the last reading is due."""
        return len(self._best) > 0 and len(self.windows) == 1 and not self.complete

    def pairs(self) -> Iterator[Pair]:
        """What is to be read, window by window."""
        return map(self.pair, self.windows)

    def pair(self, window: Window) -> Pair:
        """One window to read."""
        words = self.part(window).words
        whole = len(words) == len(self.passage_tokens)
        return Pair(self.question, self.passage if whole else " ".join(words), self.question_tokens.words, words)

    def part(self, window: Window) -> Tokens:
        """The tokens of one window."""
        tokens, here = self.passage_tokens, self.places[window.begin : window.end]
        if len(here) == len(tokens):
            return tokens
        return Tokens([tokens.words[k] for k in here.tolist()], tokens.starts[here], tokens.ends[here])

    def add(self, scores: Scores) -> None:
        """Take in what the engine says about the next window."""
        window = self.windows[self._read]
        self._read += 1
        first = window.first - window.begin
        own, ends = scores.start[first : window.last - window.begin], scores.end[first:]
        spans = span_scores(own, ends, self.decoding.max_length)
        if len(self.windows) > 1:
            found = zip(*(part.tolist() for part in best_spans(spans, _CANDIDATES)), strict=True)
            self._best += [(score, window.first + start, window.first + end) for start, end, score in found]
            if self._read == len(self.windows):
                self._choose()
            return
        if self._best:  # read again, so there may be gaps, and no answer has one in it
            reach = np.arange(spans.shape[1])
            to = np.minimum(np.arange(len(spans))[:, None] + reach, len(spans) - 1)
            spans[self.places[to] - self.places[:, None] > reach] = -np.inf
        self.spans = spans
        self._weight = log_sum(scores.start) + log_sum(scores.end)

    def _choose(self) -> None:
        """Read again what stands around the best spans, until one window is full."""
        left, chosen = room(self.decoding.max_length, self.decoding.window), np.zeros(len(self.places), bool)
        for _, start, end in sorted(self._best, key=lambda one: (-one[0], one[1:])):
            around = chosen[max(0, start - _AROUND) : end + 1 + _AROUND]
            left -= len(around) - int(around.sum())
            if left < 0:
                break
            around[:] = True
        self.places, self._read = np.flatnonzero(chosen), 0
        self.windows = [Window(0, len(self.places), 0, len(self.places))]

    def answers(self, top: int, min_confidence: float = 0.0) -> list[Answer]:
        """The best answers, best first, none surer than the one before it."""
        if self.spans is None:
            return []
        answers: list[Answer] = []
        weights = np.exp((self.spans - self.spans.max()) / self.decoding.temperature)
        confidence, every = 1.0, weights.sum()
        for start, end, score in zip(*(part.tolist() for part in best_spans(self.spans, top)), strict=True):
            first = max(0, start - self.decoding.max_length + 1)
            around = weights[first : end + 1]  # all spans that share a word with this one, and a few more
            confidence = min(confidence, float((overlaps(first, around.shape, start, end) * around).sum() / every))
            if confidence >= min_confidence:
                begin = int(self.passage_tokens.starts[self.places[start]])
                stop = int(self.passage_tokens.ends[self.places[end]])
                text, sentence = self.passage[begin:stop], sentence_around(self.passage, begin, stop)
                answers.append(Answer(text, begin, stop, score - self._weight, confidence, sentence))
        return answers

    def spread(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The score of every span, and its overlap with the best one."""
        if self.spans is None:
            return np.empty(0), np.empty(0)
        (start,), (end,), _ = best_spans(self.spans, 1)
        real = np.isfinite(self.spans)
        return self.spans[real], overlaps(0, self.spans.shape, int(start), int(end))[real]


def read_all(engine: Engine, questions: Iterable[Asked], batch_size: int) -> Iterator[Asked]:
    """Read every question, several at a time, and give them back in order when they are complete."""
    waiting: deque[Asked] = deque()

    def flow() -> Iterator[Pair]:
        for asked in questions:
            waiting.append(asked)
            yield from asked.pairs()

    for scores in engine.read_many(flow(), batch_size):
        while waiting[0].complete:  # nothing to read in it
            yield waiting.popleft()
        waiting[0].add(scores)
        if waiting[0].again:
            waiting[0].add(engine.read(waiting[0].pair(waiting[0].windows[0])))
        if waiting[0].complete:
            yield waiting.popleft()
    yield from waiting
