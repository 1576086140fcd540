"""Word vectors: a subword table, in which every word there is has the mean of its pieces' vectors (WordPiece, as BERT
uncased splits it), or those of a GloVe text file, plain or gzip-compressed, streamed, and only the wanted words kept.

A subword table is one safetensors file: ``vectors`` int8 [P, dim], ``scale`` float32 [P] (a row is scale · int8),
``pieces`` (the piece strings as UTF-8, joined by newlines). ``lab/scripts/build_vectors.py`` makes one.
"""

import hashlib
import json
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rmreader.core.console import progress
from rmreader.core.errors import UserError, user_error_on
from rmreader.core.files.manifest import file_sha256
from rmreader.core.files.reading import open_bytes

SHIPPED = Path(__file__).resolve().parent.parent / "readers" / "shipped" / "vectors"

_LONGEST_WORD = 100  # longer words are unknown, as in BERT
_CACHED_WORDS = 200_000
_BLOCK = 8192  # words looked up at once, to bound memory
_LONGEST_HEADER = 100_000_000  # bytes, as the format itself has it
_LONGEST_LINE = 1 << 20  # bytes of a GloVe file: a word and 300 numbers take some 3,000
_KINDS = {"I8": np.int8, "U8": np.uint8, "I64": np.int64, "F16": np.float16, "F32": np.float32}


class SubwordTable:
    """A subword table, memory-mapped; look-ups keep the pieces of recent words."""

    def __init__(
        self, pieces: Sequence[str], vectors: NDArray[np.int8], scale: NDArray[np.float32], path: Path | None = None
    ) -> None:
        self.path = path
        self.pieces = list(pieces)
        self.vectors = vectors
        self.scale = scale
        self.dim = int(vectors.shape[1])
        self._ids = {piece: number for number, piece in enumerate(self.pieces)}
        if vectors.dtype != np.int8 or vectors.ndim != 2 or scale.ndim != 1 or not np.isfinite(scale).all():
            raise ValueError("the vectors must be rows of int8 with finite scales")
        if "[UNK]" not in self._ids or not len(self.pieces) == len(self._ids) == len(vectors) == len(scale):
            raise ValueError("it needs an [UNK] piece, no piece twice, and one row and scale per piece")
        self._unknown = (self._ids["[UNK]"],)
        self._longest = max(map(len, self.pieces))
        self._cache: dict[str, tuple[int, ...]] = {}

    @classmethod
    def load(cls, source: str | Path) -> Self:
        """Open a shipped table by name, or any table by path."""
        path = table_path(source)
        wrong = OSError, ValueError, KeyError, IndexError
        with user_error_on(f"{path}: not a subword table ({{why}}); lab/scripts/build_vectors.py builds one.", *wrong):
            tensors = map_safetensors(path)
            pieces = tensors["pieces"].tobytes().decode("utf-8").split("\n")
            return cls(pieces, tensors["vectors"], tensors["scale"].astype(np.float32), path)

    @property
    def shipped(self) -> str:
        """The table's name if it comes with the package, else nothing."""
        return self.path.stem if self.path is not None and self.path.parent == SHIPPED else ""

    @cached_property
    def sha256(self) -> str:
        """Digest of the table's file."""
        return file_sha256(self.path) if self.path is not None else hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self, about: dict[str, str] | None = None) -> bytes:
        """The table as the content of its file."""
        if self.path is not None:
            return self.path.read_bytes()
        from safetensors.numpy import save

        joined = np.frombuffer("\n".join(self.pieces).encode("utf-8"), dtype=np.uint8)
        return save({"vectors": self.vectors, "scale": self.scale, "pieces": joined}, about)

    def look_up(self, words: Sequence[str], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """The vectors of the words, float32 [len(words), dim]."""
        if out is None:
            out = np.empty((len(words), self.dim), dtype=np.float32)
        for begin in range(0, len(words), _BLOCK):
            self._fill(out[begin : begin + _BLOCK], [self.split(word) for word in words[begin : begin + _BLOCK]])
        return out

    def split(self, word: str) -> tuple[int, ...]:
        """The ids of the word's pieces."""
        found = self._cache.get(word)
        if found is None:
            found = self._split(plain(word))
            if len(word) <= _LONGEST_WORD:
                if len(self._cache) >= _CACHED_WORDS:
                    self._cache.clear()
                self._cache[word] = found
        return found

    def _split(self, word: str) -> tuple[int, ...]:
        """Greedy longest match first; a word with a part that no piece matches is unknown as a whole."""
        if not 0 < len(word) <= _LONGEST_WORD:
            return self._unknown
        ids: list[int] = []
        begin = 0
        while begin < len(word):
            prefix = "##" if begin else ""
            for end in range(min(len(word), begin + self._longest), begin, -1):
                piece = self._ids.get(prefix + word[begin:end])
                if piece is not None:
                    break
            else:
                return self._unknown
            ids.append(piece)
            begin = end
        return tuple(ids)

    def _fill(self, out: NDArray[np.float32], splits: list[tuple[int, ...]]) -> None:
        """Write the mean of each word's pieces, summed piece by piece so that a word's vector is always the same."""
        counts = np.fromiter(map(len, splits), dtype=np.int64, count=len(splits))
        flat = np.fromiter((piece for split in splits for piece in split), dtype=np.int64, count=int(counts.sum()))
        first = np.cumsum(counts) - counts
        np.multiply(self.vectors[flat[first]], self.scale[flat[first], None], out=out)
        for position in range(1, int(counts.max(initial=0))):
            rows = np.flatnonzero(counts > position)
            pieces = flat[first[rows] + position]
            out[rows] += self.vectors[pieces] * self.scale[pieces, None]
        out /= counts[:, None].astype(np.float32)


def plain(word: str) -> str:
    """Lower-cased and without accents, as BERT uncased reads a word."""
    if word.isascii():
        return word.lower()
    decomposed = unicodedata.normalize("NFD", word)
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn").lower()


def table_path(source: str | Path) -> Path:
    """The file of a table given by shipped name or by path."""
    path = Path(source) if str(source).endswith(".safetensors") else SHIPPED / f"{source}.safetensors"
    if not path.is_file():
        names = ", ".join(sorted(p.stem for p in SHIPPED.glob("*.safetensors"))) or "none"
        raise UserError(
            f"{source}: no such word vectors; give the name of a shipped table ({names}), "
            "a table's file (.safetensors) or a GloVe file (.txt, .gz)."
        )
    return path


def map_safetensors(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file, memory-mapped: only the rows that are looked up are ever read."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(size - 8, _LONGEST_HEADER):
            raise ValueError("the file is cut short")
        header = file.read(length)
    # np.asarray: plain arrays slice several times faster than np.memmap does
    data = np.asarray(np.memmap(path, np.uint8, "r", 8 + length)) if size > 8 + length else np.empty(0, np.uint8)
    try:
        return {name: _tensor(data, entry) for name, entry in json.loads(header).items() if name != "__metadata__"}
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"its header is damaged ({type(error).__name__}: {error})") from None


def _tensor(data: NDArray[np.uint8], entry: Any) -> NDArray[Any]:
    """The array that one entry of the header describes; a ValueError unless it lies in the data as it says."""
    (begin, end), shape, kind = entry["data_offsets"], entry["shape"], np.dtype(_KINDS[entry["dtype"]])
    if not 0 <= begin <= end <= len(data) or any(side < 0 for side in shape):
        raise ValueError("its header points outside the file")
    if any(type(side) is not int for side in shape):
        raise ValueError("a shape in its header is no whole number")
    return data[begin:end].view(kind).reshape(shape)


class WordVectors:
    """Vectors of known words; a word is looked up as it is, then lower-cased."""

    def __init__(self, words: Collection[str], vectors: NDArray[np.float32]) -> None:
        self.rows = {word: row for row, word in enumerate(words)}
        self.vectors = vectors
        self.dim = int(vectors.shape[1])

    @classmethod
    def load(cls, path: Path, words: Collection[str]) -> Self:
        """Open the file that ``to_bytes`` made, memory-mapped."""
        vectors = map_safetensors(path)["vectors"]
        if vectors.dtype != np.float32 or vectors.ndim != 2 or len(vectors) != len(words):
            raise ValueError(f"{len(words)} words, but {vectors.dtype} vectors of shape {vectors.shape}")
        return cls(words, vectors)

    def to_bytes(self) -> bytes:
        """The vectors as a safetensors file; the words are kept elsewhere, in the same order."""
        from safetensors.numpy import save

        return save({"vectors": np.ascontiguousarray(self.vectors)})

    @cached_property
    def sha256(self) -> str:
        """Digest of the vectors' file."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def row(self, word: str) -> int | None:
        """The row of a word, None where it is not known."""
        found = self.rows.get(word)
        return self.rows.get(word.lower()) if found is None else found


def read_glove(path: str | Path, wanted: Collection[str]) -> WordVectors:
    """The vectors of the wanted words, and of their lower-cased forms, that the file holds."""
    path = Path(path)
    keep = {form for word in wanted for form in (word, word.lower())}
    found: dict[str, NDArray[np.float32]] = {}
    dim = 0
    for number, line in _lines(path):
        spaces = line.count(b" ")
        if number == 1 and spaces == 1 and all(field.isdigit() for field in line.split(b" ")):
            continue  # word2vec's header: how many words, how many dimensions
        dim = dim or spaces
        if dim == 0 or spaces < dim:
            raise _malformed(path, number, f"expected a word and {max(dim, 1)} numbers")
        # Cut from the right where needed: some words hold spaces themselves.
        word = line[: line.index(b" ")] if spaces == dim else line.rsplit(b" ", dim)[0]
        name = word.decode("utf-8", errors="replace")
        if name in keep and name not in found:
            found[name] = _vector(path, number, line[len(word) + 1 :].split(b" "))
    if dim == 0:
        raise UserError(f"{path}: holds no vectors; give a GloVe text file.")
    return WordVectors(found, np.stack(list(found.values())) if found else np.zeros((0, dim), dtype=np.float32))


def _vector(path: Path, number: int, numbers: list[bytes]) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):
            vector = np.array([float(field) for field in numbers], dtype=np.float32)
    except ValueError as error:
        raise _malformed(path, number, str(error)) from None
    if not np.isfinite(vector).all():
        raise _malformed(path, number, "a number is infinite or not a number")
    return vector


def _malformed(path: Path, number: int, what: str) -> UserError:
    return UserError(f"{path}: line {number}: malformed vector ({what}); fix the line or download the file again.")


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines without their ends."""
    with (
        user_error_on(f"{path}: cannot be read ({{why}}); check the path.", OSError),
        user_error_on(f"{path}: no such file; `rmreader data download glove` fetches GloVe.", FileNotFoundError),
        open_bytes(path) as file,
        progress(f"Reading {path.name}", unit="words") as advance,
    ):
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), start=1):
            if len(line) == _LONGEST_LINE:
                raise _malformed(path, number, f"more than {_LONGEST_LINE:,} bytes")
            yield number, line.rstrip(b"\r\n ")
            if number % 10_000 == 0:
                advance(10_000)
