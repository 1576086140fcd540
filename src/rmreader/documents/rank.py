"""Of the answers that several passages gave to a question, the best; or that none has it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from rmreader.documents.citations import Citation, Citations
from rmreader.documents.index import Passage
from rmreader.reading.answers import Answers
from rmreader.scoring.squad import normalize

# Fitted on nine held-out articles among all of SQuAD, with and without a question's article:
# log/2026-11-16-shelf.md.
_SEARCH = 0.3  # what a point of the search counts in log-odds
_NONE = 1.3  # odds that no passage has the answer, per passage that was read
_DOUBT = 0.57  # above this chance that none has it, no answer is given
_LEAST = 0.01  # confidence of an answer that is worth showing after the first


def choose(
    passages: Sequence[Passage],
    found: Sequence[Answers],
    top: int,
    min_confidence: float = 0.0,
    always: bool = False,
) -> Citations:
    """The best of the answers that the passages gave, each read by itself with an answer taken for
    granted.

    A reader's scores are only comparable within one passage; its chance that a passage holds no
    answer, fitted on held-out articles, is comparable between them. Let o_i be the odds that
    passage i of k holds one, times exp(c·s_i) for how much better than the mean the search likes
    it. Then the chance that none does is n·k / (n·k + max o_i), and what is left is shared by o_i;
    within a passage, its answers' confidences share it.
    """
    if not passages:
        return Citations()
    odds = _odds(passages, found)
    no_answer = None
    if all(answers.no_answer is not None for answers in found):
        nothing = _NONE * len(passages)
        no_answer = nothing / (nothing + max(odds))
    absent = no_answer is not None and no_answer > _DOUBT
    some = 1.0 if always or no_answer is None else 1 - no_answer
    best: dict[str, Citation] = {}
    for passage, answers, odd in zip(passages, found, odds, strict=True):
        for answer in answers:
            sure = replace(answer, confidence=some * odd / sum(odds) * answer.confidence)
            key = _key(answer.text)
            if key and (key not in best or best[key].confidence < sure.confidence):
                best[key] = Citation.of(sure, passage)
    ranked = sorted(best.values(), key=lambda citation: -citation.confidence)
    given: list[Citation] = []
    if always or not absent:
        given = [one for one in ranked[:top] if one is ranked[0] or one.confidence >= _LEAST]
    guess = ranked[0] if ranked else None
    citations = Citations(tuple(given), no_answer, guess, absent).at_least(min_confidence)
    return citations.with_runner_up(ranked, top)


def _key(text: str) -> str:
    """What two answers that are the same share; empty where a text says nothing, as "the" and "."
    do."""
    letter = len(text) == 1 and text.isalnum()  # "A" says something
    return normalize(text) or (text if letter else "")


def _odds(passages: Sequence[Passage], found: Sequence[Answers]) -> list[float]:
    """Of each passage the odds that it holds an answer, times what the search says of it."""
    mean = sum(passage.score for passage in passages) / len(passages)
    odds = []
    for passage, answers in zip(passages, found, strict=True):
        odds.append(math.exp(_log_odds(answers) + _SEARCH * (passage.score - mean)))
    return odds


def _log_odds(answers: Answers) -> float:
    """Of there being an answer in the passage."""
    if answers.no_answer is None:
        return 0.0
    none = min(max(answers.no_answer, 1e-9), 1 - 1e-9)
    return math.log1p(-none) - math.log(none)
