"""What happens to a request before and after it is answered: id, key, size, deadline, headers, log line, count.

Plain ASGI, because this runs on every request and the cores belong to the reader.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter

from fastapi import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rmreader.serving.batcher import Batcher, Full
from rmreader.serving.logs import event, failure
from rmreader.serving.meters import Meters
from rmreader.serving.settings import Settings
from rmreader.serving.wire import refuse

Call = Callable[[Mapping[bytes, bytes], bytes], Awaitable[Response | None]]
"""Headers and body in, the response out; None where the app is to have the request."""

SANE_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
HEAD = 65_536  # bytes of request line and headers: clients and proxies themselves keep to 8 or 16 KiB
DISCARD = 8  # an oversized body is read and thrown away up to this many times the limit, so that its sender hears why
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
]


class Gate:
    """The one middleware around the app."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        batcher: Batcher,
        meters: Meters,
        routes: set[str],
        calls: Mapping[str, Call],
    ) -> None:
        self.app, self.settings, self.batcher, self.meters = app, settings, batcher, meters
        self.routes, self.calls = routes, calls
        self.key = settings.api_key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        visit = Visit(scope, send, self.batcher)
        try:
            await self._admit(scope, receive, visit)
        except Exception as error:  # never a traceback to the caller, never his words in the log
            event("failed", id=visit.id, **failure(error))
            if not visit.status:
                await refuse(500, "internal", "Something broke on our side; the log has it under this request's id.")(
                    scope, receive, visit.send
                )
        finally:
            self._record(visit)

    async def _admit(self, scope: Scope, receive: Receive, visit: Visit) -> None:
        if head_size(scope) > HEAD:
            await head_too_large()(scope, receive, visit.send)
            return
        if not scope["path"].startswith("/v1/"):
            if scope["method"] == "HEAD":  # a GET whose body uvicorn leaves out
                scope = {**scope, "method": "GET"}
            await self.app(scope, receive, visit.send)
            return
        response = self._check_key(visit.headers)
        if response is None:
            try:
                async with asyncio.timeout(self.settings.deadline) as visit.clock:
                    response = await self._answer(scope, receive, visit)
            except TimeoutError:
                response = self._late(visit)
            finally:
                visit.clock = None
        if response is not None and not visit.status:
            await response(scope, receive, visit.send)

    async def _answer(self, scope: Scope, receive: Receive, visit: Visit) -> Response | None:
        """The response to a call, or the refusal of one too large or too many; None where the app has answered."""
        if scope["method"] == "POST":
            body = await self._read(receive, visit)
            if body is None:
                return None if visit.gone else refuse(413, "too_large", too_large(self.settings))
            try:
                self.batcher.check_room()
            except Full as full:
                return busy(full)
            call = self.calls.get(scope["path"])
            if call is not None and (response := await call(visit.headers, body)) is not None:
                return response
            receive = replay(body, receive)
        await self.app(scope, receive, visit.send)
        return None

    async def _read(self, receive: Receive, visit: Visit) -> bytes | None:
        """The body; None where it is larger than allowed, whether or not its length was announced."""
        limit, chunks = self.settings.max_body, []
        length = visit.headers.get(b"content-length", b"")
        if length.isdigit() and int(length[:20]) > limit * DISCARD:
            visit.close = True
            return None
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                visit.gone = True
                return None
            chunk = message.get("body", b"")
            visit.received += len(chunk)
            more = message.get("more_body", False)
            if visit.received <= limit:
                chunks.append(chunk)
            elif visit.received > limit * DISCARD:
                visit.close = True
                break
        visit.read = True
        return b"".join(chunks) if visit.received <= limit else None

    def _check_key(self, headers: dict[bytes, bytes]) -> Response | None:
        if not self.key:
            return None
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        given = token.strip() if scheme.lower() == b"bearer" else headers.get(b"x-api-key", b"")
        if hmac.compare_digest(given, self.key):
            return None
        message = "This server asks for its API key, as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'."
        return refuse(401, "unauthorized", message, {"www-authenticate": "Bearer"})

    def _late(self, visit: Visit) -> Response:
        if visit.read:
            message = f"No answer within {self.settings.deadline:g} seconds; ask again later, or about less text."
            return refuse(504, "deadline", message)
        visit.close = True
        message = f"The request did not arrive within {self.settings.deadline:g} seconds; send it faster, or send less."
        return refuse(408, "slow_request", message)

    def _record(self, visit: Visit) -> None:
        seconds = perf_counter() - visit.began
        route = visit.path if visit.path in self.routes else "other"
        self.meters.request(route, visit.status, seconds)
        event(
            "request", id=visit.id, method=visit.method, path=visit.path[:100], status=visit.status,
            ms=round(seconds * 1000, 1), bytes=visit.received,
        )  # fmt: skip


class Visit:
    """What is known of one request while it lasts."""

    def __init__(self, scope: Scope, send: Send, batcher: Batcher) -> None:
        self.began = perf_counter()
        self.method, self.path = scope["method"], scope["path"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        given = self.headers.get(b"x-request-id", b"")
        self.id = given.decode() if SANE_ID.fullmatch(given) else secrets.token_hex(8)
        self.status = 0  # of the response, once it has begun; 0 in the log: the client left before
        self.received = 0  # bytes of body
        self.read = self.gone = self.close = False
        self.clock: asyncio.Timeout | None = None
        self._send, self._batcher = send, batcher

    async def send(self, message: Message) -> None:
        """Pass a message on; the first one gets the headers that every response has, and stops the clock."""
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *HEADERS, (b"x-request-id", self.id.encode())]
            if self.close or self._batcher.draining:
                message["headers"].append((b"connection", b"close"))
            if self.clock is not None and not self.clock.expired():
                self.clock.reschedule(None)
            self.status = message["status"]
        await self._send(message)


def replay(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that hands out the body already read, then goes on as before."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again


def head_size(scope: Scope) -> int:
    """Bytes of a request's line and headers, nearly: separators are not all counted."""
    line = len(scope["raw_path"]) + len(scope["query_string"])
    return line + sum(len(name) + len(value) + 4 for name, value in scope["headers"])


def head_too_large(headers: Mapping[str, str] | None = None) -> Response:
    """The refusal of a head beyond the limit."""
    message = f"The request's line and headers are larger than {HEAD:,} bytes; put text into the body."
    return refuse(431, "head_too_large", message, headers)


def too_large(settings: Settings) -> str:
    """The sentence for a body beyond the limit."""
    return f"The request is larger than {settings.max_body:,} bytes; send less text at once."


def busy(full: Full) -> Response:
    """The refusal of a full queue."""
    message = f"This is more than can be answered in time; ask again in {full.retry_after} s, or send less at once."
    return refuse(503, "busy", message, {"retry-after": str(full.retry_after)})
