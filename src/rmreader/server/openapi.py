"""The OpenAPI description, made from the operations and their schemas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from rmreader.core.version import __version__
from rmreader.server.requests import Endpoint
from rmreader.server.schemas import Failed

SCHEMAS = "#/components/schemas/"

# Every error that a call can end with: its name in the description, and when it happens.
ERRORS = {
    400: ("NotARequest", "This is not HTTP, or does not have exactly one Host."),
    401: ("NoKey", "The API key is missing or wrong."),
    403: ("OtherOrigin", "A web page of another origin asks."),
    404: ("NotThere", "This server has no index, or the index has no such passage."),
    408: ("SlowRequest", "The request's body did not arrive in time."),
    409: ("Changed", "The document has changed since it was indexed."),
    413: ("TooLarge", "Body, question, passage, list or document too large."),
    421: ("WrongHost", "The name in Host is not one that this server answers for."),
    422: ("Invalid", "The request does not have the documented shape."),
    431: ("HeadTooLarge", "The request's line and headers are too large."),
    500: ("Internal", "A fault of ours."),
    503: ("Busy", "The queue is full; Retry-After says when to come back. Or it is stopping."),
    504: ("Late", "No answer before the deadline."),
}
ANY_ERRORS = (400, 403, 421, 431, 500, 503)
CALL_ERRORS = (*ANY_ERRORS, 401, 408, 413, 422, 504)


@dataclass(frozen=True)
class Operation:
    """One endpoint of the API: the route is made from it, and so is its description."""

    method: str
    path: str
    summary: str
    endpoint: Endpoint
    request: type[BaseModel] | None = None
    response: type[BaseModel] | None = None
    """None: plain text."""
    errors: tuple[int, ...] = ANY_ERRORS
    replies: Mapping[int, type[BaseModel] | None] = field(default_factory=dict)
    """Other statuses that say more than an error does; None: without a body."""
    upload: str = ""
    """The media type of a body that is no JSON."""
    parameters: Sequence[Mapping[str, Any]] = ()
    """What the address takes after a question mark."""
    response_media: str = "application/json"


def describe(operations: Sequence[Operation]) -> dict[str, Any]:
    """Make the OpenAPI description of these operations."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        methods = paths.setdefault(operation.path, {})
        methods[operation.method.lower()] = _describe_one(operation)
    responses = {name: _error(sentence) for name, sentence in ERRORS.values()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rmreader",
            "version": __version__,
            "description": "Give it a passage and a question, it points at the answer.",
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(operations),
            "responses": responses,
        },
    }


def _describe_one(operation: Operation) -> dict[str, Any]:
    """Describe one operation: what it takes, and what it can answer with."""
    # Every operation that does not answer in JSON answers in plain text.
    if operation.response is None:
        content: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}}}
    else:
        content = _content(operation.response, operation.response_media)
    responses: dict[str, Any] = {
        "200": {"description": "OK", "content": content},
    }
    for status in sorted(operation.errors):
        name, _ = ERRORS[status]
        responses[str(status)] = {"$ref": f"#/components/responses/{name}"}
    for status, model in operation.replies.items():
        reply: dict[str, Any] = {"description": HTTPStatus(status).phrase}
        if model is not None:
            reply["content"] = _content(model)
        responses[str(status)] = reply
    tree: dict[str, Any] = {"summary": operation.summary, "responses": responses}
    if operation.request is not None:
        tree["requestBody"] = {"required": True, "content": _content(operation.request)}
    if operation.upload:
        binary = {operation.upload: {"schema": {"type": "string", "format": "binary"}}}
        tree["requestBody"] = {"required": True, "content": binary}
    if operation.parameters:
        tree["parameters"] = list(operation.parameters)
    return tree


def _content(model: type[BaseModel], media: str = "application/json") -> dict[str, Any]:
    return {media: {"schema": {"$ref": f"{SCHEMAS}{model.__name__}"}}}


def _error(sentence: str) -> dict[str, Any]:
    return {"description": sentence, "content": _content(Failed)}


def _schemas(operations: Sequence[Operation]) -> dict[str, Any]:
    """Collect the JSON schemas of all models, and of the models within them."""
    models: list[type[BaseModel]] = [Failed]
    for operation in operations:
        models += [model for model in (operation.request, operation.response) if model is not None]
    _, tree = models_json_schema(
        [(model, "validation") for model in models], ref_template=f"{SCHEMAS}{{model}}"
    )
    definitions: dict[str, Any] = tree["$defs"]
    return definitions
