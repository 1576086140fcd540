"""An index on an OpenSearch server, for collections that outgrow one file: http://HOST:9200/NAME.

Two indices: NAME has the passages, NAME-documents a record per document. There are no transactions,
so a document's record is taken away before its passages change and written after them: what a kill
leaves half done has no record, and the next run does it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urlsplit

from rmreader.core.errors import UserError
from rmreader.documents.embedding import shipped_encoder
from rmreader.documents.index import (
    Entry,
    Known,
    ListedDocument,
    Name,
    Passage,
    about,
    best_passages,
    content_words,
    encode_passages,
    runs_from_json,
    runs_to_json,
)
from rmreader.documents.opensearch_search import (
    SCORE_FACTOR,
    Hit,
    ServerHits,
    make_bodies,
    vector_field,
    vector_row,
)
from rmreader.documents.places import TextSpan

# A field that is given back and not searched.
_KEPT: dict[str, Any] = {"type": "keyword", "index": False, "doc_values": False}
# A field that is searched as a part of ``words``.
_SEARCHED: dict[str, Any] = {"type": "text", "index": False, "copy_to": "words"}
_KEYWORD = {"type": "keyword"}
_NUMBER = {"type": "integer"}
_SETTINGS: dict[str, Any] = {
    "analysis": {
        "analyzer": {
            # As an index in a file has it.
            "words": {
                "tokenizer": "standard",
                "filter": ["lowercase", "asciifolding", "porter_stem"],
            }
        }
    }
}
_PASSAGE_FIELDS = {
    "root": _KEYWORD,
    "file": _KEYWORD,
    "checksum": _KEYWORD,
    "number": _NUMBER,
    "page": _NUMBER,
    "text": _SEARCHED,
    "about": _SEARCHED,
    "words": {"type": "text", "analyzer": "words"},
    "heading": _KEPT,
    "runs": _KEPT,
    "offsets": _KEPT,
    "table": _KEYWORD,
}
_DOCUMENT_FIELDS = {
    "root": _KEYWORD,
    "file": _KEYWORD,
    "checksum": _KEYWORD,
    "read": {"type": "boolean"},
    "note": _KEPT,
    "refusal": _KEPT,
}
_WAIT = 60  # seconds for an answer
_AT_ONCE = 10_000  # documents that one query names; a server takes 65,536 terms


class OpenSearchIndex:
    """The index at an address; needs ``rmreader[opensearch]``."""

    def __init__(self, address: str) -> None:
        from opensearchpy import OpenSearch

        parts = urlsplit(address)
        # A password is not for messages.
        host = parts.netloc.rpartition("@")[2]
        self.address = parts._replace(netloc=host).geturl()
        self.name = parts.path.strip("/")
        if not self.name or "/" in self.name or self.name != self.name.lower():
            raise UserError(
                f"{self.address}: give an index as http://HOST:9200/NAME, NAME in small letters."
            )
        self.documents = f"{self.name}-documents"
        login = None
        if parts.username:
            password = parts.password or ""
            login = (unquote(parts.username), unquote(password))
        where = {
            "host": parts.hostname or "localhost",
            "port": parts.port or 9200,
        }
        self.client = OpenSearch(
            [where],
            http_auth=login,
            use_ssl=parts.scheme == "https",
            timeout=_WAIT,
        )

    def search(self, question: str, count: int) -> list[Passage]:
        """By words and by meaning, in the text, the headings and the file's name."""
        words = content_words(question)
        with self._sound():
            if not self._has_vectors():
                return self._search_words(words, count)
            encoder = shipped_encoder()
            vector = encoder.encode_question(question)
            replies = self._ask(make_bodies(words, vector, count))
            candidates = ServerHits.of(vector, replies, self._score_factor)
            found, hits = candidates.find(question, count, self._fetch_vectors)
            passages = [_passage(hit) for hit in hits]
        scores = found.scores([passage.text for passage in passages], encoder)
        return best_passages(passages, scores.tolist(), count)

    def _search_words(self, words: Sequence[str], count: int) -> list[Passage]:
        """By words alone, in an index that an older version made."""
        match = {"match": {"words": " ".join(words)}}
        found = self.client.search(index=self.name, body={"query": match, "size": count})
        hits = found["hits"]["hits"]
        best = max((float(hit["_score"]) for hit in hits), default=0.0)
        # As shares of the best, which is how every index scores without vectors.
        return [_passage(hit, float(hit["_score"]) / best) for hit in hits]

    def _ask(self, bodies: dict[str, Any]) -> dict[str, Any]:
        """The replies to some searches, by name."""
        if not bodies:
            return {}
        lines: list[dict[str, Any]] = []
        for body in bodies.values():
            lines.append({"index": self.name})
            lines.append(body)
        replies = self.client.msearch(body=lines)["responses"]
        for reply in replies:
            if "error" in reply:
                raise ValueError(reply["error"].get("reason", reply["error"]))
        return dict(zip(bodies, replies, strict=True))

    def _fetch_vectors(self, ids: list[str]) -> list[Hit]:
        """Passages that are there, with their vectors alone."""
        if not ids:
            return []
        found = self.client.mget(
            index=self.name,
            body={"ids": ids},
            _source_includes=["vector"],
        )
        return [hit for hit in found["docs"] if hit.get("found")]

    @cached_property
    def _score_factor(self) -> float:
        """What this server's BM25 is multiplied by to be that of a file."""
        major = int(self.client.info()["version"]["number"].partition(".")[0])
        return SCORE_FACTOR if major >= 3 else 1.0

    def document(self, root: str, file: str) -> list[Passage]:
        """All passages of one document, in order."""
        with self._sound():
            hits = sorted(
                self._scan(self.name, _these([(root, file)])),
                key=lambda hit: int(hit["_source"]["number"]),
            )
            return [_passage(hit) for hit in hits]

    def around(self, id: str, count: int) -> list[Passage]:
        """A passage with up to ``count`` of its document on either side, in order."""
        key, _, number = id.rpartition("-")
        if not number.isdecimal():
            return []
        first = max(0, int(number) - count)
        last = int(number) + count
        ids = [f"{key}-{at}" for at in range(first, last + 1)]
        with self._sound():
            found = self.client.mget(index=self.name, body={"ids": ids})["docs"]
            return [_passage(hit) for hit in found if hit.get("found")]

    def known(self, root: str) -> dict[str, Known]:
        """Every document of a folder, by its path in it; an index that is not there is made."""
        with self._sound():
            self._upgrade()
            self._make(self.name, _passage_fields())
            self._make(self.documents, _DOCUMENT_FIELDS)
            self.client.indices.refresh(
                index=f"{self.name},{self.documents}"
            )  # shows what a killed run has written
            known: dict[str, Known] = {}
            for hit in self._scan(self.documents, {"term": {"root": root}}):
                row = hit["_source"]
                known[row["file"]] = Known(row["checksum"], row.get("refusal", ""))
            return known

    def _make(self, name: str, fields: dict[str, Any]) -> None:
        """Make an index that is not there."""
        if self.client.indices.exists(index=name):
            return
        knn = {"index": {"knn": "vector" in fields}}
        body = {
            "settings": {**_SETTINGS, **knn},
            "mappings": {"properties": fields},
        }
        self.client.indices.create(index=name, body=body)

    def _has_vectors(self) -> bool:
        """Whether the index has a k-NN field; one of an older version has none."""
        mapping = self.client.indices.get_mapping(index=self.name)
        return all("vector" in index["mappings"]["properties"] for index in mapping.values())

    def _upgrade(self) -> None:
        """Give an index of an older version its vectors, from the texts in it.

        A server cannot add such a field, nor give an index another name. So the passages go into an
        index beside it, and back when they are all there. What a kill leaves is done again.
        """
        beside = f"{self.name}-new"
        is_there = self.client.indices.exists(index=self.name)
        if is_there and not self._has_vectors():
            self.client.indices.delete(index=beside, ignore_unavailable=True)
            self._make(beside, _passage_fields())
            self._copy(self.name, beside)
            self.client.indices.delete(index=self.name)
        elif not self.client.indices.exists(index=beside):
            if is_there:
                self._renew_vectors()
            return
        self._make(self.name, _passage_fields())
        self._copy(beside, self.name)
        self.client.indices.delete(index=beside)

    def _renew_vectors(self) -> None:
        """Make vectors anew that another version's table made."""
        other = {"bool": {"must_not": [{"term": {"table": shipped_encoder().source}}]}}
        self._copy(self.name, self.name, other)

    def _copy(self, index: str, to: str, query: dict[str, Any] | None = None) -> None:
        """Write passages with the vectors of today's table."""
        from opensearchpy.helpers import bulk

        self.client.indices.refresh(index=index)
        hits = self._scan(index, query or {"match_all": {}})
        bulk(self.client, (_with_vector(hit, to) for hit in hits), refresh=True)

    def put(self, entries: Sequence[Entry], gone: Sequence[Name] = ()) -> None:
        """Put documents in, each in place of what had its name, and take the ``gone`` out."""
        from opensearchpy.helpers import bulk

        names = [*gone, *(entry.name for entry in entries)]
        with self._sound():
            for begin in range(0, len(names), _AT_ONCE):
                away = {"query": _these(names[begin : begin + _AT_ONCE])}
                for index in (self.documents, self.name):
                    self.client.delete_by_query(
                        index=index, body=away, refresh=True, conflicts="proceed"
                    )
            bulk(self.client, (row for entry in entries for row in self._rows(entry)), refresh=True)
            bulk(self.client, map(self._record, entries), refresh=True)

    def size(self) -> int:
        """How many documents can be asked."""
        with self._sound():
            return int(
                self.client.count(index=self.documents, body={"query": {"term": {"read": True}}})[
                    "count"
                ]
            )

    def checksum(self, name: Name) -> str:
        """Of a document's content when it was indexed; empty for an unknown one."""
        with self._sound():
            found = self.client.mget(index=self.documents, body={"ids": [_key(name)]})
            record = found["docs"][0]
        if not record.get("found"):
            return ""
        return str(record["_source"]["checksum"])

    def list_documents(self, count: int) -> list[ListedDocument]:
        """The first ``count`` documents that can be asked, by their paths."""
        wanted = {
            "query": {"term": {"read": True}},
            "sort": ["file", "root"],
            "size": min(count, _AT_ONCE),
        }
        with self._sound():
            found = self.client.search(index=self.documents, body=wanted)
            rows = [hit["_source"] for hit in found["hits"]["hits"]]
            names = [(row["root"], row["file"]) for row in rows]
            counts = self._count_passages(names)
        listed = []
        for name, row in zip(names, rows, strict=True):
            number = counts.get(name, 0)
            listed.append(ListedDocument(row["file"], number, row["note"]))
        return listed

    def _count_passages(self, names: Sequence[Name]) -> dict[Name, int]:
        """How many passages each of these documents has."""
        by_file = {
            "terms": {"field": "file", "size": _AT_ONCE},
        }
        by_root = {
            "terms": {"field": "root", "size": _AT_ONCE},
            "aggs": {"files": by_file},
        }
        wanted = {
            "size": 0,
            "query": _these(names),
            "aggs": {"roots": by_root},
        }
        found = self.client.search(index=self.name, body=wanted)
        counts: dict[Name, int] = {}
        for root in found["aggregations"]["roots"]["buckets"]:
            for file in root["files"]["buckets"]:
                name = (root["key"], file["key"])
                counts[name] = int(file["doc_count"])
        return counts

    def _rows(self, entry: Entry) -> Iterator[dict[str, Any]]:
        """The passages of a document, as the server keeps them."""
        root, file = entry.name
        vectors = entry.vectors or encode_passages(entry.name, entry.passages)
        for number, stretch in enumerate(entry.passages):
            yield {
                "_index": self.name,
                "_id": f"{_key(entry.name)}-{number}",
                "root": root,
                "file": file,
                "checksum": entry.checksum,
                "number": number,
                "page": stretch.page,
                "heading": stretch.heading,
                "text": stretch.text,
                "about": about(entry.name, stretch.heading),
                "runs": runs_to_json(stretch.runs),
                "offsets": entry.offsets,
                "table": vectors.source,
                **vector_row(vectors, number),
            }

    def _record(self, entry: Entry) -> dict[str, Any]:
        """A document, as the server keeps it."""
        root, file = entry.name
        return {
            "_index": self.documents,
            "_id": _key(entry.name),
            "root": root,
            "file": file,
            "checksum": entry.checksum,
            "read": bool(entry.passages),
            "note": entry.note,
            "refusal": entry.refusal,
        }

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
            raise UserError(
                f"{self.address}: no such index; make it: rmreader index FOLDER --out URL."
            ) from None
        except ConnectionError:
            raise UserError(
                f"{self.address}: no OpenSearch server answers there; start it, or check the URL."
            ) from None
        except (OpenSearchException, KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{self.address}: the server cannot do it ({' '.join(str(error).split())[:300]})."
            ) from None


def _passage_fields() -> dict[str, Any]:
    return {**_PASSAGE_FIELDS, "vector": vector_field(shipped_encoder().dim)}


def _with_vector(hit: Hit, index: str) -> dict[str, Any]:
    """A passage as it goes into an index, its vector made anew."""
    passage = _passage(hit)
    vectors = encode_passages((passage.root, passage.file), [passage.stretch])
    row = {key: value for key, value in hit["_source"].items() if key != "vector"}
    row["table"] = vectors.source
    return {
        "_index": index,
        "_id": hit["_id"],
        **row,
        **vector_row(vectors, 0),
    }


def _passage(hit: dict[str, Any], score: float = 0.0) -> Passage:
    row = hit["_source"]
    text = row["text"]
    runs = runs_from_json(row["runs"], text)
    stretch = TextSpan(text, runs, row["page"], row["heading"])
    return Passage(
        hit["_id"],
        row["root"],
        row["file"],
        stretch,
        row["offsets"],
        score,
    )


def _these(names: Sequence[Name]) -> dict[str, Any]:
    """What is of these documents: a clause per folder, since a server takes only 1,024."""
    folders: dict[str, list[str]] = {}
    for root, file in names:
        folders.setdefault(root, []).append(file)
    clauses = []
    for root, files in folders.items():
        is_there = [
            {"term": {"root": root}},
            {"terms": {"file": files}},
        ]
        clauses.append({"bool": {"filter": is_there}})
    return {"bool": {"should": clauses}}


def _key(name: Name) -> str:
    return hashlib.sha256("\0".join(name).encode()).hexdigest()[:32]
