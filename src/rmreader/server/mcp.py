"""The Model Context Protocol without a transport: messages in, results out.

``rmreader mcp`` speaks it over a pipe, the server at ``/mcp``. Both ways to begin are understood:
the handshake (``initialize``) of versions up to 2025-11-25, and the stateless requests of
2026-07-28, each with its version and the client's capabilities in ``_meta``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmreader.core.errors import UserError, quoted
from rmreader.core.version import __version__

if TYPE_CHECKING:
    from rmreader.documents.citations import Citations
    from rmreader.documents.index import ListedDocument, Passage
    from rmreader.reading.answers import Answers
from rmreader.reading.doubt import doubt_of

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS = ("2026-07-28",)
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
BUSY = -32000
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022

MAX_TOP = 50
MAX_LISTED = 1000
INSTRUCTIONS = (
    "Finds the exact words of a text that answer a question, with their place and how sure that "
    "is. It points, it does not write: ask for one fact per question, in English."
)
# How long a client may keep what it was told.
CACHE = {"ttlMs": 3_600_000, "cacheScope": "public"}

# Messages


class ProtocolError(Exception):
    """A message that cannot be served: a JSON-RPC code, a sentence, and the message's id."""

    def __init__(self, code: int, message: str, id: Any = None, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.id = id
        self.data = data

    def to_dict(self) -> dict[str, Any]:
        """Return the error as JSON-RPC has it."""
        tree: dict[str, Any] = {"code": self.code, "message": str(self)}
        if self.data is not None:
            tree["data"] = self.data
        return tree


@dataclass(frozen=True)
class Message:
    """A request, or a notification, which is never answered."""

    method: str
    params: dict[str, Any]
    id: str | int | None
    is_request: bool
    is_modern: bool
    """Stateless, of 2026-07-28 or later."""

    def reply(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return a result as the answer to this request."""
        if self.is_modern:
            result = {**result, "resultType": "complete"}
        return {"jsonrpc": "2.0", "id": self.id, "result": result}


def error_reply(error: ProtocolError) -> dict[str, Any]:
    """Return an error as the answer to the message that it is about."""
    return {"jsonrpc": "2.0", "id": error.id, "error": error.to_dict()}


def read_message(data: bytes) -> Message | None:
    """Read one message; None for an answer to something that was never asked."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(PARSE_ERROR, f"this is not JSON ({error}).") from None
    if not isinstance(tree, dict):
        message = "a message is one JSON object; batches are not read."
        raise ProtocolError(INVALID_REQUEST, message)
    method = tree.get("method")
    if method is None and ("result" in tree or "error" in tree):
        return None
    is_request = "id" in tree
    id = tree.get("id")
    if is_request and (isinstance(id, bool) or not isinstance(id, str | int)):
        raise ProtocolError(INVALID_REQUEST, "'id' is a text or a whole number.")
    params = tree.get("params", {})
    is_version_2 = tree.get("jsonrpc") == "2.0"
    if not is_version_2 or not isinstance(method, str) or not isinstance(params, dict):
        message = "a message has 'jsonrpc': '2.0', a 'method' and perhaps 'params', an object."
        raise ProtocolError(INVALID_REQUEST, message, id)
    is_modern = is_request and _is_modern(params, id)
    return Message(method, params, id, is_request, is_modern)


def _is_modern(params: Mapping[str, Any], id: Any) -> bool:
    """Whether a request is stateless; an error where its version is unknown, or it lacks a part."""
    meta = params.get("_meta")
    if not isinstance(meta, dict) or meta.get(VERSION_KEY) is None:
        return False
    version = meta[VERSION_KEY]
    if version not in MODERN_VERSIONS:
        data = {"supported": [*HANDSHAKE_VERSIONS, *MODERN_VERSIONS], "requested": version}
        message = f"the version {quoted(version)} is not known."
        raise ProtocolError(UNSUPPORTED_VERSION, message, id, data)
    if not isinstance(meta.get(CAPABILITIES_KEY), dict):
        message = f"'_meta' lacks {CAPABILITIES_KEY!r}, an object."
        raise ProtocolError(INVALID_PARAMS, message, id)
    return True


# Requests that need no reader


def answer_at_once(message: Message, has_index: bool) -> dict[str, Any]:
    """Return the result of every request but ``tools/call``."""
    server = {"name": "rmreader", "version": __version__}
    about = {"capabilities": {"tools": {}}, "instructions": INSTRUCTIONS, "serverInfo": server}
    match message.method:
        case "server/discover":
            return {**about, **CACHE, "supportedVersions": [*HANDSHAKE_VERSIONS, *MODERN_VERSIONS]}
        case "tools/list":
            return {**CACHE, "tools": tools(has_index)}
        case "initialize" if not message.is_modern:
            return {**about, "protocolVersion": agreed_version(message.params)}
        case "ping" if not message.is_modern:
            return {}
        case _:
            sentence = f"no method {quoted(message.method)}."
            raise ProtocolError(METHOD_NOT_FOUND, sentence, message.id)


def agreed_version(params: Mapping[str, Any]) -> str:
    """Return the version to go on with: the client's, or the newest with a handshake."""
    version = params.get("protocolVersion")
    return version if version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]


# Tools


@dataclass(frozen=True)
class ToolCall:
    """What a tool is asked."""

    tool: str
    question: str = ""
    passage: str = ""
    top: int = 1
    always: bool = False


def tools(has_index: bool) -> list[dict[str, Any]]:
    """List the tools."""
    return [ASK_PASSAGE, ASK_INDEX, SEARCH, DOCUMENTS] if has_index else [ASK_PASSAGE]


def check_tool(message: Message, has_index: bool) -> None:
    """Raise ``ProtocolError`` where a call names no tool."""
    names = [tool["name"] for tool in tools(has_index)]
    name = message.params.get("name")
    if name not in names:
        sentence = f"no tool {quoted(name)}; there are {', '.join(names)}."
        raise ProtocolError(INVALID_PARAMS, sentence, message.id)


def read_call(params: Mapping[str, Any]) -> ToolCall:
    """Read the arguments of a call; a ``UserError`` is for the model: it can ask again."""
    tool = params["name"]
    arguments = params.get("arguments", {})
    known = _TOOLS[tool]["inputSchema"]["properties"]
    values: dict[str, Any] = {}
    for name, schema in known.items():
        values[name] = _argument(arguments, name, _TYPES[schema["type"]], schema.get("default"))
    most = known["top"]["maximum"]
    if not 1 <= values["top"] <= most:
        raise UserError(f"'top' is from 1 to {most}, not {values['top']}.")
    return ToolCall(tool, **values)


def _argument(arguments: Any, name: str, kind: type[Any], default: Any = None) -> Any:
    value: Any = None
    if isinstance(arguments, dict):
        value = arguments.get(name, default)
    is_right = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    if not is_right:
        what = "missing" if value is None else f"not {quoted(value)}"
        raise UserError(f"the argument {name!r}, {_KINDS[kind]}, is {what}.")
    if kind is str and not value.strip():
        raise UserError(f"the argument {name!r} is empty; give a text.")
    return value


def answer_result(
    answers: Answers | Citations, tree: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return answers as plain data, and as lines for a model that reads text alone.

    ``tree`` is what to give as data, where it is not all of them.
    """
    lines = []
    for answer in answers:
        place = getattr(answer, "place", "")
        where = f" in {place}" if place else ""
        doubt = doubt_of(answer.confidence, answers.no_answer)
        sure = f"{doubt}, {answer.confidence:.0%}"
        lines.append(f"{answer.text} ({sure}{where}): {answer.sentence}")
    data = {"no_answer": None, **(answers.to_dict() if tree is None else tree)}
    text = "\n".join(lines or answers.refusal_lines())
    return {**text_result(text), "structuredContent": data}


def search_result(passages: Sequence[Passage]) -> dict[str, Any]:
    """Return passages as plain data, and as text for a model that reads text alone."""
    lines = []
    for passage in passages:
        page = f"page {passage.stretch.page}" if passage.stretch.page else ""
        place = ", ".join(part for part in (passage.file, page, passage.stretch.heading) if part)
        lines.append(f"{place}:\n{passage.text}")
    text = "\n\n".join(lines) or "no passage has a word of the question"
    return {
        **text_result(text),
        "structuredContent": {"passages": [passage.to_dict() for passage in passages]},
    }


def documents_result(documents: Sequence[ListedDocument], total: int) -> dict[str, Any]:
    """Return a list of documents as plain data, and as lines."""
    lines = [document.file for document in documents]
    if len(documents) < total:
        lines.append(f"and {total - len(documents)} more")
    listed = [
        {"file": document.file, "passages": document.passages, "note": document.note}
        for document in documents
    ]
    return {
        **text_result("\n".join(lines)),
        "structuredContent": {"documents": listed, "total": total},
    }


def text_result(text: str, is_error: bool = False) -> dict[str, Any]:
    """Return a text as a tool's result."""
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


_KINDS = {str: "a text", int: "a whole number", bool: "true or false"}
_TYPES: dict[str, type[Any]] = {"string": str, "integer": int, "boolean": bool}
_NUMBER = {"type": "number"}
_WHOLE = {"type": "integer"}
_STRING = {"type": "string"}


def _object(required: Sequence[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


_ANSWER = {
    "text": {**_STRING, "description": "The words of the text that are the answer."},
    "confidence": {**_NUMBER, "description": "How much of it to expect right, 0 to 1."},
    "sentence": {**_STRING, "description": "The sentence around it."},
    "start": {**_WHOLE, "description": "Its first character, in code points."},
    "end": {**_WHOLE, "description": "After its last character."},
}
_PLACE = {
    "file": {**_STRING, "description": "The document, in the folder that was indexed."},
    "page": {"type": ["integer", "null"], "description": "Its page, where it has pages."},
    "heading": _STRING,
}


def _answering_tool(
    name: str, description: str, answer: Mapping[str, Any], **arguments: Any
) -> dict[str, Any]:
    shape = _object(list(answer), **answer)
    no_answer = {
        "type": ["number", "null"],
        "description": "The chance that there is no answer; null where the reader cannot tell.",
    }
    guess = {**shape, "description": "The best guess, where no answer is given."}
    needs = {"type": "string", "description": "What the text would need, where it has no answer."}
    results = _object(
        ["answers", "no_answer"],
        answers={"type": "array", "items": shape},
        no_answer=no_answer,
        guess=guess,
        needs=needs,
    )
    return _tool(name, description, results, **arguments)


def _tool(
    name: str, description: str, results: Mapping[str, Any], **arguments: Any
) -> dict[str, Any]:
    required = [key for key, value in arguments.items() if "default" not in value]
    return {
        "name": name,
        "description": description,
        "inputSchema": _object(required, **arguments),
        "outputSchema": results,
        "annotations": {"readOnlyHint": True},
    }


_QUESTION = {**_STRING, "description": "One question in English, for one fact."}
_PASSAGE = {**_STRING, "description": "The text to look in, of any length."}
_TOP = {
    **_WHOLE,
    "minimum": 1,
    "maximum": MAX_TOP,
    "default": 1,
    "description": "How many answers.",
}
_ALWAYS = {
    "type": "boolean",
    "default": False,
    "description": "Give the best guess even where nothing says it.",
}
ASK_PASSAGE = _answering_tool(
    "ask_passage",
    "Answer a question from a passage: the words of it that are the answer, "
    "or that it does not say.",
    _ANSWER,
    question=_QUESTION,
    passage=_PASSAGE,
    top=_TOP,
    always=_ALWAYS,
)
ASK_INDEX = _answering_tool(
    "ask_index",
    "Answer a question from the indexed documents: the words that are the answer, "
    "each with its document and place.",
    {**_ANSWER, **_PLACE},
    question=_QUESTION,
    top=_TOP,
    always=_ALWAYS,
)
_PASSAGES = {
    "id": _STRING,
    "text": {**_STRING, "description": "The passage, word for word."},
    "score": {**_NUMBER, "description": "How well it fits, more is better."},
    "document": _PLACE["file"],
    "page": _PLACE["page"],
    "heading": _STRING,
    "start": {**_WHOLE, "description": "Its first character in the document."},
    "end": {**_WHOLE, "description": "After its last character."},
    "offsets": {**_STRING, "description": "The text that start and end count in."},
}
SEARCH = _tool(
    "search",
    "Find the passages of the indexed documents that fit a question best, by words and by meaning. "
    "To be read and quoted; ask_index gives the exact answer.",
    _object(
        ["passages"],
        passages={"type": "array", "items": _object(list(_PASSAGES), **_PASSAGES)},
    ),
    question={**_STRING, "description": "A question, or what the passages should be about."},
    top={**_TOP, "default": 5, "description": "How many passages."},
)
_LISTED = {
    "file": _PLACE["file"],
    "passages": {**_WHOLE, "description": "How many it was cut into."},
    "note": {**_STRING, "description": "What to know about how it was read."},
}
DOCUMENTS = _tool(
    "documents",
    "List the indexed documents, by their paths.",
    _object(
        ["documents", "total"],
        documents={"type": "array", "items": _object(list(_LISTED), **_LISTED)},
        total={**_WHOLE, "description": "How many there are, listed or not."},
    ),
    top={**_TOP, "maximum": MAX_LISTED, "default": 100, "description": "How many to list."},
)
_TOOLS = {tool["name"]: tool for tool in tools(has_index=True)}
