"""The shapes of requests and responses, and how they are read and written."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError, model_validator
from pydantic_core import from_json

from rmreader.reading.explanation import Explanation, spans_of

Text = Annotated[StrictStr, Field(min_length=1)]
Top = Annotated[StrictInt, Field(ge=1, le=20, description="How many answers, best first.")]
Confidence = Annotated[
    float, Field(strict=True, ge=0, le=1, allow_inf_nan=False, description="Answers less sure than this are left out.")
]
Always = Annotated[
    bool, Field(strict=True, description="Give answers even where the reader decides that there is none.")
]

_JSON = json.JSONEncoder(separators=(",", ":"))  # made once: ``json.dumps`` would make one for every response


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")  # a misspelt field is an error, not a silent default

    @model_validator(mode="before")
    @classmethod
    def _one_unknown(cls, tree: Any) -> Any:
        """Of fields that do not exist the first alone is looked at: there may be a hundred thousand."""
        if not isinstance(tree, dict):
            return tree
        unknown = next((key for key in tree if key not in cls.model_fields), None)
        return {key: tree[key] for key in (*cls.model_fields, unknown) if key in tree}


class Ask(_Request):
    """One question about one passage."""

    question: Text
    passage: Text
    top: Top = 1
    min_confidence: Confidence = 0.0
    always: Always = False


class AskMany(_Request):
    """Several questions, each with its passage."""

    items: Annotated[list[Ask], Field(min_length=1)]


class AskWhy(_Request):
    """A question and a passage whose attention is wanted."""

    question: Text
    passage: Text
    packed: Annotated[
        bool,
        Field(strict=True, description="Matrices as base64 of little-endian unsigned 16-bit, row by row, 65535 for 1."),
    ] = False


class AskShelf(_Request):
    """One question about the documents that the server has an index of."""

    question: Text
    top: Top = 3
    min_confidence: Confidence = 0.0
    always: Always = False


class AskPlace(_Request):
    """A passage whose document is to be seen around it."""

    passage: Annotated[Text, Field(max_length=200, description="The passage's id, as an answer of /v1/ask has it.")]


@dataclass(frozen=True)
class Response:
    """What goes back to a client."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers as they travel."""
        headers = self.headers if self.status == 304 else {"content-length": str(len(self.body)), **self.headers}
        return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def reply(payload: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON response. ASCII escapes let any text through, even what UTF-8 cannot hold."""
    body = _JSON.encode(payload).encode("ascii")
    return Response(status, body, {"content-type": "application/json", **(headers or {})})


def refuse(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error response: a code for programs and a sentence for people."""
    return reply({"error": {"code": code, "message": message}}, status, headers)


class Refused(Exception):
    """A request that gets this response instead of an answer."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.response = refuse(status, code, message, headers)


S = TypeVar("S", bound=_Request)


def parse(shape: type[S], kind: bytes, body: bytes, max_items: int) -> S:
    """A body of this content type as a request; the time it takes is bounded by the body's size, whatever is in it.

    A web page of another origin can have its reader's browser send anything but JSON, so nothing else is read.
    """
    media = kind.partition(b";")[0].strip().lower()
    if media != b"application/json" and not (media.startswith(b"application/") and media.endswith(b"+json")):
        raise invalid("The body was not read as JSON: the header must say content-type: application/json.")
    try:
        tree = from_json(body)
    except ValueError as error:
        raise invalid(f"The body is not valid JSON in UTF-8: {str(error)[:80]}.") from None
    items = tree.get("items") if isinstance(tree, dict) else None
    if isinstance(items, list) and len(items) > max_items:  # each may have errors of its own
        raise Refused(413, "too_large", f"The list holds {len(items):,} items; the most is {max_items:,}.")
    try:
        return shape.model_validate(tree)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step)[:40] for step in first["loc"]) or "the body"
        raise invalid(f"{place}: {first['msg']}.") from None


def invalid(message: str) -> Refused:
    """The refusal of a request that is not of the documented shape."""
    return Refused(422, "invalid", message)


def spell(explanation: Explanation) -> bytes:
    """An explanation as JSON with its matrices as lists of numbers."""
    return _explained(explanation, lambda matrix: "[" + ",".join(_row(row) for row in matrix) + "]")


def pack(explanation: Explanation) -> bytes:
    """An explanation as JSON with its matrices in base64: a tenth of the time and a third of the size."""

    def packed(matrix: NDArray[np.float32]) -> str:
        return f'"{base64.b64encode(np.rint(matrix * 65535.0).astype("<u2").tobytes()).decode()}"'

    return _explained(explanation, packed)


def _row(row: NDArray[np.float32]) -> str:
    # Row by row, so that the event loop gets its turn: one call for a whole matrix would hold the interpreter.
    return json.dumps(np.round(row.astype(np.float64), 6).tolist(), separators=(",", ":"))


def _explained(explanation: Explanation, matrix: Callable[[NDArray[np.float32]], str]) -> bytes:
    question, passage = (json.dumps(spans_of(tokens)) for tokens in (explanation.question, explanation.passage))
    rounds = ",".join(
        "{" + ",".join(f'"{name}":{matrix(values)}' for name, values in vars(one).items()) + "}"
        for one in explanation.rounds
    )
    return f'{{"question":{question},"passage":{passage},"rounds":[{rounds}]}}'.encode("ascii")
