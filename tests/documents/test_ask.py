"""Asking a shelf: different answers with their exact places, or that the documents do not say."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import rmreader
from rmreader.cli import app
from rmreader.cli.chat import ShelfChat
from rmreader.core.errors import UserError
from rmreader.documents import rank
from rmreader.documents.document import read_document
from rmreader.documents.index import Passage
from rmreader.documents.places import TextSpan
from rmreader.documents.rank import choose
from rmreader.documents.shelf import Shelf
from rmreader.reading.answers import Answer, Answers
from rmreader.reading.reader import Reader

ASKED = [
    ("Who wrote the letter from London?", "Ada Lovelace", "letters/ada.html", None),
    ("Who was the letter sent to?", "Charles Babbage", "letters/ada.html", None),
    ("Where does the Danube rise?", "Black Forest", "rivers.md", None),
    ("Who is the mayor of Zürich?", "Corine Mauch", "zurich.txt", None),
    ("Who designed the bridge over the Firth?", "John Fowler", "bridge.docx", None),
    ("Who founded the observatory?", "Maria Mitchell", "report.pdf", 2),
]


@pytest.fixture
def shelf(docs: Path, tmp_path: Path, small: Reader) -> Shelf:
    pytest.importorskip("pypdfium2", reason="PDF documents need pypdfium2")
    made = Shelf.open(tmp_path / "docs.rmindex", small)
    assert made.add(docs).added == 5
    return made


def test_every_kind_answers_with_its_exact_place(shelf: Shelf, docs: Path) -> None:
    for question, answer, file, page in ASKED:
        best = shelf.ask(question)[0]
        assert (best.text, best.file, best.passage.stretch.page) == (answer, file, page)
        original = read_document(docs / file).original[best.start : best.end]
        marked = {"Ada Lovelace": "Ada</b> Lovelace", "Charles Babbage": "Charles <i>Bab</i>bage"}
        assert original == marked.get(answer, answer)
        assert best.passage.text[best.answer.start : best.answer.end] == answer
        assert answer in best.sentence
        assert best.passage.path == docs / file


def test_what_the_documents_do_not_say_is_said(shelf: Shelf) -> None:
    found = shelf.ask("Who won the chess tournament in Reykjavik?")
    assert found == []
    assert found.refusal().startswith("not in these documents")
    near = shelf.ask("When did the mayor of Cuxhaven resign?")
    assert near == []
    assert near.absent
    assert near.none is not None
    assert near.none > rank._DOUBT
    assert "the best guess" in near.refusal()
    assert shelf.ask("When did the mayor of Cuxhaven resign?", always=True)


def test_answers_are_different_and_get_less_sure(shelf: Shelf) -> None:
    found = shelf.ask("Who is known by name?", top=5, always=True)
    assert len({one.text.lower() for one in found}) == len(found) > 1
    sure = [one.confidence for one in found]
    assert sure == sorted(sure, reverse=True)
    assert shelf.ask("Who wrote the letter from London?", min_confidence=1.0) == []
    for wrong in ({"top": 0}, {"read": 0}, {"min_confidence": 2.0}):
        with pytest.raises(UserError):
            shelf.ask("Who?", **wrong)  # type: ignore[arg-type]


def passage(text: str, score: float) -> Passage:
    return Passage(text, "", text, TextSpan(text, ((0, 0, len(text)),)), "", score)


def said(text: str, none: float | None, confidence: float = 0.8) -> Answers:
    answer = Answer(text, 0, len(text), 0.0, confidence, text, 0)
    return Answers((answer,), no_answer=none)


def test_the_chances_are_those_of_the_formula() -> None:
    passages = [passage("a", 0.8), passage("b", 0.8), passage("c", 0.7)]
    found = choose(passages, [said("a", 0.05), said("b", 0.5), said("c", 0.05)], 3)
    search = [math.exp(rank._SEARCH * score + rank._BIAS) for score in (0.8, 0.8, 0.7)]
    first = 19**rank._READER * search[0]
    second = search[1]
    third = 19**rank._READER * search[2]
    none = 1 / (1 + first)
    assert found.no_answer == pytest.approx(none)
    assert [one.text for one in found] == ["a", "c", "b"]
    for one, odds in zip(found, (first, third, second), strict=True):
        share = odds / (first + second + third)
        assert one.confidence == pytest.approx((1 - none) * share * 0.8)
    sure = choose(passages, [said("a", 0.05), said("A.", 0.05), said(".", 0.05)], 3)
    assert [one.text for one in sure] == ["a"]  # the same answer once, and no full stop
    assert choose([], [], 3).guess is None


def test_no_answer_is_given_above_the_doubt() -> None:
    poor = [passage("a", 0.2), passage("b", 0.1)]
    found = choose(poor, [said("a", 0.6), said("b", 0.6)], 3)
    assert found.absent
    assert len(found) == 0
    assert found.guess is not None
    assert found.guess.text == "a"
    assert [one.text for one in choose(poor, [said("a", 0.6), said("b", 0.6)], 3, always=True)] == ["a", "b"]


def test_a_reader_that_cannot_tell_reads_the_passages_as_one(shelf: Shelf, small: Reader) -> None:
    blind = Reader(small.folder, small.engine)
    blind.decision = None
    found = Shelf(shelf.index, blind).ask("Who founded the observatory?")
    assert found.none is None
    assert (found[0].text, found[0].file) == ("Maria Mitchell", "report.pdf")
    text = found[0].passage.text
    assert text[found[0].answer.start : found[0].answer.end] == "Maria Mitchell"


def test_why(shelf: Shelf) -> None:
    best = shelf.ask("Where does the Danube rise?")[0]
    told = shelf.explain("Where does the Danube rise?", best.passage)
    assert "Danube" in told.passage.words
    assert len(told.rounds) == 3


def test_the_commands(docs: Path, tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2", reason="PDF documents need pypdfium2")
    run, index = CliRunner(), str(tmp_path / "i")
    made = run.invoke(app, ["index", str(docs), "--out", index])
    assert made.exit_code == 0, made.output
    assert "5 documents (5 new, 0 changed, 0 gone, 0 as they were)" in made.stderr
    again = json.loads(run.invoke(app, ["index", str(docs), "--out", index, "--json"]).stdout)
    assert (again["unchanged"], again["refused"]) == (5, [])
    asked = run.invoke(app, ["ask", "--index", index, ASKED[5][0], "Who won the chess tournament?"])
    assert asked.exit_code == 0, asked.output
    assert "Maria Mitchell" in asked.stdout
    assert "report.pdf, page 2" in asked.stdout
    assert "founded by [Maria Mitchell]" in asked.stdout
    assert "not in these documents" in asked.stdout
    tree = json.loads(run.invoke(app, ["ask", "-i", index, "--json", ASKED[2][0]]).stdout)
    best = tree["answers"][0]
    assert (best["text"], best["file"], best["heading"]) == ("Black Forest", "rivers.md", "Rivers")
    assert (docs / "rivers.md").read_text()[best["start"] : best["end"]] == "Black Forest"
    assert run.invoke(app, ["ask", "-i", index, "-p", "x", "Who?"]).exit_code == 2
    assert run.invoke(app, ["ask", "-i", str(docs), "Who?"]).exit_code == 1
    assert run.invoke(app, ["chat"]).exit_code == 2


def test_a_passage_of_any_kind(docs: Path) -> None:
    run = CliRunner()
    asked = run.invoke(app, ["ask", "-p", str(docs / "bridge.docx"), "--json", ASKED[4][0]])
    best = json.loads(asked.stdout)["answers"][0]
    assert best["text"] == "John Fowler"
    assert read_document(docs / "bridge.docx").original[best["start"] : best["end"]] == "John Fowler"


def test_a_passage_with_pages_is_cited_with_its_page(docs: Path) -> None:
    pytest.importorskip("pypdfium2", reason="PDF documents need pypdfium2")
    run, paper = CliRunner(), str(docs / "report.pdf")
    assert "Maria Mitchell  (" in (told := run.invoke(app, ["ask", "-p", paper, ASKED[5][0]]).stdout)
    assert ")  page 2   " in told
    both = run.invoke(app, ["ask", "-p", str(docs / "rivers.md"), "-p", paper, ASKED[5][0], "--json"])
    best = json.loads(both.stdout)["answers"][0]
    assert (best["text"], best["file"], best["page"]) == ("Maria Mitchell", paper, 2)
    tree = json.loads(run.invoke(app, ["ask", "-p", str(docs / "rivers.md"), ASKED[2][0], "--json"]).stdout)
    assert "page" not in tree["answers"][0]


def test_one_is_not_several(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.txt").write_text("Ada wrote it.")
    (tmp_path / "one" / "b.bin").write_bytes(bytes(range(256)))
    told = CliRunner().invoke(app, ["index", str(tmp_path / "one"), "--out", str(tmp_path / "i")]).stderr
    assert ": 1 document (1 new, 0 changed, 0 gone, 0 as they were); 1 file that cannot be read.\n" in told


def test_a_folder_is_no_passage_but_can_be_indexed(docs: Path) -> None:
    with pytest.raises(UserError, match=r"docs: a folder; make an index of it and ask that: rmreader index .*docs\.$"):
        read_document(docs)


def test_a_copy_of_a_document_changes_no_answer(shelf: Shelf, docs: Path, tmp_path: Path, small: Reader) -> None:
    for name in ("copy", "backup"):
        shutil.copytree(docs, tmp_path / "more" / name)
    several = Shelf.open(tmp_path / "several", small)
    several.add(docs, tmp_path / "more")
    for question, *_ in ASKED:
        once, again = shelf.ask(question), several.ask(question)
        assert [one.text for one in again] == [one.text for one in once]
        assert [one.confidence for one in again] == pytest.approx([one.confidence for one in once], abs=0.1)


def test_a_conversation(shelf: Shelf, tmp_path: Path) -> None:
    out, lines = (
        StringIO(),
        iter([ASKED[5][0], ":passage", "Who won the chess tournament?", f":open {tmp_path}/x", ":q"]),
    )
    ShelfChat(shelf, Console(file=out, width=100)).run(lambda _: next(lines))
    shown = out.getvalue()
    for words in ("5 documents", "Maria Mitchell", "report.pdf, page 2", "not in these documents", "no such index"):
        assert words in shown


def test_asking_a_shelf_needs_nothing_heavy(docs: Path, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom rmreader import Shelf\n"
        f"s = Shelf.open({str(tmp_path / 'i')!r})\ns.add({str(docs / 'rivers.md')!r})\n"
        "print(s.ask('Where does the Danube rise?')[0].text)\n"
        "print([name for name in ('torch', 'pypdfium2', 'opensearchpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Black Forest\n[]\n"
    assert rmreader.Shelf is Shelf
