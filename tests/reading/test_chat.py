"""The conversation, without a terminal."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rmreader.cli.chat import Chat, excerpt, marked, remember
from rmreader.cli.output import show_answers
from rmreader.documents.passages import read_passage
from rmreader.reading.decision import Decision
from rmreader.reading.reader import Reader

PASSAGE = "The letter was written by Ada Lovelace in 1843.\r\nIt was sent to Turin."


def converse(reader: Reader, lines: list[str | type[BaseException]], passage: str = PASSAGE, **options: Any) -> str:
    out = io.StringIO()
    script = iter(lines)

    def ask(prompt: str) -> str:
        line = next(script, EOFError)
        if not isinstance(line, str):
            raise line
        return line

    Chat(reader, passage, Console(file=out, width=100), **options).run(ask)
    return out.getvalue()


def test_questions_are_answered_with_a_table_and_the_passage(reader: Reader) -> None:
    shown = converse(reader, ["Who wrote it?", "", "  ", "When?", ":quit", "Never asked?"])
    best = reader.ask("Who wrote it?", PASSAGE, top=3)
    for answer in best:
        assert " ".join(answer.text.split()) in shown
        assert f"{answer.score:.2f}" in shown
        assert f"{answer.start}–{answer.end}" in shown
        row = next(line for line in shown.splitlines() if f"{answer.start}–{answer.end}" in line)
        assert f" {best.doubt(answer)} " in row
    assert shown.count("confidence") == 2
    assert shown.count("It was sent to Turin.") >= 2


def test_commands(reader: Reader, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("Another passage about Oslo.", encoding="utf-8")
    lines: list[str | type[BaseException]] = [":top 1", "Who?", ":top x", ":nonsense", KeyboardInterrupt]
    lines += [f":open {other}", "Where?", ":passage", ":open /no/such", ":open ~nobody-here/x", ":open a\0b"]
    lines += [f":top {'9' * 5000}", "And who?"]
    shown = converse(reader, lines)
    assert ":top takes a number from 1 to 100" in shown
    assert ":nonsense: no such command" in shown
    assert "Another passage about Oslo." in shown
    assert "/no/such: cannot be read" in shown
    assert shown.count("no such file") == 2
    assert shown.rstrip().endswith("Another passage about Oslo.")  # the conversation went on to the end


def test_no_answer_is_said(reader: Reader) -> None:
    assert "no answer" in converse(reader, ["..."], passage=" ")


@pytest.fixture(scope="module")
def telling(make_reader: Any) -> Reader:
    """A network that can tell whether the passage says it, and a decision that it does not, whatever its logit."""
    reader = Reader.load(make_reader(no_answer=True))
    reader.decision = Decision(shift=30.0, threshold=-1.0)
    return reader


def test_what_the_passage_does_not_say_is_said_as_ask_says_it(
    telling: Reader, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = converse(telling, ["Who ate the moon?", ":passage"])
    answers = telling.ask("Who ate the moon?", PASSAGE)
    assert answers.none is not None
    assert answers.guess is not None
    sentence = f"not in this passage  ({answers.none:.0%} sure; the best guess: {' '.join(answers.guess.text.split())})"
    assert sentence in " ".join(shown.split("\n"))
    assert "confidence" not in shown
    show_answers("Who ate the moon?", answers)
    assert sentence in capsys.readouterr().out


def test_always_gives_the_answers_all_the_same(telling: Reader) -> None:
    shown = converse(telling, ["Who ate the moon?"], always=True)
    answers = telling.ask("Who ate the moon?", PASSAGE, top=3, always=True)
    assert len(answers) == 3
    assert all(f"{answer.start}–{answer.end}" in shown for answer in answers)
    assert "not in this passage" not in shown


def test_what_is_there_but_not_sure_enough_is_not_called_absent(make_reader: Any) -> None:
    reader = Reader.load(make_reader(no_answer=True))
    reader.decision = Decision(threshold=1.0)
    shown = converse(reader, ["Who ate the moon?"], min_confidence=1.0)
    assert "no answer is sure enough  (the best guess: " in shown
    assert "not in this passage" not in shown


def test_marks_stand_exactly_on_the_answers_whatever_is_unprintable(reader: Reader) -> None:
    passage = "\x07First\r\n" + PASSAGE
    answers = reader.ask("Who?", passage, top=3)
    text = marked(passage, answers)
    assert len(text.plain) == len(passage)
    spans = {(span.start, span.end) for span in text.spans}
    assert spans == {(answer.start, answer.end) for answer in answers}


def test_of_a_long_passage_only_the_surroundings_are_shown(reader: Reader) -> None:
    passage = "Some words stand here. " * 300
    answers = reader.ask("What stands here?", passage)
    shown = excerpt(passage, answers).plain
    assert len(shown) < 1000
    assert answers[0].text in shown


def test_passages_that_cannot_be_read_are_one_sentence(tmp_path: Path) -> None:
    from rmreader.core.errors import UserError

    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    for name, says in (("empty", "the passage is empty"), ("latin", "not UTF-8"), ("absent", "cannot be read")):
        with pytest.raises(UserError, match=says):
            read_passage(tmp_path / name)


def test_earlier_questions_are_remembered(tmp_path: Path) -> None:
    readline = pytest.importorskip("readline")
    save = remember(tmp_path / "deep" / "history")
    readline.add_history("Who wrote it?")
    save()
    assert "Who" in (tmp_path / "deep" / "history").read_text()
    readline.clear_history()
    remember(tmp_path / "deep" / "history")
    assert readline.get_history_item(1).replace("\\040", " ") == "Who wrote it?"
    readline.clear_history()
