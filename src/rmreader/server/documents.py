"""Asking documents: what a search finds is read in turn with all other questions."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from rmreader.core.errors import UserError
from rmreader.documents.candidates import Candidates
from rmreader.documents.citations import Citations
from rmreader.documents.index import ListedDocument, Passage
from rmreader.documents.places import BETWEEN
from rmreader.documents.shelf import READ, Shelf
from rmreader.server import schemas
from rmreader.server.batcher import CLIENT, Batcher
from rmreader.server.responses import Refused, Response, reply

AROUND = 10  # passages before and after an answer's that are shown with it
SEARCHES = 2  # at once

T = TypeVar("T")


class Documents:
    """The shelf that a server has, if any. Clients name passages by their ids, never files."""

    def __init__(self, shelf: Shelf | None, batcher: Batcher) -> None:
        self._shelf = shelf
        self._batcher = batcher
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

        return candidates.rank(read, top, min_confidence, always)

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
            raise Refused(
                404,
                "no_passage",
                "The index has no such passage; it may have changed: ask again.",
            )

        here = near[number]
        start = sum(len(one.text) + len(BETWEEN) for one in near[:number])
        tree = {"document": here.file, "page": here.stretch.page, "heading": here.stretch.heading}
        text = BETWEEN.join(one.text for one in near)

        return reply({**tree, "text": text, "start": start, "end": start + len(here.text)})

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
            except (
                UserError
            ) as error:  # whose sentence names a file: it is no fault of the client's
                raise RuntimeError("the index cannot be used") from error


def public(citations: Citations) -> dict[str, Any]:
    """Answers with their places; where the documents are on the disk stays here."""
    tree = citations.to_dict()
    guesses = [tree["guess"]] if "guess" in tree else []
    for answer in [*tree["answers"], *guesses]:
        del answer["root"]

    best = tree["answers"][0] if tree["answers"] else None
    return {"answer": best, **tree}
