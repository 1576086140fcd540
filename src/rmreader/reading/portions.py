"""How a long passage is read: in overlapping portions, each of one window."""

from __future__ import annotations

from dataclasses import dataclass

CONTEXT = 48  # tokens that a portion shows beyond any answer it may give


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
    """Portions of ``length`` tokens for answers of up to ``max_length``: one where all fits into
    the window.

    Every start belongs to exactly one portion, so no answer is given twice. The whole answer lies
    in that portion, with ``CONTEXT`` tokens on either side unless the passage itself ends there.
    """
    margin = max_length + CONTEXT
    window = room(max_length, window)
    if length == 0:
        return []
    if length <= window:
        return [Portion(0, length, 0, length)]
    shared = 2 * margin  # by two neighbours; the later one answers from the middle of it
    count = -(-(length - shared) // (window - shared))
    # Portions of equal size; the last of these begins is that of a portion after the end.
    begins = [k * (length - shared) // count for k in range(count + 1)]
    cuts = [0, *(begin + margin for begin in begins[1:-1]), length]
    return [Portion(begins[k], begins[k + 1] + shared, cuts[k], cuts[k + 1]) for k in range(count)]
