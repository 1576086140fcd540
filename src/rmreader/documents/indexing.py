"""Folders into an index: what is new or has changed, by its content; what is gone comes out."""

from __future__ import annotations

import hashlib
import os
import signal
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path

from rmreader.core.console import Advance, progress
from rmreader.core.cores import cores
from rmreader.core.errors import UserError
from rmreader.core.files.manifest import file_sha256
from rmreader.core.processes import end_with
from rmreader.documents.document import (
    LARGEST,
    NO_TEXT,
    Document,
    ReadLater,
    read_document,
)
from rmreader.documents.folders import FileSelection, is_unicode, list_files
from rmreader.documents.index import Entry, Index, Known, Name, encode_passages
from rmreader.documents.ocr import PROGRAM, check_program, recognise
from rmreader.documents.passages import split

_BATCH = 1 << 19  # characters that are written at once
_PATIENCE = 10  # times the seconds of a document: one that is refused is not read again
_FEW = 32  # documents that are read without other processes, which take a second to start


@dataclass
class Added:
    """What a run did to an index."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    passages: int = 0
    refused: list[str] = field(default_factory=list)
    """A sentence on every file that was not read, by what it is."""
    skipped: dict[str, list[str]] = field(default_factory=dict)
    """The same files by the reason."""
    notes: list[str] = field(default_factory=list)
    """How documents were read that are not plain UTF-8."""

    def refuse(self, file: str, sentence: str) -> None:
        """Count a file that is not read; the sentence begins with its name."""
        self.refused.append(sentence)
        self.skipped.setdefault(sentence.removeprefix(f"{file}: "), []).append(file)


def add(
    index: Index,
    folders: Sequence[Path],
    *,
    workers: int | None = None,
    apart: Path | None = None,
    selection: FileSelection | None = None,
    unchanged: Collection[str] = (),
    ocr: bool = False,
) -> Added:
    """Make the index hold what the folders (or single files) hold now.

    Documents are read by several processes, a few ahead of what is written, so that memory does not
    grow with the collection. What a run that was killed has written is kept, and not read again.

    ``apart`` is no document, as the index itself. Of a folder only what ``selection`` wants is
    taken. Paths that are known to be ``unchanged`` are not looked at. With ``ocr`` scans get their
    text from ``ocrmypdf``, also those that were left out before.
    """
    if ocr:
        check_program()
    done = Added()
    for folder in folders:
        folder = folder.expanduser()
        root, files = list_files(folder, apart, selection)
        known = index.known(root)
        if ocr:
            known = {file: _without_scan(document) for file, document in known.items()}
        gone: list[Name] = []
        if folder.is_dir():
            gone = [(root, file) for file in known.keys() - set(files)]
        if gone:
            index.put([], gone)
        done.removed += len(gone)
        with progress(f"indexing {folder}", total=len(files), unit="documents") as advance:
            changed = _changed(root, files, known, unchanged, done, advance)
            for batch in _batches(_read(changed, cores() if workers is None else workers, ocr)):
                for entry in batch:
                    _count(done, entry, entry.name[1] in known)
                    advance()
                index.put(batch)
    return done


def _changed(
    root: str,
    files: Sequence[str],
    known: dict[str, Known],
    unchanged: Collection[str],
    done: Added,
    advance: Advance,
) -> Iterator[Name]:
    """The documents whose content is not the one that is known; the others are counted."""
    for file in files:
        if not is_unicode(file):
            done.refuse(ascii(file), f"{file!a}: its name is not UTF-8; rename it.")
            advance()
        elif file in known and _is_same(Path(root, file), known[file], unchanged):
            done.unchanged += 1
            if known[file].refusal:
                done.refuse(file, known[file].refusal)
            advance()
        else:
            yield root, file


def _without_scan(document: Known) -> Known:
    """What is known of a document; of a scan nothing, so that it is read again."""
    return Known("") if document.refusal.endswith(NO_TEXT) else document


def _is_same(path: Path, known: Known, unchanged: Collection[str]) -> bool:
    """Whether a file has the content that is known; one without a checksum is tried again."""
    if not known.checksum:
        return False
    return str(path) in unchanged or _checksum(path) == known.checksum


def _checksum(path: Path) -> str:
    try:
        return file_sha256(path)
    except OSError:  # is read again, and said then
        return ""


def _read(names: Iterator[Name], workers: int, ocr: bool) -> Iterator[Entry]:
    """Every document, read; in order, by other processes where there are many."""
    few = list(islice(names, _FEW))
    read = partial(read_entry, ocr=ocr)
    if workers < 2 or len(few) < _FEW:
        yield from map(read, chain(few, names))
        return
    waiting: deque[tuple[Name, Future[Entry]]] = deque()
    context = get_context("spawn")  # a fork would copy the locks of threads that are not there
    with ProcessPoolExecutor(
        workers, context, initializer=end_with, initargs=(os.getpid(),)
    ) as pool:
        try:
            for name in chain(few, names):
                with _alone_to_interrupt():
                    waiting.append((name, pool.submit(read, name)))
                if len(waiting) >= 4 * workers:
                    yield waiting.popleft()[1].result()
            while waiting:
                yield waiting.popleft()[1].result()
        except BrokenProcessPool:
            raise UserError(
                f"{name[1]}: a process that reads documents ended at or before it; if this is a "
                "script of yours, call it under `if __name__ == '__main__':`, else index with one "
                "worker to see which document it is."
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _alone_to_interrupt() -> Iterator[None]:
    """Processes that start within do not hear Ctrl-C, which is for the one that starts them."""
    if not hasattr(signal, "pthread_sigmask"):  # as on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def read_entry(name: Name, ocr: bool = False) -> Entry:
    """One document as passages; whatever goes wrong with it is a remark on this file alone."""
    path = Path(*name)
    checksum = ""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        checksum = (
            hashlib.sha256(content).hexdigest() if len(content) <= LARGEST else file_sha256(path)
        )
        document = _read_document(name[1], content, ocr)
        passages = list(split(document.paragraphs))
        vectors = encode_passages(name, passages)
        return Entry(name, checksum, passages, document.offsets, document.note, vectors=vectors)
    except ReadLater as error:
        return Entry(name, "", refusal=str(error))  # without a checksum, the next run tries again
    except UserError as error:
        return Entry(name, checksum, refusal=str(error))
    except OSError as error:
        return Entry(name, "", refusal=f"{name[1]}: cannot be read ({error.strerror}); check it.")
    except Exception as error:
        kind = type(error).__name__
        return Entry(name, checksum, refusal=f"{name[1]}: it is damaged ({kind}); convert it.")


def _read_document(file: str, content: bytes, ocr: bool) -> Document:
    """A document; with ``ocr`` a scan, too."""
    try:
        return read_document(file, content, patience=_PATIENCE)
    except UserError as error:
        if not ocr or not str(error).endswith(NO_TEXT) or not content.startswith(b"%PDF"):
            raise
    try:
        document = read_document(file, recognise(file, content), patience=_PATIENCE)
    except UserError as error:
        if str(error).endswith(NO_TEXT):
            raise UserError(
                f"{file}: no text in it, and none was recognised; look at it."
            ) from None
        raise
    note = f"{file}: a scan; its text was recognised, and words of it may be wrong."
    return replace(document, offsets=f"the text of {PROGRAM}'s PDF", note=note)


def _batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """What is written in one transaction: about ``_BATCH`` characters."""
    batch, size = list[Entry](), 0
    for entry in entries:
        batch.append(entry)
        size += 1000 + sum(len(passage.text) for passage in entry.passages)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _count(done: Added, entry: Entry, known: bool) -> None:
    if entry.refusal:
        done.refuse(entry.name[1], entry.refusal)
        return
    if entry.note:
        done.notes.append(entry.note)
    done.changed += known
    done.added += not known
    done.passages += len(entry.passages)
