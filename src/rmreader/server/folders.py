"""A folder as the documents of a server: indexed when it starts, and again after every change."""

import hashlib
import os
import threading
from functools import partial
from pathlib import Path

from rmreader.core.files.cache import cache_folder
from rmreader.documents.indexing import Added
from rmreader.documents.shelf import Shelf
from rmreader.documents.watch import watch
from rmreader.server.logs import event


def open_documents(place: str) -> Shelf:
    """The documents at a place: those of an index, or of a folder, which is watched from now on."""
    folder = Path(place).expanduser()
    if not folder.is_dir():
        shelf = Shelf.open(place)
        # What is no index is refused before anything is served.
        shelf.index.size()
        return shelf
    shelf = Shelf.open(index_of(folder))
    report(shelf, shelf.add(folder))
    thread = threading.Thread(
        target=watch,
        args=(shelf.index, [folder], partial(report, shelf)),
        kwargs={"workers": 1, "apart": Path(shelf.place)},
        name="watch",
        # It ends with the server: what it was writing is written by the next one.
        daemon=True,
    )
    thread.start()
    return shelf


def index_of(folder: Path) -> Path:
    """Where the index of a folder is kept: in the cache, under the folder's name."""
    real = os.path.realpath(folder)
    key = hashlib.sha256(os.fsencode(real)).hexdigest()[:12]
    return cache_folder("folders") / key / f"{Path(real).name or 'root'}.rmindex"


def report(shelf: Shelf, done: Added) -> None:
    """Log what was read, where anything was."""
    if not (done.added or done.changed or done.removed):
        return
    event(
        "indexed",
        new=done.added,
        changed=done.changed,
        gone=done.removed,
        skipped=len(done.refused),
        documents=shelf.index.size(),
    )
