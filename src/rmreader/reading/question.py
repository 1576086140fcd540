"""One question while its passage is being read: in one go, or by portions and then what looked best
once more."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError
from rmreader.reading.answers import Answer, Answers
from rmreader.reading.breaks import breaks_of
from rmreader.reading.columns import ColumnNames
from rmreader.reading.decision import Decision
from rmreader.reading.doubt import doubt_of
from rmreader.reading.edges import whole
from rmreader.reading.engine.engines import EncoderInput, Engine, Logits
from rmreader.reading.needs import what_it_needs
from rmreader.reading.portions import Portion, portions, room
from rmreader.reading.rows import QuestionRow
from rmreader.reading.spans import (
    Spans,
    best_spans,
    different_spans,
    f1_to_expect,
    log_sum,
    overlaps,
    span_scores,
    with_words,
)
from rmreader.scoring.squad import normalize
from rmreader.text.sentences import sentence_around
from rmreader.text.tokens import Tokens, tokenize

MAX_QUESTION = 10_000  # tokens

_STOPS = frozenset(".!?…:;,。！？")
_CANDIDATES = 40  # spans of a portion that may be read again
_AROUND = 20  # tokens on either side that are read again with them


class PendingQuestion:
    """A question in progress; ``max_length`` of an answer and ``window``, what is read at once, are
    in tokens.

    Scores of different portions cannot be compared: the network was only ever taught to choose
    within one text. So of a passage in several portions, the surroundings of the spans with the
    highest logits, as many as one window holds, are read once more, as one text. Answers, scores
    and confidences are those of this last reading. No answer reaches across a break, such as a
    blank line, a tab, or the next field of a form (``breaks_of``).
    """

    def __init__(
        self,
        row: QuestionRow,
        max_length: int,
        window: int,
        temperature: float = 1.0,
        decision: Decision | None = None,
    ) -> None:
        self.row = row
        self.max_length = max_length
        self.window = window
        self.temperature = temperature
        self.decision = decision
        self.question_tokens = tokenize(row.question)
        self.passage_tokens = tokenize(row.passage)
        words = len(self.question_tokens)
        if words > MAX_QUESTION:
            raise UserError(
                f"the question has {words:,} words; the most is {MAX_QUESTION:,}: shorten it."
            )

        breaks = breaks_of(row.passage)
        self.breaks = np.array([one.end for one in breaks], np.int64)
        self._lacks_stop = self._without_stop([one.start for one in breaks if one.ends_sentence])
        length = len(self.passage_tokens) if words else 0
        self.places = np.arange(length)  # the tokens of the passage that are being read
        self.portions = portions(length, max_length, window)
        self.spans: NDArray[np.float64] | None = None  # ``span_scores`` of the last reading
        self.log_odds: float | None = None  # that there is no answer, by the last reading
        self._portions_read = 0
        self._weight = 0.0  # log Z₁·Z₂, which makes scores log-probabilities
        self._candidates: list[tuple[float, int, int]] = []  # score, first and last token

    @property
    def complete(self) -> bool:
        """Whether there is nothing (more) to read."""
        return self.spans is not None or not self.portions

    @property
    def again(self) -> bool:
        """Whether all portions were read and the last reading is due."""
        return len(self._candidates) > 0 and len(self.portions) == 1 and not self.complete

    def pairs(self) -> Iterator[EncoderInput]:
        """What is left to read, portion by portion."""
        return map(self.pair, self.portions[self._portions_read :])

    def pair(self, portion: Portion) -> EncoderInput:
        """One portion to read.

        A paragraph without a stop, such as a heading, an item or a field, gets one: the network
        knows prose, and does not see where a line ends.
        """
        words = self.part(portion).words
        whole = len(words) == len(self.passage_tokens)
        lacks_stop = self._lacks_stop[self.places[portion.begin : portion.end]]
        if lacks_stop.any():
            words = _add_stops(words, lacks_stop)
            whole = False

        passage = self.row.passage if whole else " ".join(words)
        return EncoderInput(self.row.question, passage, self.question_tokens.words, words)

    def own(self, portion: Portion) -> NDArray[np.int64]:
        """Where the passage's tokens are among those of the ``pair``, which may have more stops."""
        lacks_stop = self._lacks_stop[self.places[portion.begin : portion.end]]
        stops_before = np.asarray(np.cumsum(lacks_stop) - lacks_stop, np.int64)
        return np.arange(len(lacks_stop)) + stops_before

    def _without_stop(self, ends: list[int]) -> NDArray[np.bool_]:
        """Which tokens end a paragraph, an item or a field without a stop."""
        words = self.passage_tokens.words
        lacks_stop = np.zeros(len(words), bool)
        last = np.searchsorted(self.passage_tokens.ends, ends, side="right") - 1
        for k in last[(last >= 0) & (last < len(words) - 1)].tolist():
            ending = words[max(0, k - 1) : k + 1]  # a quotation mark may come after the stop
            lacks_stop[k] = _STOPS.isdisjoint(ending)

        return lacks_stop

    def part(self, portion: Portion) -> Tokens:
        """The tokens of one portion."""
        tokens = self.passage_tokens
        places = self.places[portion.begin : portion.end]
        if len(places) == len(tokens):
            return tokens

        words = [tokens.words[k] for k in places.tolist()]
        return Tokens(words, tokens.starts[places], tokens.ends[places])

    def add(self, logits: Logits) -> None:
        """Take in what the engine says about the next portion."""
        portion = self.portions[self._portions_read]
        self._portions_read += 1
        own = self.own(portion)
        start = logits.start[own]
        end = logits.end[own]
        first = portion.first - portion.begin
        last = portion.last - portion.begin
        spans = span_scores(start[first:last], end[first:], self.max_length)
        if self._candidates or len(self.breaks):
            self._forbid_gaps(spans, self.places[portion.first : portion.end])

        weight = log_sum(start) + log_sum(end)
        none = None if logits.none is None else float(logits.none[0])
        if len(self.portions) == 1:
            self.spans = spans
            self._weight = weight
            self.log_odds = None if none is None else none - weight
            return

        if none is not None:
            spans = spans - np.logaddexp(none, weight)  # makes portions comparable

        self._add_candidates(spans, portion.first)
        if self._portions_read == len(self.portions):
            self._choose()

    def _forbid_gaps(self, spans: NDArray[np.float64], places: NDArray[np.int64]) -> None:
        """Set spans of the tokens at ``places`` to -inf that reach across a break, or across text
        left out."""
        breaks_before = np.searchsorted(
            self.breaks,
            self.passage_tokens.starts[places],
            side="right",
        )
        # Goes up by 1 from each token to the next, but by more across a gap or a break.
        line = places + self.max_length * breaks_before
        reach = np.arange(spans.shape[1])
        ends = np.minimum(np.arange(len(spans))[:, None] + reach, len(line) - 1)
        spans[line[ends] - line[: len(spans), None] > reach] = -np.inf

    def _add_candidates(self, spans: NDArray[np.float64], offset: int) -> None:
        """Remember the best spans of a portion, whose first token is the passage's token
        ``offset``."""
        starts, ends, scores = best_spans(spans, _CANDIDATES)
        for start, end, score in zip(starts.tolist(), ends.tolist(), scores.tolist(), strict=True):
            self._candidates.append((score, offset + start, offset + end))

    def _choose(self) -> None:
        """Read again what is around the best spans, until one window is full."""
        left = room(self.max_length, self.window)
        chosen = np.zeros(len(self.places), bool)
        for _, start, end in sorted(self._candidates, key=lambda span: (-span[0], span[1:])):
            around = chosen[max(0, start - _AROUND) : end + 1 + _AROUND]
            left -= len(around) - int(around.sum())
            if left < 0:
                break

            around[:] = True

        self.places = np.flatnonzero(chosen)
        self.portions = [Portion(0, len(self.places), 0, len(self.places))]
        self._portions_read = 0

    def answers(self, top: int, min_confidence: float = 0.0, always: bool = False) -> Answers:
        """The best answers, best first, none surer than the one before it.

        None is given where the reader decides that there is none. That is a truth that an answer
        may miss, so the chance of it takes away from every confidence. With ``always`` it is taken
        for granted that there is an answer.
        """
        if self.spans is None:
            return Answers()

        no_answer = None
        absent = False
        if self.decision is not None and self.log_odds is not None:
            no_answer = self.decision.chance(self.log_odds)
            absent = no_answer > self.decision.threshold

        answers = self._best_answers(self.spans, top)
        runner_up = None
        if top == 1 and _is_doubtful(answers, no_answer):
            runner_up = next(iter(self._best_answers(self.spans, 2)[1:]), None)

        needs = ""
        if absent:
            needs = what_it_needs(self.row.question, self.row.passage, Answers.where)

        found = Answers(answers, no_answer, absent=absent, runner_up=runner_up, needs=needs)
        return found.select(top, min_confidence, always)

    def _best_answers(self, spans: NDArray[np.float64], top: int) -> tuple[Answer, ...]:
        """The best answers, were there any: no two overlap, and no two are the same text."""
        shown = spans if top == 1 else with_words(spans, self._words)
        count = top if top == 1 else 4 * top  # of which some are the same text
        while True:
            candidates = different_spans(shown, count)
            answers = self._different_answers(candidates, top)
            if len(answers) == top or len(candidates[0]) < count:
                return tuple(answers)

            count *= 4

    def _different_answers(self, candidates: Spans, top: int) -> list[Answer]:
        """The first of these spans that are different answers once they are whole."""
        answers: list[Answer] = []
        texts: set[str] = set()
        for first, last, score in zip(*(part.tolist() for part in candidates), strict=True):
            answer = self._answer(first, last, score - self._weight)
            text = normalize(answer.text)
            overlaps_another = any(
                answer.start < other.end and other.start < answer.end for other in answers
            )
            if text not in texts and not overlaps_another and self._is_worth(answer, answers):
                texts.add(text)
                answers.append(self._with_confidence(answer, first, last, answers))

            if len(answers) == top:
                break

        return answers

    def _is_worth(self, answer: Answer, better: Sequence[Answer]) -> bool:
        """Whether an answer may follow better ones: the name of a column only follows another."""
        if not better:
            return True

        best = better[0]
        if self._columns.is_name(best.start, best.end):
            return True

        return not self._columns.is_name(answer.start, answer.end)

    def _with_confidence(
        self,
        answer: Answer,
        first: int,
        last: int,
        better: Sequence[Answer],
    ) -> Answer:
        """The answer with its confidence, which is no higher than that of a better one.

        A second answer is judged by all of its words: a part of it may be a part of the best one,
        as "quayside" of a file's name and of a mail address.
        """
        assert self.spans is not None
        if better:
            first, last = self._tokens_of(answer, first, last)
        confidence = self._confidence_of(self.spans, first, last)(self.temperature)
        if better:
            confidence = min(confidence, better[-1].confidence)
        return dataclasses.replace(answer, confidence=confidence)

    def _tokens_of(self, answer: Answer, first: int, last: int) -> tuple[int, int]:
        """The first and the last token of an answer that was made of these, among those read."""
        starts = self.passage_tokens.starts[self.places]
        ends = self.passage_tokens.ends[self.places]
        new_first = int(np.searchsorted(ends, answer.start, side="right"))
        new_last = int(np.searchsorted(starts, answer.end, side="left")) - 1
        if not 0 <= new_first <= new_last < len(self.places):
            return first, last

        return new_first, new_last

    def _answer(self, first: int, last: int, score: float) -> Answer:
        """The answer from one token that was read to another, without a confidence."""
        passage = self.row.passage
        start = int(self.passage_tokens.starts[self.places[first]])
        end = int(self.passage_tokens.ends[self.places[last]])
        start, end = self._columns.within_cell(start, end)
        start, end = whole(passage, start, end, self.row.question)
        sentence_start, sentence_end = sentence_around(passage, start, end)

        return Answer(
            text=passage[start:end],
            start=start,
            end=end,
            score=score,
            confidence=0.0,
            sentence=passage[sentence_start:sentence_end],
            sentence_start=sentence_start,
        )

    @property
    def confidence(self) -> Callable[[float], float] | None:
        """The best span's confidence, were there an answer, as a function of the temperature.

        None where there was nothing to read.
        """
        if self.spans is None:
            return None

        (start,), (end,), _ = best_spans(self.spans, 1)
        return self._confidence_of(self.spans, int(start), int(end))

    def _confidence_of(
        self,
        spans: NDArray[np.float64],
        start: int,
        end: int,
    ) -> Callable[[float], float]:
        return partial(f1_to_expect, spans, overlaps(self._words, spans.shape, start, end))

    @cached_property
    def _columns(self) -> ColumnNames:
        """Where the passage, if it has a table, names the columns."""
        return ColumnNames(self.row.passage)

    @property
    def _words(self) -> list[str]:
        """The words of the last reading."""
        return [self.passage_tokens.words[place] for place in self.places]


def _is_doubtful(answers: Sequence[Answer], no_answer: float | None) -> bool:
    """Whether the best answer is less than likely, the chance of none counted in."""
    if not answers:
        return False
    confidence = answers[0].confidence * (1 - (no_answer or 0.0))
    return doubt_of(confidence, no_answer) == "perhaps"


def _add_stops(words: Sequence[str], lacks_stop: NDArray[np.bool_]) -> list[str]:
    """The words, with a stop after those that lack one."""
    longer = []
    for word, lacks in zip(words, lacks_stop.tolist(), strict=True):
        longer.append(word)
        if lacks:
            longer.append(".")

    return longer


def read_all(
    engine: Engine,
    questions: Iterable[PendingQuestion],
    batch_size: int,
) -> Iterator[PendingQuestion]:
    """Read every question, several at a time; each is given back, in order, when complete."""
    waiting: deque[PendingQuestion] = deque()

    def pairs() -> Iterator[EncoderInput]:
        for question in questions:
            waiting.append(question)
            yield from question.pairs()

    for logits in engine.read_many(pairs(), batch_size):
        while waiting[0].complete:  # nothing to read in it
            yield waiting.popleft()

        question = waiting[0]
        question.add(logits)
        if question.again:
            question.add(engine.read(question.pair(question.portions[0])))

        if question.complete:
            yield waiting.popleft()

    yield from waiting
