"""What answers depend on: the reader and the options. Any process can do the same job."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rmreader.core.errors import UserError
from rmreader.core.version import __version__
from rmreader.predict.writers import pieces
from rmreader.readers.folder import MANIFEST, SHIPPED, find, reader_names
from rmreader.reading.answers import Answers
from rmreader.reading.reader import Reader
from rmreader.reading.rows import QuestionRow

_SHOWN = 16  # hexadecimal digits of a run id


@dataclass(frozen=True)
class PredictJob:
    """A reader by name and checksum, and the options of asking it.

    It travels as names and numbers.
    """

    readers: tuple[str, ...]
    """Shipped names or whole paths; several are an ensemble."""
    digest: str
    """Of the readers and of rmreader's version."""
    threads: int = 1
    max_length: int | None = None
    top: int = 1
    min_confidence: float = 0.0
    always: bool = False

    @classmethod
    def of(cls, model: str, **options: Any) -> PredictJob:
        """Return the job of a reader given as ``--model`` is; ``options`` are fields."""
        paths = [find(name).resolve() for name in reader_names(model)]
        # A shipped reader goes by its name, as another machine has it in another place.
        readers = tuple(path.name if path.parent == SHIPPED else str(path) for path in paths)
        return cls(readers, _digest(readers), **options)

    def options(self) -> dict[str, Any]:
        """Return what the answers depend on, apart from the reader."""
        return {"max_length": self.max_length, **self.asking()}

    def asking(self) -> dict[str, Any]:
        """Return the options of ``Reader.ask``."""
        return {"top": self.top, "min_confidence": self.min_confidence, "always": self.always}

    def reader(self) -> Reader:
        """Load the reader, once per process."""
        return _load(self.readers, self.digest, self.threads, self.max_length)

    def answers(self, rows: list[QuestionRow]) -> Iterator[tuple[QuestionRow, Answers]]:
        """Yield each row with its answers."""
        pairs = [(row.question, row.passage) for row in rows]
        return zip(rows, self.reader().ask_many(pairs, **self.asking()), strict=True)

    def answer_lines(self, lines: bytes) -> bytes:
        """Answer lines of ``rows.jsonl`` with the lines that ``predict`` writes."""
        rows = [QuestionRow(**json.loads(line)) for line in lines.splitlines()]
        run = run_id(self.reader(), self.asking())
        return b"".join(pieces("jsonl", self.answers(rows), run=run))


def run_id(reader: Reader, asking: dict[str, Any]) -> str:
    """Return what every line of a run carries.

    Two runs have the same id only if they give the same answers: same readers by their checksums,
    same version of rmreader, same options.
    """
    names: Sequence[str | Path] = [reader.folder.path]
    loaded_from = reader.loaded[0] if reader.loaded else None
    if isinstance(loaded_from, list):  # the members of an ensemble
        names = loaded_from
    facts = {"readers": _digest(names), "max_length": reader.max_length, "window": reader.window}
    text = json.dumps(facts | asking, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_SHOWN]


def _digest(readers: Iterable[str | Path]) -> str:
    """Hash the readers' manifests: each has the checksum of every other file in its folder."""
    digest = hashlib.sha256(__version__.encode())
    for name in readers:
        manifest = (find(name) / MANIFEST).read_bytes()
        digest.update(hashlib.sha256(manifest).digest())
    return digest.hexdigest()


@lru_cache(maxsize=2)
def _load(readers: tuple[str, ...], digest: str, threads: int, max_length: int | None) -> Reader:
    if _digest(readers) != digest:
        raise UserError(
            f"{', '.join(readers)}: on this machine it is another reader, or rmreader has another "
            f"version ({__version__}), than where the work was planned; install the same on all."
        )
    if len(readers) == 1:
        return Reader.load(readers[0], threads=threads, max_length=max_length)
    from rmreader.reading.ensemble import Ensemble

    return Ensemble.of(readers, threads=threads, max_length=max_length)
