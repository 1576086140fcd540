"""Downloads against a real HTTP server on this machine that misbehaves in every way it is told to."""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rmreader.core.errors import UserError
from rmreader.data import download as downloads
from rmreader.data.download import File, download, fetch

CONTENT = hashlib.shake_256(b"rmreader").digest(300_000)


class Server(ThreadingHTTPServer):
    """Serves ``content`` at every address, with the faults switched on below."""

    daemon_threads = True
    content = CONTENT
    cut_after: int | None = None  # bytes of a reply after which the connection breaks
    ranges = True  # False: ignores Range and sends everything
    status: list[int]  # answers to give first, one a request
    silent = 0.0  # seconds to say nothing before answering
    length = True  # False: no Content-Length, the end is where the connection closes

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = []
        self.asked: list[str] = []  # the Range header of each request

    def file(self, **changes: object) -> File:
        """The served file, as the download list would describe it."""
        given = {
            "name": "data.bin",
            "url": f"http://127.0.0.1:{self.server_port}/data.bin",
            "size": len(self.content),
            "digest": "sha256:" + hashlib.sha256(self.content).hexdigest(),
        }
        return File(**(given | changes))  # type: ignore[arg-type]

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hung up is part of the game."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers.get("Range", "")
        server.asked.append(wanted)
        time.sleep(server.silent)
        if server.status:
            self.send_error(server.status.pop(0))
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and server.ranges else 0
        if start and start >= len(server.content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(server.content)}")
            self.end_headers()
            return
        body = server.content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(server.content) - 1}/{len(server.content)}")
        if server.length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: server.cut_after])

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def get(file: File, folder: Path, attempts: int = 3, timeout: float = 5.0) -> Path:
    return fetch(file, folder, timeout=timeout, attempts=attempts, pause=0.001)


def left_behind(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def test_a_file_arrives_whole_and_nothing_else_is_left(server: Server, tmp_path: Path) -> None:
    path = get(server.file(), tmp_path / "new" / "folder")
    assert path.read_bytes() == CONTENT
    assert left_behind(path.parent) == {"data.bin"}


@pytest.mark.parametrize("length", [True, False])
def test_a_cut_connection_is_resumed_where_it_broke(server: Server, tmp_path: Path, length: bool) -> None:
    server.cut_after, server.length = 100_000, length
    path = get(server.file(), tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.asked == ["", "bytes=100000-", "bytes=200000-"]


def test_a_connection_may_break_as_often_as_it_likes_while_something_arrives(server: Server, tmp_path: Path) -> None:
    server.cut_after = 50_000
    assert get(server.file(), tmp_path, attempts=2).read_bytes() == CONTENT
    assert len(server.asked) == 6


def test_a_later_call_goes_on_from_what_an_earlier_one_left(server: Server, tmp_path: Path) -> None:
    server.cut_after = 120_000
    with pytest.raises(UserError, match="kept"):
        _cut_once_then_fail(server, tmp_path)
    assert left_behind(tmp_path) == {"data.bin.part"}
    server.cut_after, server.status = None, []
    server.asked.clear()
    assert get(server.file(), tmp_path).read_bytes() == CONTENT
    assert server.asked == ["bytes=120000-"]


def _cut_once_then_fail(server: Server, folder: Path) -> None:
    """One reply cut short, then a server that has fallen over."""
    original, replies = Handler.do_GET, itertools.count()

    def once(handler: Handler) -> None:
        handler.server.status = [503] if next(replies) else []  # set before the reply, which the client acts on
        original(handler)

    Handler.do_GET = once  # type: ignore[method-assign]
    try:
        get(server.file(), folder)
    finally:
        Handler.do_GET = original  # type: ignore[method-assign]


def test_a_server_that_ignores_ranges_is_read_from_the_start_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(CONTENT[:50_000])
    server.ranges = False
    assert get(server.file(), tmp_path).read_bytes() == CONTENT
    assert server.asked == ["bytes=50000-"]


def test_a_foreign_partial_file_is_dropped_and_the_whole_file_fetched(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(b"x" * 50_000)
    assert get(server.file(), tmp_path).read_bytes() == CONTENT
    assert server.asked == ["bytes=50000-", ""]


def test_a_partial_file_that_is_too_long_is_dropped(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(b"x" * 400_000)
    assert get(server.file(), tmp_path).read_bytes() == CONTENT


def test_wrong_bytes_are_refused_and_thrown_away(server: Server, tmp_path: Path) -> None:
    good = server.file()
    server.content = b"!" + CONTENT[1:]
    with pytest.raises(UserError, match=r"its sha256 is .* and not the published"):
        get(good, tmp_path)
    assert left_behind(tmp_path) == set()


def test_too_many_bytes_are_refused_without_reading_them_all(server: Server, tmp_path: Path) -> None:
    good = server.file()
    server.content = CONTENT * 100
    with pytest.raises(UserError, match="its size is"):
        get(good, tmp_path)
    assert left_behind(tmp_path) == set()


def test_a_file_shorter_than_published_is_given_up(server: Server, tmp_path: Path) -> None:
    good = server.file()
    server.content = CONTENT[:100_000]  # asking for more of it is answered with 416
    with pytest.raises(UserError, match="3 times in a row"):
        get(good, tmp_path)


def test_a_file_without_a_published_checksum_is_checked_by_size(server: Server, tmp_path: Path) -> None:
    assert get(server.file(digest=""), tmp_path).read_bytes() == CONTENT


def test_a_missing_file_is_said_at_once(server: Server, tmp_path: Path) -> None:
    server.status = [404]
    with pytest.raises(UserError, match="404") as caught:
        get(server.file(), tmp_path)
    assert len(server.asked) == 1
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_busy_server_is_asked_again(server: Server, tmp_path: Path) -> None:
    server.status = [503, 429]
    assert get(server.file(), tmp_path).read_bytes() == CONTENT
    assert len(server.asked) == 3


def test_a_server_that_stays_silent_is_given_up(server: Server, tmp_path: Path) -> None:
    server.silent = 0.6
    with pytest.raises(UserError, match="fell silent, 2 times in a row"):
        get(server.file(), tmp_path, attempts=2, timeout=0.1)


def test_offline_the_message_says_which_address_and_what_to_do(tmp_path: Path) -> None:
    with Server() as closed:
        file = closed.file()
    # Nobody listens at that address any more.
    with pytest.raises(UserError) as caught:
        get(file, tmp_path, attempts=2)
    message = str(caught.value)
    assert file.url in message
    assert "cannot be reached" in message
    assert f"put it, as data.bin, into {tmp_path}" in message


def test_what_is_there_already_is_kept_and_not_asked_for(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(CONTENT)
    get(server.file(), tmp_path)
    assert server.asked == []


def test_a_different_file_in_the_way_is_never_overwritten(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"mine")
    with pytest.raises(UserError, match="move it away"):
        get(server.file(), tmp_path)
    assert (tmp_path / "data.bin").read_bytes() == b"mine"


def test_one_member_is_taken_out_of_an_archive_and_the_archive_removed(server: Server, tmp_path: Path) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("small.txt", "the 0.1 0.2\n")
        zipped.writestr("large.txt", "not wanted\n")
    server.content = archive.getvalue()
    file = server.file(name="vectors.zip", member="small.txt")
    path = get(file, tmp_path)
    assert path.read_text() == "the 0.1 0.2\n"
    assert left_behind(tmp_path) == {"small.txt"}
    get(file, tmp_path)
    assert len(server.asked) == 1


def test_a_damaged_archive_is_one_sentence(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be taken out"):
        get(server.file(name="vectors.zip", member="small.txt"), tmp_path)
    assert left_behind(tmp_path) == set()


def test_a_set_is_fetched_by_name(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(downloads.SETS, "elmo", (server.file(name="options.json"), server.file(name="weights.hdf5")))
    assert download("elmo", tmp_path) == [tmp_path / "elmo" / "options.json", tmp_path / "elmo" / "weights.hdf5"]
    with pytest.raises(UserError, match="choose one of squad, adversarial, glove, elmo"):
        download("imagenet", tmp_path)


def test_the_published_adversarial_checksums_are_those_of_the_real_files(real_data: Path, tmp_path: Path) -> None:
    for file in downloads.SETS["adversarial"]:
        path = tmp_path / file.name
        path.write_bytes(gzip.decompress((real_data / "adversarial" / f"{file.name}.gz").read_bytes()))
        assert fetch(file, tmp_path) == path  # already there and equal to what is published: no network is needed
