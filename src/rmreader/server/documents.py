"""Asking documents: what a search finds is read in turn with all other questions."""

import asyncio
import base64
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from starlette.requests import Request

from rmreader.core.errors import UserError
from rmreader.documents.candidates import Candidates
from rmreader.documents.citations import Citations
from rmreader.documents.document import LARGEST
from rmreader.documents.formats import format_of
from rmreader.documents.formats.format import TextFormat
from rmreader.documents.in_file import FilePlace, find_in_file
from rmreader.documents.index import ListedDocument, Passage
from rmreader.documents.page_image import PageImage, PagePlace
from rmreader.documents.places import BETWEEN
from rmreader.documents.sandbox import Sandbox
from rmreader.documents.shelf import READ, Shelf
from rmreader.documents.sqlite_file import IndexUnavailable
from rmreader.server import schemas
from rmreader.server.batcher import CLIENT, Batcher
from rmreader.server.logs import event, failure
from rmreader.server.responses import Refused, Response, invalid, reply
from rmreader.server.uploads import DocumentReader

AROUND = 10  # passages before and after an answer's that are shown with it
LISTED = 1_000  # documents that are listed
SEARCHES = 2  # at once

T = TypeVar("T")


class Documents:
    """The shelf that a server has, if any. Clients name passages by their ids, never files."""

    def __init__(self, shelf: Shelf | None, batcher: Batcher, reader: DocumentReader) -> None:
        self._shelf = shelf
        self._batcher = batcher
        self._reader = reader
        self._pool = ThreadPoolExecutor(SEARCHES, thread_name_prefix="shelf")
        self._turns = WeakValueDictionary[str, asyncio.Lock]()  # a client searches once at a time

    @property
    def shelf(self) -> Shelf:
        """The shelf, or a refusal."""
        if self._shelf is None:
            raise Refused(
                404,
                "no_index",
                "This server has no index of documents; it does if started with --index.",
            )

        return self._shelf

    @property
    def has_index(self) -> bool:
        """Whether there are documents to ask."""
        return self._shelf is not None

    async def ask(self, ask: schemas.AskShelf) -> Response:
        """Answers with their places, or that the documents do not say."""
        citations = await self.citations(ask.question, ask.top, ask.min_confidence, ask.always)
        return reply(public(citations))

    async def citations(
        self,
        question: str,
        top: int,
        min_confidence: float = 0.0,
        always: bool = False,
    ) -> Citations:
        """The same as they are in Python."""
        count = min(READ, self._batcher.settings.queue)
        passages = await self._look(self.shelf.search, question, count)
        can_tell = getattr(self._batcher.reader, "decision", None) is not None
        candidates = Candidates.of(passages, can_tell)
        read = await self._batcher.ask([(question, text, top, True) for text in candidates.texts])

        found = candidates.rank(read, top, min_confidence, always)
        return found.with_needs(question)

    async def search(self, question: str, count: int) -> list[Passage]:
        """The passages that fit a question best."""
        return await self._look(self.shelf.search, question, count)

    async def listed(self, count: int) -> tuple[list[ListedDocument], int]:
        """The first documents, and how many there are."""
        index = self.shelf.index

        def look(_: str, count: int) -> tuple[list[ListedDocument], int]:
            return index.list_documents(count), index.size()

        return await self._look(look, "", count)

    async def place(self, ask: schemas.AskPlace) -> Response:
        """The text of a document around one of its passages, which is ``text[start:end]``."""
        near = await self._look(self.shelf.index.around, ask.passage, AROUND)
        number = next((number for number, one in enumerate(near) if one.id == ask.passage), None)
        if number is None:
            raise no_passage()
        here = near[number]
        start = sum(len(one.text) + len(BETWEEN) for one in near[:number])
        tree: dict[str, Any] = {
            "document": here.file,
            "page": here.stretch.page,
            "heading": here.stretch.heading,
            "text": BETWEEN.join(one.text for one in near),
            "start": start,
            "end": start + len(here.text),
        }
        lines = await self._lines(here, ask)
        if lines is not None:
            tree["lines"] = lines
        return reply(tree)

    async def _lines(self, passage: Passage, ask: schemas.AskPlace) -> tuple[int, int] | None:
        """The lines of a part of a passage in its file, where that is a text and was asked for."""
        is_text = isinstance(format_of(passage.file), TextFormat)
        if ask.start is None or ask.end is None or not is_text:
            return None
        if not ask.start < ask.end <= len(passage.text):
            raise invalid("start and end must name a part of the passage.")
        start, end = passage.stretch.span(ask.start, ask.end)

        def look(_: str, __: int) -> FilePlace:
            return find_in_file(passage, start, end)

        found = await self._look(look, "", 0)
        return found.lines

    async def listing(self, request: Request) -> Response:
        """The documents that can be asked."""
        listed, count = await self.listed(LISTED)
        documents = []
        for one in listed:
            documents.append(
                {
                    "document": one.file,
                    "passages": one.passages,
                    "note": one.note,
                }
            )
        return reply({"count": count, "documents": documents})

    async def page(self, ask: schemas.AskPage) -> Response:
        """The page of a PDF document that has a part of a passage, as a picture."""
        passage = await self._passage(ask.passage)
        if not ask.start < ask.end <= len(passage.text):
            raise invalid("start and end must name a part of the passage.")
        if passage.path.suffix.lower() != ".pdf":
            raise Refused(404, "no_page", "Only PDF documents have pages that can be drawn.")

        def draw(sandbox: Sandbox) -> PageImage:
            content = self._unchanged(passage)
            place = PagePlace.of(passage.stretch, ask.start, ask.end)
            return sandbox.draw_page(passage.file, content, place, self._reader.seconds)

        try:
            image = await self._reader.do(draw)
        except IndexUnavailable as error:
            raise no_index_yet(error) from None
        except UserError as error:
            raise Refused(404, "no_page", str(error)) from None
        return reply(
            {
                "document": passage.file,
                "page": image.page,
                "width": image.width,
                "height": image.height,
                "image": base64.b64encode(image.png).decode(),
                "areas": [vars(area) for area in image.areas],
            }
        )

    async def _passage(self, id: str) -> Passage:
        found = await self._look(self.shelf.index.around, id, 0)
        if not found:
            raise no_passage()
        return found[0]

    def _unchanged(self, passage: Passage) -> bytes:
        """The content of a passage's file, if it is the one that was indexed."""
        checksum = self.shelf.index.checksum((passage.root, passage.file))
        try:
            with passage.path.open("rb") as file:
                content = file.read(LARGEST + 1)
        except OSError:
            content = b""
        if not checksum or hashlib.sha256(content).hexdigest() != checksum:
            message = "The document is gone, or has changed since it was indexed: ask again."
            raise Refused(409, "changed", message)
        return content

    async def _look(self, look: Callable[[str, int], T], what: str, count: int) -> T:
        """In a thread: an index may be large, and on a slow disk."""
        async with self._turns.setdefault(CLIENT.get(), asyncio.Lock()):
            try:
                return await asyncio.get_running_loop().run_in_executor(
                    self._pool,
                    look,
                    what,
                    count,
                )
            except IndexUnavailable as error:
                raise no_index_yet(error) from None
            except (
                UserError
            ) as error:  # whose sentence names a file: it is no fault of the client's
                raise RuntimeError("the index cannot be used") from error


def no_index_yet(error: IndexUnavailable) -> Refused:
    """Make the refusal while an index is replaced; its own sentence names a file."""
    event("index_unavailable", **failure(error))
    message = "The index is being replaced, and cannot be read yet: ask again."
    return Refused(503, "busy", message, {"retry-after": "1"})


def no_passage() -> Refused:
    """Make the refusal of a passage that is not there."""
    message = "The index has no such passage; it may have changed: ask again."
    return Refused(404, "no_passage", message)


def public(citations: Citations) -> dict[str, Any]:
    """Answers with their places; where the documents are on the disk stays here."""
    tree = citations.to_dict()
    others = [tree[name] for name in ("guess", "runner_up") if name in tree]
    for answer in [*tree["answers"], *others]:
        del answer["root"]

    best = tree["answers"][0] if tree["answers"] else None
    return {"answer": best, **tree}
