"""An index on an OpenSearch server, for collections that outgrow one file: http://HOST:9200/NAME.

Two indices: NAME has the passages, NAME-documents a record per document. There are no transactions, so a document's
record is taken away before its passages change and written after them: what a kill leaves half done has no record, and
the next run does it again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from rmreader.errors import UserError
from rmreader.shelf.index import ABOUT, Entry, Name, Passage, about, content_words, runs_of
from rmreader.shelf.places import Stretch

_KEPT: dict[str, Any] = {"type": "keyword", "index": False, "doc_values": False}  # given back, not searched
_WORDS: dict[str, Any] = {"type": "text", "analyzer": "english"}
_NAME: dict[str, Any] = {"root": {"type": "keyword"}, "file": {"type": "keyword"}, "checksum": {"type": "keyword"}}
_PASSAGE = _NAME | {"number": {"type": "integer"}, "page": {"type": "integer"}, "text": _WORDS, "about": _WORDS}
_PASSAGE |= {"heading": _KEPT, "runs": _KEPT, "offsets": _KEPT}
_DOCUMENT = _NAME | {"read": {"type": "boolean"}, "note": _KEPT}
_WAIT = 60  # seconds for an answer


class OpenSearchIndex:
    """The index at an address; needs ``rmreader[opensearch]``."""

    def __init__(self, address: str) -> None:
        from opensearchpy import OpenSearch

        parts = urlsplit(address)
        self.address, self.name = address, parts.path.strip("/")
        if not self.name or "/" in self.name or self.name != self.name.lower():
            raise UserError(f"{address}: give an index as http://HOST:9200/NAME, NAME in small letters.")
        self.documents = f"{self.name}-documents"
        login = (parts.username, parts.password) if parts.username else None
        where = {"host": parts.hostname or "localhost", "port": parts.port or 9200}
        self.client = OpenSearch([where], http_auth=login, use_ssl=parts.scheme == "https", timeout=_WAIT)

    def search(self, question: str, count: int) -> list[Passage]:
        """By BM25 of the words that carry meaning, in the text or, for less, in the headings and the file's name."""
        words = " ".join(content_words(question))
        match = [{"match": {"text": words}}, {"match": {"about": {"query": words, "boost": ABOUT}}}]
        with self._sound():
            found = self.client.search(index=self.name, body={"query": {"bool": {"should": match}}, "size": count})
            return [_passage(hit) for hit in found["hits"]["hits"]]

    def document(self, root: str, file: str) -> list[Passage]:
        """All passages of one document, in order."""
        with self._sound():
            hits = sorted(self._scan(self.name, _one((root, file))), key=lambda hit: int(hit["_source"]["number"]))
            return [_passage(hit) for hit in hits]

    def around(self, id: str, count: int) -> list[Passage]:
        """A passage with up to ``count`` of its document on either side, in order; none where there is no such id."""
        key, _, number = id.rpartition("-")
        if not number.isdecimal():
            return []
        ids = [f"{key}-{at}" for at in range(max(0, int(number) - count), int(number) + count + 1)]
        with self._sound():
            found = self.client.mget(index=self.name, body={"ids": ids})["docs"]
            return [_passage(hit) for hit in found if hit.get("found")]

    def known(self, root: str) -> dict[str, tuple[str, str]]:
        """Checksum and note of every document of a folder, by its path in it; an index that is not there is made."""
        with self._sound():
            for name, fields in ((self.name, _PASSAGE), (self.documents, _DOCUMENT)):
                if not self.client.indices.exists(index=name):
                    self.client.indices.create(index=name, body={"mappings": {"properties": fields}})
            rows = (hit["_source"] for hit in self._scan(self.documents, {"term": {"root": root}}))
            return {row["file"]: (row["checksum"], row["note"]) for row in rows}

    def put(self, entries: Sequence[Entry], gone: Sequence[Name] = ()) -> None:
        """Put documents in, each in the place of what was there by its name, and take the ``gone`` out."""
        from opensearchpy.helpers import bulk

        with self._sound():
            names = [*gone, *(entry.name for entry in entries)]
            for index in (self.documents, self.name):
                away = {"query": {"bool": {"should": [_one(name) for name in names]}}}
                self.client.delete_by_query(index=index, body=away, refresh=True, conflicts="proceed")
            bulk(self.client, (row for entry in entries for row in self._rows(entry)), refresh=True)
            bulk(self.client, map(self._record, entries), refresh=True)

    def size(self) -> int:
        """How many documents can be asked."""
        with self._sound():
            return int(self.client.count(index=self.documents, body={"query": {"term": {"read": True}}})["count"])

    def _rows(self, entry: Entry) -> Iterator[dict[str, Any]]:
        for number, one in enumerate(entry.passages):
            row = {"root": entry.name[0], "file": entry.name[1], "checksum": entry.checksum, "number": number}
            row |= {"page": one.page, "text": one.text, "about": about(entry.name, one.heading), "heading": one.heading}
            row |= {"runs": json.dumps(one.runs), "offsets": entry.offsets}
            yield {"_index": self.name, "_id": f"{_key(entry.name)}-{number}", **row}

    def _record(self, entry: Entry) -> dict[str, Any]:
        row = {"root": entry.name[0], "file": entry.name[1], "checksum": entry.checksum, "note": entry.note}
        return {"_index": self.documents, "_id": _key(entry.name), "read": bool(entry.passages), **row}

    def _scan(self, index: str, query: dict[str, Any]) -> Iterator[dict[str, Any]]:
        from opensearchpy.helpers import scan

        found: Iterator[dict[str, Any]] = scan(self.client, index=index, query={"query": query})
        return found

    @contextmanager
    def _sound(self) -> Iterator[None]:
        """Whatever the server says is one sentence."""
        from opensearchpy.exceptions import ConnectionError, NotFoundError, OpenSearchException

        try:
            yield
        except NotFoundError:
            raise UserError(f"{self.address}: no such index; make it: rmreader index FOLDER --out URL.") from None
        except ConnectionError:
            raise UserError(
                f"{self.address}: no OpenSearch server answers there; start it, or check the URL."
            ) from None
        except (OpenSearchException, KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{self.address}: the server cannot do it ({' '.join(str(error).split())[:300]})."
            ) from None


def _passage(hit: dict[str, Any]) -> Passage:
    row = hit["_source"]
    stretch = Stretch(row["text"], runs_of(row["runs"], row["text"]), row["page"], row["heading"])
    return Passage(hit["_id"], row["root"], row["file"], stretch, row["offsets"], float(hit.get("_score") or 0.0))


def _one(name: Name) -> dict[str, Any]:
    return {"bool": {"filter": [{"term": {"root": name[0]}}, {"term": {"file": name[1]}}]}}


def _key(name: Name) -> str:
    return hashlib.sha256("\0".join(name).encode()).hexdigest()[:32]
