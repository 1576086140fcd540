"""Nothing is destroyed by writing: neither what is read, nor what is no file, nor what somebody else has put there."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rmreader.core.errors import UserError
from rmreader.core.files.atomic import write_whole
from rmreader.core.files.outputs import file_to_write, folder_to_write
from rmreader.predict.predict import predict
from rmreader.reading.export import shrink
from rmreader.reading.reader import Reader
from rmreader.reading.rows import QuestionRow

ROWS = [QuestionRow("a", "Who?", "Ada wrote it.")]


@pytest.mark.parametrize("name", ["p.json", "p.jsonl"])
def test_a_link_is_followed(reader: Reader, tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    link, target = tmp_path / name, tmp_path / "elsewhere" / "target"
    link.symlink_to(target)
    predict(reader, ROWS, link)
    assert link.is_symlink()
    assert '"a"' in target.read_text()
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_a_pipe_is_streamed_to_and_stays(reader: Reader, folder: Path, tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe.json", tmp_path / "link.jsonl"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for out in (pipe, link):
        with ThreadPoolExecutor(1) as other:
            received = other.submit(pipe.read_bytes)
            predict(reader, ROWS, out)
            tree = json.loads(received.result())
        assert tree["a" if out == pipe else "id"] in (reader.ask(ROWS[0].question, ROWS[0].passage)[0].text, "a")
        assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_stream_that_is_full_is_named(reader: Reader) -> None:
    with pytest.raises(UserError, match=r"/dev/full: cannot be written to \(No space left on device\)"):
        predict(reader, ROWS, Path("/dev/full"))


def test_places_where_nothing_can_be_written_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    bad = {
        "-": "standard output",
        tmp_path: "a folder",
        circle: "not an ordinary file",
        tmp_path / "file" / "x": "file,",
    }
    for out, says in bad.items():
        with pytest.raises(UserError, match=says):
            file_to_write(Path(out))


def test_what_is_read_is_never_written(reader: Reader, folder: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    linked = tmp_path / "linked"
    linked.symlink_to(folder)
    for out in (folder / "weights.safetensors", folder / "new.json", linked / "deep" / "new.json"):
        with pytest.raises(UserError, match="which this command reads"):
            predict(reader, ROWS, out)
    with pytest.raises(UserError, match="which this command reads"):
        shrink(folder, folder / "small")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    data, other = tmp_path / "data.json", tmp_path / "other.json"
    data.write_text("precious")
    os.link(data, other)
    for out in (data, other, tmp_path / "." / "data.json"):
        with pytest.raises(UserError, match="which this command reads"):
            file_to_write(out, data)


def test_a_folder_that_is_there_is_not_made_anew(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out.new").mkdir()
    (tmp_path / "out.new" / "precious").write_text("text")
    with pytest.raises(UserError, match=r"out\.new: there already"):
        shrink(folder, tmp_path / "out")
    assert (tmp_path / "out.new" / "precious").read_text() == "text"
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match="gone: there already"):
        folder_to_write(tmp_path / "gone")


def test_errors_name_the_file_and_leave_nothing_behind(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(OSError) as caught:
        write_whole(out, b"content")
    assert caught.value.filename == str(out)
    assert list(tmp_path.iterdir()) == [out]


def test_a_failed_export_leaves_no_folder(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "none.json"
    data.write_text('{"data": []}')
    with pytest.raises(UserError, match=r"none\.json: it holds no question"):
        shrink(folder, tmp_path / "out", data=data)
    assert list(tmp_path.iterdir()) == [data]
