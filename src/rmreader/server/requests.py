"""Reading a request: its body within the limits, its JSON as a schema, its answer in time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
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
        try:
            async with asyncio.timeout(settings.deadline) as clock:
                body = await read_body(request, settings.max_body)
        except TimeoutError:
            raise slow_request(settings.deadline) from None
        batcher.check_room()
        try:
            async with asyncio.timeout_at(clock.when()):
                return await while_connected(run(request, body), request.receive)
        except TimeoutError:
            raise no_answer_in_time(settings.deadline) from None

    return endpoint


async def read_body(request: Request, limit: int, discard: int = DISCARD) -> bytes:
    """Read the body unless it is larger than allowed, whether or not its length was announced.

    Up to ``discard`` times as much is read and thrown away.
    """
    message = f"The request is larger than {limit:,} bytes; send less text at once."
    far_too_large = Refused(413, "too_large", message, {"connection": "close"})
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced[:20]) > limit * discard:
        raise far_too_large
    chunks = []
    received = 0
    async for chunk in request.stream():
        received += len(chunk)
        if received > limit * discard:
            raise far_too_large
        if received <= limit:
            chunks.append(chunk)
    if received > limit:
        raise Refused(413, "too_large", message)
    return b"".join(chunks)


async def while_connected(work: Coroutine[Any, Any, Result], receive: Receive) -> Result:
    """Do the work; where the client leaves before it is done, cancel it."""
    answer = asyncio.create_task(work)
    departure = asyncio.create_task(until_disconnect(receive))
    try:
        await asyncio.wait((answer, departure), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientDisconnect
        return answer.result()
    finally:
        departure.cancel()
        if not answer.done():
            # Waited for, so that its questions are out of the queue when this returns.
            answer.cancel()
            await asyncio.wait((answer,))


async def until_disconnect(receive: Receive) -> None:
    """Wait until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


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


def slow_request(deadline: float) -> Refused:
    """Make the refusal of a request whose body does not arrive."""
    message = f"The request did not arrive within {deadline:g} seconds; send it faster, or less."
    return Refused(408, "slow_request", message, {"connection": "close"})


def no_answer_in_time(deadline: float) -> Refused:
    """Make the refusal of a request whose answer takes too long."""
    message = f"No answer within {deadline:g} seconds; ask again later, or about less text."
    return Refused(504, "deadline", message)
