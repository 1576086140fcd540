"""``/v1/long-answer``: a question about a text of any length, with word of how much was read.

The text is read as ``rmreader ask`` reads it, a few windows at a time, in turn with everybody
else's questions; a very long one is indexed first. A client that leaves ends the reading.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from rmreader.core.errors import UserError
from rmreader.documents.asking import LARGE
from rmreader.reading.answers import Answers
from rmreader.server.batcher import Batcher
from rmreader.server.endpoints import answered, check_length
from rmreader.server.large_texts import ask_large
from rmreader.server.logs import event, failure
from rmreader.server.openapi import CALL_ERRORS, Operation
from rmreader.server.requests import parse, require_json, while_connected
from rmreader.server.responses import Refused, Response
from rmreader.server.schemas import AnsweredInLines, Ask
from rmreader.server.settings import Settings
from rmreader.server.uploads import LargeRequests, body_in_time

MEDIA = "application/x-ndjson"


class LongAnswers:
    """The call, with its own limits and clock."""

    def __init__(self, settings: Settings, batcher: Batcher, large_requests: LargeRequests) -> None:
        self.settings = settings
        self.batcher = batcher
        self.large_requests = large_requests

    def operation(self) -> Operation:
        """The call, with the schemas it takes and gives."""
        return Operation(
            "POST",
            "/v1/long-answer",
            "Answer one question about a text of any length, with progress",
            self.answer,
            request=Ask,
            response=AnsweredInLines,
            errors=CALL_ERRORS,
            response_media=MEDIA,
        )

    async def answer(self, request: Request) -> Response:
        """Answer one question, line by line."""
        require_json(request)
        async with self.large_requests.one_more():
            body = await body_in_time(request, self.settings)
            # In a thread, as it may take a while.
            ask = await asyncio.to_thread(parse, Ask, body, self.settings.max_items)
        check_length("question", ask.question, self.settings.max_question, "the most is")
        self.batcher.check_queue()
        return LineResponse(self._lines(ask))

    async def _lines(self, ask: Ask) -> AsyncIterator[dict[str, Any]]:
        """How much was read, again and again, and then the answers or why there are none."""
        try:
            async with self.large_requests.one_more(), asyncio.timeout(self.settings.long_deadline):
                async for said in self._read(ask):
                    yield {"read": said} if isinstance(said, float) else answered(said, ask)
        except Refused as refused:
            yield json.loads(bytes(refused.response.body))
        except UserError as error:
            yield problem("invalid", str(error))
        except TimeoutError:
            seconds = f"{self.settings.long_deadline:g}"
            yield problem("deadline", f"No answer within {seconds} seconds; ask about less text.")
        except Exception as error:
            event("failed", **failure(error))
            yield problem("internal", "Something broke on our side; the log has it.")

    def _read(self, ask: Ask) -> AsyncIterator[float | Answers]:
        if len(ask.passage) > LARGE:
            return ask_large(self.batcher, ask)
        return self.batcher.ask_long((ask.question, ask.passage, ask.top, ask.always))


def problem(code: str, message: str) -> dict[str, Any]:
    """What went wrong, as every error has it."""
    return {"error": {"code": code, "message": message}}


class LineResponse(Response):
    """A line of JSON for every object; where the client leaves, no more is made."""

    media_type = MEDIA

    def __init__(self, lines: AsyncIterator[dict[str, Any]]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self.lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the lines as they come."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        await while_connected(self._send_lines(send), receive)
        await send({"type": "http.response.body", "body": b""})

    async def _send_lines(self, send: Send) -> None:
        async for line in self.lines:
            body = json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n"
            await send({"type": "http.response.body", "body": body, "more_body": True})
