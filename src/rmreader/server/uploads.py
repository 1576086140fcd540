"""Documents that are sent to be read: any format that ``rmreader ask`` reads.

A document is parsed by a process of its own, which has a clock and little memory. A few are taken
at once, since each may be large, and few of one client, so that nobody takes all the places.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import StreamingResponse

from rmreader.core.errors import UserError
from rmreader.documents.document import Document
from rmreader.documents.parse import check_package
from rmreader.documents.sandbox import Sandbox
from rmreader.server.batcher import CLIENT
from rmreader.server.openapi import CALL_ERRORS, Operation
from rmreader.server.requests import (
    no_answer_in_time,
    read_body,
    slow_request,
    while_connected,
)
from rmreader.server.responses import Refused, Response, invalid
from rmreader.server.schemas import ReadDocument
from rmreader.server.settings import Settings

LARGE_AT_ONCE = 6  # documents and long texts that all clients together may send at once
LARGE_OF_ONE = 2  # of these, how many may be one client's
PROCESSES = 2  # that parse documents
LONGEST_NAME = 255  # characters, as on most disks
MEDIA = "application/octet-stream"
_CHUNK = 1 << 16  # characters of a text that are written at once

T = TypeVar("T")


class LargeRequests:
    """How many large requests there are, and whose."""

    def __init__(self) -> None:
        self._clients = Counter[str]()

    @asynccontextmanager
    async def one_more(self) -> AsyncIterator[None]:
        """Count a request for as long as it lasts; ``Refused`` where there are too many."""
        client = CLIENT.get()
        if self._clients.total() >= LARGE_AT_ONCE or self._clients[client] >= LARGE_OF_ONE:
            message = "Other documents or long texts are being read; try again in a moment."
            headers = {"retry-after": "2", "connection": "close"}
            raise Refused(503, "busy", message, headers)
        self._clients[client] += 1
        try:
            yield
        finally:
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]


class DocumentReader:
    """Processes that parse documents, and threads that wait for them."""

    def __init__(self, settings: Settings) -> None:
        self.seconds = settings.read_deadline
        self._sandboxes = [Sandbox() for _ in range(PROCESSES)]
        self._free = list(self._sandboxes)
        self._pool = ThreadPoolExecutor(PROCESSES, thread_name_prefix="document")

    async def do(self, work: Callable[[Sandbox], T]) -> T:
        """Do something with a document in a process of its own."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._do, work)

    def _do(self, work: Callable[[Sandbox], T]) -> T:
        # There is one for every thread.
        sandbox = self._free.pop()
        try:
            return work(sandbox)
        finally:
            self._free.append(sandbox)

    def close(self) -> None:
        """End the processes, whatever they are reading."""
        for sandbox in self._sandboxes:
            sandbox.abandon()
        self._pool.shutdown(cancel_futures=True)
        for sandbox in self._sandboxes:
            sandbox.close()


class Uploads:
    """``/v1/read``: a document in, its text out."""

    def __init__(
        self, settings: Settings, documents: DocumentReader, large_requests: LargeRequests
    ) -> None:
        self.settings = settings
        self.documents = documents
        self.large_requests = large_requests

    def operation(self) -> Operation:
        """The call, with what it takes and gives."""
        name = {
            "name": "name",
            "in": "query",
            "required": True,
            "description": "The file's name, which says its format.",
            "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME},
        }
        return Operation(
            "POST",
            "/v1/read",
            "Read a document: its text, of any format that `rmreader ask` reads",
            self.read,
            response=ReadDocument,
            errors=CALL_ERRORS,
            upload=MEDIA,
            parameters=[name],
        )

    async def read(self, request: Request) -> Response:
        """Read the document in a request's body."""
        name = file_name(request)
        require_upload(request)
        async with self.large_requests.one_more():
            content = await body_in_time(request, self.settings)
            document = await self._parse(request, name, content)
        return StreamingResponse(written(name, document), media_type="application/json")

    async def _parse(self, request: Request, name: str, content: bytes) -> Document:
        seconds = self.documents.seconds

        def parse(sandbox: Sandbox) -> Document:
            check_package(name)
            return sandbox.parse(name, content, seconds)

        try:
            async with asyncio.timeout(seconds):
                return await while_connected(self.documents.do(parse), request.receive)
        except TimeoutError:
            raise no_answer_in_time(seconds) from None
        except UserError as error:
            raise invalid(str(error)) from None


def file_name(request: Request) -> str:
    """The name of the document; its folders, if it has any, are of no use."""
    name = request.query_params.get("name", "").replace("\\", "/").rpartition("/")[2]
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise invalid(
            "The address must end with ?name=FILE, the document's name, which says its format; "
            f"it has 1 to {LONGEST_NAME} characters."
        )
    return name


def require_upload(request: Request) -> None:
    """Raise ``Refused`` unless the header says that the body is a document.

    As with JSON, a browser does not send this type for a page of another origin without asking.
    """
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != MEDIA:
        raise invalid(f"A document is sent as it is: the header must say content-type: {MEDIA}.")


async def body_in_time(request: Request, settings: Settings) -> bytes:
    """The body of a large request."""
    try:
        async with asyncio.timeout(settings.read_deadline):
            return await read_body(request, settings.max_upload, discard=1)
    except TimeoutError:
        raise slow_request(settings.read_deadline) from None


def written(name: str, document: Document) -> Iterator[bytes]:
    """A document as JSON, a part at a time: it may be large, and its client slow."""
    yield f'{{"name":{json.dumps(name)},"note":{json.dumps(document.note)},'.encode()
    yield f'"offsets":{json.dumps(document.offsets)},"text":"'.encode()
    text = document.whole.text
    for begin in range(0, len(text), _CHUNK):
        yield json.dumps(text[begin : begin + _CHUNK])[1:-1].encode()
    yield b'"}'
