"""Word vectors from a subword table: every word there is has the mean of its pieces' vectors.

Words are split as BERT uncased splits them (WordPiece). A table is one safetensors file:
``vectors`` int8 [P, dim], ``scale`` float32 [P] (a row is scale · int8), ``pieces`` (the piece
strings as UTF-8, joined by newlines). ``lab/scripts/build_vectors.py`` makes one.
"""

import hashlib
import json
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError, user_error_on
from rmreader.core.files.manifest import file_sha256

Floats = NDArray[np.float32]

SHIPPED = Path(__file__).resolve().parent.parent / "readers" / "shipped" / "vectors"

_LONGEST_WORD = 100  # longer words are unknown, as in BERT
_CACHED_WORDS = 200_000
_BLOCK = 8192  # words looked up at once, to bound memory
_LONGEST_HEADER = 100_000_000  # bytes, as the format itself has it
_KINDS = {
    "I8": np.int8,
    "U8": np.uint8,
    "I64": np.int64,
    "F16": np.float16,
    "F32": np.float32,
}


class SubwordTable:
    """A subword table, memory-mapped; look-ups keep the pieces of recent words."""

    def __init__(
        self,
        pieces: Sequence[str],
        vectors: NDArray[np.int8],
        scale: Floats,
        path: Path | None = None,
    ) -> None:
        self.path = path
        self.pieces = list(pieces)
        self.vectors = vectors
        self.scale = scale
        self.dim = int(vectors.shape[1])
        self._ids = {piece: number for number, piece in enumerate(self.pieces)}

        # A table may come from a stranger.
        if vectors.dtype != np.int8 or vectors.ndim != 2:
            raise ValueError("the vectors must be rows of int8 with finite scales")
        if scale.ndim != 1 or not np.isfinite(scale).all():
            raise ValueError("the vectors must be rows of int8 with finite scales")
        lengths = {len(self.pieces), len(self._ids), len(vectors), len(scale)}
        if "[UNK]" not in self._ids or len(lengths) > 1:
            raise ValueError(
                "it needs an [UNK] piece, no piece twice, and one row and scale per piece"
            )
        self._unknown = (self._ids["[UNK]"],)
        self._longest = max(map(len, self.pieces))
        self._cache: dict[str, tuple[int, ...]] = {}

    @classmethod
    def load(cls, source: str | Path) -> Self:
        """Open a shipped table by name, or any table by path."""
        path = table_path(source)
        refusal = f"{path}: not a subword table ({{why}}); lab/scripts/build_vectors.py builds one."
        with user_error_on(refusal, OSError, ValueError, KeyError, IndexError):
            tensors = map_safetensors(path)
            pieces = tensors["pieces"].tobytes().decode("utf-8").split("\n")
            scale = tensors["scale"].astype(np.float32)
            return cls(pieces, tensors["vectors"], scale, path)

    @property
    def shipped(self) -> str:
        """The table's name if it comes with the package, else nothing."""
        if self.path is None or self.path.parent != SHIPPED:
            return ""
        return self.path.stem

    @cached_property
    def sha256(self) -> str:
        """Digest of the table's file."""
        if self.path is None:
            return hashlib.sha256(self.to_bytes()).hexdigest()
        return file_sha256(self.path)

    def to_bytes(self, about: dict[str, str] | None = None) -> bytes:
        """Return the table as the content of its file."""
        if self.path is not None:
            return self.path.read_bytes()
        from safetensors.numpy import save

        joined = np.frombuffer("\n".join(self.pieces).encode("utf-8"), dtype=np.uint8)
        return save({"vectors": self.vectors, "scale": self.scale, "pieces": joined}, about)

    def look_up(
        self,
        words: Sequence[str],
        out: Floats | None = None,
    ) -> Floats:
        """Return the vectors of the words, float32 [len(words), dim]."""
        if out is None:
            out = np.empty((len(words), self.dim), dtype=np.float32)
        for begin in range(0, len(words), _BLOCK):
            end = begin + _BLOCK
            self._fill(out[begin:end], [self.split(word) for word in words[begin:end]])
        return out

    def split(self, word: str) -> tuple[int, ...]:
        """Return the ids of the word's pieces."""
        ids = self._cache.get(word)
        if ids is not None:
            return ids
        ids = self._split(plain(word))
        if len(word) <= _LONGEST_WORD:
            if len(self._cache) >= _CACHED_WORDS:
                self._cache.clear()
            self._cache[word] = ids
        return ids

    def split_all(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the ids of each word's pieces; quick, since most words were split before."""
        known = self._cache.get
        splits: list[tuple[int, ...]] = []
        for word in words:
            pieces = known(word)
            if pieces is None:
                pieces = self.split(word)
            splits.append(pieces)
        return splits

    def _split(self, word: str) -> tuple[int, ...]:
        """Split by the longest matching piece, again and again.

        A word with a part that no piece matches is unknown as a whole.
        """
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

    def _fill(self, out: Floats, splits: list[tuple[int, ...]]) -> None:
        """Write the mean of each word's pieces.

        They are summed piece by piece, so that a word's vector is the same in any company.
        """
        counts = np.fromiter(map(len, splits), dtype=np.int64, count=len(splits))
        flat = np.fromiter(chain.from_iterable(splits), dtype=np.int64, count=int(counts.sum()))
        first = np.cumsum(counts) - counts
        np.multiply(self.vectors[flat[first]], self.scale[flat[first], None], out=out)
        for position in range(1, int(counts.max(initial=0))):
            rows = np.flatnonzero(counts > position)
            pieces = flat[first[rows] + position]
            out[rows] += self.vectors[pieces] * self.scale[pieces, None]
        out /= counts[:, None].astype(np.float32)


def plain(word: str) -> str:
    """Lower-case a word and drop its accents, as BERT uncased reads it."""
    if word.isascii():
        return word.lower()
    decomposed = unicodedata.normalize("NFD", word)
    letters = [letter for letter in decomposed if unicodedata.category(letter) != "Mn"]
    return "".join(letters).lower()


def table_path(source: str | Path) -> Path:
    """Find the file of a table given by shipped name or by path."""
    if str(source).endswith(".safetensors"):
        path = Path(source)
    else:
        path = SHIPPED / f"{source}.safetensors"
    if not path.is_file():
        names = ", ".join(sorted(path.stem for path in SHIPPED.glob("*.safetensors"))) or "none"
        raise UserError(
            f"{source}: no such word vectors; give the name of a shipped table ({names}), "
            "a table's file (.safetensors) or a GloVe file (.txt, .gz)."
        )
    return path


def map_safetensors(path: Path) -> dict[str, NDArray[Any]]:
    """Map the arrays of a safetensors file: only the rows that are looked up are ever read."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(size - 8, _LONGEST_HEADER):
            raise ValueError("the file is cut short")
        header = file.read(length)
    begin = 8 + length
    data = np.empty(0, np.uint8)
    if size > begin:
        # Plain arrays slice several times faster than np.memmap does.
        data = np.asarray(np.memmap(path, np.uint8, "r", begin))
    tensors = {}
    try:
        for name, entry in json.loads(header).items():
            if name != "__metadata__":
                tensors[name] = _tensor(data, entry)
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"its header is damaged ({type(error).__name__}: {error})") from None
    return tensors


def _tensor(data: NDArray[np.uint8], entry: Any) -> NDArray[Any]:
    """Return the array that one entry of the header describes.

    ``ValueError`` unless it lies in the data as the entry says.
    """
    begin, end = entry["data_offsets"]
    shape = entry["shape"]
    kind = np.dtype(_KINDS[entry["dtype"]])
    if not 0 <= begin <= end <= len(data) or any(side < 0 for side in shape):
        raise ValueError("its header points outside the file")
    if any(type(side) is not int for side in shape):
        raise ValueError("a shape in its header is not a whole number")
    return data[begin:end].view(kind).reshape(shape)
