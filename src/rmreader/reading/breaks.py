"""Where a text breaks, so that no answer reaches across: blank lines, columns, items and fields.

The network reads words and sees no line end. In a form it would read "Zone: C2" and the next line,
"Valid from: 1 June", as "Zone: C2 Valid from: 1 June".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A blank line parts paragraphs, a tab the cells of a table; SQuAD has neither.
_BREAK = re.compile(r"\n\s*\n|\t")

# Between two columns of a line; not after a colon, where the value of a field comes. Two blanks
# alone may be between two sentences: they count where a line beside has a column there, too.
_GAP = re.compile(r"(?<=[^\s:]) {2,}(?=\S)")
_WIDE = 3
_NEXT_FIELD = re.compile(r"[^\W\d_][^:\n]{0,40}:(?:\s|\Z)")

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
    for start, end in _column_gaps(text):
        is_field = bool(_NEXT_FIELD.match(text, end))
        found[end] = Break(start, end, is_field)
    if "\n" in text:
        for pattern, first in zip(_PATTERNS, _FIRST, strict=True):
            ends = [match.end() for match in pattern.finditer(text)]
            lines = len(ends) + bool(first.match(text))
            if lines >= _LEAST:
                for end in ends:
                    found.setdefault(end, Break(end - 1, end, ends_sentence=True))
    return [found[end] for end in sorted(found)]


def _column_gaps(text: str) -> list[tuple[int, int]]:
    """The blanks between two columns of a line."""
    if "  " not in text:
        return []
    lines: list[dict[int, tuple[int, int]]] = []  # of each line: where in it a gap ends
    begin = 0
    for line in text.split("\n"):
        gaps = {gap.end(): (begin + gap.start(), begin + gap.end()) for gap in _GAP.finditer(line)}
        lines.append(gaps)
        begin += len(line) + 1
    found = []
    for number, gaps in enumerate(lines):
        neighbours = lines[max(0, number - 1) : number] + lines[number + 1 : number + 2]
        for column, (start, end) in gaps.items():
            is_aligned = any(column in others for others in neighbours)
            if is_aligned or end - start >= _WIDE:
                found.append((start, end))
    return found
