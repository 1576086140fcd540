"""The HTTP API: routes, and a sentence for everything that can be wrong with a request."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any, get_type_hints

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from rmreader.errors import UserError
from rmreader.serving import wire
from rmreader.serving.batcher import Asks, Batcher, Full
from rmreader.serving.gate import Call, Gate, busy
from rmreader.serving.meters import Meters
from rmreader.serving.settings import Settings
from rmreader.serving.wire import pack, refuse, reply, spell

if TYPE_CHECKING:
    from rmreader.reading.answering.reader import Answer

TYPES = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "json": "application/json",
    "svg": "image/svg+xml",
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"model": wire.Failed, "description": "The API key is missing or wrong."},
    408: {"model": wire.Failed, "description": "The request's body did not arrive in time."},
    413: {"model": wire.Failed, "description": "Body, question, passage or list too large."},
    422: {"model": wire.Failed, "description": "The request does not have the documented shape."},
    431: {"model": wire.Failed, "description": "The request's line and headers are too large."},
    503: {"model": wire.Failed, "description": "The queue is full; Retry-After says when to come back."},
    504: {"model": wire.Failed, "description": "No answer before the deadline."},
}


class TooLarge(Exception):
    """A part of the request beyond its limit; the message is a sentence for the caller."""


def create_app(reader: Asks, settings: Settings, name: str = "") -> FastAPI:
    """The app around a reader. Its lifespan starts and stops the batcher, which ``app.state.batcher`` holds."""
    batcher = Batcher(reader, settings)
    meters = Meters(lambda: len(batcher.pending))
    batcher.observe = meters.batch

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with batcher.running():
            yield

    app = FastAPI(
        title="rmreader",
        description="Give it a passage and a question, it points at the answer.",
        lifespan=lifespan,
        docs_url=None,  # both would load scripts from elsewhere
        redoc_url=None,
    )
    app.state.batcher = batcher
    add_api(app, batcher, settings)
    calls = {route.path: short_way(route) for route in app.routes if isinstance(route, APIRoute)}
    add_health(app, batcher, meters)
    add_page(app, settings, name)
    add_errors(app)
    routes = {path for route in app.routes if (path := getattr(route, "path", None))}
    app.add_middleware(Gate, settings=settings, batcher=batcher, meters=meters, routes=routes, calls=calls)
    return app


def add_api(app: FastAPI, batcher: Batcher, settings: Settings) -> None:
    """The three calls under /v1."""

    @app.post("/v1/answer", response_model=wire.Answered, responses=REFUSALS, summary="Answer one question")
    async def answer(ask: wire.Ask) -> Response:
        check(ask, settings)
        (answers,) = await batcher.ask([(ask.question, ask.passage, ask.top)])
        return reply(answered(answers, ask.min_confidence))

    @app.post("/v1/answers", response_model=wire.AnsweredMany, responses=REFUSALS, summary="Answer several questions")
    async def answers(ask: wire.AskMany) -> Response:
        if len(ask.items) > settings.max_items:
            raise TooLarge(f"The list holds {len(ask.items)} items; the most is {settings.max_items}.")
        for place, item in enumerate(ask.items):
            check(item, settings, f"items[{place}]: ")
        found = await batcher.ask([(item.question, item.passage, item.top) for item in ask.items])
        pairs = zip(found, ask.items, strict=True)
        return reply({"items": [answered(answers, item.min_confidence) for answers, item in pairs]})

    @app.post(
        "/v1/explain", response_model=wire.Explained, responses=REFUSALS, summary="Show the attention of every round"
    )
    async def explain(ask: wire.AskWhy) -> Response:
        if len(ask.passage) > settings.max_explain:
            raise TooLarge(
                f"The passage has {len(ask.passage):,} characters; "
                f"attention is shown for up to {settings.max_explain:,}."
            )
        check(ask, settings)
        body = await batcher.explain(ask.question, ask.passage, pack if ask.packed else spell)
        return Response(body, media_type="application/json")


def short_way(route: APIRoute) -> Call:
    """A call's endpoint without FastAPI and all its layers, whose way to it costs more than the rest of a request.

    It is for JSON of the documented shape alone: what FastAPI must refuse, or understand better, it gets.
    """
    shape = get_type_hints(route.endpoint)["ask"]

    async def call(headers: Mapping[bytes, bytes], body: bytes) -> Response | None:
        if headers.get(b"content-type") != b"application/json":
            return None
        try:
            ask = shape.model_validate_json(body)
        except ValidationError:
            return None
        try:
            response: Response = await route.endpoint(ask)
        except (TooLarge, UserError, Full) as error:
            return refusal(error)
        return response

    return call


def add_health(app: FastAPI, batcher: Batcher, meters: Meters) -> None:
    """What an orchestrator asks."""

    @app.get("/livez", response_model=wire.State, summary="Does the process run?")
    async def livez() -> Response:
        return reply({"status": "alive"})

    unready: dict[int | str, dict[str, Any]] = {503: {"model": wire.Failed, "description": "Starting or stopping."}}

    @app.get("/readyz", response_model=wire.State, responses=unready, summary="Should it be sent questions?")
    async def readyz() -> Response:
        if batcher.draining or not batcher.alive:
            return refuse(503, "not_ready", "The server is stopping; it finishes what it has accepted.")
        return reply({"status": "ready"})

    @app.get("/metrics", response_class=Response, summary="Counters, for Prometheus")
    async def metrics() -> Response:
        return Response(meters.page(), media_type="text/plain; version=0.0.4; charset=utf-8")


def add_page(app: FastAPI, settings: Settings, name: str) -> None:
    """The web page, read once, and what it must know of this server."""
    about = {
        "reader": name,
        **{limit: getattr(settings, limit) for limit in ("max_passage", "max_question", "max_explain")},
    }
    files = {file.name: file.read_bytes() for file in resources.files("rmreader.serving").joinpath("page").iterdir()}
    files["about.json"] = json.dumps(about).encode()

    def serve(file: str) -> None:
        etag = f'"{hashlib.sha256(files[file]).hexdigest()[:16]}"'
        headers = {"etag": etag, "cache-control": "no-cache"}
        kind = TYPES[file.rpartition(".")[2]]

        @app.get("/" if file == "index.html" else f"/{file}", include_in_schema=False)
        async def get(request: Request) -> Response:
            if request.headers.get("if-none-match") == etag:
                return Response(status_code=304, headers=headers)
            return Response(files[file], headers=headers, media_type=kind)

    for file in files:
        serve(file)


def add_errors(app: FastAPI) -> None:
    """Every error as ``{"error": {"code", "message"}}``; none repeats what it was sent at length."""

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return refuse(422, "invalid", sentence(error.errors()[0]))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        if error.status_code == 400:  # a body that is no JSON at all: bad UTF-8, or nested beyond reason
            return refuse(422, "invalid", "The body could not be read as JSON in UTF-8.")
        message = {404: "There is nothing at this address; /openapi.json lists what there is.",
                   405: "This address does not take that method; /openapi.json lists what it takes."}  # fmt: skip
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "refused")
        return refuse(error.status_code, code, message.get(error.status_code, str(error.detail)), error.headers)

    for kind in (TooLarge, UserError, Full):

        @app.exception_handler(kind)
        async def known(request: Request, error: Exception) -> Response:
            return refusal(error)


def refusal(error: Exception) -> Response:
    """What an endpoint raised on purpose, as a response."""
    if isinstance(error, Full):
        return busy(error)
    if isinstance(error, TooLarge):
        return refuse(413, "too_large", str(error))
    return refuse(422, "invalid", str(error))


def check(ask: wire.Ask | wire.AskWhy, settings: Settings, place: str = "") -> None:
    """Raise ``TooLarge`` where a text is beyond its limit."""
    for name, limit in (("passage", settings.max_passage), ("question", settings.max_question)):
        if (length := len(getattr(ask, name))) > limit:
            raise TooLarge(f"{place}The {name} has {length:,} characters; the most is {limit:,}.")


def sentence(error: dict[str, Any]) -> str:
    """One validation error as a sentence: where, and what is wrong."""
    if isinstance(error.get("input"), bytes):  # FastAPI has not even tried to read it as JSON
        return "The body was not read as JSON: the header must say content-type: application/json."
    if error["type"] == "json_invalid":
        return f"The body is not valid JSON: {error['ctx']['error'][:80]} at character {error['loc'][-1]}."
    if error["type"] == "string_unicode":
        error = {**error, "msg": "it holds half of a surrogate pair, which is no character"}
    place = ".".join(str(step)[:40] for step in error["loc"] if step != "body") or "the body"
    return f"{place}: {error['msg']}."


def answered(answers: list[Answer], min_confidence: float) -> dict[str, Any]:
    """The response to one question."""
    kept = [
        {name: getattr(answer, name) for name in wire.AnswerOut.model_fields}
        for answer in answers
        if answer.confidence >= min_confidence
    ]
    return {"answer": kept[0] if kept else None, "answers": kept}
