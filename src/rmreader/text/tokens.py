"""Text to tokens with exact character offsets: letters, digits, single other characters.

The rule is finer than English words on purpose (``5km`` is two tokens, ``U.S.`` four): all but one
in 400 SQuAD answers then start and end on a token boundary, and the rest (``six`` in ``sixth``) are
inside a word.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

# Cached encodings name the rule that made them; the character classes are Python's Unicode tables.
RULE = f"letters-digits-others/1 unicode/{unicodedata.unidata_version}"

# Stand-ins for any combining mark, and for the numerals that \w counts in. Ⅰ is such a numeral
# itself, so after _simplify it can only mean a mark: a word starts with a letter and continues with
# letters and marks.
_MARK = "\u2160"
_OTHER = "*"
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
    # Splitting gives space, token, space, …, token, space: as fast as a list of the tokens alone.
    parts = _TOKEN.split(simple)
    bounds = np.fromiter(map(len, parts), np.int32, len(parts)).cumsum(dtype=np.int32)
    starts = bounds[:-1:2]
    ends = bounds[1::2]
    if simple is text:
        words = parts[1::2]
    else:
        offsets = zip(starts.tolist(), ends.tolist(), strict=True)
        words = [text[start:end] for start, end in offsets]
    return Tokens(words, starts, ends)


def _simplify(text: str) -> str:
    """Replace, character for character, the classes that ``re`` cannot name by their stand-ins."""
    if text.isascii():
        return text
    table = {}
    for character in set(text):
        stand_in = _stand_in(character) if character > "\x7f" else None
        if stand_in is not None:
            table[ord(character)] = stand_in
    return text.translate(table) if table else text


@lru_cache(maxsize=4096)
def _stand_in(character: str) -> str | None:
    category = unicodedata.category(character)
    if category[0] == "M":
        return _MARK
    if category in ("Nl", "No"):  # ½, ²: else m² would be one word
        return _OTHER
    return None
