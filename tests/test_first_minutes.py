"""The README's commands, copied from the file and run in order; `.ci/wheel` runs them from the wheel alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.first_minutes import ROOT, check, commands, run


def test_the_readme_s_commands_name_files_that_are_there() -> None:
    words = [word for command in commands() for word in command if word.startswith("examples/")]
    assert len(words) >= 4
    assert all((ROOT / word).is_file() for word in words)


@pytest.mark.slow
def test_the_first_five_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.delenv("RMREADER_CACHE", raising=False)
    check(run(sys.executable, tmp_path))
    answers = (tmp_path / "answers.csv").read_text(encoding="utf-8")
    assert "Samuel Osei" in answers
    assert answers.count("\n") == 6
