"""Where an answer of an index is in its file: lines, boxes, and nothing where the file has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmreader import Shelf
from rmreader.documents.citations import Citation
from rmreader.documents.document import read_document
from rmreader.documents.shelf import Shelf as Documents
from rmreader.reading.answers import Answer
from tests.support.documents import pdf

LETTER = "Dear Ada,\n\nthe parcel weighs\nfour kilos. It comes\non Monday.\n\nYours, Grace\n"


def cite(shelf: Documents, words: str) -> Citation:
    """The first passage that has these words, as if a reader had found them."""
    (passage,) = [one for one in shelf.search(words, 5) if words in one.text]
    start = passage.text.index(words)
    answer = Answer(words, start, start + len(words), 0.0, 0.5, passage.text, 0)
    return Citation.of(answer, passage)


@pytest.fixture
def shelf(tmp_path: Path) -> Documents:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "ada.txt").write_bytes(LETTER.replace("\n", "\r\n").encode())
    (folder / "note.pdf").write_bytes(pdf([["The key is under", "the blue stone."]]))
    shelf = Shelf.open(tmp_path / "letters.rmindex")
    shelf.add(folder)
    return shelf


def test_lines_of_a_text(shelf: Documents) -> None:
    for words in ("parcel", "four kilos", "Monday", "Yours, Grace"):
        citation = cite(shelf, words).locate()
        first, last = citation.in_file.lines or (0, 0)
        lines = LETTER.split("\n")[first - 1 : last]
        assert words in "\n".join(lines)
        assert first == last
        assert citation.to_dict()["lines"] == [first, last]
        assert citation.place == f"ada.txt, line {first}"


def test_an_answer_over_two_lines(shelf: Documents) -> None:
    citation = cite(shelf, "weighs four" if "weighs four" in texts(shelf) else "weighs\nfour")
    assert citation.locate().in_file.lines == (3, 4)


def texts(shelf: Documents) -> str:
    return " ".join(passage.text for passage in shelf.search("parcel", 5))


def test_boxes_of_a_pdf_are_those_of_the_document(shelf: Documents) -> None:
    citation = cite(shelf, "blue stone").locate()
    document = read_document(citation.passage.path)
    boxes = document.boxes(citation.start, citation.end)
    assert list(citation.in_file.boxes) == boxes
    assert citation.to_dict()["boxes"] == [box._asdict() for box in boxes]
    assert boxes[0].page == 1
    # Before it was looked up, and for formats without boxes or lines, nothing is said.
    assert "boxes" not in cite(shelf, "blue stone").to_dict()


def test_a_file_that_changed_says_nothing(shelf: Documents) -> None:
    citation = cite(shelf, "Monday")
    path = citation.passage.path
    path.write_text(LETTER.replace("Monday", "Friday"))
    assert citation.locate().in_file.lines is None
    path.write_text(LETTER + "\nP.S. Bring tea.\n")  # what stands before is still there
    assert citation.locate().in_file.lines == (5, 5)
    path.unlink()
    assert citation.locate().in_file.lines is None
    assert "lines" not in citation.locate().to_dict()


def test_every_file_is_read_once(shelf: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    from rmreader.documents import citations, in_file

    read: list[Path] = []

    def count(path: Path) -> object:
        read.append(path)
        return in_file.read_document(path)

    monkeypatch.setattr(citations, "read_file", count)
    found = citations.Citations((cite(shelf, "parcel"), cite(shelf, "Monday"))).locate()
    assert [one.in_file.lines for one in found] == [(3, 3), (5, 5)]
    assert len(read) == 1
