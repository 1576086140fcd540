"""The best of the answers that several passages gave to one question, or that none has it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from rmreader.documents.citations import Citation, Citations
from rmreader.documents.index import Passage
from rmreader.reading.answers import Answers
from rmreader.scoring.squad import normalize

# A logistic regression on questions about everyday texts (`held`) and articles of SQuAD, each asked
# of a folder with its document and of the same folder without it: `python -m lab.folders --write`,
# log/2026-11-18-folders.md.
_READER = 0.878  # what the reader's log-odds of an answer in the passage count
_SEARCH = 16.5  # what the score of the search counts
_BIAS = -7.97
_DOUBT = 0.662  # above this chance that no passage has the answer, none is given
_LEAST = 0.01  # confidence of an answer that is worth showing after the first


def choose(
    passages: Sequence[Passage],
    answers: Sequence[Answers],
    top: int,
    min_confidence: float = 0.0,
    always: bool = False,
) -> Citations:
    """The best of the answers that the passages gave, each read by itself with ``always``.

    A reader's scores are only comparable within one passage; its chance that a passage holds no
    answer is comparable between them, and so is the score of the search. Both make the odds o_i
    that passage i holds the answer. The chance that none does is 1 / (1 + max o_i). What is left is
    shared by the o_i; within a passage, its answers' confidences share it.
    """
    if not passages:
        return Citations()
    odds = [_odds(*pair) for pair in zip(passages, answers, strict=True)]
    no_answer = None
    if all(given.no_answer is not None for given in answers):
        no_answer = 1 / (1 + max(odds))
    absent = no_answer is not None and no_answer > _DOUBT
    some = 1.0 if always or no_answer is None else 1 - no_answer
    shares = [some * each / sum(odds) for each in odds]
    ranked = _different(passages, answers, shares)
    guess = ranked[0] if ranked else None
    given = () if absent and not always else _worth_showing(ranked[:top])
    citations = Citations(given, no_answer, guess, absent).at_least(min_confidence)
    return citations.with_runner_up(ranked, top)


def _odds(passage: Passage, answers: Answers) -> float:
    """That a passage holds the answer."""
    logit = _READER * log_odds(answers) + _SEARCH * passage.score + _BIAS
    return math.exp(logit)


def log_odds(answers: Answers) -> float:
    """Of there being an answer in the passage, as the reader says it."""
    if answers.no_answer is None:
        return 0.0
    none = min(max(answers.no_answer, 1e-9), 1 - 1e-9)
    return math.log1p(-none) - math.log(none)


def _different(
    passages: Sequence[Passage],
    answers: Sequence[Answers],
    shares: Sequence[float],
) -> list[Citation]:
    """Different answers, the surest first; of the same answer in several passages the surest."""
    best: dict[str, Citation] = {}
    for passage, given, share in zip(passages, answers, shares, strict=True):
        for answer in given:
            key = _key(answer.text)
            confidence = share * answer.confidence
            if key and (key not in best or best[key].confidence < confidence):
                sure = replace(answer, confidence=confidence)
                best[key] = Citation.of(sure, passage)
    return sorted(best.values(), key=lambda citation: -citation.confidence)


def _worth_showing(ranked: Sequence[Citation]) -> tuple[Citation, ...]:
    """The first, and the others unless there is next to no chance that they are right."""
    others = [citation for citation in ranked[1:] if citation.confidence >= _LEAST]
    return (*ranked[:1], *others)


def _key(text: str) -> str:
    """What makes two answers the same; empty for what says nothing, as "the" and "." do."""
    letter = len(text) == 1 and text.isalnum()  # "A" says something
    return normalize(text) or (text if letter else "")
