"""GloVe's word vectors: a text file, plain or compressed, of which the wanted words are kept."""

import hashlib
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rmreader.core.console import progress
from rmreader.core.errors import UserError, user_error_on
from rmreader.core.files.reading import open_bytes
from rmreader.text.vectors import map_safetensors

_LONGEST_LINE = 1 << 20  # bytes: a word and 300 numbers take some 3,000


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
            raise ValueError(
                f"{len(words)} words, but {vectors.dtype} vectors of shape {vectors.shape}"
            )
        return cls(words, vectors)

    def to_bytes(self) -> bytes:
        """Return the vectors as a safetensors file; the words are kept elsewhere, in order."""
        from safetensors.numpy import save

        return save({"vectors": np.ascontiguousarray(self.vectors)})

    @cached_property
    def sha256(self) -> str:
        """Digest of the vectors' file."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def row(self, word: str) -> int | None:
        """Return the row of a word, None where it is not known."""
        row = self.rows.get(word)
        if row is None:
            row = self.rows.get(word.lower())
        return row


def read_glove(path: str | Path, wanted: Collection[str]) -> WordVectors:
    """Read the vectors of the wanted words, and of their lower-cased forms."""
    path = Path(path)
    keep = {*wanted, *(word.lower() for word in wanted)}
    vectors: dict[str, NDArray[np.float32]] = {}
    dim = 0
    for number, line in _lines(path):
        if number == 1 and _is_header(line):
            continue
        spaces = line.count(b" ")
        dim = dim or spaces
        if dim == 0 or spaces < dim:
            raise _malformed(path, number, f"expected a word and {max(dim, 1)} numbers")
        # Cut from the right where needed: some words hold spaces themselves.
        word = line[: line.index(b" ")] if spaces == dim else line.rsplit(b" ", dim)[0]
        name = word.decode("utf-8", errors="replace")
        if name in keep and name not in vectors:
            vectors[name] = _vector(path, number, line[len(word) + 1 :].split(b" "))
    if dim == 0:
        raise UserError(f"{path}: holds no vectors; give a GloVe text file.")
    if not vectors:
        return WordVectors((), np.zeros((0, dim), dtype=np.float32))
    return WordVectors(vectors, np.stack(list(vectors.values())))


def _is_header(line: bytes) -> bool:
    """Whether this is word2vec's first line: how many words, how many dimensions."""
    fields = line.split(b" ")
    return len(fields) == 2 and all(field.isdigit() for field in fields)


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
    return UserError(
        f"{path}: line {number}: malformed vector ({what}); "
        "fix the line or download the file again."
    )


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines without their ends."""
    missing = f"{path}: no such file; `rmreader data download glove` fetches GloVe."
    with (
        user_error_on(f"{path}: cannot be read ({{why}}); check the path.", OSError),
        user_error_on(missing, FileNotFoundError),
        open_bytes(path) as file,
        progress(f"Reading {path.name}", unit="words") as advance,
    ):
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), start=1):
            if len(line) == _LONGEST_LINE:
                raise _malformed(path, number, f"more than {_LONGEST_LINE:,} bytes")
            yield number, line.rstrip(b"\r\n ")
            if number % 10_000 == 0:
                advance(10_000)
