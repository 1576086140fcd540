"""Scans: read through ``ocrmypdf`` where it is installed, and named where it is not.

The program itself is tried where there is one. Elsewhere a program of its name stands in for it, so
that how it is called, how it fails and how long it may take are tried everywhere.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pypdfium2
import pytest

from rmreader import Shelf
from rmreader.core.errors import UserError
from rmreader.documents import ocr
from tests.support.documents import pdf

SCAN = pdf([[]])  # a page without a letter


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "scan.pdf").write_bytes(SCAN)
    (folder / "note.txt").write_text("The key is under the stone.")
    return folder


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str) -> None:
    """A program of that name, in Python, that gets the two paths last."""
    programs = tmp_path / "programs"
    programs.mkdir()
    program = programs / ocr.PROGRAM
    head = f"#!{sys.executable}\nimport sys, time\nscan, made = sys.argv[-2:]\n"
    program.write_text(head + lines)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))


def test_without_the_program_it_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    shelf = Shelf.open(tmp_path / "i")
    with pytest.raises(UserError, match="ocrmypdf is not installed; install it"):
        shelf.add(folder, ocr=True)
    # Without --ocr the scan is left out, and the sentence says what to do.
    assert [line for line in shelf.add(folder).refused if "--ocr" in line] != []


def test_a_scan_that_was_left_out_is_read(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf.open(tmp_path / "i")
    assert len(shelf.add(folder).refused) == 1
    text = tmp_path / "with-text.pdf"
    text.write_bytes(pdf([["The parcel weighs four kilos."]]))
    copy = f"import shutil\nassert open(scan, 'rb').read(4) == b'%PDF'\nshutil.copy({str(text)!r}, made)\n"
    install(tmp_path, monkeypatch, copy)
    done = shelf.add(folder, ocr=True)
    assert (done.changed, done.unchanged, done.refused) == (1, 1, [])
    assert done.notes == ["scan.pdf: a scan; its text was recognised, and words of it may be wrong."]
    (passage, *_) = shelf.search("How heavy is the parcel?", 1)
    assert (passage.file, passage.text) == ("scan.pdf", "The parcel weighs four kilos.")
    # Once read it stays, with --ocr and without.
    assert shelf.add(folder, ocr=True).unchanged == 2
    assert shelf.add(folder).unchanged == 2


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("print('a page is turned', file=sys.stderr)\nsys.exit(3)", "(ocrmypdf: a page is turned)"),
        ("sys.exit(0)", "(ocrmypdf: no reason)"),
        (f"open(made, 'wb').write({SCAN!r})", "no text in it, and none was recognised"),
        ("open(made, 'wb').write(b'%PDF-1.4 broken')", "scan.pdf: "),
    ],
)
def test_what_it_cannot_do_is_a_remark_on_that_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, sentence: str
) -> None:
    install(tmp_path, monkeypatch, lines)
    shelf = Shelf.open(tmp_path / "i")
    done = shelf.add(folder, ocr=True)
    assert done.added == 1
    assert len(done.refused) == 1
    assert sentence in done.refused[0]
    assert shelf.add(folder, ocr=True).unchanged == 2  # not tried again and again


def test_it_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "time.sleep(60)")
    with pytest.raises(UserError, match=r"x.pdf: its text could not be recognised in 0.2 s"):
        ocr.recognise("x.pdf", SCAN, seconds=0.2)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="there are no groups of processes here")
@pytest.mark.parametrize("stop", [subprocess.TimeoutExpired(ocr.PROGRAM, 9), KeyboardInterrupt()])
def test_what_it_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: BaseException) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Two processes, as with tesseract: each says that it runs, and holds the pipe until it ends.
    lines = f"import os\nos.fork()\nfile = open({str(pipe)!r}, 'wb', 0)\nfile.write(b'.')\ntime.sleep(60)"
    install(tmp_path, monkeypatch, lines)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    def wait_until_both_run(*_: object, **__: object) -> None:
        said = b""
        while len(said) < 2:
            assert select.select([reader], [], [], 30)[0], "they do not start"
            with contextlib.suppress(BlockingIOError):
                said += os.read(reader, 2)
        raise stop

    monkeypatch.setattr(subprocess.Popen, "communicate", wait_until_both_run)
    try:
        with pytest.raises((UserError, KeyboardInterrupt)):
            ocr.recognise("x.pdf", SCAN)
        assert select.select([reader], [], [], 5)[0], "one of them goes on"
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)


def make_scan(lines: list[str]) -> bytes:
    """A page as a scanner gives it: a grey picture, a little askew, and not one letter of text."""
    page = pypdfium2.PdfDocument(pdf([lines]))[0]
    picture = page.render(scale=3).to_pil().convert("L").rotate(0.4, fillcolor=255)
    scan = io.BytesIO()
    picture.save(scan, "PDF", resolution=216)
    return scan.getvalue()


def test_the_program_itself(tmp_path: Path) -> None:
    if shutil.which(ocr.PROGRAM) is None or shutil.which("tesseract") is None:
        pytest.skip("ocrmypdf and tesseract are not installed")
    pytest.importorskip("PIL", reason="Pillow is not installed, which draws the scan")
    folder = tmp_path / "letters"
    folder.mkdir()
    lines = ["Harbour office, Bergen", "It was sent by Ingrid Solberg on 14 March."]
    (folder / "scan.pdf").write_bytes(make_scan(lines))
    shelf = Shelf.open(tmp_path / "i")
    assert len(shelf.add(folder).refused) == 1
    done = shelf.add(folder, ocr=True)
    assert (done.changed, done.refused) == (1, [])
    (passage,) = shelf.search("Who sent it?", 10)
    assert passage.stretch.page == 1
    assert [line.strip() for line in passage.text.splitlines()] == lines
