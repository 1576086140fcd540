"""Everything the network is told about a word that does not depend on where the word is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from rmreader.text.arrays import A, Arrays

B = TypeVar("B")


@dataclass(frozen=True)
class Words(Arrays[A]):
    """A table of W distinct words. Row 0 is padding: a zero vector, one padding character, key -1.

    Texts refer to words by row, so the character encoder runs once for each distinct word, not once
    per token.
    """

    vectors: A  # float [W, dim]: the known vector; zeros where the word has none
    characters: A  # int [W, c]: character ids, 0 is padding
    lengths: A  # int [W]: how many characters, at least 1
    keys: A  # int [W]: equal for two words exactly when they match ignoring case
    trainable: A  # int [W]: row of the network's trained vectors; 0 where the known one is used

    def map(self, change: Callable[[A], B]) -> Words[B]:
        """The same words with ``change`` applied to every array."""
        words: Words[B] = super().map(change)
        return words

    def take(self: Words[Any], rows: Any) -> Words[Any]:
        """Return the table of the chosen rows, for arrays and tensors alike."""
        return self.map(lambda array: array[rows])


def encodable(word: str) -> str:
    """Return the word as UTF-8 can hold it: a lone surrogate reads as the replacement character."""
    return word.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def round_up(number: int, multiple: int) -> int:
    """Return the next multiple from the number on, for shapes that repeat."""
    return -(-number // multiple) * multiple
