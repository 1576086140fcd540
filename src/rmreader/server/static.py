"""The web page and the description of the API, as files that are read once.

They are routes of their own: no request ever opens a file, and every address is known.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from rmreader.documents.formats import formats
from rmreader.server.openapi import Operation, describe
from rmreader.server.requests import Endpoint
from rmreader.server.responses import Response
from rmreader.server.settings import Settings

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
}
PAGES = {"index.html": "/", "docs.html": "/docs"}


def page_routes(
    settings: Settings, about: Mapping[str, Any], operations: Sequence[Operation]
) -> list[Route]:
    """Make the routes of the page, of /docs and of /openapi.json.

    ``about`` is what the page must know of this server.
    """
    limits = ("max_passage", "max_question", "max_explain", "max_upload")
    about = {**about, **{name: getattr(settings, name) for name in limits}}
    about["suffixes"] = sorted(formats())
    folder = resources.files("rmreader.server").joinpath("page")
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    files["about.json"] = json.dumps(about).encode()
    files["openapi.json"] = json.dumps(describe(operations)).encode()
    routes = []
    for name, content in files.items():
        path = PAGES.get(name, f"/{name}")
        kind = TYPES[name.rpartition(".")[2]]
        routes.append(Route(path, file_endpoint(content, kind), methods=["GET"]))
    return routes


def file_endpoint(content: bytes, content_type: str) -> Endpoint:
    """Make an endpoint that gives a file to whoever does not have it yet."""
    etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers = {"etag": etag, "cache-control": "no-cache", "content-type": content_type}

    async def endpoint(request: Request) -> Response:
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers)

    return endpoint
