"""What a reader is asked, and what it gives: answers, and the attention that led to them.

Notebooks show them as HTML (``_repr_html_``): no script, every text escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.core.console import one_line
from rmreader.text.tokens import Tokens

_COLOUR = "46, 160, 67"  # readable under black and under white letters


@dataclass(frozen=True)
class Row:
    """One question to answer, as a row of a data set or a file."""

    id: str
    question: str
    passage: str
    references: tuple[str, ...] = ()
    """The answers people gave."""
    breaks: tuple[int, ...] = ()
    """Characters of the passage that no answer reaches across, as where one of several texts in it ends."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A stretch of the passage: ``text == passage[start:end]``."""

    text: str
    start: int
    """First character."""
    end: int
    """After the last character."""
    score: float
    """log p(A), Eq. 6: comparable between the answers to one question."""
    confidence: float
    """The F1 to expect of this answer, calibrated on held-out articles."""
    sentence: str
    """The sentence around it."""

    def _repr_html_(self) -> str:
        """The answer with its confidence, and its sentence with the first such words in it marked."""
        words = re.escape(self.text)
        found = re.search(rf"(?<!\w){words}(?!\w)", self.sentence) or re.search(words, self.sentence)
        begin, end = found.span() if found else (0, 0)
        before, marked, after = self.sentence[:begin], self.sentence[begin:end], self.sentence[end:]
        mark = f'<mark style="background: rgba({_COLOUR}, 0.35); color: inherit">{_html(marked)}</mark>'
        sentence = f"{_html(before)}{mark}{_html(after)}"
        return f"<strong>{_html(self.text)}</strong> <small>({self.confidence:.0%} sure)</small><br>{sentence}"


class Answers(list[Answer]):
    """The answers to one question, best first; empty where the passage does not say."""

    none: float | None = None
    """The chance that the passage holds no answer; None where the reader cannot tell."""
    guess: Answer | None = None
    """The best answer, given or not; None where there was nothing to read."""
    absent: bool = False
    """Whether the reader decides that the passage does not say; only ``always`` gives answers then."""

    def given(self, top: int, min_confidence: float = 0.0, always: bool = False) -> Answers:
        """What ``Reader.ask`` gives with these options, of answers that took it for granted that there is one."""
        sure = list(self[:top])
        if self.none is not None and not always:
            sure = [replace(answer, confidence=answer.confidence * (1 - self.none)) for answer in sure]
        some = Answers(sure if always or not self.absent else ())
        some.none, some.absent, some.guess = self.none, self.absent, sure[0] if sure else None
        return some.at_least(min_confidence)

    def at_least(self, confidence: float) -> Answers:
        """Those that are so sure."""
        some = Answers(answer for answer in self if answer.confidence >= confidence)
        some.none, some.absent, some.guess = self.none, self.absent, self.guess
        return some

    def doubt(self) -> str:
        """What to tell a person where no answer is given: why, how sure that is, and what the best guess would be."""
        if self.none is None or self.guess is None:
            return "no answer"
        guess = one_line(self.guess.text)
        if self.absent:
            return f"not in this passage  ({self.none:.0%} sure; the best guess: {guess})"
        return f"no answer is sure enough  (the best guess: {guess}, {self.guess.confidence:.0%} sure)"

    def _repr_html_(self) -> str:
        if not self:
            return f"<p><em>{_html(self.doubt())}</em></p>"
        return f"<ol>{''.join(f'<li>{answer._repr_html_()}</li>' for answer in self)}</ol>"


def text_of(answers: Sequence[Answer]) -> str:
    """The best answer's text as predictions have it: empty where there is no answer."""
    return answers[0].text if answers else ""


@dataclass(frozen=True)
class Attention:
    """What one round attended to; every column of the first two sums to 1, and every row of the third."""

    interactive: NDArray[np.float32]
    """[n, m]: softmax(E_:j), question words (rows) as seen by passage word j (columns)."""
    self: NDArray[np.float32]
    """[m, m]: softmax(B_:j), passage words (rows) as seen by passage word j."""
    context: NDArray[np.float32]
    """[n, m]: softmax(E_i:), passage words (columns) as seen by question word i: what reattention remembers (Eq. 4)."""


@dataclass(frozen=True)
class Explanation:
    """The attention of every round, by token.

    Of a passage longer than the reader's window, the last reading is explained: ``passage`` then holds the tokens that
    were read again around the best answers, at their places in the whole passage.
    """

    question: Tokens
    passage: Tokens
    rounds: list[Attention]

    def to_json(self) -> dict[str, Any]:
        """Plain data, ready for ``json.dumps``."""
        rounds = [{name: matrix.tolist() for name, matrix in vars(one).items()} for one in self.rounds]
        return {"question": spans_of(self.question), "passage": spans_of(self.passage), "rounds": rounds}

    def _repr_html_(self) -> str:
        """The passage once per round, the last first: the stronger a word's colour, the more it attends to one word of
        the question, which its title names."""
        parts = []
        for number in range(len(self.rounds), 0, -1):
            attention = self.rounds[number - 1].interactive  # [n, m], every column sums to 1
            words = []
            for j, word in enumerate(self.passage.words):
                k = int(attention[:, j].argmax())
                share = float(attention[k, j])
                title = f"{_html(self.question.words[k])} {share:.0%}"
                style = f"background: rgba({_COLOUR}, {share**2:.2f})"
                words.append(f'<span style="{style}" title="{title}">{_html(word)}</span>')
            state = " open" if number == len(self.rounds) else ""
            parts.append(f"<details{state}><summary>round {number}</summary>{' '.join(words)}</details>")
        asked = _html(" ".join(self.question.words))
        return f"<div><p><strong>{asked}</strong></p>{''.join(parts) or '<p><em>nothing to read</em></p>'}</div>"


def spans_of(tokens: Tokens) -> list[dict[str, Any]]:
    """Tokens as plain data: each with its place in the text."""
    triples = zip(tokens.words, tokens.starts.tolist(), tokens.ends.tolist(), strict=True)
    return [{"text": text, "start": start, "end": end} for text, start, end in triples]


def _html(text: str) -> str:
    """A text that any page can hold: one line, without commands, and no lone surrogates."""
    return escape(one_line(text)).encode("utf-8", "replace").decode()
