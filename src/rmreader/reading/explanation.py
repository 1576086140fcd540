"""The attention that led to an answer, round by round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.reading.notebook import COLOUR, html_text
from rmreader.text.tokens import Tokens


@dataclass(frozen=True)
class Attention:
    """What one round attended to; every column of the first two sums to 1, and every row of the
    third."""

    interactive: NDArray[np.float32]
    """[n, m]: softmax(E_:j), question words (rows) as seen by passage word j (columns)."""
    self: NDArray[np.float32]
    """[m, m]: softmax(B_:j), passage words (rows) as seen by passage word j."""
    context: NDArray[np.float32]
    """[n, m]: softmax(E_i:), passage words (columns) as seen by question word i: what reattention
    remembers (Eq. 4)."""


@dataclass(frozen=True)
class Explanation:
    """The attention of every round, by token.

    Of a passage longer than the reader's window, the last reading is explained: ``passage`` then
    holds the tokens that were read again around the best answers, at their places in the whole
    passage.
    """

    question: Tokens
    passage: Tokens
    rounds: list[Attention]

    def to_json(self) -> dict[str, Any]:
        """Plain data, ready for ``json.dumps``.

        >>> why = Reader.load().explain("Who wrote it?", "Ada wrote the letter.")
        >>> sorted(why.to_json())
        ['passage', 'question', 'rounds']
        """
        rounds = []
        for attention in self.rounds:
            rounds.append({name: matrix.tolist() for name, matrix in vars(attention).items()})
        return {
            "question": spans_of(self.question),
            "passage": spans_of(self.passage),
            "rounds": rounds,
        }

    def _repr_html_(self) -> str:
        """The passage once per round, the last first.

        The stronger a word's colour, the more it attends to one word of the question, which its
        title names.
        """
        parts = []
        for number in range(len(self.rounds), 0, -1):
            state = " open" if number == len(self.rounds) else ""
            words = self._coloured_words(self.rounds[number - 1])
            parts.append(f"<details{state}><summary>round {number}</summary>{words}</details>")
        body = "".join(parts) or "<p><em>nothing to read</em></p>"
        question = html_text(" ".join(self.question.words))
        return f"<div><p><strong>{question}</strong></p>{body}</div>"

    def _coloured_words(self, attention: Attention) -> str:
        """The words of the passage, each in the strength of its attention to one word of the
        question."""
        strongest = attention.interactive.argmax(axis=0)  # every column sums to 1
        spans = []
        for j, word in enumerate(self.passage.words):
            k = int(strongest[j])
            share = float(attention.interactive[k, j])
            title = f"{html_text(self.question.words[k])} {share:.0%}"
            style = f"background: rgba({COLOUR}, {share**2:.2f})"
            spans.append(f'<span style="{style}" title="{title}">{html_text(word)}</span>')
        return " ".join(spans)


def spans_of(tokens: Tokens) -> list[dict[str, Any]]:
    """Tokens as plain data: each with its place in the text."""
    spans = []
    for text, start, end in zip(
        tokens.words, tokens.starts.tolist(), tokens.ends.tolist(), strict=True
    ):
        spans.append({"text": text, "start": start, "end": end})
    return spans
