"""What answers at each address of the API."""

from collections.abc import Callable, Coroutine
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request

from rmreader.reading.answers import Answers
from rmreader.server.batcher import Batcher
from rmreader.server.documents import Documents
from rmreader.server.explanations import as_base64, as_numbers
from rmreader.server.metrics import Metrics
from rmreader.server.openapi import ANY_ERRORS, CALL_ERRORS, Operation
from rmreader.server.requests import json_endpoint
from rmreader.server.responses import Refused, Response, refuse, reply
from rmreader.server.schemas import (
    Answered,
    AnsweredMany,
    AnsweredShelf,
    Ask,
    AskMany,
    AskPage,
    AskPlace,
    AskShelf,
    AskWhy,
    DrawnPage,
    Explained,
    ListedDocuments,
    Place,
    RequestBody,
    StateOut,
)
from rmreader.server.settings import Settings


class Calls:
    """The calls under /v1."""

    def __init__(self, settings: Settings, batcher: Batcher, documents: Documents) -> None:
        self.settings = settings
        self.batcher = batcher
        self.documents = documents

    async def answer(self, ask: Ask) -> Response:
        """Answer one question about one passage."""
        self.check_lengths(ask.question, ask.passage)
        question = (ask.question, ask.passage, ask.top, ask.always)
        (answers,) = await self.batcher.ask([question])
        return reply(answered(answers, ask))

    async def answers(self, ask: AskMany) -> Response:
        """Answer several questions, each with its passage."""
        for number, item in enumerate(ask.items):
            self.check_lengths(item.question, item.passage, f"items[{number}]: ")
        questions = [(item.question, item.passage, item.top, item.always) for item in ask.items]
        results = await self.batcher.ask(questions)
        items = [answered(*pair) for pair in zip(results, ask.items, strict=True)]
        return reply({"items": items})

    async def explain(self, ask: AskWhy) -> Response:
        """Show the attention of every round."""
        shown = "attention is shown for up to"
        check_length("passage", ask.passage, self.settings.max_explain, shown)
        check_length("question", ask.question, self.settings.max_explain_question, shown)
        self.check_lengths(ask.question, ask.passage)
        write = as_base64 if ask.packed else as_numbers
        body = await self.batcher.explain(ask.question, ask.passage, write)
        return Response(body, media_type="application/json")

    async def ask(self, ask: AskShelf) -> Response:
        """Answer one question from the documents."""
        self.check_lengths(ask.question)
        return await self.documents.ask(ask)

    async def place(self, ask: AskPlace) -> Response:
        """Show a document around a passage."""
        return await self.documents.place(ask)

    async def page(self, ask: AskPage) -> Response:
        """Draw the page of a document that has a part of a passage."""
        return await self.documents.page(ask)

    def check_lengths(self, question: str, passage: str = "", place: str = "") -> None:
        """Raise ``Refused`` where a question or its passage is too long."""
        check_length("passage", passage, self.settings.max_passage, "the most is", place)
        check_length("question", question, self.settings.max_question, "the most is", place)

    def operations(self) -> list[Operation]:
        """List the calls, with the schemas they take and give."""
        call = self.operation
        return [
            call("/v1/answer", "Answer one question", self.answer, Ask, Answered),
            call("/v1/answers", "Answer several questions", self.answers, AskMany, AnsweredMany),
            call(
                "/v1/explain", "Show the attention of every round", self.explain, AskWhy, Explained
            ),
            call("/v1/ask", "Answer from the documents", self.ask, AskShelf, AnsweredShelf, 404),
            call("/v1/place", "Show a document around a passage", self.place, AskPlace, Place, 404),
            call(
                "/v1/page",
                "Draw the page of a PDF document with an answer",
                self.page,
                AskPage,
                DrawnPage,
                404,
                409,
            ),
            Operation(
                "GET",
                "/v1/documents",
                "List the documents",
                self.documents.listing,
                response=ListedDocuments,
                errors=(*ANY_ERRORS, 401, 404),
            ),
        ]

    def operation(
        self,
        path: str,
        summary: str,
        answer: Callable[[Any], Coroutine[Any, Any, Response]],
        request: type[RequestBody],
        response: type[BaseModel],
        *more_errors: int,
    ) -> Operation:
        """Describe one call, and make its endpoint."""
        endpoint = json_endpoint(request, answer, self.settings, self.batcher)
        errors = (*CALL_ERRORS, *more_errors)
        return Operation("POST", path, summary, endpoint, request, response, errors)


class States:
    """What an orchestrator and a monitor ask."""

    def __init__(self, batcher: Batcher, metrics: Metrics) -> None:
        self.batcher = batcher
        self._metrics = metrics

    async def livez(self, request: Request) -> Response:
        """Say that the process runs."""
        return reply({"status": "alive"})

    async def readyz(self, request: Request) -> Response:
        """Say whether questions should be sent here."""
        if self.batcher.draining or not self.batcher.alive:
            message = "The server is stopping; it finishes what it has accepted."
            return refuse(503, "not_ready", message)
        return reply({"status": "ready"})

    async def metrics(self, request: Request) -> Response:
        """Give the counters to Prometheus."""
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return Response(self._metrics.page(), headers={"content-type": kind})

    def operations(self) -> list[Operation]:
        """List them."""
        ready = "Should it be sent questions?"
        return [
            Operation("GET", "/livez", "Does the process run?", self.livez, None, StateOut),
            Operation("GET", "/readyz", ready, self.readyz, None, StateOut),
            Operation("GET", "/health", "The same as /readyz", self.readyz, None, StateOut),
            Operation("GET", "/metrics", "Counters, for Prometheus", self.metrics),
        ]


def check_length(name: str, text: str, limit: int, rule: str, place: str = "") -> None:
    """Raise ``Refused`` where a text has more characters than its limit."""
    if len(text) > limit:
        message = f"{place}The {name} has {len(text):,} characters; {rule} {limit:,}."
        raise Refused(413, "too_large", message)


def answered(answers: Answers, ask: Ask) -> dict[str, Any]:
    """Write the answers to one question as plain data."""
    tree = answers.at_least(ask.min_confidence).to_dict()
    best = tree["answers"][0] if tree["answers"] else None
    return {"answer": best, **tree}
