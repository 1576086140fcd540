"""A batch read in several parts, one after another or by several processes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Part:
    """One of so many equal parts of every batch."""

    number: int = 0
    count: int = 1

    def rows(self, index: NDArray[Any], groups: NDArray[Any] | None = None) -> NDArray[Any]:
        """Its questions of a batch; neighbours of one group stay together, so that a part can be
        empty."""
        first = round(len(index) * self.number / self.count)
        after = round(len(index) * (self.number + 1) / self.count)
        if groups is not None:
            # where groups begin, and the end
            begins = np.flatnonzero(np.diff(groups[index], prepend=-1, append=-1))
            first = int(begins[np.searchsorted(begins, first)])
            after = int(begins[np.searchsorted(begins, after)])
        return index[first:after]


WHOLE = Part()
