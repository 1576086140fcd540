"""A connection under a clock: uvicorn alone waits for ever for the head of a request, and for an answer to be taken,
and keeps a head of any size."""

from __future__ import annotations

import asyncio
import secrets

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from rmreader.serving.gate import HEAD, head_too_large
from rmreader.serving.logs import event
from rmreader.serving.settings import Settings


class Connection(HttpToolsProtocol):
    """uvicorn's connection, cut off where the head of a request, or room for an answer, is too long in coming.

    The gate times a request from the end of its head, and refuses one that is too large; between two requests uvicorn's
    own keep-alive clock runs.
    """

    clock: asyncio.TimerHandle | None = None
    loose = 0  # bytes received since the last head or piece of a body: of a head, or of headers behind a body
    refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock; one connection too many is closed."""
        super().connection_made(transport)
        settings: Settings = self.config.app.state.batcher.settings  # type: ignore[union-attr]
        self.deadline = settings.deadline
        if len(self.connections) > settings.connections:
            event("crowded", connections=len(self.connections) - 1)
            transport.abort()
        else:
            self._cut_off_after(self.deadline)

    def data_received(self, data: bytes) -> None:
        """Where this neither ends a head nor belongs to a request at hand, the next one has begun."""
        if self.refused:
            return
        self.loose += len(data)
        super().data_received(data)
        if self.clock is None and self._idle():
            self._cut_off_after(self.deadline)
        if self.loose > HEAD and not self.transport.is_closing():
            self._refuse()

    def on_headers_complete(self) -> None:
        """From here on the gate has its own clock."""
        self._stop_clock()
        self.loose = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Bodies are limited by the gate."""
        self.loose = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        """A connection that closes does so once its client has taken the answer, for which it has the idle time."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._cut_off_after(self.timeout_keep_alive)

    def timeout_keep_alive_handler(self) -> None:
        """Idle: cut off, as closing would wait for a client that does not take its answer."""
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all clocks."""
        self._stop_clock()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def _refuse(self) -> None:
        """Take no more of a head without end, and say why where no other answer is on its way."""
        self.refused, name = True, secrets.token_hex(8)
        event("head_too_large", id=name)
        if not self._idle():
            self.transport.abort()
            return
        response = head_too_large({"connection": "close", "x-request-id": name})
        headers = [b"%s: %s\r\n" % header for header in response.raw_headers]
        self.transport.write(b"".join([STATUS_LINE[431], *headers, b"\r\n", response.body]))
        self.transport.write_eof()  # closed, it would answer what is still coming with a reset, which may overtake this

    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _cut_off_after(self, seconds: float) -> None:
        self._stop_clock()
        self.clock = self.loop.call_later(seconds, self.transport.abort)

    def _stop_clock(self) -> None:
        if self.clock is not None:
            self.clock.cancel()
            self.clock = None
