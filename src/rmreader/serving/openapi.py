"""The document at /openapi.json: the calls and their shapes, for machines."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from rmreader.serving import wire
from rmreader.version import __version__

CALLS: dict[str, tuple[str, type[wire.Ask] | type[wire.AskMany] | type[wire.AskWhy], type]] = {
    "/v1/answer": ("Answer one question", wire.Ask, wire.Answered),
    "/v1/answers": ("Answer several questions", wire.AskMany, wire.AnsweredMany),
    "/v1/explain": ("Show the attention of every round", wire.AskWhy, wire.Explained),
}
STATES = {"/livez": "Does the process run?", "/readyz": "Should it be sent questions?"}
REFUSALS = {
    400: "This is not HTTP, or has no Host.",
    401: "The API key is missing or wrong.",
    403: "A web page of another origin asks.",
    408: "The request's body did not arrive in time.",
    413: "Body, question, passage or list too large.",
    421: "The name in Host is not one that this server answers for.",
    422: "The request does not have the documented shape.",
    431: "The request's line and headers are too large.",
    500: "A fault of ours.",
    503: "The queue is full; Retry-After says when to come back. Or the server is stopping.",
    504: "No answer before the deadline.",
}


def openapi() -> dict[str, Any]:
    """OpenAPI 3.1 of the whole API."""
    shapes = [shape for _, *pair in CALLS.values() for shape in pair]
    schemas = models_json_schema(
        [(shape, "validation") for shape in (*shapes, wire.State, wire.Failed)],
        ref_template="#/components/schemas/{model}",
    )[1]["$defs"]

    def content(shape: str) -> dict[str, Any]:
        return {"application/json": {"schema": {"$ref": f"#/components/schemas/{shape}"}}}

    def operation(summary: str, answer: dict[str, Any]) -> dict[str, Any]:
        refusals = {str(code): {"description": why, "content": content("Failed")} for code, why in REFUSALS.items()}
        return {"summary": summary, "responses": {"200": {"description": "OK", "content": answer}, **refusals}}

    paths: dict[str, Any] = {
        path: {"post": {**operation(summary, content(out.__name__)),
                        "requestBody": {"required": True, "content": content(ask.__name__)}}}
        for path, (summary, ask, out) in CALLS.items()
    }  # fmt: skip
    paths |= {path: {"get": operation(summary, content("State"))} for path, summary in STATES.items()}
    paths["/metrics"] = {"get": operation("Counters, for Prometheus", {"text/plain": {"schema": {"type": "string"}}})}
    about = "Give it a passage and a question, it points at the answer."
    info = {"title": "rmreader", "version": __version__, "description": about}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}}
