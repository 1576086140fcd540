"""Answers and explanations as HTML, which notebooks show (``_repr_html_``): no script, every text escaped."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from rmreader.console import one_line

if TYPE_CHECKING:
    from rmreader.reading.answering.answers import Answer, Answers, Explanation

_COLOUR = "46, 160, 67"  # readable under black and under white letters


def answers_html(answers: Answers) -> str:
    """Every answer marked in its sentence, or why there is none."""
    if not answers:
        return f"<p><em>{_text(answers.doubt())}</em></p>"
    return f"<ol>{''.join(f'<li>{answer_html(answer)}</li>' for answer in answers)}</ol>"


def answer_html(answer: Answer) -> str:
    """An answer with its confidence, and its sentence with the first such words in it marked."""
    words = re.escape(answer.text)
    found = re.search(rf"(?<!\w){words}(?!\w)", answer.sentence) or re.search(words, answer.sentence)
    begin, end = found.span() if found else (0, 0)
    mark = f'<mark style="background: rgba({_COLOUR}, 0.35); color: inherit">{_text(answer.sentence[begin:end])}</mark>'
    sentence = f"{_text(answer.sentence[:begin])}{mark}{_text(answer.sentence[end:])}"
    return f"<strong>{_text(answer.text)}</strong> <small>({answer.confidence:.0%} sure)</small><br>{sentence}"


def explanation_html(explanation: Explanation) -> str:
    """The passage once per round, the last first: the stronger a word's colour, the more it attends to one word of the
    question, which its title names."""
    parts = []
    for number in range(len(explanation.rounds), 0, -1):
        attention = explanation.rounds[number - 1].interactive  # [n, m], every column sums to 1
        words = []
        for j, word in enumerate(explanation.passage.words):
            k = int(attention[:, j].argmax())
            share = float(attention[k, j])
            title = f"{_text(explanation.question.words[k])} {share:.0%}"
            style = f"background: rgba({_COLOUR}, {share**2:.2f})"
            words.append(f'<span style="{style}" title="{title}">{_text(word)}</span>')
        state = " open" if number == len(explanation.rounds) else ""
        parts.append(f"<details{state}><summary>round {number}</summary>{' '.join(words)}</details>")
    asked = _text(" ".join(explanation.question.words))
    return f"<div><p><strong>{asked}</strong></p>{''.join(parts) or '<p><em>nothing to read</em></p>'}</div>"


def _text(text: str) -> str:
    """A text that any page can hold: one line, without commands, and no lone surrogates."""
    return escape(one_line(text)).encode("utf-8", "replace").decode()
