"""A server of the Model Context Protocol over standard input and output: a program asks a passage, or an index.

One JSON-RPC message per line. Both ways to begin are understood: the handshake (``initialize``) of the versions up to
2025-11-25, and the stateless requests of 2026-07-28, each with its version in ``_meta``. Questions are answered one
after another by a second thread, so that the first can always read on: a ping is answered, and a call is cancelled,
while a long passage is being read.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any

from rmreader.core.errors import UserError, quoted
from rmreader.core.version import __version__
from rmreader.reading.answers import Answers
from rmreader.reading.reader import Reader

if TYPE_CHECKING:
    from rmreader.documents.citations import Citations
    from rmreader.documents.shelf import Shelf

_HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_MODERN = ("2026-07-28",)
_META = "io.modelcontextprotocol/protocolVersion"
_LONGEST = 1 << 24  # bytes of a message
_MOST_WAITING = 100  # calls
_MOST_TOP = 50
_PARSE, _REQUEST, _METHOD, _PARAMS, _INTERNAL, _BUSY, _VERSION = -32700, -32600, -32601, -32602, -32603, -32000, -32022


class _Wrong(Exception):
    """A request that cannot be served: a code of JSON-RPC, a sentence, and what else there is to say."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


class Server:
    """Reads messages from ``source`` and writes the answers to ``sink`` until the source ends."""

    def __init__(self, reader: Reader, shelf: Shelf | None, source: IO[bytes], sink: IO[bytes]) -> None:
        self.reader, self.shelf, self.source, self.sink = reader, shelf, source, sink
        self.calls: queue.Queue[tuple[Any, dict[str, Any], bool] | None] = queue.Queue(_MOST_WAITING)
        self.waiting: dict[Any, bool] = {}  # calls that are not answered yet, and whether each was cancelled
        self.lock = threading.Lock()

    def run(self) -> None:
        """Serve; what was asked before the source ended is still answered."""
        worker = threading.Thread(target=self._work, daemon=True)
        worker.start()
        while line := self.source.readline(_LONGEST + 1):
            if len(line) > _LONGEST:
                while not line.endswith(b"\n") and (line := self.source.readline(_LONGEST)):
                    pass
                self._send(None, error=_Wrong(_REQUEST, f"a message has at most {_LONGEST:,} bytes.").error)
            elif line.strip():
                self._take(line)
        self.calls.put(None)
        worker.join()

    def _take(self, line: bytes) -> None:
        """One message: what is quick is answered here."""
        id, named = None, False
        try:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise _Wrong(_PARSE, f"this is not JSON ({error}).") from None
            if not isinstance(message, dict):
                raise _Wrong(_REQUEST, "a message is one JSON object; batches are not read.")
            method, params, named = message.get("method"), message.get("params", {}), "id" in message
            if method is None and ("result" in message or "error" in message):
                return  # an answer, to nothing that was asked here
            if named and (isinstance(message["id"], bool) or not isinstance(message["id"], str | int)):
                raise _Wrong(_REQUEST, "'id' is a text or a whole number.")
            id = message.get("id")
            if message.get("jsonrpc") != "2.0" or not isinstance(method, str) or not isinstance(params, dict):
                raise _Wrong(_REQUEST, "a message has 'jsonrpc': '2.0', a 'method' and perhaps 'params', an object.")
            if not named:
                self._notice(method, params)
                return
            modern = _is_modern(params)
            if method == "tools/call":
                self._queue(id, params, modern)
            else:
                self._send(id, self._quick(method, params) | (_COMPLETE if modern else {}))
        except _Wrong as wrong:
            if named or wrong.error["code"] in (_PARSE, _REQUEST):  # a notification is never answered
                self._send(id, error=wrong.error)

    def _notice(self, method: str, params: Mapping[str, Any]) -> None:
        id = params.get("requestId")
        with self.lock:
            if method == "notifications/cancelled" and isinstance(id, str | int) and id in self.waiting:
                self.waiting[id] = True

    def _quick(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        about = {"capabilities": {"tools": {}}, "instructions": _INSTRUCTIONS}
        server = {"name": "rmreader", "version": __version__}
        if method == "initialize":
            asked = params.get("protocolVersion")
            return about | {"protocolVersion": asked if asked in _HANDSHAKE else _HANDSHAKE[-1], "serverInfo": server}
        if method == "server/discover":
            return about | _CACHE | {"supportedVersions": [*_HANDSHAKE, *_MODERN], "serverInfo": server}
        if method == "tools/list":
            return {"tools": self._tools()} | _CACHE
        if method == "ping":
            return {}
        raise _Wrong(_METHOD, f"no method {quoted(method)}.")

    def _tools(self) -> list[dict[str, Any]]:
        return [_PASSAGE, _INDEX] if self.shelf is not None else [_PASSAGE]

    def _queue(self, id: Any, params: dict[str, Any], modern: bool) -> None:
        tools = [tool["name"] for tool in self._tools()]
        if params.get("name") not in tools:
            raise _Wrong(_PARAMS, f"no tool {quoted(params.get('name'))}; there are {', '.join(tools)}.")
        with self.lock:
            if id in self.waiting:
                raise _Wrong(_REQUEST, f"the id {quoted(id)} is that of a call that is not answered yet.")
            if len(self.waiting) >= _MOST_WAITING:
                raise _Wrong(_BUSY, f"{_MOST_WAITING} calls are waiting; call again later.")
            self.waiting[id] = False
        self.calls.put((id, params, modern))

    def _work(self) -> None:
        """Answer calls, one after another; one that was cancelled is left, without an answer."""
        while (call := self.calls.get()) is not None:
            id, params, modern = call
            result: dict[str, Any] = {}
            error = None
            try:
                result = self._call(id, params)
            except UserError as wrong:  # for the model that called: it can ask again
                result = _text(str(wrong), isError=True)
            except Exception as wrong:  # a mistake of ours must not end the server
                error = {"code": _INTERNAL, "message": f"{type(wrong).__name__}: {wrong}"}
            with self.lock:
                cancelled = self.waiting.pop(id)
            if not cancelled:
                self._send(id, result | (_COMPLETE if modern else {}), error)

    def _call(self, id: Any, params: dict[str, Any]) -> dict[str, Any]:
        """A tool's result; unfinished where the call was cancelled meanwhile."""
        given = params.get("arguments", {})
        question, top = _argument(given, "question", str), _argument(given, "top", int, 1)
        always = _argument(given, "always", bool, False)
        if not 1 <= top <= _MOST_TOP:
            raise UserError(f"'top' is from 1 to {_MOST_TOP}, not {top}.")
        if self.waiting[id]:
            return {}
        if self.shelf is not None and params["name"] == "ask_index":
            return _result(self.shelf.ask(question, top=top, always=always))
        found = Answers()
        for part in self.reader.ask_in_parts(question, _argument(given, "passage", str), top=top, always=always):
            if self.waiting[id]:
                return {}
            found = found if part is None else part
        return _result(found)

    def _send(self, id: Any, result: Any = None, error: Any = None) -> None:
        tree = {"jsonrpc": "2.0", "id": id} | ({"error": error} if error is not None else {"result": result})
        with self.lock, contextlib.suppress(OSError):  # whoever asked has left
            self.sink.write(json.dumps(tree).encode() + b"\n")
            self.sink.flush()


def _is_modern(params: Mapping[str, Any]) -> bool:
    """Whether a request is of the stateless kind; refused where its version is not known."""
    meta = params.get("_meta")
    version = meta.get(_META) if isinstance(meta, dict) else None
    if version is not None and version not in _MODERN:
        known = {"supported": [*_HANDSHAKE, *_MODERN], "requested": version}
        raise _Wrong(_VERSION, f"the version {quoted(version)} is not known.", known)
    return version is not None


def _argument(given: Any, name: str, kind: type[Any], default: Any = None) -> Any:
    value = given.get(name, default) if isinstance(given, dict) else None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        what = "missing" if value is None else f"not {quoted(value)}"
        raise UserError(f"the argument {name!r}, {_KINDS[kind]}, is {what}.")
    if kind is str and not value.strip():
        raise UserError(f"the argument {name!r} is empty; give a text.")
    return value


def _result(found: Answers | Citations) -> dict[str, Any]:
    """Answers or citations as plain data, and as lines for a model that reads text alone."""
    lines = []
    for answer in found:
        place = getattr(answer, "place", "")
        where = f" in {place}" if place else ""
        lines.append(f"{answer.text} ({answer.confidence:.0%} sure{where}): {answer.sentence}")
    tree = {"no_answer": None, **found.to_dict()}
    return _text("\n".join(lines) or found.refusal(), structuredContent=tree)


def _text(text: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": False, **more}


_KINDS = {str: "a text", int: "a whole number", bool: "true or false"}
_COMPLETE = {"resultType": "complete"}
_CACHE = {"ttlMs": 3_600_000, "cacheScope": "public"}
_INSTRUCTIONS = (
    "Finds the exact words of a text that answer a question, with their place and how sure that is. It points, it does "
    "not write: ask for one fact per question, in English."
)
_TOP = {"type": "integer", "minimum": 1, "maximum": _MOST_TOP, "default": 1, "description": "How many answers."}
_ALWAYS = {"type": "boolean", "default": False, "description": "Give the best guess even where nothing says it."}
_QUESTION = {"type": "string", "description": "One question in English, for one fact."}


def _tool(name: str, description: str, **properties: Any) -> dict[str, Any]:
    needed = [key for key, value in properties.items() if "default" not in value]
    schema = {"type": "object", "properties": properties, "required": needed}
    return {"name": name, "description": description, "inputSchema": schema, "annotations": {"readOnlyHint": True}}


_PASSAGE = _tool(
    "ask_passage",
    "Answer a question from a passage: the words of it that are the answer, or that it does not say.",
    question=_QUESTION,
    passage={"type": "string", "description": "The text to look in, of any length."},
    top=_TOP,
    always={
        "type": "boolean",
        "default": False,
        "description": "Give the best guess even where the text does not say.",
    },
)
_INDEX = _tool(
    "ask_index",
    "Answer a question from the indexed documents: the words that are the answer, each with its document and place.",
    question=_QUESTION,
    top=_TOP,
    always=_ALWAYS,
)
