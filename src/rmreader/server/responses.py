"""JSON responses, and the refusals that become one."""

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

__all__ = ["Refused", "Response", "invalid", "refuse", "reply"]

# Made once: ``json.dumps`` would make an encoder for every response.
_ENCODER = json.JSONEncoder(separators=(",", ":"))


def reply(payload: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Make a JSON response; ASCII escapes let any text through, even what UTF-8 cannot hold."""
    body = _ENCODER.encode(payload).encode("ascii")
    return Response(body, status, headers, media_type="application/json")


def refuse(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Make an error response: a code for programs and a sentence for people."""
    return reply({"error": {"code": code, "message": message}}, status, headers)


class Refused(Exception):
    """A request that gets this response instead of an answer."""

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.response = refuse(status, code, message, headers)


def invalid(message: str) -> Refused:
    """Make the refusal of a request that does not have the documented shape."""
    return Refused(422, "invalid", message)
