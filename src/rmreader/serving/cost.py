"""What a question costs the reader, judged before it is read and in a tenth of the time it takes to find its tokens."""

from __future__ import annotations

import numpy as np

WINDOW, NEW = 400, 274  # tokens of a window of a long passage, and those that the window before did not have
FIXED_COST = 20  # tokens that a window costs the reader on top of its own length; a token of the question costs half

# Space, letter, digit, and what is a token by itself. Of letters beyond ASCII each counts as one: rather too much.
_KINDS = np.array([3 - 3 * chr(k).isspace() - 2 * chr(k).isalpha() - chr(k).isdigit() for k in range(128)] + [3], "i1")


def count_tokens(text: str) -> int:
    """Tokens of a text; more than there are where it is not ASCII."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    kinds = _KINDS[np.minimum(codes, len(_KINDS) - 1)]
    same = (kinds[1:] == kinds[:-1]) & (kinds[1:] % 3 > 0)  # a word or a number goes on
    return int(np.count_nonzero(kinds)) - int(np.count_nonzero(same))


def window_cost(question: str, length: int = WINDOW) -> int:
    """What one window costs, and the question, which is read anew with each."""
    return length + count_tokens(question) // 2 + FIXED_COST


def weigh(question: str, passage: str) -> int:
    """What a question about a passage costs, in tokens of a short passage."""
    length = count_tokens(passage)
    if length <= WINDOW:
        return window_cost(question, length)
    return (1 + length // NEW) * window_cost(question)
