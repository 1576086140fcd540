"""Where a text breaks, so that no answer reaches across: blank lines, tabs, items and fields.

The network reads words and sees no line end. In a form it would read "Zone: C2" and the next line,
"Valid from: 1 June", as "Zone: C2 Valid from: 1 June".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A blank line parts paragraphs, a tab the cells of a table; SQuAD has neither.
_BREAK = re.compile(r"\n\s*\n|\t")

# How lines begin that are not the rest of the line before. One such line alone may be chance.
_TIME = r"(?:\d{1,4}[-./]\d{1,2}[-./]\d{1,4},?[ T])?\d{1,2}:\d{2}(?::\d{2})?"
_LINES = {
    "items": r"[-*•+–] +(?=\S)",
    "numbered items": r"\(?\d{1,3}[.)] +(?=\S)",
    "options": r"--?[A-Za-z]",
    "messages": rf"[\[(<]?{_TIME}",
    "fields": r"[^\W\d_][^:\n]{0,40}:(?: +(?=\S)|(?=\n))",
}
_PATTERNS = [re.compile(rf"\n(?= {{0,12}}{begin})") for begin in _LINES.values()]
_FIRST = [re.compile(rf" {{0,12}}{begin}") for begin in _LINES.values()]
_LEAST = 2  # lines of a kind


@dataclass(frozen=True)
class Break:
    """A break between two characters; the words before it may lack a stop."""

    start: int
    end: int
    ends_sentence: bool


def breaks_of(text: str) -> list[Break]:
    """Find the breaks of a text, in order."""
    found = {}
    for match in _BREAK.finditer(text):
        found[match.end()] = Break(match.start(), match.end(), match[0] != "\t")
    if "\n" in text:
        for pattern, first in zip(_PATTERNS, _FIRST, strict=True):
            ends = [match.end() for match in pattern.finditer(text)]
            lines = len(ends) + bool(first.match(text))
            if lines >= _LEAST:
                for end in ends:
                    found.setdefault(end, Break(end - 1, end, ends_sentence=True))
    return [found[end] for end in sorted(found)]
