"""The same shelf on an OpenSearch server: http://localhost:9200, or RMREADER_OPENSEARCH; skipped where none answers."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmreader.errors import UserError
from rmreader.reading.answering.reader import Reader
from rmreader.shelf.shelf import Shelf

SERVER = os.environ.get("RMREADER_OPENSEARCH", "http://localhost:9200")
pytest.importorskip("opensearchpy", reason="opensearch-py is not installed")


@pytest.fixture
def address() -> Iterator[str]:
    try:
        urllib.request.urlopen(SERVER, timeout=2).close()
    except (OSError, urllib.error.URLError):
        pytest.skip(f"no OpenSearch server answers at {SERVER}; docs/shelf.md says how to start one")
    name = f"{SERVER}/rmreader-test-{uuid.uuid4().hex}"
    yield name
    from rmreader.shelf.opensearch import OpenSearchIndex

    index = OpenSearchIndex(name)
    index.client.indices.delete(index=f"{index.name},{index.documents}", ignore_unavailable=True)


def test_a_server_holds_what_a_file_holds(docs: Path, tmp_path: Path, small: Reader, address: str) -> None:
    file, server = Shelf.open(tmp_path / "i", small), Shelf.open(address, small)
    for shelf in (file, server):
        assert (shelf.add(docs).added, shelf.add(docs).unchanged) == (5, 5)
    (docs / "rivers.md").write_text((docs / "rivers.md").read_text() + "\nThe Rhine ends at Rotterdam.\n")
    for shelf in (file, server):
        done = shelf.add(docs)
        assert (done.changed, done.unchanged, shelf.index.size()) == (1, 4, 5)
    for question in ("Where does the Danube rise?", "Who is the mayor of Zürich?", "Where does the Rhine end?"):
        ours, theirs = file.ask(question)[0], server.ask(question)[0]
        assert (ours.text, ours.file, ours.start, ours.end) == (theirs.text, theirs.file, theirs.start, theirs.end)
    root = docs.as_posix()
    assert [one.text for one in server.index.document(root, "rivers.md")] == [
        one.text for one in file.index.document(root, "rivers.md")
    ]
    (docs / "zurich.txt").unlink()
    assert server.add(docs).removed == 1
    assert server.ask("Who is the mayor of Zürich?") == []


def test_where_no_server_answers_it_is_one_sentence(docs: Path) -> None:
    with pytest.raises(UserError, match="no OpenSearch server answers there"):
        Shelf.open("http://localhost:1/docs").add(docs)
    with pytest.raises(UserError, match="http://HOST:9200/NAME"):
        Shelf.open("http://localhost:1/")
