"""Passages: one reader of text, offsets that are right, files that are no text named, several texts as one."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from rmreader.core.errors import UserError
from rmreader.documents.document import OFFSETS
from rmreader.documents.passages import Passages, read_passage
from rmreader.reading.answers import Answer
from rmreader.reading.reader import Reader

TEXT = "First line.\r\n\r\nAda wrote it\rin 1843.\r\n"


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_offsets_are_those_of_the_text_that_python_reads(reader: Reader, tmp_path: Path, mark: bytes) -> None:
    file = tmp_path / "x.txt"
    file.write_bytes(mark + TEXT.encode())
    with eval(OFFSETS) as opened, file.open(encoding="utf-8-sig", newline="") as untouched:
        text, exact = opened.read(), untouched.read()
    assert read_passage(file) == text == TEXT.replace("\r\n", "\n").replace("\r", "\n")
    for answer in reader.ask("Who wrote it?", read_passage(file), top=3):
        assert text[answer.start : answer.end] == answer.text
        at = answer.start  # in the untouched text each \r\n before it adds one
        while at - exact[:at].count("\r\n") < answer.start:
            at += 1
        assert exact[at:].startswith(answer.text.splitlines()[0])


def zipped(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, "text")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"%PDF-1.4\nplain enough to be UTF-8", "a PDF document"),
        (zipped("[Content_Types].xml", "word/document.xml"), "a Word document"),
        (zipped("[Content_Types].xml", "xl/workbook.xml"), "an Excel table"),
        (zipped("a.txt"), "a ZIP archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document"),
        (b"{\\rtf1 Ada wrote it.}", "an RTF document"),
        (b"\x1f\x8b\x08", "a gzip archive"),
        (b"\x00\x01\x02plain", "binary data"),
    ],
)
def test_what_is_no_text_is_named(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "x.txt").write_bytes(content)
    with pytest.raises(UserError, match=says) as caught:
        read_passage(tmp_path / "x.txt")
    assert str(caught.value).count("\n") == 0
    assert "save its text as a UTF-8 file" in str(caught.value)


def test_several_texts_are_one_and_every_answer_is_in_one_of_them() -> None:
    passages = Passages(["a", "b", "c"], ["Ada.", "In London or Oslo.", "1843"])
    assert passages.begins == [0, 6, 26]
    for number, text in enumerate(passages.texts):
        begin = passages.begins[number]
        assert passages.text[begin : begin + len(text)] == text
        for start in range(len(text)):
            inside = Answer(text[start:], begin + start, begin + len(text), 0.0, 1.0, text, begin)
            name, found = passages.locate(inside)
            assert (name, found.start, found.end) == ("abc"[number], start, len(text))
            assert found.sentence_start == 0
