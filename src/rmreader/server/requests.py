"""Reading a request: its body within the limits, its JSON as a schema, its answer in time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive

from rmreader.core.errors import UserError
from rmreader.server.batcher import Batcher
from rmreader.server.responses import Refused, invalid
from rmreader.server.schemas import RequestBody
from rmreader.server.settings import Settings

# A body over the limit is read and thrown away up to this many times the limit, so that its sender
# gets to hear why. Beyond that the connection is closed.
DISCARD = 8
# Seconds after which the server begins to look whether a client that waits is still there.
LOOK_AFTER = 0.25
# Fields that hold something to read for each of their items.
LISTS = ("items", "texts", "documents")

Body = TypeVar("Body", bound=RequestBody)
Result = TypeVar("Result")
Endpoint = Callable[[Request], Awaitable[Response]]


def json_endpoint(
    shape: type[Body],
    answer: Callable[[Body], Coroutine[Any, Any, Response]],
    settings: Settings,
    batcher: Batcher,
) -> Endpoint:
    """Make an endpoint that reads a body of this shape and answers it before the deadline."""

    async def run(request: Request, body: bytes) -> Response:
        require_json(request)
        try:
            return await answer(parse(shape, body, settings.max_items))
        except UserError as error:
            raise invalid(str(error)) from None

    return timed_endpoint(run, settings, batcher)


def timed_endpoint(
    run: Callable[[Request, bytes], Coroutine[Any, Any, Response]],
    settings: Settings,
    batcher: Batcher,
) -> Endpoint:
    """Make an endpoint that reads a body and answers it before the deadline.

    The work is dropped when the deadline passes, or when the client leaves before it is done.
    """

    async def endpoint(request: Request) -> Response:
        body = None
        try:
            async with asyncio.timeout(settings.deadline):
                body = await read_body(request, settings.max_body)
                batcher.check_room()
                return await while_connected(run(request, body), request.receive)
        except TimeoutError:
            if body is None:
                raise slow_request(settings.deadline) from None
            raise no_answer_in_time(settings.deadline) from None

    return endpoint


async def read_body(request: Request, limit: int, discard: int = DISCARD) -> bytes:
    """Read the body unless it is larger than allowed, whether or not its length was announced.

    Up to ``discard`` times as much is read and thrown away.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced[:20]) > limit * discard:
        raise too_large(limit, {"connection": "close"})
    chunks = []
    received = 0
    async for chunk in request.stream():
        received += len(chunk)
        if received > limit * discard:
            raise too_large(limit, {"connection": "close"})
        if received <= limit:
            chunks.append(chunk)
    if received > limit:
        raise too_large(limit)
    return b"".join(chunks)


async def while_connected(work: Awaitable[Result], receive: Receive) -> Result:
    """Do the work; where the client leaves before it is done, cancel it."""
    departure = Departure(receive)
    try:
        return await work
    except asyncio.CancelledError:
        # Cancelled by the clock, too: then the clock says what happened.
        if not departure.cancelled_worker or departure.worker.uncancel():
            raise
        raise ClientDisconnect from None
    finally:
        departure.ignore()


class Departure:
    """Cancels the task that made it when its client leaves.

    It begins to look a moment later: most answers are there by then, and a task for each of them
    that only waits for its client costs as much as finding the request's route.
    """

    def __init__(self, receive: Receive) -> None:
        worker = asyncio.current_task()
        assert worker is not None
        self.worker = worker
        self.receive = receive
        self.cancelled_worker = False
        self._watch: asyncio.Task[None] | None = None
        self._start = asyncio.get_running_loop().call_later(LOOK_AFTER, self._look)

    def _look(self) -> None:
        self._watch = asyncio.create_task(self._until_disconnect())

    async def _until_disconnect(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.cancelled_worker = True
        self.worker.cancel()

    def ignore(self) -> None:
        """Look no more."""
        self._start.cancel()
        if self._watch is not None:
            self._watch.cancel()


def require_json(request: Request) -> None:
    """Raise ``Refused`` unless the header says that the body is JSON.

    A web page of another origin can have a browser send anything but JSON without asking first, so
    nothing else is read.
    """
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_json = media.startswith("application/") and media.endswith("+json")
    if media != "application/json" and not is_json:
        raise invalid(
            "The body was not read as JSON: the header must say content-type: application/json."
        )


def parse(shape: type[Body], body: bytes, max_items: int) -> Body:
    """Read a body as a request; the time it takes is bounded by the body's size."""
    try:
        tree = from_json(body)
    except ValueError as error:
        raise invalid(f"The body is not valid JSON in UTF-8: {str(error)[:80]}.") from None
    # Checked before the items are: each of them may have errors of its own.
    for name in LISTS:
        items = tree.get(name) if isinstance(tree, dict) else None
        if isinstance(items, list) and len(items) > max_items:
            message = f"The list holds {len(items):,} {name}; the most is {max_items:,}."
            raise Refused(413, "too_large", message)
    try:
        return shape.model_validate(tree)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step)[:40] for step in first["loc"]) or "the body"
        raise invalid(f"{place}: {first['msg']}.") from None


def too_large(limit: int, headers: Mapping[str, str] | None = None) -> Refused:
    """Make the refusal of a body that is larger than allowed."""
    message = f"The request is larger than {limit:,} bytes; send less text at once."
    return Refused(413, "too_large", message, headers)


def slow_request(deadline: float) -> Refused:
    """Make the refusal of a request whose body does not arrive."""
    message = f"The request did not arrive within {deadline:g} seconds; send it faster, or less."
    return Refused(408, "slow_request", message, {"connection": "close"})


def no_answer_in_time(deadline: float) -> Refused:
    """Make the refusal of a request whose answer takes too long."""
    message = f"No answer within {deadline:g} seconds; ask again later, or about less text."
    return Refused(504, "deadline", message)
