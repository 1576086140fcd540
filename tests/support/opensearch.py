"""A stand-in for an OpenSearch server: it knows the requests that rmreader sends, and refuses all others.

It is strict where a server is: a field that is not in the mapping, a vector of a wrong length, of no bytes or of zeros
alone, or a k-NN query of an index that is not made for it are errors. BM25 is that of FTS5, k-NN is exact.
"""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

VERSION = "2.19.0"


class Refused(Exception):
    """What a server answers with a status that is no 200."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class StoredIndex:
    """One index: its settings, its mapping, its documents."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.fields = body["mappings"]["properties"]
        self.knn = body["settings"].get("index", {}).get("knn", False)
        self.documents: dict[str, dict[str, Any]] = {}

    def put(self, id: str, document: dict[str, Any]) -> None:
        for name, value in document.items():
            if name not in self.fields:
                raise Refused(400, f"no field {name}")
            if self.fields[name]["type"] == "knn_vector":
                self._check_vector(value)
        self.documents[id] = document

    def search(self, query: dict[str, Any]) -> dict[str, float]:
        """The scores of the documents that match a query."""
        ((kind, inner),) = query.items()
        if kind == "match_all":
            return dict.fromkeys(self.documents, 1.0)
        if kind == "term":
            ((field, value),) = inner.items()
            return self._having(field, [value])
        if kind == "terms":
            ((field, values),) = inner.items()
            return self._having(field, values)
        if kind == "match":
            ((field, words),) = inner.items()
            assert field == "words"
            return self._match(words)
        if kind == "knn":
            return self._nearest(inner["vector"])
        if kind == "bool":
            return self._bool(inner)
        raise Refused(400, f"unknown query {kind}")

    def _having(self, field: str, values: list[Any]) -> dict[str, float]:
        return {id: 1.0 for id, document in self.documents.items() if document.get(field) in values}

    def _bool(self, clauses: dict[str, Any]) -> dict[str, float]:
        found = set(self.documents)
        for query in clauses.get("filter", ()):
            found &= self.search(query).keys()
        for query in clauses.get("must_not", ()):
            found -= self.search(query).keys()
        if "should" in clauses:
            found &= {id for query in clauses["should"] for id in self.search(query)}
        assert set(clauses) <= {"filter", "must_not", "should"}
        return dict.fromkeys(sorted(found), 1.0)

    def _match(self, words: str) -> dict[str, float]:
        base = sqlite3.connect(":memory:")
        base.execute("CREATE VIRTUAL TABLE words USING fts5(id UNINDEXED, text, tokenize='porter unicode61')")
        copied = [name for name, field in self.fields.items() if field.get("copy_to") == "words"]
        for id, document in self.documents.items():
            text = " ".join(document[name] for name in copied)
            base.execute("INSERT INTO words VALUES (?, ?)", (id, text))
        expression = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", words))
        if not expression:
            return {}
        query = "SELECT id, -bm25(words) FROM words WHERE words MATCH ?"
        return dict(base.execute(query, (expression,)).fetchall())

    def _nearest(self, asked: dict[str, Any]) -> dict[str, float]:
        if not self.knn or "vector" not in self.fields:
            raise Refused(400, "Field 'vector' is not knn_vector type.")
        self._check_vector(asked["vector"])
        wanted = np.array(asked["vector"], np.float64)
        scores = {}
        for id, document in self.documents.items():
            if "vector" in document:
                own = np.array(document["vector"], np.float64)
                scores[id] = (1 + own @ wanted / np.linalg.norm(own) / np.linalg.norm(wanted)) / 2
        return dict(sorted(scores.items(), key=lambda item: -item[1])[: asked["k"]])

    def _check_vector(self, vector: list[int]) -> None:
        field = self.fields["vector"]
        assert field["data_type"] == "byte"
        if len(vector) != field["dimension"] or not any(vector):
            raise Refused(400, "a vector of a wrong length, or of zeros")
        if not all(type(number) is int and -128 <= number <= 127 for number in vector):
            raise Refused(400, "a vector that is not of bytes")


class FakeServer:
    """All indices, and what was asked."""

    def __init__(self) -> None:
        self.indices: dict[str, StoredIndex] = {}
        self.requests: list[tuple[str, str, Any]] = []
        self._scrolls: dict[str, list[dict[str, Any]]] = {}

    def answer(self, method: str, path: str, options: dict[str, str], lines: list[Any]) -> Any:
        """The reply to one request."""
        body = lines[0] if lines else {}
        self.requests.append((method, path, lines))
        names, _, verb = path.strip("/").partition("/_")
        if path == "/":
            return {"version": {"number": VERSION, "distribution": "opensearch"}}
        if path == "/_bulk":
            return self._bulk(lines)
        if path == "/_msearch":
            return {"responses": [self._one_of_many(*pair) for pair in zip(lines[::2], lines[1::2], strict=True)]}
        if path.startswith("/_search/scroll"):
            return self._scroll(body["scroll_id"]) if method == "POST" else {}
        if verb:
            return self._of_index(names, verb, options, body)
        if method == "PUT":
            self.indices[names] = StoredIndex(body)
            return {"acknowledged": True}
        if method == "DELETE":
            for name in names.split(","):
                if self.indices.pop(name, None) is None and options.get("ignore_unavailable") != "true":
                    raise Refused(404, "no such index")
            return {"acknowledged": True}
        self._index(names)
        return {}

    def _index(self, name: str) -> StoredIndex:
        if name not in self.indices:
            raise Refused(404, f"no such index {name}")
        return self.indices[name]

    def _of_index(self, names: str, verb: str, options: dict[str, str], body: dict[str, Any]) -> Any:
        if verb == "refresh":
            return {name: self._index(name) and {} for name in names.split(",")}
        index = self._index(names)
        if verb == "mapping":
            return {names: {"mappings": {"properties": index.fields}}}
        if verb == "count":
            return {"count": len(index.search(body["query"]))}
        if verb == "mget":
            return {"docs": [self._get(index, id, options) for id in body["ids"]]}
        if verb == "delete_by_query":
            for id in index.search(body["query"]):
                del index.documents[id]
            return {"failures": []}
        if verb == "search":
            return self._search(names, options, body)
        raise Refused(400, f"unknown {verb}")

    def _get(self, index: StoredIndex, id: str, options: dict[str, str]) -> dict[str, Any]:
        if id not in index.documents:
            return {"_id": id, "found": False}
        wanted = options.get("_source_includes", "").split(",")
        document = index.documents[id]
        shown = {name: value for name, value in document.items() if wanted == [""] or name in wanted}
        return {"_id": id, "found": True, "_source": shown}

    def _one_of_many(self, head: dict[str, Any], body: dict[str, Any]) -> Any:
        try:
            return self._search(head["index"], {}, body)
        except Refused as refused:
            return {"error": {"reason": str(refused)}, "status": refused.status}

    def _search(self, name: str, options: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
        unknown = body.keys() - {"query", "size", "aggs", "sort", "track_total_hits"}
        if unknown:
            raise Refused(400, f"unknown {unknown}")
        index = self._index(name)
        scores = index.search(body["query"])
        size = body.get("size", int(options.get("size", 10)))
        if size > 10_000:
            raise Refused(400, "Result window is too large")
        hits = [
            {"_index": name, "_id": id, "_score": score, "_source": index.documents[id]} for id, score in scores.items()
        ]
        hits.sort(key=lambda hit: -hit["_score"])
        if body.get("sort", "_doc") != "_doc":  # the scan's order is any
            hits.sort(key=lambda hit: [hit["_source"][field] for field in body["sort"]])
        reply = {"_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0}}
        reply["hits"] = {"total": {"value": len(hits)}, "hits": hits[:size]}
        if "scroll" in options:
            reply["_scroll_id"] = str(len(self._scrolls))
            self._scrolls[reply["_scroll_id"]] = hits[size:]
        if "aggs" in body:
            ((label, wanted),) = body["aggs"].items()
            reply["aggregations"] = {label: self._group(index, list(scores), wanted)}
        return reply

    def _scroll(self, id: str) -> dict[str, Any]:
        hits, self._scrolls[id] = self._scrolls[id][:1000], self._scrolls[id][1000:]
        shards = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
        return {"_scroll_id": id, "hits": {"hits": hits}, "_shards": shards}

    def _group(self, index: StoredIndex, ids: list[str], wanted: dict[str, Any]) -> dict[str, Any]:
        if "filters" in wanted:
            queries = wanted["filters"]["filters"]
            if not queries:
                raise Refused(400, "[filters] cannot be empty")
            buckets = {name: {"doc_count": len(index.search(query))} for name, query in queries.items()}
            return {"buckets": buckets}
        groups: dict[str, list[str]] = {}
        for id in ids:
            groups.setdefault(index.documents[id][wanted["terms"]["field"]], []).append(id)
        listed = []
        for key, some in groups.items():
            bucket: dict[str, Any] = {"key": key, "doc_count": len(some)}
            for label, inner in wanted.get("aggs", {}).items():
                bucket[label] = self._group(index, some, inner)
            listed.append(bucket)
        return {"buckets": listed}

    def _bulk(self, lines: list[Any]) -> dict[str, Any]:
        items = []
        for action, document in zip(lines[::2], lines[1::2], strict=True):
            target = action["index"]
            try:
                self._index(target["_index"]).put(target["_id"], document)
                items.append({"index": {"_id": target["_id"], "status": 201}})
            except Refused as refused:
                items.append({"index": {"_id": target["_id"], "status": refused.status, "error": str(refused)}})
        return {"errors": any("error" in item["index"] for item in items), "items": items}


@contextmanager
def fake_opensearch() -> Iterator[tuple[str, FakeServer]]:
    """A server at an address, and what it holds."""
    fake = FakeServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            parts = urlsplit(self.path)
            options = {name: values[0] for name, values in parse_qs(parts.query).items()}
            written = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            status = 200
            try:
                lines = [json.loads(line) for line in written.splitlines() if line]
                reply = fake.answer(self.command, unquote(parts.path), options, lines)
            except Refused as refused:
                status = refused.status
                reply = {"error": {"type": "refused", "reason": str(refused)}, "status": status}
            content = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _reply

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("localhost", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://localhost:{server.server_port}", fake
        finally:
            server.shutdown()
            thread.join()
