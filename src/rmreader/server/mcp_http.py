"""``POST /mcp``: the Model Context Protocol over HTTP, one message per request and no session.

A stateless request repeats its version, method and tool in headers, so that a proxy can route it;
where header and body differ it is refused. Clients of the handshake era are answered too.
"""

from typing import Any

from starlette.requests import Request

from rmreader.core.errors import UserError
from rmreader.server import mcp
from rmreader.server.batcher import Batcher
from rmreader.server.documents import Documents, public
from rmreader.server.endpoints import Calls
from rmreader.server.openapi import CALL_ERRORS, Operation
from rmreader.server.requests import require_json, timed_endpoint
from rmreader.server.responses import Refused, Response, reply
from rmreader.server.schemas import McpMessage, McpReply

# HTTP statuses of errors; others are 200, as the HTTP request itself was fine.
STATUSES = {
    mcp.PARSE_ERROR: 400,
    mcp.INVALID_REQUEST: 400,
    mcp.INVALID_PARAMS: 400,
    mcp.HEADER_MISMATCH: 400,
    mcp.UNSUPPORTED_VERSION: 400,
    mcp.METHOD_NOT_FOUND: 404,
}
VERSION_HEADER = "mcp-protocol-version"
ROUTING_HEADERS = (VERSION_HEADER, "mcp-method", "mcp-name")


class McpEndpoint:
    """Answers messages with the server's own calls: the same limits, queue and turns hold."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.batcher: Batcher = calls.batcher
        self.documents: Documents = calls.documents

    def operation(self) -> Operation:
        """Describe the endpoint."""
        return Operation(
            method="POST",
            path="/mcp",
            summary="The Model Context Protocol, one message at a time",
            endpoint=timed_endpoint(self.answer, self.calls.settings, self.batcher),
            request=McpMessage,
            response=McpReply,
            errors=CALL_ERRORS,
            replies={202: None, 400: McpReply, 404: McpReply},
        )

    async def answer(self, request: Request, body: bytes) -> Response:
        """Answer one message."""
        require_json(request)
        try:
            message = mcp.read_message(body)
            if message is None or not message.is_request:
                # A client cancels by closing its connection; nothing else is worth a note.
                return Response(status_code=202)
            check_headers(request, message)
            return reply(message.reply(await self._result(message)))
        except mcp.ProtocolError as error:
            return reply(mcp.error_reply(error), STATUSES.get(error.code, 200))

    async def _result(self, message: mcp.Message) -> dict[str, Any]:
        has_index = self.documents.has_index
        if message.method != "tools/call":
            return mcp.answer_at_once(message, has_index)
        mcp.check_tool(message, has_index)
        try:
            return await self._call(mcp.read_call(message.params))
        except UserError as error:
            return mcp.text_result(str(error), is_error=True)
        except Refused as refused:
            # Too long, or too much at once: the model that called can ask for less.
            if refused.response.status_code not in (413, 503):
                raise
            return mcp.text_result(str(refused), is_error=True)

    async def _call(self, call: mcp.ToolCall) -> dict[str, Any]:
        self.calls.check_lengths(call.question, call.passage)
        if call.tool == "search":
            return mcp.search_result(await self.documents.search(call.question, call.top))
        if call.tool == "documents":
            listed, total = await self.documents.listed(call.top)
            return mcp.documents_result(listed, total)
        if call.tool == "ask_index":
            citations = await self.documents.citations(
                call.question, top=call.top, always=call.always
            )
            tree = public(citations)
            del tree["answer"]
            return mcp.answer_result(citations, tree)
        question = (call.question, call.passage, call.top, call.always)
        (answers,) = await self.batcher.ask([question])
        return mcp.answer_result(answers)


def check_headers(request: Request, message: mcp.Message) -> None:
    """Raise ``ProtocolError`` where the headers of a stateless request differ from its body."""
    headers = request.headers
    announced = headers.get(VERSION_HEADER)
    if not message.is_modern and announced not in mcp.MODERN_VERSIONS:
        return
    if not message.is_modern:
        sentence = f"a request of {announced} has its version and capabilities in 'params._meta'."
        raise mcp.ProtocolError(mcp.INVALID_PARAMS, sentence, message.id)
    expected = {
        VERSION_HEADER: message.params["_meta"][mcp.VERSION_KEY],
        "mcp-method": message.method,
    }
    if message.method == "tools/call" and message.params.get("name") is not None:
        expected["mcp-name"] = message.params["name"]
    for name in ROUTING_HEADERS:
        values = headers.getlist(name)
        if len(values) > 1 or (name in expected and values != [expected[name]]):
            sentence = f"the header {name} differs from the body."
            raise mcp.ProtocolError(mcp.HEADER_MISMATCH, sentence, message.id)
