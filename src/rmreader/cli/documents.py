"""``rmreader index``: folders of documents that can be
asked; and ``chat``, question after question about them."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rmreader.cli.app import app
from rmreader.cli.output import Json, emit_json, note
from rmreader.cli.read import Always, Index, MinConfidence, Model
from rmreader.core.console import counted
from rmreader.core.errors import UserError
from rmreader.core.files.cache import cache_root

if TYPE_CHECKING:
    from rmreader.documents.indexing import Added
    from rmreader.documents.shelf import Shelf

_REASONS = 10  # why files were skipped, that are printed
_NAMES = 3  # files that are named for each


@app.command(
    epilog='Example: rmreader index Documents, then rmreader ask --index shelf.rmindex "Who …?"'
)
def index(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER", help="Folders, or single documents.")
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="INDEX",
            help="The index: a file, or http://HOST:9200/NAME of OpenSearch.",
        ),
    ] = "shelf.rmindex",
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Processes that read documents.")
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Index only files that fit this pattern, such as *.md; repeatable.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Leave out files and folders that fit this, such as drafts; repeatable.",
        ),
    ] = None,
    ocr: Annotated[
        bool, typer.Option("--ocr", help="Read scans, too, with the program ocrmypdf.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep running, and index again at every change.")
    ] = False,
    json: Json = False,
) -> None:
    """Make an index of folders of documents, or bring it up to date.

    Text, Markdown, HTML, CSV, Office files, RTF, EPUB, mail and PDF are read; where the index
    exists, only what has changed. It can be stopped at any moment, and asked meanwhile.
    """
    from rmreader.documents.folders import FileSelection
    from rmreader.documents.shelf import Shelf
    from rmreader.documents.watch import watch as keep_current

    shelf = Shelf.open(out)
    report = partial(_report_json if json else _report, shelf)
    if not watch:
        done = shelf.add(
            *folders,
            workers=workers,
            include=include or (),
            exclude=exclude or (),
            ocr=ocr,
        )
        report(done)
        return
    selection = FileSelection(include or (), exclude or ())
    with contextlib.suppress(KeyboardInterrupt):  # which is how watching ends
        keep_current(
            shelf.index,
            folders,
            report,
            workers=workers,
            apart=Path(shelf.place),
            selection=selection,
            ocr=ocr,
        )


def _report_json(shelf: Shelf, done: Added) -> None:
    emit_json(dataclasses.asdict(done))


def _report(shelf: Shelf, done: Added) -> None:
    """What a run did, for a person: remarks, what was skipped and why, and the counts."""
    for sentence in done.notes[:_REASONS]:
        note(sentence)
    if len(done.notes) > _REASONS:
        note(f"and {len(done.notes) - _REASONS:,} more remarks; --json lists them all.")
    reasons = sorted(done.skipped.items(), key=lambda item: -len(item[1]))
    for reason, files in reasons[:_REASONS]:
        names = ", ".join(files[:_NAMES])
        more = f" and {len(files) - _NAMES:,} more" if len(files) > _NAMES else ""
        note(f"skipped {counted(len(files), 'file')} ({names}{more}): {reason}")
    if len(reasons) > _REASONS:
        note(f"and {len(reasons) - _REASONS:,} other reasons; --json lists them all.")
    counts = (
        f"{done.added:,} new, {done.changed:,} changed, {done.removed:,} gone, "
        f"{done.unchanged:,} as they were"
    )
    documents = counted(shelf.index.size(), "document")
    unread = counted(len(done.refused), "file")
    note(f"{shelf.place}: {documents} ({counts}); {unread} that cannot be read.")


@app.command()
def chat(
    passage: Annotated[
        Path | None, typer.Argument(metavar="PASSAGE_FILE", help="Document with the passage.")
    ] = None,
    index: Index = None,
    model: Model = "small",
    top: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=100, help="How many answers to each question, best first."
        ),
    ] = 3,
    min_confidence: MinConfidence = 0.0,
    always: Always = False,
) -> None:
    """Ask one question after another about a passage or an index; type :help for the commands."""
    from rich.console import Console

    from rmreader.cli.chat import Chat, ShelfChat, remember
    from rmreader.documents.passages import read_passage
    from rmreader.documents.shelf import Shelf
    from rmreader.reading.reader import Reader

    if sys.stdin is None or sys.stdout is None:
        raise UserError(
            "a conversation needs standard input and output, and one of them is closed."
        )
    if (passage is None) == (index is None):
        raise typer.BadParameter("give either a document or --index, and not both.")
    console = Console(highlight=False)
    if index is not None:
        talk: Chat = ShelfChat(
            Shelf.open(index, Reader.load(model)), console, top, min_confidence, always
        )
    else:
        text = read_passage(str(passage))
        talk = Chat(Reader.load(model), text, console, top, min_confidence, always)
    save = remember(cache_root() / "chat-history")
    try:
        talk.run(input)
    finally:
        save()
