"""BERT's word pieces in plain Python: what most published encoders, and the shipped reader, read.

The ids are those of the package ``tokenizers``, which other tokenizers need. A text is split at its
special pieces, freed of control characters, lowered and freed of accents, split at spaces,
punctuation and Chinese characters, and then into the longest pieces that the vocabulary has.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, Self

_NORMALIZER = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}
_PRE_TOKENIZER = {"type": "BertPreTokenizer"}
_MOST_CACHED = 65_536  # words
# Chinese characters as BERT knows them, first and last of each block
_CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPieces:
    """The word pieces of one ``tokenizer.json``."""

    def __init__(self, vocabulary: dict[str, int], unknown: str, specials: dict[str, int]) -> None:
        """``unknown`` is the piece of a word that no pieces make, ``specials`` are never split."""
        self.specials = specials
        self.unknown = vocabulary[unknown]
        self.most_letters = 100
        self._ids = vocabulary
        self._longest = max(map(len, vocabulary))
        longest_first = sorted(specials, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._cache: dict[str, list[int]] = {}

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Self | None:
        """Those of a ``tokenizer.json``; None where it is of another kind. ``ValueError`` where it
        is of this kind and damaged."""
        model = tree.get("model")
        if not isinstance(model, dict) or model.get("type") != "WordPiece":
            return None
        if tree.get("normalizer") != _NORMALIZER or tree.get("pre_tokenizer") != _PRE_TOKENIZER:
            return None
        if model.get("continuing_subword_prefix") != "##":
            return None
        vocabulary = model.get("vocab")
        unknown = model.get("unk_token")
        if not isinstance(vocabulary, dict) or not isinstance(unknown, str):
            return None
        if unknown not in vocabulary:
            return None
        for piece, number in vocabulary.items():
            if type(number) is not int or not 0 <= number < 1 << 31:
                raise ValueError(f"the number of the piece {piece[:20]!r} is {str(number)[:20]}")
        specials = _specials(tree.get("added_tokens"), vocabulary)
        if specials is None:
            return None
        pieces = cls(vocabulary, unknown, specials)
        pieces.most_letters = int(model["max_input_chars_per_word"])
        return pieces

    def split(self, word: str) -> list[int]:
        """The ids of a word's pieces; none for a word without a letter that is read."""
        ids = self._cache.get(word)
        if ids is None:
            ids = list(self._split(word))
            if len(self._cache) >= _MOST_CACHED:
                self._cache.clear()
            if len(word) <= self.most_letters:
                self._cache[word] = ids
        return ids

    def _split(self, word: str) -> Iterator[int]:
        begin = 0
        for match in self._special.finditer(word):
            yield from self._split_text(word[begin : match.start()])
            yield self.specials[match.group()]
            begin = match.end()
        yield from self._split_text(word[begin:])

    def _split_text(self, text: str) -> Iterator[int]:
        if text.isascii() and text.isalnum():  # most words
            yield from self._match(text.lower())
            return
        for part in _parts(_plain(text)):
            yield from self._match(part)

    def _match(self, part: str) -> list[int]:
        """The longest matching piece, again and again; unknown as a whole where none matches."""
        if len(part) > self.most_letters:
            return [self.unknown]
        ids: list[int] = []
        begin = 0
        while begin < len(part):
            prefix = "##" if begin else ""
            for end in range(min(len(part), begin + self._longest), begin, -1):
                piece = self._ids.get(prefix + part[begin:end])
                if piece is not None:
                    break
            else:
                return [self.unknown]
            ids.append(piece)
            begin = end
        return ids


def _specials(added: Any, vocabulary: dict[str, int]) -> dict[str, int] | None:
    """The pieces that are found in a text as they are written; None for any other kind of them."""
    specials = {}
    for token in added or []:
        plain = not (token["single_word"] or token["lstrip"] or token["rstrip"])
        content = token["content"]
        if token["normalized"] or not plain or vocabulary.get(content) != token["id"]:
            return None
        specials[content] = token["id"]
    return specials


def _plain(text: str) -> str:
    """Without control characters and accents, in lower case, Chinese characters between spaces."""
    letters = []
    for letter in text:
        if _is_dropped(letter):
            continue
        letters.append(f" {letter} " if _is_chinese(letter) else letter)
    decomposed = unicodedata.normalize("NFD", "".join(letters))
    # letter by letter: a whole word's last sigma would be lowered to another letter
    return "".join(letter.lower() for letter in decomposed if unicodedata.category(letter) != "Mn")


def _parts(text: str) -> Iterator[str]:
    """The parts of a text between spaces, each punctuation mark alone."""
    begin = 0
    for place, letter in enumerate(text):
        is_space = letter.isspace()
        if is_space or _is_punctuation(letter):
            if begin < place:
                yield text[begin:place]
            if not is_space:
                yield letter
            begin = place + 1
    if begin < len(text):
        yield text[begin:]


def _is_dropped(letter: str) -> bool:
    if letter in "\t\n\r":
        return False
    return letter == "\ufffd" or unicodedata.category(letter) in ("Cc", "Cf", "Co")


def _is_chinese(letter: str) -> bool:
    code = ord(letter)
    return any(first <= code <= last for first, last in _CHINESE)


def _is_punctuation(letter: str) -> bool:
    if letter.isascii():
        return letter.isprintable() and not letter.isalnum() and letter != " "
    return unicodedata.category(letter).startswith("P")
