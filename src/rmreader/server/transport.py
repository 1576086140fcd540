"""What ``rmreader serve`` adds to uvicorn against slow and hostile clients.

uvicorn alone waits for ever for the head of a request and for an answer to be taken, keeps a head
of any size and any number of requests, and loses the body of a request that offers HTTP/2.

This is the only file that uses private parts of uvicorn. ``protection`` tries them out first; where
a version of uvicorn no longer has them, the server runs without and says so. Then a proxy should
stand in front of it. The app itself needs none of this.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import uvicorn

from rmreader.server.logs import event
from rmreader.server.middleware import RAW_HEADERS
from rmreader.server.responses import refuse
from rmreader.server.settings import Settings

try:
    import httptools
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
    from uvicorn.server import ServerState
except ImportError as error:
    MISSING: str | None = str(error)
    HttpToolsProtocol = object  # type: ignore[assignment, misc]
else:
    MISSING = None

HEAD = 65_536  # bytes of request line and headers; clients and proxies keep to 8 or 16 KiB
PIPELINED = 8  # requests of one connection that may wait for the answer to the one before
TAKEN = 65_536  # bytes of an answer that a client must take within each deadline
UNREAD = 64 * 2**20  # bytes of answers that all clients together may leave unread
PROBE = 1.0  # seconds between checks whether a client that sends no more still listens
FAREWELL = 1.0  # seconds that a client has to send its first request while the server stops
LAST_LOOK = 0.05  # seconds after that in which the loop reads what has come, if it was too busy


@dataclass
class Limits:
    """What all connections of a server share."""

    deadline: float
    connections: int
    unread: dict[Connection, asyncio.TimerHandle] = field(default_factory=dict)
    """Connections that do not take their answers, the oldest first, and their clocks."""

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """Return the limits that the settings name."""
        return cls(settings.deadline, settings.connections)

    def unread_bytes(self) -> int:
        """Return how much of their answers all these clients have not taken."""
        return sum(one.transport.get_write_buffer_size() for one in self.unread)


class Connection(HttpToolsProtocol):
    """uvicorn's connection with timeouts and size limits.

    It is cut off where the head of a request, or room for an answer, takes too long. The app times
    a request from the end of its head, and refuses a body that is too large. Between two requests
    uvicorn's own keep-alive clock runs.
    """

    def __init__(self, limits: Limits, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.limits = limits
        self.clock: asyncio.TimerHandle | None = None
        self.cycles: list[Any] = []  # requests that are not answered yet, the oldest first
        self.head_bytes = 0  # received since the last complete head or piece of a body
        self.unread = 0  # bytes that the client had not taken at the last look
        self.refused = False
        self.lost = False
        self.upgrade = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock; close a connection that is one too many."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            event("crowded", connections=len(self.connections) - 1)
            transport.abort()
        else:
            self._cut_off_after(self.limits.deadline)

    def data_received(self, data: bytes) -> None:
        """Parse what comes; data outside of a request starts the next one."""
        if self.refused:
            return
        self.head_bytes += len(data)
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError:
            if self.head_bytes <= HEAD:
                self._refuse(400, "bad_request", "This is not a request in HTTP/1.1.")
                return
        if self.clock is None and self._idle():
            self._cut_off_after(self.limits.deadline)
        if self.head_bytes > HEAD and not self.transport.is_closing():
            message = f"Request line and headers exceed {HEAD:,} bytes; put text into the body."
            self._refuse(431, "head_too_large", message)

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Read a request that offers another protocol as if it did not, as a server may.

        The parser would skip its body.
        """
        version = self.parser.get_http_version().encode()
        head = [b"%s %s HTTP/%s\r\n" % (self.parser.get_method(), self.url, version)]
        head += [b"%s: %s\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        self.upgrade = False
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"".join([*head, b"\r\n", rest]))

    def on_headers_complete(self) -> None:
        """Hand a request to the app, whose own clock runs from here."""
        is_connect = self.parser.get_method() == b"CONNECT"
        self.upgrade = self.parser.should_upgrade() and not is_connect
        if self.upgrade:
            return
        # A head that came in one piece is measured here.
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        self.head_bytes = size if size > HEAD else 0
        if self.head_bytes or len(self.pipeline) >= PIPELINED:
            raise ValueError("too large, or one too many")
        self._stop_clock()
        super().on_headers_complete()
        self.cycles = [cycle for cycle in self.cycles if not cycle.response_complete]
        self.cycles.append(self.cycle)

    def on_body(self, body: bytes) -> None:
        """Pass it on: the app limits bodies."""
        self.head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request, unless it is about to be read again."""
        if not self.upgrade:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Give a client the idle time to take its answer where the connection closes after it."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._cut_off_after(self.timeout_keep_alive)

    def shutdown(self) -> None:
        """Stop gracefully: a client that has connected but not asked yet is still answered."""
        if self._idle() and self.clock is not None:
            self._stop_clock()
            self.clock = self.loop.call_later(FAREWELL, self._look_once_more)
        else:
            super().shutdown()

    def _look_once_more(self) -> None:
        """Close after the loop has read what came meanwhile: it runs clocks that are late first."""
        self.clock = self.loop.call_later(LAST_LOOK, self.transport.close)

    def pause_writing(self) -> None:
        """Watch a client that does not take its answer; with too many of them, drop the oldest."""
        super().pause_writing()
        self.limits.unread[self] = self.loop.call_later(self.limits.deadline, self._check_unread)
        self.unread = self.transport.get_write_buffer_size()
        while self.limits.unread_bytes() > UNREAD:
            oldest = next(iter(self.limits.unread))
            oldest._abandon()

    def resume_writing(self) -> None:
        """Stop the clock: the client is reading again."""
        super().resume_writing()
        clock = self.limits.unread.pop(self, None)
        if clock is not None:
            clock.cancel()

    def _check_unread(self) -> None:
        """Cut off a client that has taken too little since the last look."""
        unread = self.transport.get_write_buffer_size()
        if unread > self.unread - TAKEN:
            self._abandon()
            return
        self.unread = unread
        self.limits.unread[self] = self.loop.call_later(self.limits.deadline, self._check_unread)

    def _abandon(self) -> None:
        event("unread", bytes=self.transport.get_write_buffer_size())
        self.limits.unread.pop(self).cancel()
        self.transport.abort()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer what was asked: a client that sends no more may still listen."""
        if self._idle() or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        self.loop.call_later(PROBE, self._probe)
        return True

    def _probe(self) -> None:
        """Find out whether a client still listens: only writing tells.

        A client must expect 100 Continue at any time before its answer.
        """
        if self.lost or self._idle():
            return
        is_new = not self.pipeline and not self.cycle.response_started
        if is_new and self.scope["http_version"] == "1.1":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.loop.call_later(PROBE, self._probe)

    def timeout_keep_alive_handler(self) -> None:
        """Cut off an idle connection: closing would wait for a client that takes no answer."""
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all clocks, and tell the app that the client has left."""
        self._stop_clock()
        self._unset_keepalive_if_required()
        self.resume_writing()
        super().connection_lost(exc)
        self._leave()

    def _leave(self) -> None:
        """Let every request of this connection receive http.disconnect.

        uvicorn tells the last one alone, which may be waiting behind the one that is being read.
        """
        self.lost = True
        for cycle in self.cycles:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Take no more, and say why where no other answer is on its way."""
        self.refused = True
        request_id = secrets.token_hex(8)
        event(code, id=request_id)
        # Where the fault is in a request that waits for another one, that other one is at hand.
        if self.pipeline and self.cycle.more_body:
            self.pipeline.popleft()
            self.cycles.pop()
            self.cycle = self.cycles[-1]
        # What was asked before is answered.
        if not self._idle() and not self.cycle.more_body:
            self.cycle.keep_alive = False
            return
        if not self._idle() and self.cycle.response_started:
            self.transport.abort()
            return
        more = {"connection": "close", "x-request-id": request_id}
        response = refuse(status, code, message, more)
        headers = [b"%s: %s\r\n" % header for header in (*response.raw_headers, *RAW_HEADERS)]
        body = bytes(response.body)
        self.transport.write(b"".join([STATUS_LINE[status], *headers, b"\r\n", body]))
        # Closed now, the socket would answer what is still coming with a reset, which may overtake
        # the response.
        self.transport.write_eof()
        self._cut_off_after(self.limits.deadline)
        self._leave()

    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _cut_off_after(self, seconds: float) -> None:
        self._stop_clock()
        self.clock = self.loop.call_later(seconds, self.transport.abort)

    def _stop_clock(self) -> None:
        if self.clock is not None:
            self.clock.cancel()
            self.clock = None


async def protection(limits: Limits) -> Callable[..., asyncio.Protocol] | None:
    """Return the protocol to run uvicorn with; None, with a log line, where it does not fit."""
    reason = MISSING or await misfit()
    if reason is None:
        return partial(Connection, limits)
    event("unprotected", reason=reason, remedy="put a proxy in front, or install httptools")
    return None


async def misfit() -> str | None:
    """Say why ``Connection`` does not work with this uvicorn, by sending a request through one."""
    calls = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal calls
        calls += 1
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    try:
        config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False, ws="none")
        state = ServerState()
        limits = Limits(deadline=60.0, connections=1)
        connection = Connection(limits, config=config, server_state=state, app_state={})
        transport = MemoryTransport()
        connection.connection_made(transport)
        for piece in (b"GET / HTTP/1.1\r\n", b"host: localhost\r\n\r\n"):
            connection.data_received(piece)
        await asyncio.gather(*state.tasks)
        connection.pause_writing()
        connection.resume_writing()
        connection.eof_received()
        connection.shutdown()
        connection.connection_lost(None)
    except Exception as error:
        return f"uvicorn {uvicorn.__version__}: {type(error).__name__}"
    answered = transport.written.startswith(STATUS_LINE[204])
    if calls != 1 or not answered or state.connections or limits.unread:
        return f"uvicorn {uvicorn.__version__} answers differently"
    return None


class MemoryTransport(asyncio.Transport):
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()

    def write(self, data: Any) -> None:
        """Keep it."""
        self.written += data

    def write_eof(self) -> None:
        """Do nothing."""

    def is_closing(self) -> bool:
        """Return False: it never closes."""
        return False

    def close(self) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Do nothing."""

    def pause_reading(self) -> None:
        """Do nothing."""

    def resume_reading(self) -> None:
        """Do nothing."""

    def get_write_buffer_size(self) -> int:
        """Return 0: everything is taken at once."""
        return 0
