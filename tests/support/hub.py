"""A server on this machine that speaks the Hugging Face hub's addresses."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Hub(ThreadingHTTPServer):
    """Serves the files of ``folder`` as org/reader; large ones from another address, as the hub does."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.commit = hashlib.sha1(b"first").hexdigest()
        self.asked: list[str] = []
        self.cut_after: int | None = None  # bytes after which the connection breaks, once
        self.status = 0  # answered instead of everything

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def names(self) -> list[str]:
        return sorted(path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file())

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hung up is part of the game."""


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub = self.server
        hub.asked.append(self.path)
        path = unquote(urlsplit(self.path).path)
        repository = "/org/reader"
        if hub.status:
            self.send_error(hub.status)
        elif path in (f"/api/models{repository}/revision/{name}" for name in ("main", "v1", hub.commit)):
            self.answer(json.dumps({"id": "org/reader", "sha": hub.commit}).encode())
        elif path == f"/api/models{repository}/tree/{hub.commit}":
            rows = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": "encoder"}]
            for name in hub.names():
                size = (hub.folder / name).stat().st_size
                rows.append({"type": "file", "oid": "0" * 40, "size": size, "path": name})
            self.answer(json.dumps(rows).encode())
        elif path.startswith(f"{repository}/resolve/{hub.commit}/"):
            name = path.removeprefix(f"{repository}/resolve/{hub.commit}/")
            if name.endswith(".safetensors"):
                self.send_response(302)
                self.send_header("Location", f"{hub.url}/cdn/{name}")
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif name in hub.names():
                self.answer((hub.folder / name).read_bytes())
            else:
                self.send_error(404)
        elif path.startswith("/cdn/") and path.removeprefix("/cdn/") in hub.names():
            self.answer((hub.folder / path.removeprefix("/cdn/")).read_bytes())
        else:
            self.send_error(404)

    def answer(self, content: bytes) -> None:
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        content = content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = self.server.cut_after
        if cut is not None and len(content) > cut:
            self.server.cut_after = None
            content = content[:cut]
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Nothing on stderr."""


@contextmanager
def hub_of(folder: Path) -> Iterator[Hub]:
    """A hub while the block lasts."""
    with Hub(folder) as hub:
        thread = threading.Thread(target=hub.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()
