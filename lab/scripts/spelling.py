"""Questions in the pieces of an uncased vocabulary, spelled as people would type them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

_WORD = re.compile(r"\w+")
_START = re.compile(r"(?:^|[.!?:;]\W+|\n\W*|[\"“(]\W*)\Z")


def usual_spellings(texts: Iterable[str]) -> dict[str, str]:
    """How each word is mostly spelled inside sentences, by its lower case."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        for match in _WORD.finditer(text):
            if match.start() and not _START.search(text, max(0, match.start() - 6), match.start()):
                counts[match[0].lower()][match[0]] += 1
    return {word: spelled.most_common(1)[0][0] for word, spelled in counts.items()}


def spelled(
    pieces: list[str],
    passage: list[str],
    offsets: list[tuple[int, int]],
    context: str,
    usual: dict[str, str],
) -> str:
    """A question as it would be typed: runs of words that are in the passage as there, others as
    they usually are."""
    asked, there = _words(pieces), _words(passage)
    places: defaultdict[str, list[int]] = defaultdict(list)
    for number, (word, _, _) in enumerate(there):
        places[word].append(number)
    text, k = "", 0
    while k < len(asked):
        word, length, at = asked[k][0], 0, -1
        for place in places.get(word, ()):
            run = 1
            while (
                k + run < len(asked)
                and place + run < len(there)
                and asked[k + run][0] == there[place + run][0]
            ):
                run += 1
            if run > length or (run == length and _starts(context, offsets[there[at][1]][0])):
                length, at = run, place
        if at < 0:
            chunk, length = usual.get(word, word), 1
        else:
            begin, end = offsets[there[at][1]][0], offsets[there[at + length - 1][2]][1]
            chunk = context[begin:end]
            if length == 1 or _starts(context, begin):
                own = offsets[there[at][2]][1] - begin
                chunk = usual.get(word, chunk[:own]) + chunk[own:]
        text += chunk if not text or _tight(text, chunk) else f" {chunk}"
        k += length
    return text[:1].upper() + text[1:]


def _words(pieces: list[str]) -> list[tuple[str, int, int]]:
    """Words of pieces, with their first and last piece."""
    words: list[tuple[str, int, int]] = []
    for number, piece in enumerate(pieces):
        if piece.startswith("##") and words:
            words[-1] = words[-1][0] + piece[2:], words[-1][1], number
        else:
            words.append((piece, number, number))
    return words


def _starts(context: str, at: int) -> bool:
    return _START.search(context, max(0, at - 6), at) is not None or at == 0


def _tight(text: str, chunk: str) -> bool:
    """Whether no space belongs between the two."""
    if chunk[0] in ",.?!;:)]%'’-–/" or text[-1] in "([$£€#-–/" or text[-1] == "’":
        return True
    if text[-1] == "'":
        return chunk in {"s", "t", "re", "ve", "ll", "d", "m"} or text.endswith(" '")
    if text[-1] == '"':
        return text.count('"') % 2 == 1
    if chunk[0] == '"':
        return text.count('"') % 2 == 1
    return False
