"""``rmreader ask`` as hands expect it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rmreader.cli import app
from rmreader.cli.asking import files_and_questions, keyword_lines
from rmreader.cli.read import complete_reader
from rmreader.core.errors import UserError

RUN = CliRunner()


@pytest.fixture
def texts(tmp_path: Path) -> list[str]:
    contents = {"a.txt": "The shop is in London.", "b.txt": "Ada lives in Oslo."}
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    return [str(tmp_path / name) for name in contents]


def test_several_files_after_one_option(texts: list[str]) -> None:
    done = RUN.invoke(app, ["ask", "-p", *texts, "Where does Ada live?"])
    assert done.exit_code == 0
    assert "Oslo" in done.stdout
    assert "b.txt" in done.stdout
    assert done.stdout.count("?") == 1


def test_a_question_that_is_a_file_is_refused(texts: list[str]) -> None:
    for words in ([texts[0], "Where?"], ["-p", *texts], ["-p", texts[0], "Where?", texts[1]]):
        done = RUN.invoke(app, ["ask", *words])
        assert done.exit_code == 1
        assert "this is a file, not a question" in done.stderr
        assert "--passage" in done.stderr
    with pytest.raises(UserError, match="empty"):
        files_and_questions([" "], [])


def test_a_text_for_a_file_hints_at_text() -> None:
    done = RUN.invoke(app, ["ask", "-p", "Ada lives in Oslo.", "Where?"])
    assert done.exit_code == 1
    assert "give it as --text" in done.stderr


def test_another_language_is_said_to_be_one(texts: list[str]) -> None:
    remark = "the question looks like German; this reader reads English only."
    for question in ("Wo wohnt Ada und wer ist sie?", "Wie viele Katzen sind in dem Haus der Tante?"):
        for more in ([], ["--json"], ["--always"]):
            done = RUN.invoke(app, ["ask", "-p", texts[1], question, *more])
            assert done.output.lower().count(remark.lower()) == 1, done.output
            assert "never mentions" not in done.output
    done = RUN.invoke(app, ["ask", "-p", texts[1], "Where does Ada live?"])
    assert done.stderr == ""


def test_keywords_show_the_best_lines() -> None:
    passage = "We bake bread.\nOpening times: daily.\nOur opening hours are 9 to 5."
    assert keyword_lines("opening hours", passage) == ["Our opening hours are 9 to 5."]
    assert keyword_lines("When do you open?", passage) == []
    assert keyword_lines("parking", passage) == []
    done = RUN.invoke(app, ["ask", "--text", passage, "opening hours", "--min-confidence", "1.0"])
    assert "    Our opening hours are 9 to 5." in done.stdout.splitlines()


@pytest.mark.parametrize("verb", ["", "ask", "index", "predict", "evaluate", "serve", "tune"])
def test_the_help_shows_flags_as_flags(verb: str) -> None:
    shown = RUN.invoke(app, [*verb.split(), "--help"], env={"COLUMNS": "200"}).stdout
    assert "--help" in shown
    assert "<bool>" not in shown


def test_a_shell_offers_the_readers() -> None:
    assert complete_reader("")[:2] == ["base", "small"]
    assert complete_reader("sm") == ["small"]


def test_a_large_file_is_indexed_on_the_fly(tmp_path: Path) -> None:
    lines = [f"The ship number {number} lay in the harbour and waited.\n\n" for number in range(40_000)]
    fact = "The lighthouse of Grimsholm was designed by Ottilie Brandt in 1871.\n\n"
    content = "".join([*lines[:25_000], fact, *lines[25_000:]])
    path = tmp_path / "large.txt"
    path.write_text(content)
    question = "Who designed the lighthouse of Grimsholm?"
    done = RUN.invoke(app, ["ask", "-p", str(path), question, "--json"])
    assert done.exit_code == 0, done.stderr
    assert f"{len(content):,} characters: indexed first" in done.stderr
    found = json.loads(done.stdout)["answers"][0]
    assert found["text"] == "Ottilie Brandt"
    assert content[found["start"] : found["end"]] == found["text"]
    assert content.startswith(found["sentence"], found["sentence_start"])
    assert "file" not in found
    shown = RUN.invoke(app, ["ask", "-p", str(path), "-p", __file__, question]).stdout
    assert "large.txt" in shown
