"""One question while its passage is being read: in one go, or by portions and then what looked best once more."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError
from rmreader.reading.answers import Answer, Answers, Row
from rmreader.reading.decision import Decision
from rmreader.reading.engine.engines import EncoderInput, Engine, Logits
from rmreader.reading.spans import best_spans, different_spans, f1_to_expect, log_sum, overlaps, span_scores, with_words
from rmreader.text.sentences import sentence_around
from rmreader.text.tokens import Tokens, tokenize

MAX_QUESTION = 10_000  # tokens
CONTEXT = 48  # tokens that a portion shows beyond any answer it may give

_APART = re.compile(r"\n\s*\n|\t")  # a blank line parts paragraphs, a tab the cells of a table; SQuAD has neither
_STOPS = frozenset(".!?…:;,。！？")
_CANDIDATES = 40  # spans of a portion that may be read again
_AROUND = 20  # tokens on either side that are read again with them


@dataclass(frozen=True)
class Portion:
    """Reads the tokens [begin, end) and gives the answers that start in [first, last)."""

    begin: int
    end: int
    first: int
    last: int


def room(max_length: int, window: int) -> int:
    """Tokens read at once: the window, but enough that no less than half of it is new text."""
    return max(window, 4 * (max_length + CONTEXT))


def portions(length: int, max_length: int, window: int) -> list[Portion]:
    """Portions of ``length`` tokens for answers of up to ``max_length``: one where all fits into the window.

    Every start belongs to exactly one portion, so no answer is given twice; the whole answer lies in that portion, with
    ``CONTEXT`` tokens on either side unless the passage itself ends there.
    """
    margin, window = max_length + CONTEXT, room(max_length, window)
    if length <= window:
        return [Portion(0, length, 0, length)] if length else []
    shared = 2 * margin  # by two neighbours; the later one answers from the middle of it
    count = -(-(length - shared) // (window - shared))
    begins = [k * (length - shared) // count for k in range(count + 1)]  # of equal portions, and one that is not there
    cuts = [0, *(begin + margin for begin in begins[1:-1]), length]
    return [Portion(begins[k], begins[k + 1] + shared, cuts[k], cuts[k + 1]) for k in range(count)]


class Asked:
    """A question and its passage; ``max_length`` of an answer and ``window``, what is read at once, are in tokens.

    Scores of different portions cannot be compared: the network was only ever taught to choose within one text. So of a
    passage in several portions, the surroundings of the spans with the highest logits, as many as one window holds, are
    read once more, as one text. Answers, scores and confidences are those of this last reading. No answer reaches
    across a blank line or a tab.
    """

    def __init__(
        self, row: Row, max_length: int, window: int, temperature: float = 1.0, decision: Decision | None = None
    ) -> None:
        self.row, self.max_length, self.window, self.temperature = row, max_length, window, temperature
        self.decision = decision
        self.question_tokens, self.passage_tokens = tokenize(row.question), tokenize(row.passage)
        if len(self.question_tokens) > MAX_QUESTION:
            raise UserError(
                f"the question has {len(self.question_tokens):,} words; the most is {MAX_QUESTION:,}: shorten it."
            )
        apart = list(_APART.finditer(row.passage))
        self.breaks = np.sort(np.array([*row.breaks, *(match.end() for match in apart)], np.int64))
        self._open = self._without_stop([match.start() for match in apart if match[0] != "\t"])
        length = len(self.passage_tokens) if len(self.question_tokens) else 0
        self.places = np.arange(length)  # the tokens of the passage that are being read
        self.portions = portions(length, max_length, window)
        self.spans: NDArray[np.float64] | None = None  # ``span_scores`` of the last reading
        self._read = 0
        self._weight = 0.0  # log Z₁·Z₂, which makes scores log-probabilities
        self.log_odds: float | None = None  # that there is no answer, by the last reading
        self._best: list[tuple[float, int, int]] = []  # of earlier readings: score, first and last token

    @property
    def complete(self) -> bool:
        """Whether there is nothing (more) to read."""
        return self.spans is not None or not self.portions

    @property
    def again(self) -> bool:
        """Whether all portions were read and the last reading is due."""
        return len(self._best) > 0 and len(self.portions) == 1 and not self.complete

    def pairs(self) -> Iterator[EncoderInput]:
        """What is left to read, portion by portion."""
        return map(self.pair, self.portions[self._read :])

    def pair(self, portion: Portion) -> EncoderInput:
        """One portion to read. A paragraph without a stop, such as a heading or an item, gets one: the network knows
        prose, and does not see where a line ends."""
        words = self.part(portion).words
        whole = len(words) == len(self.passage_tokens)
        if (ends := self._open[self.places[portion.begin : portion.end]]).any():
            words = [one for word, end in zip(words, ends, strict=True) for one in (word, ".")[: 1 + end]]
            whole = False
        passage = self.row.passage if whole else " ".join(words)
        return EncoderInput(self.row.question, passage, self.question_tokens.words, words)

    def own(self, portion: Portion) -> NDArray[np.int64]:
        """Where the passage's tokens are among those of the ``pair``."""
        ends = self._open[self.places[portion.begin : portion.end]]
        return np.asarray(np.arange(len(ends)) + np.cumsum(ends) - ends)

    def _without_stop(self, blank: list[int]) -> NDArray[np.bool_]:
        """Which tokens end a paragraph without a stop, given where blank lines are."""
        words, found = self.passage_tokens.words, np.zeros(len(self.passage_tokens), bool)
        last = np.searchsorted(self.passage_tokens.ends, blank, side="right") - 1
        for k in last[(last >= 0) & (last < len(words) - 1)].tolist():
            found[k] = _STOPS.isdisjoint(words[max(0, k - 1) : k + 1])  # a quotation mark may come after it
        return found

    def part(self, portion: Portion) -> Tokens:
        """The tokens of one portion."""
        tokens, here = self.passage_tokens, self.places[portion.begin : portion.end]
        if len(here) == len(tokens):
            return tokens
        return Tokens([tokens.words[k] for k in here.tolist()], tokens.starts[here], tokens.ends[here])

    def add(self, logits: Logits) -> None:
        """Take in what the engine says about the next portion."""
        portion = self.portions[self._read]
        self._read += 1
        kept = self.own(portion)
        logits = Logits(logits.start[kept], logits.end[kept], logits.none)
        first = portion.first - portion.begin
        own, ends = logits.start[first : portion.last - portion.begin], logits.end[first:]
        spans = span_scores(own, ends, self.max_length)
        if self._best or len(self.breaks):  # what is read may have gaps, and no answer has one in it
            line, reach = self._line(self.places[portion.first : portion.end]), np.arange(spans.shape[1])
            to = np.minimum(np.arange(len(spans))[:, None] + reach, len(line) - 1)
            spans[line[to] - line[: len(spans), None] > reach] = -np.inf
        weight = log_sum(logits.start) + log_sum(logits.end)
        none = None if logits.none is None else float(logits.none[0])
        if len(self.portions) == 1:
            self.spans, self._weight = spans, weight
            self.log_odds = None if none is None else none - weight
            return
        if none is not None:  # one softmax of all spans and "none" makes portions comparable
            spans = spans - np.logaddexp(none, weight)
        found = zip(*(part.tolist() for part in best_spans(spans, _CANDIDATES)), strict=True)
        self._best += [(score, portion.first + start, portion.first + end) for start, end, score in found]
        if self._read == len(self.portions):
            self._choose()

    def _line(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of these tokens that go up by 1 from each to the next, but by more over a gap or a break."""
        before = np.searchsorted(self.breaks, self.passage_tokens.starts[places], side="right")
        return np.asarray(places + self.max_length * before)

    def _choose(self) -> None:
        """Read again what is around the best spans, until one window is full."""
        left, chosen = room(self.max_length, self.window), np.zeros(len(self.places), bool)
        for _, start, end in sorted(self._best, key=lambda one: (-one[0], one[1:])):
            around = chosen[max(0, start - _AROUND) : end + 1 + _AROUND]
            left -= len(around) - int(around.sum())
            if left < 0:
                break
            around[:] = True
        self.places, self._read = np.flatnonzero(chosen), 0
        self.portions = [Portion(0, len(self.places), 0, len(self.places))]

    def answers(self, top: int, min_confidence: float = 0.0, always: bool = False) -> Answers:
        """The best answers, best first, none surer than the one before it.

        None is given where the reader decides that there is none. That is a truth that an answer may miss, so the
        chance of it takes away from every confidence. With ``always`` it is taken for granted that there is an answer.
        """
        answers = Answers()
        if self.spans is None:
            return answers
        if self.decision is not None and self.log_odds is not None:
            answers.none = self.decision.chance(self.log_odds)
            answers.absent = answers.none > self.decision.threshold
        passage, tokens, confidence = self.row.passage, self.passage_tokens, 1.0
        best = different_spans(with_words(self.spans, self._words) if top > 1 else self.spans, top)
        for start, end, score in zip(*(part.tolist() for part in best), strict=True):
            confidence = min(confidence, self._sure(self.spans, start, end)(self.temperature))
            begin, stop = int(tokens.starts[self.places[start]]), int(tokens.ends[self.places[end]])
            sentence = slice(*sentence_around(passage, begin, stop))
            answers.append(
                Answer(passage[begin:stop], begin, stop, score - self._weight, confidence, passage[sentence])
            )
        return answers.given(top, min_confidence, always)

    @property
    def confidence(self) -> Callable[[float], float] | None:
        """The best span's confidence, were there an answer, as a function of the temperature; None where there was
        nothing to read."""
        if self.spans is None:
            return None
        (start,), (end,), _ = best_spans(self.spans, 1)
        return self._sure(self.spans, int(start), int(end))

    def _sure(self, spans: NDArray[np.float64], start: int, end: int) -> Callable[[float], float]:
        return partial(f1_to_expect, spans, overlaps(self._words, spans.shape, start, end))

    @property
    def _words(self) -> list[str]:
        return [self.passage_tokens.words[place] for place in self.places]


def read_all(engine: Engine, questions: Iterable[Asked], batch_size: int) -> Iterator[Asked]:
    """Read every question, several at a time, and give them back in order when they are complete."""
    waiting: deque[Asked] = deque()

    def flow() -> Iterator[EncoderInput]:
        for asked in questions:
            waiting.append(asked)
            yield from asked.pairs()

    for logits in engine.read_many(flow(), batch_size):
        while waiting[0].complete:  # nothing to read in it
            yield waiting.popleft()
        waiting[0].add(logits)
        if waiting[0].again:
            waiting[0].add(engine.read(waiting[0].pair(waiting[0].portions[0])))
        if waiting[0].complete:
            yield waiting.popleft()
    yield from waiting
