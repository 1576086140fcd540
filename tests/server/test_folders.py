"""A server with a folder of documents: they are listed, a page is drawn with the answer on it, changes are noticed."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
from support.documents import pdf

from rmreader.documents.shelf import Shelf
from rmreader.documents.sqlite_index import SqliteIndex
from rmreader.server.folders import index_of, open_documents

PUMP = [["Pumps of the works"], ["The pump C-310 was built by Ada Fenwick,", "an engineer of Leeds."]]
ASKED = {"question": "Who built the pump?", "top": 1}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RMREADER_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "works"
    (place / "papers").mkdir(parents=True)
    (place / "papers" / "pump.pdf").write_bytes(pdf(PUMP))
    (place / "rain.txt").write_text("It rained in Tarn all day.")
    return place


@pytest.fixture
def works(folder: Path, start: Any) -> Any:
    return start(shelf=open_documents(str(folder)))


def test_the_documents_are_listed(works: Any, server: Any) -> None:
    listed = works.client.get("/v1/documents").json()
    assert listed["count"] == 2
    assert [(one["document"], one["passages"]) for one in listed["documents"]] == [
        ("papers/pump.pdf", 2),
        ("rain.txt", 1),
    ]
    refused = server.client.get("/v1/documents")
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "no_index")


def test_a_page_is_drawn_with_the_answer_on_it(works: Any) -> None:
    answer = works.post("/v1/ask", ASKED).json()["answer"]
    assert (answer["text"], answer["page"]) == ("Ada Fenwick", 2)
    assert "root" not in answer
    place = {"passage": answer["passage"]["id"], "start": answer["passage"]["start"], "end": answer["passage"]["end"]}
    drawn = works.post("/v1/page", place).json()
    assert (drawn["document"], drawn["page"]) == ("papers/pump.pdf", 2)
    assert base64.b64decode(drawn["image"]).startswith(b"\x89PNG")
    (area,) = drawn["areas"]
    assert 0.3 < area["left"] < area["right"] < 0.6  # of the line, its last third
    assert 0.03 < area["top"] < area["bottom"] < 0.08
    for odd in ({"start": 5, "end": 5}, {"start": 0, "end": 10_000}):
        assert works.post("/v1/page", {**place, **odd}).status_code == 422
    assert works.post("/v1/page", {**place, "passage": "999"}).status_code == 404


def test_a_place_in_a_text_has_its_line(works: Any, folder: Path) -> None:
    (folder / "rain.txt").write_text("Weather\n\nIt was dry in Keld.\nIt rained in Tarn all day.\n")
    open_documents(str(folder))
    answer = works.post("/v1/ask", {"question": "Where did it rain?", "always": True}).json()["answer"]
    passage = answer["passage"]
    at = passage["text"].index("Tarn")
    place = {"passage": passage["id"], "start": at, "end": at + 4}
    assert works.post("/v1/place", place).json()["lines"] == [4, 4]
    assert "lines" not in works.post("/v1/place", {"passage": passage["id"]}).json()
    assert works.post("/v1/place", {**place, "end": 10_000}).status_code == 422
    (folder / "rain.txt").write_text("Something else.")
    assert "lines" not in works.post("/v1/place", place).json()


def test_only_what_was_indexed_is_drawn(works: Any, folder: Path) -> None:
    answer = works.post("/v1/ask", {"question": "Where did it rain?"}).json()["answer"]
    place = {"passage": answer["passage"]["id"], "start": 0, "end": 2}
    refused = works.post("/v1/page", place)
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "no_page")
    answer = works.post("/v1/ask", ASKED).json()["answer"]
    place["passage"] = answer["passage"]["id"]
    file = folder / "papers" / "pump.pdf"
    secret = folder.parent / "secret.pdf"
    secret.write_bytes(pdf([["A secret."]] * 2))
    file.unlink()
    for change in (lambda: None, lambda: os.symlink(secret, file)):  # gone, and another in its place
        change()
        refused = works.post("/v1/page", place)
        assert refused.status_code in (404, 409)
        assert "secret" not in refused.text


def test_a_changed_file_is_noticed(works: Any, folder: Path, until: Any) -> None:
    assert works.post("/v1/ask", ASKED).json()["answer"]["text"] == "Ada Fenwick"
    changed = [PUMP[0], ["The pump C-310 was built by Owen Tarrant,", "an engineer of Leeds."]]
    (folder / "papers" / "pump.pdf").write_bytes(pdf(changed))
    until(lambda: works.post("/v1/ask", ASKED).json()["answer"]["text"] == "Owen Tarrant")
    (folder / "new.txt").write_text("The harbour master is called Ruth Amory.")
    until(lambda: works.client.get("/v1/documents").json()["count"] == 3)
    (folder / "rain.txt").unlink()
    until(lambda: works.client.get("/v1/documents").json()["count"] == 2)


def test_the_index_of_a_folder_is_kept_in_the_cache(folder: Path) -> None:
    place = index_of(folder)
    assert place.parent.parent == folder.parent / "cache" / "folders"
    assert place.stem == "works"  # the name that the page shows
    open_documents(str(folder))
    assert isinstance(Shelf.open(place).index, SqliteIndex)
    assert Shelf.open(place).index.size() == 2
    assert index_of(folder / "papers") != place
