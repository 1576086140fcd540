"""Questions in the pieces of an uncased vocabulary, spelled as people would type them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

_WORD = re.compile(r"\w+")
_START = re.compile(r"(?:^|[.!?:;]\W+|\n\W*|[\"“(]\W*)\Z")
_LOOK_BACK = 6  # characters before a word that say whether it begins a sentence

_NO_SPACE_BEFORE = ",.?!;:)]%'’-–/"
_NO_SPACE_AFTER = "([$£€#-–/’"
_AFTER_APOSTROPHE = {"s", "t", "re", "ve", "ll", "d", "m"}


class Word(NamedTuple):
    """A word of pieces, with its first and last piece."""

    text: str
    first: int
    last: int


class Passage(NamedTuple):
    """A passage: its text, its words, and where each of its pieces is."""

    text: str
    words: Sequence[Word]
    offsets: Sequence[tuple[int, int]]

    def begin(self, word: int) -> int:
        """Where a word begins."""
        return self.offsets[self.words[word].first][0]

    def end(self, word: int) -> int:
        """Where a word ends."""
        return self.offsets[self.words[word].last][1]


def usual_spellings(texts: Iterable[str]) -> dict[str, str]:
    """How each word is mostly spelled inside sentences, by its lower case."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        for match in _WORD.finditer(text):
            if not _starts(text, match.start()):
                counts[match[0].lower()][match[0]] += 1
    return {word: spellings.most_common(1)[0][0] for word, spellings in counts.items()}


def spelled(
    pieces: list[str],
    passage: list[str],
    offsets: list[tuple[int, int]],
    context: str,
    usual: dict[str, str],
) -> str:
    """Write a question as it would be typed.

    Runs of words that are in the passage are written as there, others as they usually are.
    """
    asked = _words(pieces)
    there = Passage(context, _words(passage), offsets)
    places: defaultdict[str, list[int]] = defaultdict(list)
    for number, its_word in enumerate(there.words):
        places[its_word.text].append(number)

    text = ""
    k = 0
    while k < len(asked):
        word = asked[k].text
        at, length = _longest_run(asked[k:], there, places[word])
        if at < 0:
            chunk = usual.get(word, word)
            length = 1
        else:
            chunk = _as_there(word, there, at, length, usual)
        if text and not _is_tight(text, chunk):
            text += " "
        text += chunk
        k += length
    return text[:1].upper() + text[1:]


def _longest_run(asked: Sequence[Word], there: Passage, places: Sequence[int]) -> tuple[int, int]:
    """Where the longest run of the question's next words is in the passage, and how long it is.

    Of equal runs the first one counts that begins no sentence. The place is -1 without any.
    """
    at = -1
    length = 0
    for place in places:
        run = 0
        for ours, theirs in zip(asked, there.words[place:], strict=False):
            if ours.text != theirs.text:
                break
            run += 1
        if run > length or (run == length and _starts(there.text, there.begin(at))):
            at = place
            length = run
    return at, length


def _as_there(
    word: str,
    there: Passage,
    at: int,
    length: int,
    usual: Mapping[str, str],
) -> str:
    """Some words as the passage spells them; the first as usual where that tells nothing.

    A capital tells nothing of a word alone, or of one that begins a sentence.
    """
    begin = there.begin(at)
    chunk = there.text[begin : there.end(at + length - 1)]
    if length > 1 and not _starts(there.text, begin):
        return chunk
    own = there.end(at) - begin
    return usual.get(word, chunk[:own]) + chunk[own:]


def _words(pieces: list[str]) -> list[Word]:
    """The words of pieces."""
    words: list[Word] = []
    for number, piece in enumerate(pieces):
        if piece.startswith("##") and words:
            before = words[-1]
            words[-1] = Word(before.text + piece[2:], before.first, number)
        else:
            words.append(Word(piece, number, number))
    return words


def _starts(text: str, at: int) -> bool:
    """Whether a sentence begins at a place."""
    return at == 0 or _START.search(text, max(0, at - _LOOK_BACK), at) is not None


def _is_tight(text: str, chunk: str) -> bool:
    """Whether no space belongs between the two."""
    if chunk[0] in _NO_SPACE_BEFORE or text[-1] in _NO_SPACE_AFTER:
        return True
    if text[-1] == "'":
        return chunk in _AFTER_APOSTROPHE or text.endswith(" '")
    if text[-1] == '"' or chunk[0] == '"':
        is_open = text.count('"') % 2 == 1
        return is_open
    return False
