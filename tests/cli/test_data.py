"""``rmreader data``: check and download, through the command line."""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rmreader.cli import app
from rmreader.cli.data import Set
from rmreader.data import download as downloads

RUN = CliRunner()
PASSAGE = "The lamp was first lit in 1871 by Ada Stone."


def squad(*answers: tuple[str, int], version: str = "1.1") -> dict[str, Any]:
    """A file with one question for each answer."""
    rows = [
        {"id": str(k), "question": "What?", "answers": [{"text": text, "answer_start": start}]}
        for k, (text, start) in enumerate(answers)
    ]
    return {"version": version, "data": [{"title": "Lamps", "paragraphs": [{"context": PASSAGE, "qas": rows}]}]}


def test_a_good_file_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "good.json.gz"
    path.write_bytes(gzip.compress(json.dumps(squad(("1871", 26), ("187", 26))).encode()))
    done = RUN.invoke(app, ["data", "check", str(path), "--json"])
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    assert (report["articles"], report["paragraphs"], report["questions"], report["answers"]) == (1, 1, 2, 2)
    assert (report["on_boundaries"], report["on_boundaries_share"]) == (1, 0.5)  # 187 ends inside 1871
    assert report["problems"] == []
    table = RUN.invoke(app, ["data", "check", str(path)])
    assert table.exit_code == 0
    assert "50.000 % of the answers lie on token boundaries" in table.stdout


def test_bad_rows_are_named_and_the_status_says_so(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(squad(("1871", 26), ("1871", 25))))
    done = RUN.invoke(app, ["data", "check", str(path), "--json"])
    assert done.exit_code == 1
    report = json.loads(done.stdout)
    (problem,) = report["problems"]
    assert problem["file"] == str(path)
    assert (problem["article"], problem["paragraph"], problem["id"]) != (None, None, None)
    assert problem["id"] == "1"
    assert report["questions"] == 1
    listed = RUN.invoke(app, ["data", "check", str(path)])
    assert listed.exit_code == 1
    assert "id 1" in listed.stdout


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"data": 3}', b"\xff\xfe", b"\x1f\x8b\x08junk"])
def test_a_file_that_is_no_data_set_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "junk.json"
    path.write_bytes(content)
    done = RUN.invoke(app, ["data", "check", str(path)])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {path}: ")
    assert done.stderr.count("\n") == 1


def test_the_names_that_can_be_downloaded_are_those_on_the_list() -> None:
    assert {choice.value for choice in Set} == set(downloads.SETS)
    assert RUN.invoke(app, ["data", "download", "imagenet"]).exit_code == 2


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A web server over a folder that holds dev.json."""
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "dev.json").write_text("{}")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_download_prints_where_the_files_are(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = downloads.File("dev.json", address + "dev.json", 2, "md5:" + hashlib.md5(b"{}").hexdigest())
    monkeypatch.setitem(downloads.SETS, "squad", (file,))
    done = RUN.invoke(app, ["data", "download", "squad", "--to", str(tmp_path / "data")])
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path / 'data' / 'dev.json'}\n")
    assert (tmp_path / "data" / "dev.json").read_text() == "{}"


def test_a_download_without_a_published_checksum_says_so(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(downloads.SETS, "elmo", (downloads.File("dev.json", address + "dev.json", 2),))
    done = RUN.invoke(app, ["data", "download", "elmo", "--to", str(tmp_path)])
    assert done.exit_code == 0
    assert "no checksum" in done.stderr


def test_a_failed_download_is_one_sentence(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(downloads.SETS, "squad", (downloads.File("dev.json", address + "gone.json", 2, "md5:0"),))
    done = RUN.invoke(app, ["data", "download", "squad", "--to", str(tmp_path)])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "404" in done.stderr
    assert done.stderr.count("\n") == 1
