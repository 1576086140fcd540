"""An index of passages, and the one that is a single SQLite file: searched by BM25 (FTS5), written while it is asked.

Every change is one transaction of whole documents, in a write-ahead log: killed at any moment, the file holds what was
committed, and a rerun does the rest. Paths are kept relative to the folder that was indexed, texts with the index, so
that the file can be moved and asked anywhere.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from rmreader.core.errors import UserError
from rmreader.core.files import file_to_write
from rmreader.documents.places import Run, Stretch

Name = tuple[str, str]
"""A document: the folder that was indexed, and the path in it."""


@dataclass(frozen=True)
class Entry:
    """A document as it goes into an index; without passages where it was refused."""

    name: Name
    checksum: str
    passages: Sequence[Stretch]
    offsets: str = ""
    note: str = ""
    """What a person should know of how it was read, or why it was not."""


@dataclass(frozen=True)
class Passage:
    """A passage of a document, as a search gives it."""

    id: str
    root: str
    """The folder that was indexed, where it was then."""
    file: str
    """The path in that folder, with /."""
    stretch: Stretch
    offsets: str
    """The text that places in the original count in."""
    score: float = 0.0
    """Of the search: more is better, comparable between the passages of one question."""

    @property
    def text(self) -> str:
        """What the reader reads."""
        return self.stretch.text

    @property
    def path(self) -> Path:
        """The file, where it was when it was indexed."""
        return Path(self.root, self.file)


class Index(Protocol):
    """What holds passages and finds those for a question; another engine is another class with these."""

    def search(self, question: str, count: int) -> list[Passage]:
        """The passages that fit a question best, best first."""

    def document(self, root: str, file: str) -> list[Passage]:
        """All passages of one document, in order."""

    def around(self, id: str, count: int) -> list[Passage]:
        """A passage with up to ``count`` of its document on either side, in order; none where there is no such id."""

    def known(self, root: str) -> dict[str, tuple[str, str]]:
        """Checksum and note of every document of a folder, by its path in it."""

    def put(self, entries: Sequence[Entry], gone: Sequence[Name] = ()) -> None:
        """Put documents in, each in the place of what was there by its name, and take the ``gone`` out; all or none."""

    def size(self) -> int:
        """How many documents can be asked."""


_FORMAT = 0x524D5231  # of a file: "RMR1"
_SCHEMA = (
    "CREATE TABLE documents (id INTEGER PRIMARY KEY, root TEXT NOT NULL, file TEXT NOT NULL, checksum TEXT NOT NULL, "
    "offsets TEXT NOT NULL, note TEXT NOT NULL, UNIQUE (root, file))",
    "CREATE TABLE passages (id INTEGER PRIMARY KEY, document INTEGER NOT NULL, page INTEGER, heading TEXT NOT NULL, "
    "text TEXT NOT NULL, runs TEXT NOT NULL)",
    "CREATE INDEX passages_of ON passages (document)",
    "CREATE VIRTUAL TABLE words USING fts5(text, about, content='', tokenize='porter unicode61 remove_diacritics 2')",
)
_COLUMNS = "passages.id, root, file, text, runs, page, heading, offsets"
_ENTRY = "root, file, checksum, offsets, note"
ABOUT = 1.0  # what a word in the headings counts, against one in the text
_MOST_WORDS = 100  # of a question, to search by
_NO_INDEX = "no index of rmreader, or one of another version; make it anew: rmreader index."
_WAIT = 60.0  # seconds for another process that writes
_COMMON = """
a about after all also am an and any are as at be been before being between both but by can could did do does during
each for from had has have he her him his how i if in into is it its many me more most much my no nor not of off on
one or other our out over she should so some such than that the their them then there these they this those through
to under until up very was we were what when where which while who whom whose why will with would you your
"""
_STOP = frozenset(_COMMON.split())


class SqliteIndex:
    """One file. Every thread has a connection of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mine = threading.local()

    def search(self, question: str, count: int) -> list[Passage]:
        """By BM25 of the words that carry meaning, in the text or, for less, in the headings and the file's name."""
        query = (
            f"SELECT {_COLUMNS}, -rank FROM (SELECT rowid AS found, bm25(words, 1.0, {ABOUT}) AS rank FROM words "
            "WHERE words MATCH ? ORDER BY rank LIMIT ?) JOIN passages ON passages.id = found "
            "JOIN documents ON documents.id = document ORDER BY rank, found"
        )
        asked = content_words(question)
        return self._passages(query, " OR ".join(f'"{word}"' for word in asked), count) if asked else []

    def document(self, root: str, file: str) -> list[Passage]:
        """All passages of one document, in order."""
        query = f"SELECT {_COLUMNS}, 0.0 FROM documents JOIN passages ON document = documents.id"
        return self._passages(f"{query} WHERE root = ? AND file = ? ORDER BY passages.id", root, file)

    def around(self, id: str, count: int) -> list[Passage]:
        """A passage with up to ``count`` of its document on either side, in order; none where there is no such id."""
        query = (
            f"SELECT {_COLUMNS}, 0.0 FROM documents JOIN passages ON document = documents.id WHERE document = "
            "(SELECT document FROM passages WHERE id = ?1) AND passages.id BETWEEN ?1 - ?2 AND ?1 + ?2"
        )
        return self._passages(f"{query} ORDER BY passages.id", id, count)

    def known(self, root: str) -> dict[str, tuple[str, str]]:
        """Checksum and note of every document of a folder, by its path in it; a file that is not there is made."""
        with self._sound(create=True) as base:
            rows = base.execute("SELECT file, checksum, note FROM documents WHERE root = ?", (root,))
            return {file: (checksum, note) for file, checksum, note in rows}

    def put(self, entries: Sequence[Entry], gone: Sequence[Name] = ()) -> None:
        """Put documents in, each in the place of what was there by its name, and take the ``gone`` out; all or none."""
        with self._sound(create=True) as base:
            base.execute("BEGIN IMMEDIATE")
            try:
                for name in [*gone, *(entry.name for entry in entries)]:
                    _remove(base, name)
                for entry in entries:
                    _insert(base, entry)
                base.execute("COMMIT")
            except BaseException:
                if base.in_transaction:  # a full disk has ended it
                    base.execute("ROLLBACK")
                raise

    def size(self) -> int:
        """How many documents can be asked."""
        with self._sound() as base:
            return int(base.execute("SELECT count(*) FROM documents WHERE offsets > ''").fetchone()[0])

    def close(self) -> None:
        """Let go of the file, in this thread; the last to do so leaves one file, without a log beside it."""
        base: sqlite3.Connection | None = self._mine.__dict__.pop("base", None)
        if base is not None:
            base.close()

    def _passages(self, query: str, *values: object) -> list[Passage]:
        with self._sound() as base:
            rows = base.execute(query, values).fetchall()
            return [
                Passage(str(id), root, file, Stretch(text, runs_of(runs, text), page, heading), offsets, score)
                for id, root, file, text, runs, page, heading, offsets, score in rows
            ]

    @contextmanager
    def _sound(self, create: bool = False) -> Iterator[sqlite3.Connection]:
        """This thread's connection; whatever is wrong with the file is one sentence."""
        try:
            base: sqlite3.Connection | None = getattr(self._mine, "base", None)
            if base is None:
                base = self._mine.base = _connect(self.path, create)
            yield base
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise UserError(f"{self.path}: {_why(error)}") from None


def content_words(question: str) -> list[str]:
    """The words of a question to search by: all but the most common, unless it has no others."""
    words = list(dict.fromkeys(re.findall(r"\w+", question.lower())))[:_MOST_WORDS]
    return [word for word in words if word not in _STOP] or words


def about(name: Name, heading: str) -> str:
    """What is known of a passage beside its text: the file's name and the headings above it, as words."""
    return re.sub(r"[\W_]+", " ", f"{PurePosixPath(name[1]).with_suffix('')} {heading}")


def _insert(base: sqlite3.Connection, entry: Entry) -> None:
    values = (*entry.name, entry.checksum, entry.offsets, entry.note)
    document = base.execute(f"INSERT INTO documents ({_ENTRY}) VALUES (?, ?, ?, ?, ?)", values).lastrowid
    for one in entry.passages:
        runs = json.dumps(one.runs, separators=(",", ":"))
        row = (document, one.page, one.heading, one.text, runs)
        id = base.execute(
            "INSERT INTO passages (document, page, heading, text, runs) VALUES (?, ?, ?, ?, ?)", row
        ).lastrowid
        base.execute(
            "INSERT INTO words (rowid, text, about) VALUES (?, ?, ?)", (id, one.text, about(entry.name, one.heading))
        )


def _remove(base: sqlite3.Connection, name: Name) -> None:
    found = base.execute("SELECT id FROM documents WHERE root = ? AND file = ?", name).fetchone()
    if found is None:
        return
    for id, text, heading in base.execute("SELECT id, text, heading FROM passages WHERE document = ?", found):
        values = (id, text, about(name, heading))
        base.execute("INSERT INTO words (words, rowid, text, about) VALUES ('delete', ?, ?, ?)", values)
    base.execute("DELETE FROM passages WHERE document = ?", found)
    base.execute("DELETE FROM documents WHERE id = ?", found)


def _connect(path: Path, create: bool) -> sqlite3.Connection:
    """The file, opened; made where it is not there and may be, refused where it is no index."""
    if create:
        file_to_write(path).parent.mkdir(parents=True, exist_ok=True)
    elif path.is_dir():
        raise UserError(f"{path}: a folder; make an index of it and ask that: rmreader index {path} --out FILE.")
    elif not path.is_file():
        raise UserError(f"{path}: no such index; make it: rmreader index FOLDER --out {path}.")
    writable = os.access(path.parent, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))
    address = path.absolute().as_uri() + ("" if writable else "?immutable=1")  # where no log can be put beside it
    base = sqlite3.connect(address, uri=True, timeout=_WAIT, isolation_level=None, check_same_thread=False)
    try:
        base.execute("PRAGMA trusted_schema = OFF")
        if create and not base.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            base.execute("PRAGMA journal_mode = WAL")
            base.execute("BEGIN IMMEDIATE")  # another process may be making it, too
            if not base.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                for statement in _SCHEMA:
                    base.execute(statement)
                base.execute(f"PRAGMA application_id = {_FORMAT}")
            base.execute("COMMIT")
        schema = base.execute("SELECT sql FROM sqlite_schema WHERE name NOT LIKE 'words_%' AND sql > ''")
        there = {sql for (sql,) in schema}
        if base.execute("PRAGMA application_id").fetchone()[0] != _FORMAT or there != set(_SCHEMA):
            raise UserError(f"{path}: {_NO_INDEX}")
        base.execute("PRAGMA synchronous = NORMAL")  # a kill loses nothing; a power cut the last moments, no more
        base.execute("PRAGMA cache_size = -65536")
        base.execute("PRAGMA mmap_size = 1073741824")
    except BaseException:
        base.close()
        raise
    return base


def runs_of(written: str, text: str) -> tuple[Run, ...]:
    """Runs as they were kept; ``ValueError`` where they are none."""
    runs = tuple((int(at), int(origin), int(length)) for at, origin, length in json.loads(written))
    begins = [run[0] for run in runs]
    if not runs or begins[0] != 0 or begins != sorted(set(begins)) or begins[-1] >= max(1, len(text)):
        raise ValueError("places that are none")
    return runs


def _why(error: Exception) -> str:
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        return f"another process has been writing for {_WAIT:.0f} s; try again."
    if "is full" in str(error):
        return "the disk is full; make room, and index again: what was written before is kept."
    if "not a database" in str(error):
        return _NO_INDEX
    return f"cannot be used ({' '.join(str(error).split())}); make it anew: rmreader index."
