"""An index that is replaced while a server is asked: the next question has the new answer, no 500, no crash."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rmreader.documents import sqlite_file, sqlite_index
from rmreader.documents.shelf import Shelf
from rmreader.documents.sqlite_index import SqliteIndex

REPLACEMENTS = int(os.environ.get("RMREADER_REPLACEMENTS", "6"))  # by cp and by mv, in turn
QUESTION = "Who built the lighthouse?"
BUILDERS = ["Ada Marlow", "Bela Quist"]


def make_index(folder: Path, builder: str, documents: int) -> Path:
    """An index whose size depends on ``documents``, so that one copied over another changes every page."""
    texts = folder / builder
    texts.mkdir()
    (texts / "light.txt").write_text(f"The lighthouse was built by {builder} in 1843.")
    for number in range(documents):
        text = "\n\n".join(f"Ship {number} carries {k * number} tons of grain to harbour {k}. " * 9 for k in range(20))
        (texts / f"ship-{number}.txt").write_text(text)
    path = folder / f"{builder}.rmindex"
    index = SqliteIndex(path)
    Shelf(index).add(texts, workers=1)
    index.close()
    return path


def replace_file(new: Path, path: Path, how: str) -> None:
    if how == "mv":
        moving = path.with_name("moving")
        shutil.copyfile(new, moving)
        subprocess.run(["mv", str(moving), str(path)], check=True)
    else:
        subprocess.run(["cp", str(new), str(path)], check=True)


@pytest.fixture
def indexes(tmp_path: Path) -> list[Path]:
    return [make_index(tmp_path, BUILDERS[0], 10), make_index(tmp_path, BUILDERS[1], 60)]


@pytest.fixture
def url(tmp_path: Path, indexes: list[Path]) -> Iterator[str]:
    """A server in a process of its own, which a signal could end."""
    shutil.copyfile(indexes[0], tmp_path / "served.rmindex")
    command = [sys.executable, "-m", "rmreader", "serve", "--port", "0", "--index", str(tmp_path / "served.rmindex")]
    command += ["--deadline", "60"]  # so that nothing is refused because the machine is busy
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    stderr = process.stderr
    log = threading.Thread(target=stderr.read)  # so that the server never waits to write it
    try:
        address = ""
        while not address:
            line = stderr.readline()
            assert line, "the server ended"
            if '"serving"' in line:
                address = line.split('"url": "')[1].split('"')[0]
        log.start()
        yield address
        assert process.poll() is None, f"the server ended with {process.returncode}"
    finally:
        process.kill()
        process.wait()
        if log.ident is not None:
            log.join()
        stderr.close()


@pytest.mark.slow
def test_a_server_notices_a_replaced_index(tmp_path: Path, indexes: list[Path], url: str) -> None:
    stop = threading.Event()
    statuses: list[int] = []
    refusals: set[str] = set()
    ways = ["mv"]  # how the index was replaced, the last one now; nothing is replaced yet
    refused_ways: set[str] = set()

    def ask() -> Any:
        way = ways[-1]
        response = httpx.post(f"{url}/v1/ask", json={"question": QUESTION, "always": True}, timeout=90)
        statuses.append(response.status_code)
        if response.status_code == 503:
            refusals.add(response.json()["error"]["message"])
            refused_ways.add(way)
        return response.json()

    def load() -> None:
        while not stop.is_set():
            ask()

    threads = [threading.Thread(target=load) for _ in range(3)]
    assert ask()["answer"]["text"] == BUILDERS[0]
    for thread in threads:
        thread.start()
    old = 0  # answers that a question asked after the replacement had from the old file
    try:
        for number in range(REPLACEMENTS):
            # Each of the two ways in turn, each with the larger and with the smaller index.
            side = (number + 1) % 2
            ways.append(["cp", "mv"][number // 2 % 2])
            replace_file(indexes[side], tmp_path / "served.rmindex", ways[-1])
            old += ask()["answer"]["text"] != BUILDERS[side]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    print(f"{REPLACEMENTS} replacements, {len(statuses)} questions, {old} old answers after them")
    # Where the disk is busy, `cp` empties the file and writes nothing for a second: such a file is not waited for.
    assert set(statuses) <= {200, 503}
    assert refusals <= {"The index is being replaced, and cannot be read yet: ask again."}
    assert refused_ways <= {"cp"}, "a file that is moved there is whole at once"
    assert statuses.count(503) < REPLACEMENTS
    assert old == 0


@pytest.mark.parametrize("how", ["cp", "mv"])
def test_a_shelf_that_lives_long_notices_a_replaced_index(tmp_path: Path, indexes: list[Path], how: str) -> None:
    path = tmp_path / "served.rmindex"
    shutil.copyfile(indexes[1], path)
    shelf = Shelf.open(path)
    for side in (1, 0, 1, 0):
        replace_file(indexes[side], path, how)
        assert BUILDERS[side] in shelf.search(QUESTION, 1)[0].text


def test_a_shelf_waits_for_a_copy_that_is_under_way(tmp_path: Path, indexes: list[Path]) -> None:
    path = tmp_path / "served.rmindex"
    shutil.copyfile(indexes[0], path)
    shelf = Shelf.open(path)
    assert BUILDERS[0] in shelf.search(QUESTION, 1)[0].text
    content = indexes[1].read_bytes()
    half_written = threading.Event()

    def copy_slowly() -> None:
        with path.open("wb") as file:
            for begin in range(0, len(content), len(content) // 8):
                file.write(content[begin : begin + len(content) // 8])
                file.flush()
                half_written.set()
                time.sleep(0.05)

    copying = threading.Thread(target=copy_slowly)
    copying.start()
    half_written.wait()
    try:
        assert BUILDERS[1] in shelf.search(QUESTION, 1)[0].text
    finally:
        copying.join()


@pytest.fixture
def small_indexes(tmp_path: Path) -> list[Path]:
    return [make_index(tmp_path, BUILDERS[0], 0), make_index(tmp_path, BUILDERS[1], 4)]


def test_vectors_of_the_old_file_are_not_taken_for_those_of_the_new(
    tmp_path: Path, small_indexes: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "served.rmindex"
    shutil.copyfile(small_indexes[1], path)
    shelf = Shelf.open(path)
    format_of = sqlite_index.application_id
    replaced = threading.Event()

    def replace_within(base: sqlite3.Connection) -> int:
        if not replaced.is_set():  # the old file is open, and its vectors are not read yet
            replaced.set()
            replace_file(small_indexes[0], path, "mv")
        return format_of(base)

    monkeypatch.setattr(sqlite_index, "application_id", replace_within)
    assert BUILDERS[0] in shelf.search(QUESTION, 1)[0].text
    assert replaced.is_set()


def test_a_file_is_as_old_as_when_the_work_began(
    tmp_path: Path, small_indexes: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "served.rmindex"
    shutil.copyfile(small_indexes[0], path)
    now = [path.stat().st_mtime]
    monkeypatch.setattr(sqlite_file.time, "time", lambda: now[0])
    attempts: list[float] = []

    def work(base: sqlite3.Connection) -> str:
        attempts.append(now[0])
        if len(attempts) == 1:
            now[0] += 5  # a busy machine
            raise ValueError("half copied")
        return "read"

    assert SqliteIndex(path).file.read(work) == "read"


def test_the_old_index_answers_until_the_new_one_opens(
    tmp_path: Path, small_indexes: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "served.rmindex"
    shutil.copyfile(small_indexes[0], path)
    half = tmp_path / "half"
    half.write_bytes(small_indexes[1].read_bytes()[:1000])
    os.utime(half, (1e9, 1e9))  # not so young that it would be waited for
    shelf = Shelf.open(path)
    assert BUILDERS[0] in shelf.search(QUESTION, 1)[0].text
    half.rename(path)
    for _ in range(3):
        assert BUILDERS[0] in shelf.search(QUESTION, 1)[0].text
    path.unlink()
    assert BUILDERS[0] in shelf.search(QUESTION, 1)[0].text
    said = [record.getMessage() for record in caplog.records if record.name == "rmreader.documents"]
    assert said == ["index_replaced_old_one_answers"] * 2  # once for each
    replace_file(small_indexes[1], path, "mv")
    assert BUILDERS[1] in shelf.search(QUESTION, 1)[0].text


def test_an_index_that_is_half_copied_for_long_is_no_fault(
    start: Any, reader: Any, tmp_path: Path, small_indexes: list[Path]
) -> None:
    path = tmp_path / "served.rmindex"
    shutil.copyfile(small_indexes[0], path)
    server = start(shelf=Shelf.open(path, reader))
    question = {"question": QUESTION, "always": True}
    assert server.post("/v1/ask", question).status_code == 200
    path.write_bytes(small_indexes[1].read_bytes()[:1000])
    os.utime(path, (1e9, 1e9))
    refused = server.post("/v1/ask", question)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert "served" not in refused.text
    path.write_bytes(small_indexes[1].read_bytes())
    assert server.post("/v1/ask", question).status_code == 200
