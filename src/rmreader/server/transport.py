"""A connection under a clock: uvicorn alone waits for ever for the head of a request, and for an answer to be taken,
keeps a head of any size and any number of requests, and loses the body of a request that offers HTTP/2."""

import asyncio
import secrets
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from rmreader.server.logs import event
from rmreader.server.middleware import HEADERS, Gate
from rmreader.server.schemas import refuse

HEAD = 65_536  # bytes of request line and headers: clients and proxies themselves keep to 8 or 16 KiB
PIPELINED = 8  # requests of one connection that may wait for the answer to the one before
TAKEN = 65_536  # bytes of an answer that a client must take within the deadline, over and over
UNREAD = 64 * 2**20  # bytes of answers that all clients together may leave unread
PROBE = 1.0  # seconds between two looks at whether a client that sends no more still listens


class Connection(HttpToolsProtocol):
    """uvicorn's connection, cut off where the head of a request, or room for an answer, is too long in coming.

    The gate times a request from the end of its head, and refuses one that is too large; between two requests uvicorn's
    own keep-alive clock runs.
    """

    task: asyncio.Task[Any] | None = None  # that answers the request at hand
    clock: asyncio.TimerHandle | None = None
    loose = 0  # bytes received since the last head or piece of a body: of a head, or of headers after a body
    refused = lost = upgrade = False
    unread = 0  # bytes that the client had not yet taken when they were last looked at

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock; one connection too many is closed."""
        super().connection_made(transport)
        self.gate: Gate = self.config.app  # type: ignore[assignment]
        self.deadline = self.gate.settings.deadline
        if len(self.connections) > self.gate.settings.connections:
            event("crowded", connections=len(self.connections) - 1)
            transport.abort()
        else:
            self._cut_off_after(self.deadline)

    def data_received(self, data: bytes) -> None:
        """Where this neither ends a head nor belongs to a request at hand, the next one has begun."""
        if self.refused:
            return
        self.loose += len(data)
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError:
            if self.loose <= HEAD:
                self._refuse(400, "bad_request", "This is not a request in HTTP/1.1.")
                return
        if self.clock is None and self._idle():
            self._cut_off_after(self.deadline)
        if self.loose > HEAD and not self.transport.is_closing():
            message = f"The request's line and headers are larger than {HEAD:,} bytes; put text into the body."
            self._refuse(431, "head_too_large", message)

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Read a request that offers another protocol as if it did not, as a server may: the parser skips its body."""
        version, self.upgrade = self.parser.get_http_version().encode(), False
        head = [b"%s %s HTTP/%s\r\n" % (self.parser.get_method(), self.url, version)]
        head += [b"%s: %s\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"".join([*head, b"\r\n", rest]))

    def on_headers_complete(self) -> None:
        """From here on the gate has its own clock."""
        self.upgrade = self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"
        if self.upgrade:
            return
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        self.loose = size if size > HEAD else 0  # which may have come all at once
        if self.loose or len(self.pipeline) >= PIPELINED:
            raise ValueError("too large, or one too many")
        self._stop_clock()
        self.before = self.cycle
        super().on_headers_complete()
        self.scope.update(connection=self, cycle=self.cycle)  # type: ignore[call-arg]

    def on_body(self, body: bytes) -> None:
        """Bodies are limited by the gate."""
        self.loose = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Of a request, unless it is about to be read again."""
        if not self.upgrade:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """A connection that closes does so once its client has taken the answer, for which it has the idle time."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._cut_off_after(self.timeout_keep_alive)

    def pause_writing(self) -> None:
        """The client does not take its answer. Where all those answers become too many, the oldest go."""
        super().pause_writing()
        self.gate.unread[self] = self.loop.call_later(self.deadline, self._look)
        self.unread = self.transport.get_write_buffer_size()
        while sum(one.transport.get_write_buffer_size() for one in self.gate.unread) > UNREAD:
            next(iter(self.gate.unread))._abandon()

    def resume_writing(self) -> None:
        """It does."""
        super().resume_writing()
        if (clock := self.gate.unread.pop(self, None)) is not None:
            clock.cancel()

    def _look(self) -> None:
        unread = self.transport.get_write_buffer_size()
        if unread > self.unread - TAKEN:
            self._abandon()
        else:
            self.unread, self.gate.unread[self] = unread, self.loop.call_later(self.deadline, self._look)

    def _abandon(self) -> None:
        event("unread", bytes=self.transport.get_write_buffer_size())
        self.gate.unread.pop(self).cancel()
        self.transport.abort()

    def eof_received(self) -> bool:  # type: ignore[override]
        """A client that sends no more may still listen: what it has asked is answered."""
        if self._idle() or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        self.loop.call_later(PROBE, self._probe)
        return True

    def _probe(self) -> None:
        """Only writing tells whether it listens. A client must expect 100 at any time before its answer."""
        if self.lost or self._idle():
            return
        if not self.pipeline and not self.cycle.response_started and self.scope["http_version"] == "1.1":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.loop.call_later(PROBE, self._probe)

    def timeout_keep_alive_handler(self) -> None:
        """Idle: cut off, as closing would wait for a client that does not take its answer."""
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all clocks, and the work that nobody waits for."""
        self._stop_clock()
        self._unset_keepalive_if_required()
        self.resume_writing()
        super().connection_lost(exc)
        self._leave()

    def _leave(self) -> None:
        self.lost = True
        if self.task is not None:
            self.task.cancel()

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Take no more, and say why where no other answer is on its way."""
        self.refused, name = True, secrets.token_hex(8)
        event(code, id=name)
        if self.pipeline and self.cycle.more_body:  # the fault is in one that waits
            self.pipeline.popleft()
            self.cycle = self.before
        if not self._idle() and not self.cycle.more_body:  # what came before is answered
            self.cycle.keep_alive = False
            return
        if not self._idle() and self.cycle.response_started:
            self.transport.abort()
            return
        response = refuse(status, code, message, {"connection": "close", "x-request-id": name})
        headers = [b"%s: %s\r\n" % header for header in (*response.raw_headers(), *HEADERS)]
        self.transport.write(b"".join([STATUS_LINE[status], *headers, b"\r\n", response.body]))
        self.transport.write_eof()  # closed, it would answer what is still coming with a reset, which may overtake this
        self._cut_off_after(self.deadline)
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
