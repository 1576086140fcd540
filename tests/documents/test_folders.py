"""Which files of a folder are indexed, what is said of the others, and a folder that is watched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rmreader.cli import app
from rmreader.core.errors import UserError
from rmreader.documents.folders import FileSelection, list_files
from rmreader.documents.sqlite_index import SqliteIndex

FILES = ["a.md", "b.txt", "drafts/c.md", "drafts/old/d.txt", "notes/e.txt", "notes/drafts/f.md"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    for file in FILES:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(f"The harbour of {file} has a crane.")
    return folder


@pytest.mark.parametrize(
    ("include", "exclude", "left"),
    [
        ([], [], FILES),
        (["*.md"], [], ["a.md", "drafts/c.md", "notes/drafts/f.md"]),
        ([], ["drafts"], ["a.md", "b.txt", "notes/e.txt"]),
        ([], ["drafts/"], ["a.md", "b.txt", "notes/e.txt"]),
        ([], ["./notes/drafts"], ["a.md", "b.txt", "drafts/c.md", "drafts/old/d.txt", "notes/e.txt"]),
        ([], ["drafts/*.md"], ["a.md", "b.txt", "drafts/old/d.txt", "notes/drafts/f.md", "notes/e.txt"]),
        (["*.md", "b.*"], ["notes"], ["a.md", "b.txt", "drafts/c.md"]),
        (["*.pdf"], [], []),
    ],
)
def test_what_is_wanted(folder: Path, include: list[str], exclude: list[str], left: list[str]) -> None:
    assert list_files(folder, None, FileSelection(include, exclude))[1] == sorted(left)


def test_what_is_no_longer_wanted_comes_out(folder: Path, tmp_path: Path) -> None:
    run = partial(CliRunner().invoke, app)
    index = tmp_path / "i"
    assert run(["index", str(folder), "--out", str(index)]).exit_code == 0
    assert SqliteIndex(index).size() == len(FILES)
    done = run(["index", str(folder), "--out", str(index), "--exclude", "drafts", "--include", "*.md", "--json"])
    assert json.loads(done.stdout)["removed"] == 5
    assert [passage.file for passage in SqliteIndex(index).search("harbour crane", 9)] == ["a.md"]


def test_skipped_files_are_one_line_for_each_reason(folder: Path, tmp_path: Path) -> None:
    for number in range(9):
        (folder / f"picture-{number}.png").write_bytes(b"\x89PNG\r\n\x1a\n....")
    (folder / "empty.txt").write_text(" ")
    done = CliRunner().invoke(app, ["index", str(folder), "--out", str(tmp_path / "i")])
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(
        "skipped 9 files (picture-0.png, picture-1.png, picture-2.png and 6 more): this is a PNG"
    )
    assert lines[1].startswith("skipped 1 file (empty.txt): ")
    again = CliRunner().invoke(app, ["index", str(folder), "--out", str(tmp_path / "i"), "--json"])
    tree = json.loads(again.stdout)
    assert sorted(len(files) for files in tree["skipped"].values()) == [1, 9]
    assert len(tree["refused"]) == 10


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_watched_folder_stays_current(folder: Path, tmp_path: Path) -> None:
    index = SqliteIndex(tmp_path / "i")

    def finds(text: str) -> bool:
        try:
            return any(text in passage.text for passage in index.search(text, 20))
        except UserError:  # the index is not there yet
            return False

    command = [sys.executable, "-m", "rmreader", "index", str(folder), "--out", str(tmp_path / "i"), "--watch"]
    heard = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heard)
    try:
        wait_until(lambda: finds("The harbour of a.md"), process)
        (folder / "new.txt").write_text("The lighthouse is painted red.")
        wait_until(lambda: finds("The lighthouse is painted red."), process)
        (folder / "new.txt").write_text("The lighthouse is painted blue.")
        wait_until(lambda: finds("The lighthouse is painted blue."), process)
        (folder / "new.txt").unlink()
        wait_until(lambda: not finds("The lighthouse is painted blue."), process)
        folder.rename(tmp_path / "away")
        assert process.stderr is not None
        assert any("no such folder or file" in line for line in process.stderr)  # an end without it ends this, too
        (tmp_path / "away").rename(folder)
        (folder / "back.txt").write_text("The ferry is back.")
        wait_until(lambda: finds("The ferry is back."), process)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_folder_to_watch_that_is_not_there_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["index", str(tmp_path / "none"), "--out", str(tmp_path / "i"), "--watch"])
    assert done.exit_code == 1
    assert isinstance(done.exception, UserError | SystemExit)
