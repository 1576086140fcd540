"""The index that is a single SQLite file: searched by BM25 (FTS5), asked while it is written.

Every change is one transaction of whole documents: killed at any moment, the file holds what was
committed, and a rerun does the rest. Paths are kept relative to the folder that was indexed, and
texts with the index, so that the file can be moved and asked anywhere.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from rmreader.core.console import progress
from rmreader.core.files.atomic import lock
from rmreader.documents.embedding import shipped_encoder
from rmreader.documents.index import (
    Entry,
    Known,
    ListedDocument,
    Name,
    Passage,
    about,
    best_passages,
    encode_passages,
    runs_from_json,
    runs_to_json,
)
from rmreader.documents.places import TextSpan
from rmreader.documents.relevance import Found
from rmreader.documents.sqlite_file import OLD_FORMAT, IndexFile, application_id, connect
from rmreader.documents.sqlite_search import search
from rmreader.documents.sqlite_vectors import VectorCache, write_vectors

_AT_ONCE = 500  # passages that one statement names
_MOST_ROWS = 100_000  # passages that one call gives
_UPGRADE_BATCH = 500  # documents of one transaction


class SqliteIndex:
    """One file. It may be replaced at any time, and asked and written by several processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = IndexFile(path, upgrade)
        self._vectors = VectorCache()

    def search(self, question: str, count: int) -> list[Passage]:
        """By words and by meaning, in the text, the headings and the file's name."""
        if not question.strip():
            return []
        encoder = shipped_encoder()

        def work(base: sqlite3.Connection) -> tuple[Found, list[Passage]]:
            stored = None
            if application_id(base) != OLD_FORMAT:
                stored = self._vectors.get(base, encoder, self.file.state(base))
            found = search(base, question, count, encoder, stored)
            return found, _passages_by_id(base, found.ids)

        found, passages = self.file.read(work)
        scores = found.scores([passage.text for passage in passages], encoder)
        return best_passages(passages, scores.tolist(), count)

    def document(self, root: str, file: str) -> list[Passage]:
        """All passages of one document, in order."""

        def work(base: sqlite3.Connection) -> list[Passage]:
            return _select(base, "root = ? AND file = ?", (root, file))

        return self.file.read(work)

    def around(self, id: str, count: int) -> list[Passage]:
        """A passage with up to ``count`` of its document on either side, in order."""
        condition = (
            "document = (SELECT document FROM passages WHERE id = ?1) "
            "AND passages.id BETWEEN ?1 - ?2 AND ?1 + ?2"
        )

        def work(base: sqlite3.Connection) -> list[Passage]:
            return _select(base, condition, (id, count))

        return self.file.read(work)

    def known(self, root: str) -> dict[str, Known]:
        """Every document of a folder, by its path in it; an index that is not there is made."""

        def work(base: sqlite3.Connection) -> dict[str, Known]:
            query = "SELECT file, checksum, refusal FROM documents WHERE root = ?"
            known: dict[str, Known] = {}
            for file, checksum, refusal in base.execute(query, (root,)):
                _check_texts(file, checksum, refusal)
                known[file] = Known(checksum, refusal)
            return known

        self.file.create()
        self._renew_vectors()
        return self.file.read(work)

    def put(self, entries: Sequence[Entry], gone: Sequence[Name] = ()) -> None:
        """Put documents in, each in place of what had its name, and take the ``gone`` out."""

        def work(base: sqlite3.Connection) -> None:
            for name in gone:
                _remove(base, name)
            for entry in entries:
                _remove(base, entry.name)
            for entry in entries:
                _insert(base, entry)

        self.file.write(work)

    def size(self) -> int:
        """How many documents can be asked."""

        def work(base: sqlite3.Connection) -> int:
            return int(
                base.execute("SELECT count(*) FROM documents WHERE offsets > ''").fetchone()[0]
            )

        return self.file.read(work)

    def checksum(self, name: Name) -> str:
        """Of a document's content when it was indexed; empty for an unknown one."""
        query = "SELECT checksum FROM documents WHERE root = ? AND file = ?"

        def work(base: sqlite3.Connection) -> str:
            row = base.execute(query, name).fetchone()
            return str(row[0]) if row else ""

        return self.file.read(work)

    def list_documents(self, count: int) -> list[ListedDocument]:
        """The first ``count`` documents that can be asked, by their paths."""
        query = (
            "SELECT file, (SELECT count(*) FROM passages WHERE document = documents.id), note "
            "FROM documents WHERE offsets > '' ORDER BY file, root LIMIT ?"
        )

        def work(base: sqlite3.Connection) -> list[ListedDocument]:
            listed: list[ListedDocument] = []
            for file, passages, note in base.execute(query, (count,)):
                _check_texts(file, note)
                listed.append(ListedDocument(file, int(passages), note))
            return listed

        return self.file.read(work)

    def close(self) -> None:
        """Let go of the file, in this thread."""
        self.file.close()

    def _renew_vectors(self) -> None:
        """Make vectors anew that another version's table made, from the texts in the index."""
        source = shipped_encoder().source
        query = "SELECT document, first FROM vectors WHERE source != ?"
        old = self.file.read(lambda base: base.execute(query, (source,)).fetchall())
        for begin in range(0, len(old), _UPGRADE_BATCH):
            batch = old[begin : begin + _UPGRADE_BATCH]
            self.file.write(partial(_encode_again, documents=batch))


def upgrade(path: Path) -> None:
    """Make a new index out of the texts of an old one, beside it, and put it in its place.

    A kill before that changes nothing.
    """
    with lock(path.parent):
        old = connect(path, "mode=rw")
        try:
            # Another process may have upgraded it while this one waited.
            if application_id(old) != OLD_FORMAT:
                return
            # The old format has a log beside it, which must not end up beside the new file.
            old.execute("PRAGMA journal_mode = DELETE").fetchall()
            new = path.with_name(f"{path.name}.new")
            for leftover in (new, new.with_name(f"{new.name}-journal")):
                leftover.unlink(missing_ok=True)
            _copy(old, new)
        finally:
            old.close()
        os.replace(new, path)


def _copy(old: sqlite3.Connection, path: Path) -> None:
    index = SqliteIndex(path)
    total = int(old.execute("SELECT count(*) FROM documents").fetchone()[0])
    batch: list[Entry] = []
    try:
        with progress("upgrading the index", total=total, unit="documents") as advance:
            for entry in _old_entries(old):
                batch.append(entry)
                advance()
                if len(batch) == _UPGRADE_BATCH:
                    index.put(batch)
                    batch = []
            index.put(batch)
    finally:
        index.close()


def _old_entries(old: sqlite3.Connection) -> Iterator[Entry]:
    """Every document of an index of the old format, which told by a prefix why it was not read."""
    prefix = "refused: "
    for root, file, checksum, offsets, note in old.execute(
        "SELECT root, file, checksum, offsets, note FROM documents ORDER BY id"
    ):
        passages = [
            passage.stretch for passage in _select(old, "root = ? AND file = ?", (root, file))
        ]
        if note.startswith(prefix):
            yield Entry(
                (root, file), checksum, passages, offsets, refusal=note.removeprefix(prefix)
            )
        else:
            yield Entry((root, file), checksum, passages, offsets, note)


def _select(base: sqlite3.Connection, condition: str, values: Sequence[object]) -> list[Passage]:
    """The passages that meet a condition, in order."""
    # Passages of the old format have no checksum.
    checksum = "NULL" if application_id(base) == OLD_FORMAT else "passages.checksum"
    query = (
        f"SELECT passages.id, root, file, offsets, page, heading, text, runs, {checksum} "
        f"FROM passages JOIN documents ON documents.id = document WHERE {condition} "
        f"ORDER BY passages.id LIMIT {_MOST_ROWS}"
    )
    return [_passage(row) for row in base.execute(query, values)]


def _passages_by_id(base: sqlite3.Connection, ids: Sequence[int]) -> list[Passage]:
    """The passages of these ids, in their order."""
    by_id: dict[int, Passage] = {}
    for begin in range(0, len(ids), _AT_ONCE):
        some = ids[begin : begin + _AT_ONCE]
        rows = _select(base, f"passages.id IN ({', '.join('?' * len(some))})", some)
        by_id.update((int(passage.id), passage) for passage in rows)
    if len(by_id) != len(ids):
        raise ValueError("the search points at a passage that is not there")
    return [by_id[id] for id in ids]


def _passage(row: tuple[Any, ...]) -> Passage:
    """A passage as it was written; ``ValueError`` if anything in its row is not what we write."""
    id, root, file, offsets, page, heading, text, runs, checksum = row
    _check_texts(root, file, offsets, heading, text, runs)
    if page is not None and (type(page) is not int or page < 1):
        raise ValueError("a page is not a number")
    if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
        raise ValueError("a document outside its folder")
    stretch = TextSpan(text, runs_from_json(runs, text), page, heading)
    if checksum is not None and checksum != passage_checksum((root, file), offsets, stretch, runs):
        raise ValueError("a passage is not as it was written")
    return Passage(str(id), root, file, stretch, offsets)


def _check_texts(*values: object) -> None:
    for value in values:
        if not isinstance(value, str):
            raise ValueError("a text is not a text")


def passage_checksum(name: Name, offsets: str, stretch: TextSpan, runs: str) -> bytes:
    """Of all that an answer from this passage depends on."""
    fields = (*name, offsets, str(stretch.page), stretch.heading, runs, stretch.text)
    return hashlib.blake2b("\0".join(fields).encode(), digest_size=8).digest()


def _encode_again(base: sqlite3.Connection, documents: Sequence[tuple[int, int]]) -> None:
    for document, first in documents:
        passages = _select(base, "document = ?", (document,))
        base.execute("DELETE FROM vectors WHERE document = ?", (document,))
        if passages:
            name = (passages[0].root, passages[0].file)
            vectors = encode_passages(name, [passage.stretch for passage in passages])
            write_vectors(base, document, first, vectors)


def _insert(base: sqlite3.Connection, entry: Entry) -> None:
    root, file = entry.name
    document = _insert_row(
        base,
        "INSERT INTO documents (root, file, checksum, offsets, note, refusal) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (root, file, entry.checksum, entry.offsets, entry.note, entry.refusal),
    )
    ids = [_insert_passage(base, document, entry, stretch) for stretch in entry.passages]
    if ids:
        vectors = entry.vectors or encode_passages(entry.name, entry.passages)
        write_vectors(base, document, ids[0], vectors)


def _insert_passage(
    base: sqlite3.Connection, document: int, entry: Entry, stretch: TextSpan
) -> int:
    runs = runs_to_json(stretch.runs)
    checksum = passage_checksum(entry.name, entry.offsets, stretch, runs)
    id = _insert_row(
        base,
        "INSERT INTO passages (document, page, heading, text, runs, checksum) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (document, stretch.page, stretch.heading, stretch.text, runs, checksum),
    )
    base.execute(
        "INSERT INTO words (rowid, text, about) VALUES (?, ?, ?)",
        (id, stretch.text, about(entry.name, stretch.heading)),
    )
    return id


def _insert_row(base: sqlite3.Connection, statement: str, values: Sequence[object]) -> int:
    """Insert a row; returns its id."""
    id = base.execute(statement, values).lastrowid
    if id is None:
        raise ValueError("a row without an id")
    return id


def _remove(base: sqlite3.Connection, name: Name) -> None:
    document = base.execute("SELECT id FROM documents WHERE root = ? AND file = ?", name).fetchone()
    if document is None:
        return
    # The search index keeps no texts: to forget a passage's words it must be told them.
    for id, text, heading in base.execute(
        "SELECT id, text, heading FROM passages WHERE document = ?", document
    ):
        base.execute(
            "INSERT INTO words (words, rowid, text, about) VALUES ('delete', ?, ?, ?)",
            (id, text, about(name, heading)),
        )
    base.execute("DELETE FROM vectors WHERE document = ?", document)
    base.execute("DELETE FROM passages WHERE document = ?", document)
    base.execute("DELETE FROM documents WHERE id = ?", document)
