"""The same shelf on an OpenSearch server: http://localhost:9200, or RMREADER_OPENSEARCH.

Where none answers, support/opensearch.py stands in for it: it checks what is sent, not what a server makes of it.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from base64 import b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from support.opensearch import FakeServer, StoredIndex, fake_opensearch
from support.processes import started

from rmreader.core.errors import UserError
from rmreader.documents.index import Entry, Known
from rmreader.documents.indexing import add
from rmreader.documents.opensearch import OpenSearchIndex
from rmreader.documents.places import TextSpan
from rmreader.documents.shelf import Shelf
from rmreader.documents.sqlite_index import SqliteIndex
from rmreader.reading.reader import Reader

KILLS = int(os.environ.get("RMREADER_KILLS", "3"))
SERVER = os.environ.get("RMREADER_OPENSEARCH", "http://localhost:9200")
pytest.importorskip("opensearchpy", reason="opensearch-py is not installed")


@pytest.fixture
def address() -> Iterator[str]:
    name = f"rmreader-test-{uuid.uuid4().hex}"
    try:
        urllib.request.urlopen(SERVER, timeout=2).close()
    except (OSError, urllib.error.URLError):
        with fake_opensearch() as (server, _):
            yield f"{server}/{name}"
        return
    yield f"{SERVER}/{name}"
    index = OpenSearchIndex(f"{SERVER}/{name}")
    index.client.indices.delete(index=f"{index.name},{index.documents}", ignore_unavailable=True)


def test_a_server_holds_what_a_file_holds(docs: Path, tmp_path: Path, small: Reader, address: str) -> None:
    file, server = Shelf.open(tmp_path / "i", small), Shelf.open(address, small)
    for shelf in (file, server):
        assert (shelf.add(docs).added, shelf.add(docs).unchanged) == (5, 5)
    (docs / "rivers.md").write_text(
        (docs / "rivers.md").read_text() + "\nKöln lies on the Rhine, which ends at Rotterdam.\n"
    )
    for shelf in (file, server):
        done = shelf.add(docs)
        assert (done.changed, done.unchanged, shelf.index.size()) == (1, 4, 5)
    for question in ("Where does the Danube rise?", "Who is the mayor of Zürich?", "Where does the Rhine end?"):
        ours, theirs = file.ask(question)[0], server.ask(question)[0]
        assert (ours.text, ours.file, ours.start, ours.end) == (theirs.text, theirs.file, theirs.start, theirs.end)
    for words in ("Danube", "mayor Zurich", "Koln", "designing bridges", "letters", "the first page of a report"):
        found = [[one.text for one in shelf.search(words)] for shelf in (file, server)]
        assert found[0]
        assert found[0] == found[1]
    second = server.index.search("Maria Mitchell Nantucket", 1)[0]  # on the second page of two
    assert [one.stretch.page for one in server.index.around(second.id, 3)] == [1, 2]
    root = docs.as_posix()
    assert [one.text for one in server.index.document(root, "rivers.md")] == [
        one.text for one in file.index.document(root, "rivers.md")
    ]
    assert server.index.list_documents(100) == file.index.list_documents(100)
    (docs / "zurich.txt").unlink()
    assert server.add(docs).removed == 1
    assert server.ask("Who is the mayor of Zürich?") == []


def test_more_documents_than_a_query_has_clauses(address: str) -> None:
    index = Shelf.open(address).index
    names = [("/a" if number % 2 else "/b", f"{number}.txt") for number in range(1100)]
    passages = [TextSpan("Ships lie in the harbour.", ((0, 0, 25),))]
    assert (index.known("/a"), index.known("/b")) == ({}, {})
    index.put([Entry(name, "sum", passages, "text") for name in names])
    index.put([Entry(name, "sum again", passages, "text") for name in names])
    assert (index.size(), set(index.known("/a").values())) == (1100, {Known("sum again")})
    index.put([], names[:1050])
    assert (index.size(), len(index.search("harbour", 100))) == (50, 50)


@pytest.mark.slow
def test_killed_at_any_moment_it_is_completed(tmp_path: Path, address: str) -> None:
    library = tmp_path / "library"
    library.mkdir()
    for k in range(200):
        paragraphs = (f"The paragraph {j} of ship {k} tells of harbour {k * j}. " * 12 for j in range(20))
        (library / f"ship-{k}.txt").write_text("\n\n".join(paragraphs))
    file, server = SqliteIndex(tmp_path / "i"), Shelf.open(address).index
    add(file, [library], workers=1)
    root, command = library.as_posix(), [sys.executable, "-m", "rmreader", "index", str(library), "--out", address]
    for _ in range(KILLS):
        with started(command, stderr=subprocess.DEVNULL):
            time.sleep(random.uniform(0.5, 4))  # killed at any moment
        (library / f"ship-{random.randrange(200)}.txt").write_text("Sunk.")
    for index in (file, server):
        add(index, [library], workers=1)
    assert server.known(root) == file.known(root)
    for number in range(200):
        held = [[one.text for one in index.document(root, f"ship-{number}.txt")] for index in (file, server)]
        assert held[0] == held[1]


@pytest.fixture
def fake() -> Iterator[tuple[str, FakeServer]]:
    with fake_opensearch() as (server, fake):
        yield f"{server}/docs", fake


def test_what_is_said_in_other_words_is_found_by_vectors(fake: tuple[str, FakeServer], tmp_path: Path) -> None:
    address, server = fake
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "contract.txt").write_text("You report to the team lead, Ms Okafor.")
    (folder / "menu.txt").write_text("Soup is served on Monday, rice on Tuesday.")
    shelf = Shelf.open(address)
    shelf.add(folder)
    assert shelf.search("Who would be my boss?")[0].file == "contract.txt"
    searches = [lines for _, path, lines in server.requests if path == "/_msearch"]
    (lines,) = searches  # one request for words, counts and vectors
    bodies = lines[1::2]
    assert [next(iter(body["query"])) for body in bodies] == ["match", "match_all", "knn"]
    nearest = bodies[2]["query"]["knn"]["vector"]
    assert len(nearest["vector"]) == server.indices["docs"].fields["vector"]["dimension"]
    assert max(map(abs, nearest["vector"])) == 127


def test_scores_are_those_of_a_file(fake: tuple[str, FakeServer], tmp_path: Path) -> None:
    folder = tmp_path / "ships"
    folder.mkdir()
    for k in range(12):
        paragraphs = [f"Ship {k} was built in yard {j}. " * 20 + f"Its bell weighs {k * j} kilos." for j in range(4)]
        (folder / f"ship-{k}.txt").write_text("\n\n".join(paragraphs))
    shelves = [Shelf.open(tmp_path / "i"), Shelf.open(fake[0])]
    for shelf in shelves:
        shelf.add(folder)
    for question in ("How heavy is the bell of ship 7?", "Where was it built?", "Who owns the harbour?"):
        ours, theirs = [
            {(one.file, one.stretch.span(0, 1)): one.score for one in shelf.search(question, 20)} for shelf in shelves
        ]
        # A vector in eight bits and another way to count a word's file differ a little.
        assert len(ours.keys() & theirs.keys()) >= 18
        for key in ours.keys() & theirs.keys():
            assert ours[key] == pytest.approx(theirs[key], abs=0.02)


def test_texts_without_a_known_word_have_no_vector(fake: tuple[str, FakeServer], tmp_path: Path) -> None:
    (tmp_path / "signs.txt").write_text("*** --- ***")
    (tmp_path / "note.txt").write_text("The key is under the stone.")
    shelf = Shelf.open(fake[0])
    assert shelf.add(tmp_path).refused == []
    assert shelf.search("Where is the key?")[0].file == "note.txt"
    assert shelf.search("???") == []


def test_an_index_of_an_older_version_is_asked_and_then_upgraded(
    fake: tuple[str, FakeServer], docs: Path, small: Reader
) -> None:
    address, server = fake
    shelf = Shelf.open(address, small)
    shelf.add(docs)
    index = server.indices["docs"]
    expected = shelf.search("Where does the Danube rise?")
    # What such an index lacks.
    before = dict(index.documents)
    index.fields = {name: value for name, value in index.fields.items() if name not in ("vector", "table")}
    index.knn = False
    for id, document in before.items():
        kept = {name: value for name, value in document.items() if name in index.fields}
        index.documents[id] = kept
    old = Shelf.open(address, small)
    assert old.search("Where does the Danube rise?")[0].file == "rivers.md"
    assert old.search("???") == []
    assert old.add(docs).unchanged == 5
    assert server.indices["docs"].documents == before
    assert "docs-new" not in server.indices
    assert old.search("Where does the Danube rise?") == expected


def test_an_upgrade_that_was_killed_is_completed(fake: tuple[str, FakeServer], docs: Path) -> None:
    address, server = fake
    shelf = Shelf.open(address)
    shelf.add(docs)
    before = server.indices["docs"]
    # Killed after the old index was deleted, and while the new one was filled.
    for rest in (0, 2):
        beside = StoredIndex({"mappings": {"properties": before.fields}, "settings": {"index": {"knn": True}}})
        beside.documents = dict(before.documents)
        server.indices["docs-new"] = beside
        server.indices["docs"].documents = dict(list(before.documents.items())[:rest])
        if not rest:
            del server.indices["docs"]
        assert Shelf.open(address).add(docs).unchanged == 5
        assert server.indices["docs"].documents == beside.documents
        assert "docs-new" not in server.indices


def test_vectors_of_another_table_are_made_anew(fake: tuple[str, FakeServer], docs: Path) -> None:
    address, server = fake
    shelf = Shelf.open(address)
    shelf.add(docs)
    documents = server.indices["docs"].documents
    before = {id: dict(document) for id, document in documents.items()}
    for document in documents.values():
        document["table"] = "another"
        document["vector"] = [1] * len(document["vector"])
    assert shelf.add(docs).unchanged == 5
    assert server.indices["docs"].documents == before


def test_a_password_reaches_the_server_and_no_message(docs: Path) -> None:
    seen = list[str]()

    class Refusing(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            seen.append(self.headers["Authorization"])
            self.send_error(401)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("localhost", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(UserError) as caught:
            Shelf.open(f"http://ada:p%40ss@localhost:{server.server_port}/docs").add(docs)
        server.shutdown()
    assert "p%40ss" not in str(caught.value)
    assert b64decode(seen[0].removeprefix("Basic ")) == b"ada:p@ss"


def test_where_no_server_answers_it_is_one_sentence(docs: Path) -> None:
    with pytest.raises(UserError, match="no OpenSearch server answers there"):
        Shelf.open("http://localhost:1/docs").add(docs)
    with pytest.raises(UserError, match="http://HOST:9200/NAME"):
        Shelf.open("http://localhost:1/")
