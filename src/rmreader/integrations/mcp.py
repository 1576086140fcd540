"""The Model Context Protocol over standard input and output: a program asks a passage, or an index.

One JSON-RPC message per line; ``rmreader.server.mcp`` is the protocol itself. Calls are answered
one after another by a second thread, so that the first can always read on: a ping is answered, and
a call is cancelled, while a long passage is being read.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from typing import IO, TYPE_CHECKING, Any

from rmreader.core.errors import UserError, quoted
from rmreader.reading.answers import Answers
from rmreader.reading.reader import Reader
from rmreader.server import mcp

if TYPE_CHECKING:
    from rmreader.documents.shelf import Shelf

LONGEST_LINE = 1 << 24  # bytes of a message
MAX_WAITING = 100  # calls


class Server:
    """Reads messages from ``source`` and writes the answers to ``sink`` until the source ends."""

    def __init__(
        self, reader: Reader, shelf: Shelf | None, source: IO[bytes], sink: IO[bytes]
    ) -> None:
        self.reader = reader
        self.shelf = shelf
        self.source = source
        self.sink = sink
        self.calls: queue.Queue[mcp.Message | None] = queue.Queue(MAX_WAITING)
        self.cancelled: dict[Any, bool] = {}
        """By the id of each call that is not answered yet: whether it was cancelled."""
        self.lock = threading.Lock()

    def run(self) -> None:
        """Serve; what was asked before the source ended is still answered."""
        worker = threading.Thread(target=self._work, daemon=True)
        worker.start()
        while line := self.source.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE:
                self._skip_rest_of(line)
                sentence = f"a message has at most {LONGEST_LINE:,} bytes."
                self._send_error(mcp.ProtocolError(mcp.INVALID_REQUEST, sentence))
            elif line.strip():
                self._take(line)
        self.calls.put(None)
        worker.join()

    def _skip_rest_of(self, line: bytes) -> None:
        while line and not line.endswith(b"\n"):
            line = self.source.readline(LONGEST_LINE)

    def _take(self, line: bytes) -> None:
        """Take one message: answer what is quick, and queue a call."""
        try:
            message = mcp.read_message(line)
            if message is None:
                return
            if not message.is_request:
                self._notice(message)
            elif message.method == "tools/call":
                self._queue(message)
            else:
                has_index = self.shelf is not None
                self._send(message.reply(mcp.answer_at_once(message, has_index)))
        except mcp.ProtocolError as error:
            self._send_error(error)

    def _notice(self, message: mcp.Message) -> None:
        """Mark a call that its client no longer waits for."""
        id = message.params.get("requestId")
        with self.lock:
            is_cancel = message.method == "notifications/cancelled"
            if is_cancel and isinstance(id, str | int) and id in self.cancelled:
                self.cancelled[id] = True

    def _queue(self, message: mcp.Message) -> None:
        mcp.check_tool(message, self.shelf is not None)
        with self.lock:
            if message.id in self.cancelled:
                sentence = f"the id {quoted(message.id)} is that of a call not answered yet."
                raise mcp.ProtocolError(mcp.INVALID_REQUEST, sentence, message.id)
            if len(self.cancelled) >= MAX_WAITING:
                sentence = f"{MAX_WAITING} calls are waiting; call again later."
                raise mcp.ProtocolError(mcp.BUSY, sentence, message.id)
            self.cancelled[message.id] = False
        self.calls.put(message)

    def _work(self) -> None:
        """Answer calls one after another; one that was cancelled is left without an answer."""
        while (message := self.calls.get()) is not None:
            try:
                reply = message.reply(self._call(message))
            except UserError as error:
                # For the model that called: it can ask again.
                reply = message.reply(mcp.text_result(str(error), is_error=True))
            except Exception as error:
                # A mistake of ours must not end the server.
                sentence = f"{type(error).__name__}: {error}"
                failure = mcp.ProtocolError(mcp.INTERNAL_ERROR, sentence, message.id)
                reply = mcp.error_reply(failure)
            with self.lock:
                is_cancelled = self.cancelled.pop(message.id)
            if not is_cancelled:
                self._send(reply)

    def _call(self, message: mcp.Message) -> dict[str, Any]:
        """Return a tool's result; nothing where the call was cancelled meanwhile."""
        call = mcp.read_call(message.params)
        if self.cancelled[message.id]:
            return {}
        if call.tool != "ask_passage" and self.shelf is not None:
            return _ask_shelf(self.shelf, call)
        answers = Answers()
        parts = self.reader.ask_in_parts(
            call.question, call.passage, top=call.top, always=call.always
        )
        for part in parts:
            if self.cancelled[message.id]:
                return {}
            if part is not None:
                answers = part
        return mcp.answer_result(answers)

    def _send_error(self, error: mcp.ProtocolError) -> None:
        self._send(mcp.error_reply(error))

    def _send(self, tree: dict[str, Any]) -> None:
        # An error: whoever asked has left.
        with self.lock, contextlib.suppress(OSError):
            self.sink.write(json.dumps(tree).encode() + b"\n")
            self.sink.flush()


def _ask_shelf(shelf: Shelf, call: mcp.ToolCall) -> dict[str, Any]:
    """Return the result of a tool for documents."""
    if call.tool == "search":
        return mcp.search_result(shelf.search(call.question, call.top))
    if call.tool == "documents":
        return mcp.documents_result(shelf.index.list_documents(call.top), shelf.index.size())
    return mcp.answer_result(shelf.ask(call.question, top=call.top, always=call.always))
