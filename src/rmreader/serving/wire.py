"""The shapes of requests and responses, which OpenAPI publishes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmreader.reading.answering.reader import Explanation

Text = Annotated[StrictStr, Field(min_length=1)]
Confidence = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]

_JSON = json.JSONEncoder(separators=(",", ":"))  # made once: ``json.dumps`` would make one for every response


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")  # a misspelt field is an error, not a silent default


class Ask(_Request):
    """One question about one passage."""

    question: Text
    passage: Text
    top: Annotated[StrictInt, Field(ge=1, le=20, description="How many answers, best first.")] = 1
    min_confidence: Annotated[Confidence, Field(description="Answers less sure than this are left out.")] = 0.0


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


class AnswerOut(BaseModel):
    """A stretch of the passage: ``text == passage[start:end]``, counted in Unicode code points."""

    text: str
    start: int
    end: int
    score: float
    confidence: float
    sentence: str


class Answered(BaseModel):
    """The best answer, or null for none; and the list, best first."""

    answer: AnswerOut | None
    answers: list[AnswerOut]


class AnsweredMany(BaseModel):
    """One result for each item, in order."""

    items: list[Answered]


class Word(BaseModel):
    """A token and its place, counted in code points."""

    text: str
    start: int
    end: int


Matrix = list[list[float]] | str


class RoundOut(BaseModel):
    """What one round attended to. Every column sums to 1."""

    interactive: Annotated[Matrix, Field(description="Question words (rows) as seen by passage words (columns).")]
    self: Annotated[Matrix, Field(description="Passage words (rows) as seen by passage words (columns).")]


class Explained(BaseModel):
    """The attention of every round, by word."""

    question: list[Word]
    passage: list[Word]
    rounds: list[RoundOut]


class Problem(BaseModel):
    """What went wrong, for programs and for people."""

    code: str
    message: str


class Failed(BaseModel):
    """Every error has this shape."""

    error: Problem


class State(BaseModel):
    """Liveness or readiness."""

    status: str


def reply(payload: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON response. ASCII escapes let any text through, even what UTF-8 cannot hold."""
    return Response(_JSON.encode(payload).encode("ascii"), status, headers, media_type="application/json")


def refuse(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error response: a code for programs and a sentence for people."""
    return reply({"error": {"code": code, "message": message}}, status, headers)


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
    def words(tokens: Any) -> str:
        triples = zip(tokens.words, tokens.starts.tolist(), tokens.ends.tolist(), strict=True)
        return json.dumps([{"text": word, "start": start, "end": end} for word, start, end in triples])

    rounds = ",".join(
        f'{{"interactive":{matrix(one.interactive)},"self":{matrix(one.self)}}}' for one in explanation.rounds
    )
    text = f'{{"question":{words(explanation.question)},"passage":{words(explanation.passage)},"rounds":[{rounds}]}}'
    return text.encode("ascii")
