"""The ASGI app: routes, middleware and the batcher behind them."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.routing import Route

from rmreader.documents.shelf import Shelf
from rmreader.reading.reader import Reader
from rmreader.server.batcher import Batcher
from rmreader.server.documents import Documents
from rmreader.server.endpoints import Calls, States
from rmreader.server.folders import open_documents
from rmreader.server.long_answers import LongAnswers
from rmreader.server.mcp_http import McpEndpoint
from rmreader.server.metrics import Metrics
from rmreader.server.middleware import (
    HostMiddleware,
    KeyMiddleware,
    RequestMiddleware,
    comma_list,
)
from rmreader.server.responses import Refused, Response, refuse
from rmreader.server.retrieval import RetrievalCalls
from rmreader.server.settings import Settings, settings_from_environment
from rmreader.server.static import page_routes
from rmreader.server.uploads import DocumentReader, LargeRequests, Uploads

ALLOWED_HEADERS = (
    "authorization",
    "content-type",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "traceparent",
    "x-api-key",
    "x-request-id",
)
EXPOSED_HEADERS = ("retry-after", "x-request-id")


def create_app(
    reader: Reader, settings: Settings, name: str = "", shelf: Shelf | None = None
) -> Starlette:
    """Build the app around a reader, and around documents to ask, if there are any."""
    batcher = Batcher(reader, settings)
    metrics = Metrics(lambda: len(batcher.pending))
    batcher.observe = metrics.count_batch
    document_reader = DocumentReader(settings)
    large_requests = LargeRequests()
    calls = Calls(settings, batcher, Documents(shelf, batcher, document_reader))
    operations = [
        *calls.operations(),
        *RetrievalCalls(calls).operations(),
        Uploads(settings, document_reader, large_requests).operation(),
        LongAnswers(settings, batcher, large_requests).operation(),
        McpEndpoint(calls).operation(),
        *States(batcher, metrics).operations(),
    ]
    routes = [
        Route(operation.path, operation.endpoint, methods=[operation.method])
        for operation in operations
    ]
    # The stem alone: the address of an index may hold a password.
    about = {"reader": name, "shelf": Path(shelf.place).stem if shelf else None}
    routes += page_routes(settings, about, operations)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with batcher.running():
            yield
        document_reader.close()

    paths = [route.path for route in routes]
    calls_with_key = [operation.path for operation in operations if 401 in operation.errors]
    middleware = [
        Middleware(RequestMiddleware, batcher=batcher, metrics=metrics, paths=paths),
        Middleware(HostMiddleware, settings=settings),
        *cors_middleware(settings),
        Middleware(KeyMiddleware, api_key=settings.api_key, paths=calls_with_key),
    ]
    handlers: Mapping[Any, Any] = {Refused: refused_response, HTTPException: routing_response}
    app = Starlette(
        routes=routes, middleware=middleware, exception_handlers=handlers, lifespan=lifespan
    )
    app.router.redirect_slashes = False
    app.state.batcher = batcher
    return app


def cors_middleware(settings: Settings) -> list[Middleware]:
    """Let web pages of the listed origins ask this server; none without ``--cors``."""
    origins = comma_list(settings.cors)
    if not origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=ALLOWED_HEADERS,
            expose_headers=EXPOSED_HEADERS,
        )
    ]


async def refused_response(request: Request, error: Refused) -> Response:
    """Answer a request that an endpoint refused."""
    return error.response


async def routing_response(request: Request, error: HTTPException) -> Response:
    """Answer a request for which there is no route."""
    if error.status_code == 404:
        message = "There is nothing at this address; /openapi.json lists what there is."
        return refuse(404, "not_found", message)
    message = "This address does not take that method; /openapi.json lists what it takes."
    return refuse(405, "method_not_allowed", message, error.headers)


def load_app(model: str, settings: Settings) -> Starlette:
    """Load a reader and open an index, if there is one, and build the app around them."""
    shelf = open_documents(settings.index) if settings.index else None
    reader = Reader.load(
        model,
        threads=settings.threads or None,
        max_length=settings.max_answer_length or None,
    )
    # The first question pays for the engine's set-up.
    next(iter(reader.ask_many([("Is it warm?", "It is warm now.")])))
    return create_app(reader, settings, Path(model).name, shelf)


def app_from_environment(model: str, changes: Mapping[str, Any]) -> Starlette:
    """Build the app with settings from the environment, and with these changes."""
    settings, named_model = settings_from_environment(changes)
    return load_app(model or named_model, settings)
