"""Column names in a text: rows of a table are read as "Name: Ida, Role: cook, Cabin: 12."

A name that stands before its cell in row after row belongs to the table, and not to an answer. It
is known by the text alone, so that all who ask are served alike: files, an index, and the page,
which has nothing but the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter

_NAME = re.compile(r"(?:^|(?<=, ))([^:,\n]{1,60}): ", re.MULTILINE)
_BETWEEN_CELLS = ", "
_LEAST_NAMES = 2  # in a line that is a row
_LEAST_ROWS = 2  # that have the same name


class ColumnNames:
    """Where the names of columns are in a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        matches = list(_NAME.finditer(text)) if text.count("\n") else []
        known = _names_of_columns(text, matches)
        matches = [match for match in matches if match[1] in known]
        self._starts = [match.start() for match in matches]
        self._ends = [match.end() for match in matches]  # after the blank: where the cell begins

    def within_cell(self, start: int, end: int) -> tuple[int, int]:
        """The span without names at its edges; of several cells the first.

        A span that is nothing but a name stays as it is, and so does the end of a cell that has a
        colon of its own, as in "Hours: Mon: 9, Tue: 10."
        """
        if self.is_name(start, end):
            return start, end
        first, last = start, end
        # Also where it begins with what is between two cells.
        before = bisect_right(self._starts, start + len(_BETWEEN_CELLS)) - 1
        if before >= 0 and start < self._ends[before] < end:
            start = self._ends[before]
        after = bisect_right(self._starts, start)
        if after < len(self._starts) and self._starts[after] < end:
            next_name = self._starts[after]
            if ": " not in self._text[start:next_name]:
                end = next_name - len(_BETWEEN_CELLS)
        return (start, end) if start < end else (first, last)

    def is_name(self, start: int, end: int) -> bool:
        """Whether a span has nothing but a name, or a part of one."""
        before = bisect_right(self._starts, start) - 1
        return before >= 0 and end <= self._ends[before]


def _names_of_columns(text: str, matches: list[re.Match[str]]) -> set[str]:
    """The names that several rows have, each beside others."""
    rows: dict[int, list[str]] = {}
    line_end = -1
    for match in matches:
        if match.start() > line_end:
            line_end = text.find("\n", match.end() - 1)
            line_end = len(text) if line_end < 0 else line_end
        rows.setdefault(line_end, []).append(match[1])
    counts = Counter(
        name for names in rows.values() if len(names) >= _LEAST_NAMES for name in set(names)
    )
    return {name for name, count in counts.items() if count >= _LEAST_ROWS}
