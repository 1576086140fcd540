"""/v1/ask and /v1/place: answers out of documents with their places, and only what the index holds."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from rmreader.core.errors import UserError
from rmreader.documents.shelf import Shelf
from rmreader.reading.reader import Reader
from rmreader.server import schemas
from rmreader.server.server import serve
from rmreader.server.settings import Settings

ASKED = "Who built the lighthouse?"


@pytest.fixture
def asked(start: Any, shelf: Shelf) -> Any:
    return start(shelf=shelf)


def error(response: Any, status: int, code: str) -> str:
    assert response.status_code == status, response.text
    assert response.json()["error"]["code"] == code
    return str(response.json()["error"]["message"])


def test_answers_are_those_of_the_shelf_with_their_places(asked: Any, shelf: Shelf) -> None:
    body = asked.post("/v1/ask", {"question": ASKED, "always": True}).json()
    cited = shelf.ask(ASKED, top=3, always=True)
    assert len(cited) == 3
    assert body["answer"] == body["answers"][0]
    for tree, one in zip(body["answers"], cited, strict=True):
        assert (tree["text"], tree["sentence"], tree["document"]) == (one.text, one.sentence, one.file)
        assert tree["confidence"] == pytest.approx(one.confidence, abs=1e-6)
        assert (tree["page"], tree["heading"]) == (one.passage.stretch.page, one.passage.stretch.heading)
        original = one.passage.path.read_text(encoding="utf-8")
        assert original[tree["start"] : tree["end"]].replace("&amp;", "&") == tree["text"]
        assert one.passage.root not in str(body)  # where it is on the disk is nobody's business
    assert {tree["document"] for tree in body["answers"]} == {"harbour/lights.md", "harbour/towers.html"}


def test_a_place_is_the_document_around_its_passage(asked: Any, shelf: Shelf) -> None:
    for question in (ASKED, "Who was the engineer?"):
        for tree in asked.post("/v1/ask", {"question": question, "always": True}).json()["answers"]:
            place = asked.post("/v1/place", {"passage": tree["passage"]["id"]}).json()
            start = place["start"] + tree["passage"]["start"]
            assert place["text"][start : place["start"] + tree["passage"]["end"]] == tree["text"]
            assert place["document"] == tree["document"]
            (passage,) = [one for one in shelf.search(question) if one.id == tree["passage"]["id"]]
            assert place["text"][place["start"] : place["end"]] == passage.text
            every = [one.text for one in shelf.index.document(passage.root, passage.file)]
            assert place["text"] == "\n\n".join(every)
            assert asked.post("/v1/explain", {"question": question, "passage": passage.text}).status_code == 200


def test_what_the_documents_do_not_say_is_not_in_them(start: Any, shelf: Shelf, doubting: Any) -> None:
    body = start(doubting, shelf=shelf).post("/v1/ask", {"question": "When did Napoleon see the lighthouse?"}).json()
    assert body["answer"] is None
    assert body["answers"] == []
    assert 0.5 < body["no_answer"] <= 1
    assert body["guess"]["document"] in ("harbour/lights.md", "harbour/towers.html")
    nothing = start(shelf=shelf).post("/v1/ask", {"question": "?!"})
    assert nothing.json() == {"answer": None, "answers": []}


def test_a_reader_that_cannot_tell_reads_passages_as_one_text(start: Any, reader: Any, shelf: Shelf) -> None:
    bare = Reader(reader.folder, reader.engine)
    bare.decision = None
    cited = Shelf(shelf.index, bare, shelf.place).ask(ASKED)
    server = start(bare, shelf=shelf)
    answers = server.post("/v1/ask", {"question": ASKED}).json()["answers"]
    assert [(one["text"], one["document"], one["start"]) for one in answers] == [
        (one.text, one.file, one.start) for one in cited
    ]
    assert len(answers) == 3
    assert server.post("/v1/ask", {"question": "?!"}).json() == {"answer": None, "answers": []}


@pytest.mark.parametrize(
    "id", ["0", "-1", "999999999", "9" * 200, "1 OR 1=1", "../../etc/passwd", "/etc/passwd", "1\x00", "1.0", "é", " 1"]
)
def test_only_passages_of_the_index_are_shown(asked: Any, id: str) -> None:
    assert "ask again" in error(asked.post("/v1/place", {"passage": id}), 404, "no_passage")


@pytest.mark.parametrize("path", ["/v1/ask", "/v1/place"])
def test_the_gate_is_that_of_every_call(start: Any, shelf: Shelf, path: str) -> None:
    good = {"question": ASKED} if path == "/v1/ask" else {"passage": "1"}
    server = start(shelf=shelf, api_key="open-sesame", max_question=40)
    error(server.post(path, good), 401, "unauthorized")
    key = {"x-api-key": "open-sesame"}
    assert server.post(path, good, headers=key).status_code == 200
    error(server.post(path, good, headers={**key, "origin": "http://elsewhere.example"}), 403, "other_origin")
    error(server.client.get(path, headers=key), 405, "method_not_allowed")
    for bad in ({}, [], {**good, "file": "/etc/passwd"}, {**good, "top": 0}, {"question": 3, "passage": 3}):
        error(server.post(path, bad, headers=key), 422, "invalid")
    if path == "/v1/ask":
        assert "41 characters" in error(server.post(path, {"question": "q" * 41}, headers=key), 413, "too_large")
    else:
        error(server.post(path, {"passage": "1" * 201}, headers=key), 422, "invalid")


@pytest.mark.parametrize("shape", [schemas.AskShelf, schemas.AskPlace])
def test_the_published_shapes_are_those_that_are_checked(server: Any, shape: Any) -> None:
    published = server.client.get("/openapi.json").json()["components"]["schemas"]
    assert published[shape.__name__] == shape.model_json_schema()


def test_a_server_without_an_index_says_so(server: Any) -> None:
    assert "--index" in error(server.post("/v1/ask", {"question": ASKED}), 404, "no_index")
    assert "--index" in error(server.post("/v1/place", {"passage": "1"}), 404, "no_index")
    assert server.client.get("/about.json").json()["shelf"] is None


def test_a_question_too_long_for_the_reader_is_a_sentence(asked: Any) -> None:
    assert "10,001 words" in error(asked.post("/v1/ask", {"question": "Keld " * 10_001}), 422, "invalid")


def test_deadline_and_queue_hold_for_documents_too(start: Any, shelf: Shelf, held: Any, until: Any) -> None:
    server = start(held, shelf=shelf, deadline=0.3)
    error(server.post("/v1/ask", {"question": ASKED}), 504, "deadline")
    until(lambda: not server.batcher.pending)  # nobody waits: nothing is left in the queue
    held.gate.set()
    small = start(shelf=shelf, queue=2, max_items=2)  # fewer than are read otherwise
    assert small.post("/v1/ask", {"question": ASKED, "always": True}).json()["answers"]


def test_a_damaged_index_is_a_fault_of_ours_that_names_no_file(start: Any, reader: Any, tmp_path: Path) -> None:
    file = tmp_path / "secret-name.rmindex"
    sqlite3.connect(file).execute("CREATE TABLE other (x)")
    server = start(shelf=Shelf.open(file, reader))
    assert "secret" not in error(server.post("/v1/ask", {"question": ASKED}), 500, "internal")


def test_what_is_no_index_is_refused_before_the_door_opens(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such index"):
        serve("small", Settings(port=0, index=str(tmp_path / "none.rmindex")))


def test_a_long_document_is_shown_around_the_passage(start: Any, reader: Any, tmp_path: Path) -> None:
    (tmp_path / "long").mkdir()
    text = "\n\n".join(f"Item {k} of the list is a {k} in a box. " * 30 for k in range(60))
    (tmp_path / "long" / "list.txt").write_text(text, encoding="utf-8")
    shelf = Shelf.open(tmp_path / "long.rmindex", reader)
    shelf.add(tmp_path / "long", workers=1)
    server = start(shelf=shelf)
    found = next(one for one in shelf.search("Item 30 of the list") if "Item 30 " in one.text)
    place = server.post("/v1/place", {"passage": found.id}).json()
    assert place["text"][place["start"] : place["end"]] == found.text
    assert place["start"] > 5_000
    assert len(place["text"]) < 35_000 < len(text)
