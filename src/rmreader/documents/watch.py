"""Keep an index current: look at the folders again and again, and read what has changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rmreader.core.console import say
from rmreader.core.errors import UserError
from rmreader.documents.folders import FileSelection, list_files
from rmreader.documents.index import Index
from rmreader.documents.indexing import Added, add

EVERY = 1.0  # seconds between two looks

State = tuple[int, int, int]
"""Of a file: its number on the disk, its size and when it was last changed."""


def watch(
    index: Index,
    folders: Sequence[Path],
    report: Callable[[Added], None],
    *,
    workers: int | None = None,
    apart: Path | None = None,
    selection: FileSelection | None = None,
    ocr: bool = False,
) -> None:
    """Bring an index up to date, and again after every change, until interrupted.

    ``report`` is told what each run did. A later mistake, such as a folder that is gone for a
    moment, is said once and does not end it.
    """
    before: dict[str, State] | None = None
    complaint = ""
    while True:
        try:
            now = _states(folders, apart, selection)
            if now != before:
                unchanged = {
                    path for path, state in now.items() if (before or {}).get(path) == state
                }
                report(
                    add(
                        index,
                        folders,
                        workers=workers,
                        apart=apart,
                        selection=selection,
                        unchanged=unchanged,
                        ocr=ocr,
                    )
                )
                before = now
            complaint = ""
        except UserError as error:
            if before is None:
                raise
            if str(error) != complaint:
                say(str(error))
            complaint = str(error)
        time.sleep(EVERY)


def _states(
    folders: Sequence[Path], apart: Path | None, selection: FileSelection | None
) -> dict[str, State]:
    """Every file that is wanted, and its state."""
    states: dict[str, State] = {}
    for folder in folders:
        root, files = list_files(folder.expanduser(), apart, selection)
        for file in files:
            path = os.path.join(root, file)
            try:
                status = os.stat(path)
            except OSError:  # gone since it was listed
                continue
            states[path] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return states
