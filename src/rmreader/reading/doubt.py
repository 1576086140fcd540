"""Three words for how far to believe an answer: sure, likely, perhaps.

The bands were fitted on the nine articles of SQuAD 2.0's training file that no shipped reader
learned from, and on the everyday texts ``held``, with both shipped readers: of the answers called
sure at least 95 % are right or overlap with a right one on each of them, of those called likely
80 %. ``log/2026-11-18-doubt.md`` has the figures, and those of texts that nothing was fitted on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Doubt = Literal["sure", "likely", "perhaps"]


@dataclass(frozen=True)
class Band:
    """What an answer needs to be called by a word."""

    min_confidence: float
    max_no_answer: float
    """Of the chance that there is no answer, where the reader can tell."""

    def holds(self, confidence: float, no_answer: float | None) -> bool:
        """Whether an answer belongs here."""
        return confidence >= self.min_confidence and (no_answer or 0.0) <= self.max_no_answer


SURE = Band(min_confidence=0.76, max_no_answer=0.05)
LIKELY = Band(min_confidence=0.74, max_no_answer=0.15)
PROMISES = {"sure": 0.95, "likely": 0.80}  # shares that are right, or overlap with a right answer
WORTH_SHOWING = 0.05  # confidence of a second answer
FIRM_REFUSAL = 0.5  # a refusal that is less sure than this is a "perhaps"


def doubt_of(confidence: float, no_answer: float | None) -> Doubt:
    """The word for an answer of this confidence, where there may be none with this chance."""
    if SURE.holds(confidence, no_answer):
        return "sure"
    if LIKELY.holds(confidence, no_answer):
        return "likely"
    return "perhaps"
