"""Of the answers that several passages gave to one question, the best; or that none of them has it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rmreader.core.console import one_line
from rmreader.documents.index import Passage
from rmreader.reading.answers import Answer, Answers
from rmreader.scoring.squad import normalize

# Fitted on nine held-out articles among all of SQuAD, with and without a question's article: log/2026-11-16-shelf.md.
_SEARCH = 0.3  # what a point of the search counts in log-odds
_NONE = 1.3  # odds that no passage has the answer, per passage that was read
_DOUBT = 0.57  # above this chance that none has it, no answer is given
_LEAST = 0.01  # confidence of an answer that is worth showing after the first


@dataclass(frozen=True)
class Citation:
    """An answer and where it is: characters ``start`` to ``end`` of the file's original, as ``offsets`` counts them."""

    answer: Answer
    """With its places in the passage, and the confidence among all passages."""
    passage: Passage
    start: int
    end: int

    @property
    def text(self) -> str:
        """The answer."""
        return self.answer.text

    @property
    def confidence(self) -> float:
        """The F1 to expect of it, that it may be in none of the documents counted in."""
        return self.answer.confidence

    @property
    def sentence(self) -> str:
        """The sentence around it."""
        return self.answer.sentence

    @property
    def file(self) -> str:
        """The path of the document in the folder that was indexed."""
        return self.passage.file

    @property
    def place(self) -> str:
        """File, page and heading, for a person."""
        page, heading = self.passage.stretch.page, self.passage.stretch.heading
        return self.file + (f", page {page}" if page else "") + (f", {heading}" if heading else "")

    def to_json(self) -> dict[str, Any]:
        """Plain data, ready for ``json.dumps``."""
        passage, stretch = self.passage, self.passage.stretch
        tree: dict[str, Any] = {"text": self.text, "confidence": self.confidence, "sentence": self.sentence}
        tree |= {"root": passage.root, "file": passage.file, "page": stretch.page, "heading": stretch.heading}
        tree |= {"start": self.start, "end": self.end, "offsets": passage.offsets}
        inside = {"start": self.answer.start, "end": self.answer.end}
        return tree | {"passage": {"id": passage.id, "text": passage.text, **inside}}


class Citations(list[Citation]):
    """Different answers to one question, best first; empty where the documents do not say."""

    none: float | None = None
    """The chance that none of the documents holds an answer; None where the reader cannot tell."""
    guess: Citation | None = None
    """The best answer, given or not; None where nothing was found to read."""
    absent: bool = False
    """Whether the reader decides that the documents do not say."""

    def doubt(self) -> str:
        """What to tell a person where no answer is given."""
        if self.guess is None:
            return "not in these documents  (no passage has a word of the question)"
        guess = f"the best guess: {one_line(self.guess.text)}, in {one_line(self.guess.file)}"
        if self.absent and self.none is not None:
            return f"not in these documents  ({self.none:.0%} sure; {guess})"
        return f"no answer is sure enough  ({guess}, {self.guess.confidence:.0%} sure)"


def choose(
    passages: Sequence[Passage], found: Sequence[Answers], top: int, min_confidence: float = 0.0, always: bool = False
) -> Citations:
    """The best of the answers that the passages gave, each read by itself with an answer taken for granted.

    A reader's scores are only comparable within one passage; its chance that a passage holds no answer, fitted on
    held-out articles, is comparable between them. Let o_i be the odds that passage i of k holds one, times exp(c·s_i)
    for how much better than the mean the search likes it. Then the chance that none does is n·k / (n·k + max o_i), and
    what is left is shared by o_i; within a passage, its answers' confidences share it.
    """
    cited = Citations()
    if not passages:
        return cited
    mean = sum(passage.score for passage in passages) / len(passages)
    odds = [
        math.exp(_log_odds(answers) + _SEARCH * (passage.score - mean))
        for passage, answers in zip(passages, found, strict=True)
    ]
    if all(answers.none is not None for answers in found):
        nothing = _NONE * len(passages)
        cited.none = nothing / (nothing + max(odds))
        cited.absent = cited.none > _DOUBT
    some = 1.0 if always or cited.none is None else 1 - cited.none
    best: dict[str, Citation] = {}
    for passage, answers, one in zip(passages, found, odds, strict=True):
        for answer in answers:
            sure = replace(answer, confidence=some * one / sum(odds) * answer.confidence)
            key = normalize(answer.text) or (answer.text if answer.text.isalnum() and len(answer.text) == 1 else "")
            # "A" says something, "the" and "." do not
            if key and (key not in best or best[key].confidence < sure.confidence):
                best[key] = Citation(sure, passage, *passage.stretch.span(answer.start, answer.end))
    ranked = sorted(best.values(), key=lambda one: -one.confidence)
    cited.guess = ranked[0] if ranked else None
    if always or not cited.absent:
        kept = [one for one in ranked[:top] if one is ranked[0] or one.confidence >= _LEAST]
        cited += [one for one in kept if one.confidence >= min_confidence]
    return cited


def _log_odds(answers: Answers) -> float:
    """Of there being an answer in the passage."""
    none = 0.5 if answers.none is None else min(max(answers.none, 1e-9), 1 - 1e-9)
    return math.log1p(-none) - math.log(none)
