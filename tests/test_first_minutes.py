"""The README's commands, copied from the file and run in order; `.ci/wheel` runs them from the wheel alone."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from support.first_minutes import ROOT, check, commands, run
from support.guide import differences


def test_the_readme_s_commands_name_files_that_are_there() -> None:
    words = [word for command in commands() for word in command if word.startswith("examples/")]
    assert len(words) >= 4
    assert all((ROOT / word).is_file() for word in words)


@pytest.mark.slow
def test_the_first_five_minutes_and_the_first_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.delenv("RMREADER_CACHE", raising=False)
    minutes = tmp_path / "minutes"
    minutes.mkdir()
    said = run(sys.executable, minutes)
    check(said)
    answers = (minutes / "answers.csv").read_text(encoding="utf-8")
    assert "Samuel Osei" in answers
    assert answers.count("\n") == 6
    # The tutorial tunes with the same command, which takes too long to be run twice.
    tuning = next(words for words in commands() if "tune" in words)
    shutil.copytree(minutes / "mine", tmp_path / "hour" / "mine")
    page = ROOT / "docs" / "tutorial.md"
    unlike = differences(page, tmp_path / "hour", {" ".join(tuning): said["tune"]})
    assert not unlike, "\n".join(unlike)
