"""Documents: every kind read, encodings said, anything else named and refused, and none that can do harm."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from support.documents import WORD, docx, pdf

import rmreader
from rmreader.core.errors import UserError
from rmreader.documents.document import LARGEST, OFFSETS, read_document
from rmreader.documents.passages import read_passages

TEXT = "Zürich – “naïve”."


@pytest.mark.parametrize(
    ("name", "content", "encoding"),
    [
        ("x.txt", TEXT.encode(), "utf-8"),
        ("x.txt", TEXT.encode("utf-8-sig"), "utf-8"),
        ("x", TEXT.encode(), "utf-8"),
        ("x.txt", TEXT.encode("utf-16"), "utf-16"),
        ("x.txt", b"\xfe\xff" + TEXT.encode("utf-16-be"), "utf-16"),
        ("x.txt", TEXT.encode("cp1252"), "cp1252"),
        ("x.html", b"<meta charset='koi8-r'><p>" + "Дунай".encode("koi8-r"), "koi8-r"),
        ("x.html", b"<meta charset=zlib><p>caf\xe9", "cp1252"),  # which would unfold it
    ],
)
def test_encodings_are_detected_and_said(name: str, content: bytes, encoding: str) -> None:
    document = read_document(name, content)
    if encoding == "utf-8":
        assert (document.note, document.offsets) == ("", OFFSETS)
    else:
        assert document.note == f"{name}: not UTF-8; read as {encoding}."
        assert document.offsets == f"open(file, encoding='{encoding}')"
    text = document.paragraphs[0].text
    assert text == (TEXT if name in ("x", "x.txt") else "Дунай" if encoding == "koi8-r" else "café")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x.txt", b"\x89PNG\r\n\x1a\n", "a PNG image"),
        ("x.md", bytes(range(256)), "binary data"),
        ("x.txt", bytes(range(1, 256)), "binary data"),
        ("x.bin", b"\xff\xd8\xff\xe0", "a JPEG image"),
        ("x.log", b"caf\xe9", "not UTF-8 text"),
        ("x.docx", b"%PDF-1.4", "this is a PDF document, not a Word document"),
        ("x.pdf", b"hello", "not a PDF document"),
        ("x.docx", b"PK\x03\x04 cut", "not an archive that can be opened"),
        ("x.docx", docx([], xml="<w:document"), "it is damaged"),
        ("x.docx", docx([]), "no text in it"),
        ("x.html", b"<p><script>1</script><!-- x -->", "nothing but markup"),
        ("x.txt", b"  \n", "empty"),
        ("x.pdf", b"%PDF-1.4\nnothing", "pypdfium2 cannot read"),
        ("x.pdf", pdf([[]]), "no text in it"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(name: str, content: bytes, says: str) -> None:
    pytest.importorskip("pypdfium2", reason="PDF documents need pypdfium2")
    with pytest.raises(UserError, match=says) as caught:
        read_document(name, content)
    assert str(caught.value).startswith(f"{name}: ")


HTML_TABLE = (
    "<table><tr><th>Lesson</th> <th>Price</th></tr>\n<tr>\n  <td><p>Group <b>lesson</b></p></td>\n  <td>&euro;32<br>"
    "</td></tr><tr><td>Trail ride<td>&euro;78</table><p>Closed:</p><dl><dt>Sunday</dt> <dd>10 to 4</dd><dt>Monday"
    "<dd>never</dl>"
)
ROWS = ["Lesson: Group lesson, Price: €32.", "Lesson: Trail ride, Price: €78."]
TERMS = ["Closed:", "Sunday\t10 to 4", "Monday\tnever"]
BARS = "Before.\n\n| Lesson | Price |\n|---|--:|\n| **Group** lesson | €32 |\n| Trail ride | €78 |\nAfter.\n"
BARE = "Lesson | Price\n---|---\nGroup lesson | €32\nTrail ride | €78\n\nAfter."


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("x.html", HTML_TABLE, [*ROWS, *TERMS]),
        ("x.md", BARS, ["Before.", *ROWS, "After."]),
        ("x.md", BARE, [*ROWS, "After."]),
        (
            "x.html",
            f"<table><tr><td>{'Long. ' * 80}<td>Next.<tr><td>1<td>2",
            [("Long. " * 80).strip(), "Next.", "1\t2"],
        ),
    ],
)
def test_a_row_of_a_table_is_a_paragraph_with_its_column_names(name: str, text: str, rows: list[str]) -> None:
    document = read_document(name, text.encode())
    assert [one.text for one in document.paragraphs] == rows
    price = next((one for one in document.paragraphs if "32" in one.text), None)
    if price is not None:
        start, end = price.span(price.text.index("€"), price.text.index("32") + 2)
        assert text[start:end] in ("€32", "&euro;32")
        start, end = price.span(price.text.index("Price"), price.text.index("32") + 2)
        assert text[start:end] in ("€32", "&euro;32")
        start, end = price.span(price.text.index("Price"), price.text.index("Price") + 5)
        assert text[start:end] == "Price"


def test_a_row_of_a_word_table_has_its_column_names() -> None:
    cell = "<w:tc><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc>".format
    rows = "".join(
        f"<w:tr>{cell(a)}<w:tc><w:p/></w:tc>{cell(b)}</w:tr>" for a, b in [("Lesson", "Price"), ("Ride", "€78")]
    )
    body = f"<w:p><w:r><w:t>Prices</w:t></w:r></w:p><w:tbl>{rows}</w:tbl><w:p><w:r><w:t>End</w:t></w:r></w:p>"
    document = read_document("x.docx", docx([], f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'))
    assert [one.text for one in document.paragraphs] == ["Prices", "Lesson: Ride, Price: €78.", "End"]
    start, end = document.paragraphs[1].span(21, 24)
    assert document.original[start:end] == "€78"


def test_a_footnote_is_text_and_an_address_is_none() -> None:
    text = "It rose.[^1]\n\n[^1]: By 3 %.\n[Ada]: it rose by 4 %\n[x]: https://a.org 'A title'\n[y]: <a.html>\n\nEnd."
    read = [one.text for one in read_document("x.md", text.encode()).paragraphs]
    assert read == ["It rose.[^1]", "[^1]: By 3 %.\n[Ada]: it rose by 4 %", "End."]


def test_a_hyphen_that_holds_a_word_together_is_read() -> None:
    body = "<w:p><w:r><w:t>Order C</w:t><w:noBreakHyphen/><w:t>310.</w:t></w:r></w:p>"
    word = docx([], f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>')
    assert read_document("x.docx", word).whole.text == "Order C-310."


def test_headings_and_pages(docs: Path) -> None:
    pytest.importorskip("pypdfium2", reason="PDF documents need pypdfium2")
    word = read_document(docs / "bridge.docx")
    assert [(one.text, one.heading) for one in word.paragraphs][1::2] == [
        ("The bridge over the Firth was designed by John Fowler in 1882.", "Bridges"),
        ("It cost 3.2 million pounds.", "Bridges › Cost"),
    ]
    assert [one.page for one in read_document(docs / "report.pdf").paragraphs] == [1, 2]
    assert read_document(docs / "letters" / "ada.html").paragraphs[1].heading == "Letters › London & 1843"


def test_a_question_of_several_files_gets_places_in_the_originals(docs: Path) -> None:
    passages, notes = read_passages([str(docs / "rivers.md"), str(docs / "zurich.txt")])
    assert len(notes) == 1
    at = passages.text.index("Black Forest")
    from rmreader.reading.answers import Answer

    name, found = passages.locate(Answer("Black Forest", at, at + 12, 0.0, 1.0, "", at))
    assert name == str(docs / "rivers.md")
    assert (docs / "rivers.md").read_text()[found.start : found.end] == "Black Forest"


def bomb(size: int) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"<a>" + b" " * size)
    return content.getvalue()


LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x.docx", lambda: bomb(200 << 20), "unfolds to more than"),
        (
            "x.docx",
            lambda: docx([], xml=f'{LAUGHS}<w:document xmlns:w="{WORD}">&b;</w:document>'),
            "declares a document type",
        ),
        ("x.docx", lambda: docx([], xml='<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>'), "declares a document type"),
        ("x.txt", lambda: b"a" * (LARGEST + 1), "more than"),
    ],
)
def test_bombs_are_refused(name: str, content: Callable[[], bytes], says: str) -> None:
    with pytest.raises(UserError, match=says):
        read_document(name, content())


def test_a_word_document_may_nest_deeply() -> None:
    deep = 100_000
    xml = (
        f'<w:document xmlns:w="{WORD}">'
        + "<w:x>" * deep
        + "<w:p><w:t>deep</w:t></w:p>"
        + "</w:x>" * deep
        + "</w:document>"
    )
    assert read_document("x.docx", docx([], xml=xml)).original == "deep\n"


def test_a_pipe_is_read(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"Ada wrote it.")
    os.close(writing)
    try:
        assert read_document(f"/dev/fd/{reading}").original == "Ada wrote it."
    finally:
        os.close(reading)


TOY = '''
"""Toy files: a line is a paragraph, upside down."""
from rmreader.documents.formats.format import BinaryFormat

def read_toy(content, out):
    for line in content.decode()[3:].splitlines():
        out.write(line[::-1])
        out.end()

FORMAT = BinaryFormat("a toy", (".toy",), read_toy, "the lines of the toy", magic=b"TOY")
'''


def test_a_format_is_one_file(tmp_path: Path) -> None:
    """A file in formats/ is all that ask, index and a server's documents need to read one more."""
    source = Path(rmreader.__file__).parent
    package = tmp_path / "rmreader"
    shutil.copytree(source, package, copy_function=os.symlink)
    (package / "documents" / "formats" / "toy.py").write_text(TOY)
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.toy").write_bytes(b"TOY" + b"Ada Lovelace wrote the first program in 1843."[::-1])
    (folder / "b.toy").write_bytes(b"no such thing")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "rmreader", *words]
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300)

    question = "Who wrote the first program?"
    asked = run("ask", "--json", "--passage", "docs/a.toy", question)
    assert json.loads(asked.stdout)["answers"][0]["text"] == "Ada Lovelace", asked.stderr
    made = run("index", "docs", "--out", "i", "--json")
    assert [one.split(";")[0] for one in json.loads(made.stdout)["refused"]] == [
        "b.toy: this is something else, not a toy as its name says"
    ]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve = [sys.executable, "-m", "rmreader", "serve", "--index", "i", "--port", str(port)]
    process = subprocess.Popen(serve, env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        while not _is_ready(f"{address}/readyz"):
            assert process.poll() is None
        answer = httpx.post(f"{address}/v1/ask", json={"question": question}, timeout=60).json()
        assert (answer["answer"]["text"], answer["answer"]["document"]) == ("Ada Lovelace", "a.toy")
    finally:
        process.terminate()
        process.wait(60)


def _is_ready(address: str) -> bool:
    try:
        return httpx.get(address).status_code == 200
    except httpx.TransportError:
        time.sleep(0.05)
        return False
