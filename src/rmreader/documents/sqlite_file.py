"""The SQLite file of an index: made, checked, opened, and opened again when it was replaced.

Nothing of the file is mapped into memory, and no log lies beside it while it is only read. So
another program may copy or move a new index over it; the next question is answered from that one.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

from rmreader.core.errors import UserError
from rmreader.core.files.outputs import file_to_write

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

FORMAT = 0x524D5232  # "RMR2"
SCHEMA = (
    "CREATE TABLE documents (id INTEGER PRIMARY KEY, root TEXT NOT NULL, file TEXT NOT NULL, "
    "checksum TEXT NOT NULL, offsets TEXT NOT NULL, note TEXT NOT NULL, refusal TEXT NOT NULL, "
    "UNIQUE (root, file))",
    "CREATE TABLE passages (id INTEGER PRIMARY KEY, document INTEGER NOT NULL, page INTEGER, "
    "heading TEXT NOT NULL, text TEXT NOT NULL, runs TEXT NOT NULL, checksum BLOB NOT NULL)",
    "CREATE INDEX passages_of ON passages (document)",
    "CREATE TABLE vectors (document INTEGER PRIMARY KEY, first INTEGER NOT NULL, "
    "source TEXT NOT NULL, codes BLOB NOT NULL, scales BLOB NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE VIRTUAL TABLE words USING fts5(text, about, content='', "
    "tokenize='porter unicode61 remove_diacritics 2')",
)

# The format before checksums and vectors. It is still asked; the next `index` upgrades it.
OLD_FORMAT = 0x524D5231  # "RMR1"
OLD_SCHEMA = (
    "CREATE TABLE documents (id INTEGER PRIMARY KEY, root TEXT NOT NULL, file TEXT NOT NULL, "
    "checksum TEXT NOT NULL, offsets TEXT NOT NULL, note TEXT NOT NULL, UNIQUE (root, file))",
    "CREATE TABLE passages (id INTEGER PRIMARY KEY, document INTEGER NOT NULL, page INTEGER, "
    "heading TEXT NOT NULL, text TEXT NOT NULL, runs TEXT NOT NULL)",
    "CREATE INDEX passages_of ON passages (document)",
    "CREATE VIRTUAL TABLE words USING fts5(text, about, content='', "
    "tokenize='porter unicode61 remove_diacritics 2')",
)
_SCHEMAS = {FORMAT: SCHEMA, OLD_FORMAT: OLD_SCHEMA}

NO_INDEX = "no index of rmreader, or one of another version; make it anew: rmreader index."
LOCK_WAIT = 60.0  # seconds to wait for another process that writes
_READ_LIMIT = 20.0  # seconds for one question; a stranger's file could be made to take forever
_WRITE_LIMIT = 600.0  # seconds for one transaction
_PROGRESS_STEPS = 20_000  # steps of SQLite's machine between two looks at the clock
_LARGEST_VALUE = 256 << 20  # bytes of one text or blob
_CACHE = 65_536  # KiB of pages per connection
_SETTLING = 1.0  # seconds after its last change in which a file may still be half copied
_PATIENCE = 10.0  # seconds to wait for a file that is being replaced
_RETRY = 0.02  # seconds between two looks at such a file
_FREE_SHARE = 0.25  # of the file that is free before it is given back
_FREE_PAGES = 256
_VACUUM_STEP = 10_000  # pages that are given back at once

_UNUSABLE = (sqlite3.Error, ValueError, TypeError, OverflowError, RecursionError, MemoryError)

Signature = tuple[int, int, int, int]

_log = logging.getLogger("rmreader.documents")


class IndexUnavailable(UserError):
    """An index that could be read before: its file was replaced, and the new one cannot be yet."""


class IndexFile:
    """One index. Every thread has a connection of its own to read, and another to write."""

    def __init__(self, path: Path, upgrade: Callable[[Path], None]) -> None:
        """``upgrade`` makes an index of today's format out of an old one, in the same place."""
        self.path = path
        self._upgrade = upgrade
        self._local = threading.local()
        self._was_read = False
        self._told: Signature | None = None

    def create(self) -> None:
        """Make the index if it is not there, and upgrade it if it is old."""
        try:
            self._writer()
        except (UserError, *_UNUSABLE) as error:
            raise self._sentence(error) from None

    def read(self, work: Work[T]) -> T:
        """Do ``work`` in one read transaction.

        If the file is replaced meanwhile, the work is done again on the new one. A copy is not
        atomic, so a file that changed a moment ago may be half there: it is waited for.
        """
        give_up = time.monotonic() + _PATIENCE
        while True:
            before = self.signature()
            began = time.time()
            try:
                result = self._read_once(work)
            except (UserError, *_UNUSABLE) as error:
                self._close_reader()
                if time.monotonic() > give_up or not self._may_be_changing(before, began):
                    raise self._unreadable(error) from None
                time.sleep(_RETRY)
                continue
            self._was_read = True
            if self.signature() == before or time.monotonic() > give_up:
                return result

    def write(self, work: Work[T]) -> T:
        """Do ``work`` in one write transaction: all of it is kept, or nothing."""
        try:
            base = self._writer()
            _limit_time(base, _WRITE_LIMIT)
            base.execute("BEGIN IMMEDIATE")
            try:
                result = work(base)
                base.execute(f"PRAGMA user_version = {_version(base) + 1}")
                base.execute("COMMIT")
            except BaseException:
                if base.in_transaction:  # a full disk has ended it already
                    base.execute("ROLLBACK")
                raise
            _give_back_free_pages(base)
            self._local.writer_signature = self.signature()
        except (UserError, *_UNUSABLE) as error:
            raise self._sentence(error) from None
        return result

    def close(self) -> None:
        """Close this thread's connections."""
        self._close_reader()
        writer: sqlite3.Connection | None = self._local.__dict__.pop("writer", None)
        if writer is not None:
            writer.close()

    def state(self, base: sqlite3.Connection) -> object:
        """What changes with every transaction and every other file, of what is read right now.

        The file that has the name now may be another one already.
        """
        return self._local.reader_signature, _version(base)

    def signature(self) -> Signature | None:
        """What changes with every commit and every other file of this name; None without one."""
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    def _read_once(self, work: Work[T]) -> T:
        base = self._reader()
        _limit_time(base, _READ_LIMIT)
        base.execute("BEGIN")
        try:
            return work(base)
        finally:
            if base.in_transaction:
                base.execute("ROLLBACK")
            if not self._local.reader_stays:
                self._close_reader()

    def _reader(self) -> sqlite3.Connection:
        """This thread's connection to read with; a new one if the file has changed."""
        signature = self.signature()
        base: sqlite3.Connection | None = getattr(self._local, "reader", None)
        if base is not None and self._local.reader_signature == signature:
            return base
        try:
            new = self._open_reader(signature)
        except (UserError, *_UNUSABLE):
            if base is None or not self._was_put_aside(signature):
                raise
            self._tell(signature)
            return base
        self._close_reader()
        base = new
        self._local.reader = base
        self._local.reader_signature = signature
        # An open connection to an old file, which has a log beside it, would stop its upgrade.
        self._local.reader_stays = application_id(base) == FORMAT
        return base

    def _open_reader(self, signature: Signature | None) -> sqlite3.Connection:
        """A connection to the file of this signature, and to no other."""
        base = open_to_read(self.path)
        if self.signature() != signature:
            base.close()
            raise ValueError("the index was replaced while it was opened")
        return base

    def _was_put_aside(self, signature: Signature | None) -> bool:
        """Whether the file that this thread reads is whole still, but has lost its name.

        One that is copied over has kept its place on the disk, and what was in it is gone.
        """
        old: Signature = self._local.reader_signature
        return signature is None or signature[:2] != old[:2]

    def _tell(self, signature: Signature | None) -> None:
        """Say in the log, once for each new file, that the old one still answers."""
        if self._told != signature:
            self._told = signature
            fields = {"missing": signature is None}
            _log.warning("index_replaced_old_one_answers", extra={"fields": fields})

    def _writer(self) -> sqlite3.Connection:
        signature = self.signature()
        base: sqlite3.Connection | None = getattr(self._local, "writer", None)
        if base is not None and self._local.writer_signature == signature:
            return base
        if base is not None:
            del self._local.writer
            base.close()
        base = open_to_write(self.path, self._upgrade)
        self._local.writer = base
        self._local.writer_signature = self.signature()
        return base

    def _close_reader(self) -> None:
        base: sqlite3.Connection | None = self._local.__dict__.pop("reader", None)
        if base is not None:
            base.close()

    def _may_be_changing(self, before: Signature | None, began: float) -> bool:
        """Whether the file is not what it was, or was so young that it may not have been whole.

        Its age is that of when the work ``began``, which takes long on a busy machine.
        """
        now = self.signature()
        if now != before:
            return True
        if now is None:
            return False
        return abs(began - now[3] / 1e9) < _SETTLING

    def _unreadable(self, error: BaseException) -> UserError:
        sentence = self._sentence(error)
        if not self._was_read:
            return sentence
        return IndexUnavailable(str(sentence))

    def _sentence(self, error: BaseException) -> UserError:
        if isinstance(error, UserError):
            return error
        return UserError(f"{self.path}: {_reason(error)}")


def open_to_read(path: Path) -> sqlite3.Connection:
    """A connection that cannot write; ``UserError`` if the file is no index."""
    if path.is_dir():
        raise UserError(
            f"{path}: a folder; make an index of it and ask that: rmreader index {path} --out FILE."
        )
    if not path.is_file():
        raise UserError(f"{path}: no such index; make it: rmreader index FOLDER --out {path}.")
    try:
        return _open_checked(path, "mode=ro")
    except sqlite3.OperationalError as error:
        name = getattr(error, "sqlite_errorname", "")
        # A process was killed while it wrote: what it had begun is undone first, by writing.
        if name == "SQLITE_READONLY_ROLLBACK":
            _open_checked(path, "mode=rw").close()
            return _open_checked(path, "mode=ro")
        # An index of the old format in a folder where no log can be put.
        if name == "SQLITE_CANTOPEN" and not os.access(path.parent, os.W_OK):
            return _open_checked(path, "immutable=1")
        raise


def open_to_write(path: Path, upgrade: Callable[[Path], None]) -> sqlite3.Connection:
    """A connection that can write. A missing index is made, and an old one is upgraded."""
    real = file_to_write(path)
    real.parent.mkdir(parents=True, exist_ok=True)
    base = connect(real, "mode=rwc")
    try:
        _create(base)
        check_schema(base, path)
        if application_id(base) == OLD_FORMAT:
            base.close()
            upgrade(real)
            base = connect(real, "mode=rw")
            check_schema(base, path)
        base.execute(
            "PRAGMA synchronous = NORMAL"
        )  # a kill loses nothing; a power cut the last moments
    except BaseException:
        base.close()
        raise
    return base


def application_id(base: sqlite3.Connection) -> int:
    """The format of a file, as its header says it."""
    return int(base.execute("PRAGMA application_id").fetchone()[0])


def check_schema(base: sqlite3.Connection, path: Path) -> None:
    """Refuse a file unless its schema is, object by object and word by word, one of ours.

    A trigger or a view in a stranger's file would run as part of our own statements.
    """
    expected = _SCHEMAS.get(application_id(base))
    if expected is None or _objects(base) != _expected_objects(expected):
        raise UserError(f"{path}: {NO_INDEX}")
    # FTS5 keeps settings in a table of its own; ours has none but the version of its format.
    settings = base.execute("SELECT k, v FROM words_config LIMIT 2").fetchall()
    if settings != [("version", 4)]:
        raise UserError(f"{path}: {NO_INDEX}")


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection that trusts nothing in the file: no trigger, view or function of it runs."""
    address = f"{path.absolute().as_uri()}?{mode}"
    base = sqlite3.connect(
        address, uri=True, timeout=LOCK_WAIT, isolation_level=None, check_same_thread=False
    )
    base.execute("PRAGMA trusted_schema = OFF")
    base.execute("PRAGMA cell_size_check = ON")
    base.execute("PRAGMA mmap_size = 0")
    base.execute(f"PRAGMA cache_size = -{_CACHE}")
    base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE)
    base.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    base.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1)
    if sys.version_info >= (3, 12):
        base.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_TRIGGER, False)
        base.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_VIEW, False)
    return base


def _open_checked(path: Path, mode: str) -> sqlite3.Connection:
    base = connect(path, mode)
    try:
        _limit_time(base, _READ_LIMIT)
        check_schema(base, path)
    except BaseException:
        base.close()
        raise
    return base


def _create(base: sqlite3.Connection) -> None:
    """Make the tables of an empty file."""
    if _has_objects(base):
        return
    base.execute("PRAGMA auto_vacuum = INCREMENTAL")
    base.execute("BEGIN IMMEDIATE")
    # Another process may have made them while this one waited.
    if not _has_objects(base):
        for statement in SCHEMA:
            base.execute(statement)
        base.execute(f"PRAGMA application_id = {FORMAT}")
    base.execute("COMMIT")


def _has_objects(base: sqlite3.Connection) -> bool:
    return bool(base.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0])


def _objects(base: sqlite3.Connection) -> list[tuple[object, ...]]:
    """Every table, index, view and trigger with its SQL; more than ours has is not read."""
    query = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name LIMIT 100"
    return base.execute(query).fetchall()


@cache
def _expected_objects(schema: tuple[str, ...]) -> list[tuple[object, ...]]:
    """What ``_objects`` finds in a file that was just made, the tables that FTS5 adds included."""
    base = sqlite3.connect(":memory:")
    try:
        for statement in schema:
            base.execute(statement)
        return _objects(base)
    finally:
        base.close()


def _limit_time(base: sqlite3.Connection, seconds: float) -> None:
    """Interrupt whatever the connection does later than ``seconds`` from now."""
    end = time.monotonic() + seconds

    def is_late() -> bool:
        return time.monotonic() > end

    base.set_progress_handler(is_late, _PROGRESS_STEPS)


def _version(base: sqlite3.Connection) -> int:
    """How many transactions were written; it begins anew before it leaves 31 bits."""
    return int(base.execute("PRAGMA user_version").fetchone()[0]) & 0x3FFFFFFF


def _give_back_free_pages(base: sqlite3.Connection) -> None:
    """Shrink the file when a good part of it is free."""
    free = int(base.execute("PRAGMA freelist_count").fetchone()[0])
    pages = int(base.execute("PRAGMA page_count").fetchone()[0])
    if free < max(_FREE_PAGES, _FREE_SHARE * pages):
        return
    # Words of removed passages stay in the search index until its parts are merged.
    base.execute("INSERT INTO words (words) VALUES ('optimize')")
    # In steps, so that nobody who asks waits long. ``execute`` would free a single page.
    for _ in range(0, pages, _VACUUM_STEP):
        base.executescript(f"PRAGMA incremental_vacuum({_VACUUM_STEP})")


def _reason(error: BaseException) -> str:
    words = " ".join(str(error).split())
    if isinstance(error, sqlite3.OperationalError) and "locked" in words:
        return f"another process has been writing for {LOCK_WAIT:.0f} s; try again."
    if isinstance(error, sqlite3.OperationalError) and "interrupted" in words:
        return f"takes more than {_READ_LIMIT:.0f} s to read; make it anew: rmreader index."
    if "is full" in words:
        return "the disk is full; make room, and index again: what was written before is kept."
    if "not a database" in words:
        return NO_INDEX
    return f"cannot be used ({words[:300]}); make it anew: rmreader index."
