"""Words to rows: what word vectors and the character vocabulary know about a word, as arrays."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError, quoted, user_error_on
from rmreader.core.files.atomic import write_whole
from rmreader.core.files.manifest import file_sha256
from rmreader.core.files.reading import read_json
from rmreader.core.recipe import Inputs
from rmreader.text.glove import WordVectors, read_glove
from rmreader.text.vectors import SubwordTable, table_path
from rmreader.text.words import Words

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

_FORMAT = 1
_VECTORS_FILE = "vectors.safetensors"
# Rows of the network's own table: 0 means "use the known vector", 1 is for words never seen in
# training. Character ids: 0 is padding, 1 is for characters never seen in training.
_FIRST_TRAINED = 2
_FIRST_CHARACTER = 2


class Lexicon:
    """Turns words into ``Words``; built from the training words, then saved with the reader."""

    def __init__(
        self,
        vectors: SubwordTable | WordVectors,
        characters: Sequence[int],
        max_characters: int,
        trained: Sequence[str] = (),
    ) -> None:
        self.vectors = vectors
        self.characters = list(characters)  # code points; the one at k has id k + 2
        self.max_characters = max_characters
        self.trained = list(trained)  # words with a row of their own in the network's table
        self.dim = vectors.dim
        self.character_count = _FIRST_CHARACTER + len(self.characters)
        self.trainable_count = 1
        if isinstance(vectors, WordVectors):
            self.trainable_count = _FIRST_TRAINED + len(self.trained)
        # Rows of the words that the network has vectors of its own for.
        self._trained_rows: dict[str, int] = {}
        for row, word in enumerate(self.trained, start=_FIRST_TRAINED):
            self._trained_rows[word] = row
        # Code points in order, for binary search, with their ids.
        order = np.argsort(np.array(self.characters, dtype=np.int64), kind="stable")
        self._points = np.array(self.characters, dtype=np.uint32)[order]
        self._point_ids = (order + _FIRST_CHARACTER).astype(np.int32)

    @classmethod
    def build(
        cls,
        words: Iterable[str] | Mapping[str, int],
        inputs: Inputs,
        also: Iterable[str] = (),
    ) -> Self:
        """Build a lexicon of the training words, given as they come or with counts.

        A GloVe file is read for these words and for the words in ``also`` (say, of dev), which get
        its vector where it has one but are never trained.
        """
        counts = words if isinstance(words, Mapping) else Counter(words)
        characters = _frequent_characters(counts)
        # Three kinds of vectors: none, a subword table, or GloVe.
        if not inputs.vectors:
            nothing = SubwordTable(
                pieces=["[UNK]"],
                vectors=np.zeros((1, 0), np.int8),
                scale=np.zeros(1, np.float32),
            )
            return cls(nothing, characters, inputs.max_characters)
        if not inputs.vectors.endswith((".txt", ".gz")):
            return cls(SubwordTable.load(inputs.vectors), characters, inputs.max_characters)
        known = read_glove(inputs.vectors, {*counts, *also})
        # Words that GloVe does not know are trained, frequent ones first.
        unknown = [word for word in counts if known.row(word) is None]
        unknown.sort(key=lambda word: (-counts[word], word))
        return cls(
            vectors=known,
            characters=characters,
            max_characters=inputs.max_characters,
            trained=unknown,
        )

    def look_up(self, words: Sequence[str]) -> Words[Any]:
        """Return the rows of the words, after row 0 for padding.

        Keys tell apart the words of this call alone.
        """
        vectors, trainable = self._vectors(words)
        characters, lengths = self._characters(words)
        # Words that are equal ignoring case have the same key.
        numbers: dict[str, int] = {}
        keys = np.full(len(words) + 1, -1, dtype=np.int32)
        for row, word in enumerate(words, start=1):
            keys[row] = numbers.setdefault(word.casefold(), len(numbers))
        return Words(
            vectors=vectors,
            characters=characters,
            lengths=lengths,
            keys=keys,
            trainable=trainable,
        )

    def _vectors(self, words: Sequence[str]) -> tuple[Floats, Ints]:
        """Return the known vectors [W, dim], and the row [W] in the network's own table."""
        vectors = np.zeros((len(words) + 1, self.dim), dtype=np.float32)
        trainable = np.zeros(len(words) + 1, dtype=np.int32)
        if isinstance(self.vectors, SubwordTable):
            self.vectors.look_up(words, out=vectors[1:])
            return vectors, trainable
        for number, word in enumerate(words, start=1):
            row = self.vectors.row(word)
            # A word without a vector has a row of the network's own table instead.
            if row is None:
                trainable[number] = self._trained_rows.get(word, 1)
            else:
                vectors[number] = self.vectors.vectors[row]
        return vectors, trainable

    def _characters(self, words: Sequence[str]) -> tuple[Ints, Ints]:
        """Return character ids [W, c] and lengths [W], through one array of all code points."""
        cut = [word[: self.max_characters] for word in words]
        counts = np.zeros(len(words) + 1, dtype=np.int32)
        counts[1:] = [len(word) for word in cut]
        encoded = "".join(cut).encode("utf-32-le", "surrogatepass")
        ids = self._ids(np.frombuffer(encoded, dtype="<u4"))
        # The letters of all words, one after the other, fill the rows up to each word's length.
        width = max(1, int(counts.max()))
        table = np.zeros((len(words) + 1, width), dtype=np.int32)
        table[np.arange(width) < counts[:, None]] = ids
        return table, np.maximum(counts, 1)

    def _ids(self, points: NDArray[np.uint32]) -> Ints:
        """Return the id of each code point, 1 for one never seen in training."""
        unknown = np.ones(len(points), dtype=np.int32)
        if not len(self._points):
            return unknown
        place = np.searchsorted(self._points, points)
        place = np.minimum(place, len(self._points) - 1)
        is_known = self._points[place] == points
        return np.where(is_known, self._point_ids[place], unknown)

    def save(self, folder: Path) -> None:
        """Write ``lexicon.json`` and, unless a shipped table has them, the vectors beside it."""
        about: dict[str, Any] = {"sha256": self.vectors.sha256}
        # A shipped table is named, any other one copied.
        if isinstance(self.vectors, SubwordTable) and self.vectors.shipped:
            about["table"] = self.vectors.shipped
        else:
            about["file"] = _VECTORS_FILE
            write_whole(folder / _VECTORS_FILE, self.vectors.to_bytes())
        tree = {
            "format": _FORMAT,
            "vectors": about,
            **self._tree(),
        }
        write_whole(folder / "lexicon.json", json.dumps(tree).encode() + b"\n")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what ``save`` wrote; check that the vectors are the ones it was saved with."""
        path = folder / "lexicon.json"
        wrong = (OSError, ValueError, KeyError, TypeError, OverflowError)
        missing = f"{path}: no such file; {folder} is not a whole reader folder."
        with (
            user_error_on(f"{path}: damaged ({{why}}); restore or train it again.", *wrong),
            user_error_on(missing, FileNotFoundError),
        ):
            tree = read_json(path, "restore it, or train the reader again")
            if tree["format"] != _FORMAT:
                raise UserError(
                    f"{path}: made by another version (format {tree['format']}); update rmreader."
                )
            _check_tree(tree)
            return cls(
                vectors=_load_vectors(folder, tree["vectors"], tree["words"]),
                characters=tree["characters"],
                max_characters=tree["max_characters"],
                trained=tree["trained"],
            )

    @property
    def fingerprint(self) -> str:
        """A digest of everything that decides what ``look_up`` gives."""
        parts = [_FORMAT, self.vectors.sha256, self._tree()]
        content = json.dumps(parts, sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def _tree(self) -> dict[str, Any]:
        words = None
        if isinstance(self.vectors, WordVectors):
            words = list(self.vectors.rows)
        return {
            "max_characters": self.max_characters,
            "characters": self.characters,
            "words": words,
            "trained": self.trained,
        }


def _frequent_characters(counts: Mapping[str, int]) -> list[int]:
    """Return the code points of the words, frequent ones first.

    Those that are equally frequent are in alphabetical order.
    """
    letters: Counter[str] = Counter()
    for word, count in counts.items():
        for letter in word:
            letters[letter] += count
    frequent = sorted(letters, key=lambda letter: (-letters[letter], letter))
    return [ord(letter) for letter in frequent]


def _check_tree(tree: dict[str, Any]) -> None:
    """Raise a ``ValueError`` where a value of ``lexicon.json`` is not of its kind."""
    if not isinstance(tree["vectors"], dict):
        raise ValueError("it does not say which vectors")
    longest = tree["max_characters"]
    if type(longest) is not int or not 0 < longest < 1 << 16:
        raise ValueError(f"max_characters is {quoted(longest)}")
    for point in tree["characters"]:
        if type(point) is not int or not 0 <= point < 0x110000:
            raise ValueError("a character is not a code point")
    for word in (*(tree["words"] or ()), *tree["trained"]):
        if not isinstance(word, str):
            raise ValueError("a word is not text")


def _load_vectors(
    folder: Path,
    about: dict[str, Any],
    words: list[str] | None,
) -> SubwordTable | WordVectors:
    path = folder / _VECTORS_FILE
    table = about.get("table")
    if table is not None:
        # A shipped table's name, never a path that leads out of the folder.
        if Path(str(table)).name != table or table.endswith(".safetensors"):
            raise ValueError(f"{quoted(table)} is not a shipped table")
        path = table_path(table)
    if not path.is_file():
        raise UserError(f"{path}: the reader's vectors are missing; restore the file.")
    actual = file_sha256(path)
    if actual != about["sha256"]:
        raise UserError(
            f"{path}: these are not the vectors this reader was trained with (SHA-256 "
            f"{actual[:12]}…, expected {about['sha256'][:12]}…); "
            "reinstall rmreader or restore the file."
        )
    if words is None:
        return SubwordTable.load(table or path)
    return WordVectors.load(path, words)
