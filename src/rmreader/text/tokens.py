"""Text to tokens with exact character offsets: runs of letters, runs of digits, single other characters.

The rule is finer than English words on purpose (``5km`` is two tokens, ``U.S.`` four): all but one in 400
SQuAD answers then start and end on a token boundary, and the rest (``six`` in ``sixth``) stand inside a word.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

# Cached encodings name the rule that made them; the character classes come with Python's own Unicode tables.
RULE = f"letters-digits-others/1 unicode/{unicodedata.unidata_version}"

# Stand-ins for any combining mark, and for the numerals that \w counts in. Ⅰ is such a numeral itself, so after
# _simplify it can only mean a mark: a word starts with a letter and goes on with letters and marks.
_MARK, _OTHER = "\u2160", "*"
_TOKEN = re.compile(rf"([^\W\d_{_MARK}][^\W\d_]*|\d+|\S)")


@dataclass(frozen=True)
class Tokens:
    """The tokens of one text; together they tile its non-space characters."""

    words: list[str]
    starts: NDArray[np.int32]  # text[starts[k]:ends[k]] == words[k]
    ends: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.words)


def tokenize(text: str) -> Tokens:
    """Split any text, in time linear in its length."""
    simple = _simplify(text)
    parts = _TOKEN.split(simple)  # space, token, space, …, token, space: as fast as a list of the tokens alone
    bounds = np.fromiter(map(len, parts), np.int32, len(parts)).cumsum(dtype=np.int32)
    starts, ends = bounds[:-1:2], bounds[1::2]
    words = parts[1::2] if simple is text else [text[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
    return Tokens(words, starts, ends)


def _simplify(text: str) -> str:
    """The text, character for character, with the classes that ``re`` cannot name replaced by their stand-ins."""
    if text.isascii():
        return text
    table = {ord(c): stand_in for c in set(text) if c > "\x7f" and (stand_in := _stand_in(c)) is not None}
    return text.translate(table) if table else text


@lru_cache(maxsize=4096)
def _stand_in(character: str) -> str | None:
    category = unicodedata.category(character)
    if category[0] == "M":
        return _MARK
    return _OTHER if category in ("Nl", "No") else None  # ½, ²: else m² would be one word
