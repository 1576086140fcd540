"""The HTTP API: what is at which address."""

import hashlib
import json
from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import Path
from typing import Any

from rmreader.core.errors import UserError
from rmreader.documents.shelf import Shelf
from rmreader.reading.answers import Answers
from rmreader.reading.reader import Reader
from rmreader.server import schemas
from rmreader.server.batcher import Batcher
from rmreader.server.documents import Documents
from rmreader.server.metrics import Meters
from rmreader.server.middleware import Gate, Headers, Route
from rmreader.server.schemas import Refused, Response, invalid, pack, parse, refuse, reply, spell
from rmreader.server.settings import Settings

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
}


def create_app(reader: Reader, settings: Settings, name: str = "", shelf: Shelf | None = None) -> Gate:
    """The app around a reader, and documents to ask, if any; ``HttpServer`` starts and stops its batcher."""
    batcher = Batcher(reader, settings)
    meters = Meters(lambda: len(batcher.pending))
    batcher.observe = meters.batch
    about = {"reader": name, "shelf": Path(shelf.place).stem if shelf else None}  # of an address, no password
    routes = {**calls(batcher, settings, Documents(shelf, batcher)), **states(batcher, meters), **page(settings, about)}
    return Gate(routes, settings, batcher, meters)


def calls(batcher: Batcher, settings: Settings, documents: Documents) -> dict[str, Route]:
    """The calls under /v1."""

    def check(ask: Any, passage: str, question: str, told: str, place: str = "") -> None:
        for name, limit in (("passage", passage), ("question", question)):
            if (length := len(getattr(ask, name, ""))) > (most := getattr(settings, limit)):
                message = f"{place}The {name} has {length:,} characters; {told} {most:,}."
                raise Refused(413, "too_large", message)

    async def answer(ask: schemas.Ask) -> Response:
        check(ask, "max_passage", "max_question", "the most is")
        (answers,) = await batcher.ask([(ask.question, ask.passage, ask.top, ask.always)])
        return reply(answered(answers, ask))

    async def answers(ask: schemas.AskMany) -> Response:
        for place, item in enumerate(ask.items):
            check(item, "max_passage", "max_question", "the most is", f"items[{place}]: ")
        found = await batcher.ask([(item.question, item.passage, item.top, item.always) for item in ask.items])
        return reply({"items": [answered(*pair) for pair in zip(found, ask.items, strict=True)]})

    async def explain(ask: schemas.AskWhy) -> Response:
        check(ask, "max_explain", "max_explain_question", "attention is shown for up to")
        check(ask, "max_passage", "max_question", "the most is")
        body = await batcher.explain(ask.question, ask.passage, pack if ask.packed else spell)
        return Response(200, body, {"content-type": "application/json"})

    async def shelf(ask: schemas.AskShelf) -> Response:
        check(ask, "max_passage", "max_question", "the most is")
        return await documents.ask(ask)

    def route(shape: type[Any], endpoint: Callable[[Any], Awaitable[Response]]) -> Route:
        async def run(headers: Headers, body: bytes) -> Response:
            try:
                return await endpoint(parse(shape, headers.get(b"content-type", b""), body, settings.max_items))
            except UserError as error:
                raise invalid(str(error)) from None

        return Route("POST", run)

    return {
        "/v1/answer": route(schemas.Ask, answer),
        "/v1/answers": route(schemas.AskMany, answers),
        "/v1/explain": route(schemas.AskWhy, explain),
        "/v1/ask": route(schemas.AskShelf, shelf),
        "/v1/place": route(schemas.AskPlace, documents.place),
    }


def states(batcher: Batcher, meters: Meters) -> dict[str, Route]:
    """What an orchestrator asks."""

    async def livez(headers: Headers, body: bytes) -> Response:
        return reply({"status": "alive"})

    async def readyz(headers: Headers, body: bytes) -> Response:
        if batcher.draining or not batcher.alive:
            return refuse(503, "not_ready", "The server is stopping; it finishes what it has accepted.")
        return reply({"status": "ready"})

    async def metrics(headers: Headers, body: bytes) -> Response:
        return Response(200, meters.page(), {"content-type": "text/plain; version=0.0.4; charset=utf-8"})

    return {"/livez": Route("GET", livez), "/readyz": Route("GET", readyz), "/metrics": Route("GET", metrics)}


def page(settings: Settings, about: dict[str, Any]) -> dict[str, Route]:
    """The web page and /openapi.json, read once, and what the page must know of this server."""
    about |= {key: getattr(settings, key) for key in ("max_passage", "max_question", "max_explain")}
    files = {file.name: file.read_bytes() for file in resources.files("rmreader.server").joinpath("page").iterdir()}
    files["about.json"] = json.dumps(about).encode()

    def route(file: str) -> Route:
        etag = f'"{hashlib.sha256(files[file]).hexdigest()[:16]}"'
        headers = {"etag": etag, "cache-control": "no-cache", "content-type": TYPES[file.rpartition(".")[2]]}
        whole, unchanged = Response(200, files[file], headers), Response(304, b"", headers)

        async def run(asked: Headers, body: bytes) -> Response:
            return unchanged if asked.get(b"if-none-match") == etag.encode() else whole

        return Route("GET", run)

    return {"/" if file == "index.html" else f"/{file}": route(file) for file in files}


def answered(answers: Answers, ask: schemas.Ask) -> dict[str, Any]:
    """The response to one question."""
    given = answers.at_least(ask.min_confidence)
    tree = given.to_dict()
    best = tree["answers"][0] if tree["answers"] else None
    return {"answer": best, **tree}
