"""The OpenAPI description and the app agree: an endpoint without a description fails here."""

from __future__ import annotations

from importlib import resources
from typing import Any


def page_files() -> set[str]:
    """The addresses of the web page's own files, which no program calls."""
    names = {file.name for file in resources.files("rmreader.server").joinpath("page").iterdir()}
    return {"/", "/docs", "/about.json", "/openapi.json", *(f"/{name}" for name in names)}


def test_every_route_is_described_and_everything_described_is_a_route(server: Any) -> None:
    described = {
        (path, method.upper())
        for path, operations in server.client.get("/openapi.json").json()["paths"].items()
        for method in operations
    }
    routes = {
        (route.path, method)
        for route in server.app.routes
        for method in route.methods - {"HEAD"}
        if route.path not in page_files()
    }
    assert routes == described
