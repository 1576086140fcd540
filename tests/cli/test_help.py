"""What a stranger sees first: the help of every verb, without Python's names for types."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from rmreader.cli import app

ROOT = typer.main.get_command(app)
TYPE = re.compile(r"<(bool|str|path|int|float|list)\b[^|>]*>")


def verbs(group: Any = ROOT, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every verb with the words that call it, those that are hidden left out."""
    yield words, group
    for name, command in getattr(group, "commands", {}).items():
        if not command.hidden:
            yield from verbs(command, (*words, name))


VERBS = dict(verbs())


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_help_names_what_each_option_takes(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = CliRunner().invoke(app, [*words, "--help"])
    assert done.exit_code == 0
    options = done.output.partition("─ Options")[2]
    assert "--help" in options
    assert not TYPE.search(options)


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_a_verb_is_described_in_one_line(words: tuple[str, ...]) -> None:
    """A line break in it would stand in the list of verbs."""
    first = VERBS[words].help.strip().partition("\n\n")[0]
    assert "\n" not in first
    assert first.endswith(".")


def test_every_verb_was_looked_at() -> None:
    assert {("ask",), ("index",), ("serve",), ("data", "check"), ("export", "small")} < set(VERBS)


def test_the_first_command_that_the_help_gives_answers() -> None:
    _, _, command = ROOT.epilog.partition("rmreader ")
    done = CliRunner().invoke(app, shlex.split(command))
    assert done.exit_code == 0
    assert "1871" in done.output
