"""Documents that are damaged, or made to be slow or large: one sentence each, in time and memory that are bounded."""

from __future__ import annotations

import os
import random
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.documents import (
    OPEN_TABLE,
    OPEN_TEXT,
    SHEET,
    WORD,
    docx,
    epub,
    pdf,
    pptx,
    sound_documents,
    xlsx,
    zipped,
)  # fmt: skip
from support.slow_pdfs import slow_pdf

from rmreader.core.errors import UserError
from rmreader.documents import indexing
from rmreader.documents import sandbox as sandboxes
from rmreader.documents.document import Document, ReadLater, read_document
from rmreader.documents.formats import formats
from rmreader.documents.formats.format import TextFormat
from rmreader.documents.indexing import add
from rmreader.documents.parse import parse
from rmreader.documents.passages import split
from rmreader.documents.sandbox import Sandbox
from rmreader.documents.sqlite_index import SqliteIndex

ROUNDS = int(os.environ.get("RMREADER_FUZZ", "300"))
"""How many damaged documents are read."""
SLOW_PDFS = int(os.environ.get("RMREADER_SLOW_PDFS", "24"))
SLOW_LIMIT = 3.0  # seconds for one of them


def read_or_refused(name: str, content: bytes, seconds: float = 60) -> tuple[Document | None, str]:
    """A document, or the sentence that refuses it."""
    try:
        return read_document(name, content, seconds), ""
    except UserError as error:
        return None, str(error)


def damaged(content: bytes, random: random.Random) -> bytes:
    """The content with bytes changed, left out, doubled or cut off."""
    data = bytearray(content)
    for _ in range(random.choice([1, 1, 2, 5, 20, 100])):
        if not data:
            break
        at = random.randrange(len(data))
        match random.randrange(5):
            case 0:
                data[at] = random.randrange(256)
            case 1:
                data[at] ^= 1 << random.randrange(8)
            case 2 if len(data) > 20:
                del data[at : at + random.choice([1, 2, 10, 100])]
            case 3:
                data[at:at] = data[at : at + random.choice([1, 4, 50])]
            case 4 if random.random() < 0.1:
                del data[max(10, at) :]
    return bytes(data)


def test_damaged_documents_are_read_or_refused_in_one_sentence(tmp_path: Path) -> None:
    """RMREADER_FUZZ=6000 reads many."""
    chance = random.Random(1)
    sound = sound_documents()
    read = refused = 0
    longest = 0.0
    for number in range(ROUNDS):
        name = list(sound)[number % len(sound)]
        content = damaged(sound[name], chance)
        began = time.monotonic()
        document, sentence = read_or_refused(name, content)
        assert sentence.startswith(f"{name}: " if document is None else "")
        if document is None:
            refused += 1
        else:
            for passage in split(document.paragraphs):
                first, last = passage.span(0, len(passage.text))
                assert 0 <= first <= last <= len(document.original)
            read += 1
        longest = max(longest, time.monotonic() - began)
    print(f"{ROUNDS:,} damaged documents: {read:,} read, {refused:,} refused, at most {longest:.2f} s")
    assert read > ROUNDS // 4
    assert refused > ROUNDS // 20


def test_damaged_documents_do_not_end_an_index(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    chance = random.Random(2)
    for number, (name, content) in enumerate([*sound_documents().items()] * 2):
        (folder / f"{number}-{name}").write_bytes(damaged(content, chance))
    (folder / "sound.docx").write_bytes(docx([("Normal", "The bridge was designed by John Fowler.")]))
    index = SqliteIndex(tmp_path / "i")
    done = add(index, [folder], workers=1)
    assert done.added + len(done.refused) == 27
    assert [passage.file for passage in index.search("Who designed the bridge?", 1)] == ["sound.docx"]
    again = add(index, [folder], workers=1)
    assert (again.added, again.changed, again.unchanged) == (0, 0, 27)
    index.close()


def test_whatever_a_parser_does_is_a_remark_on_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RecursionError

    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "bad.md").write_text("# x")
    (folder / "good.txt").write_text("Ada wrote it.")
    format = formats()[".md"]
    assert isinstance(format, TextFormat)
    monkeypatch.setitem(formats(), ".md", replace(format, read=fail))
    index = SqliteIndex(tmp_path / "i")
    done = add(index, [folder], workers=1)
    index.close()
    assert done.added == 1
    assert done.refused == ["bad.md: it is damaged (RecursionError); convert it."]


def test_slow_pdfs_are_read_or_given_up_in_time_and_the_others_are_indexed(tmp_path: Path) -> None:
    """RMREADER_SLOW_PDFS=500 makes many. Whatever they are made to do, a child is ended and another begins."""
    pytest.importorskip("pypdfium2", reason="PDF documents need pypdfium2")
    outcomes: Counter[str] = Counter()
    longest = 0.0
    most_memory = 0
    for number in range(SLOW_PDFS):
        kind, content = slow_pdf(number)
        began = time.monotonic()
        document, sentence = read_or_refused("x.pdf", content, seconds=SLOW_LIMIT)
        longest = max(longest, time.monotonic() - began)
        child = sandboxes.sandbox._process
        if child is not None:
            most_memory = max(most_memory, peak_memory(child.pid))
        assert document is not None or sentence.startswith("x.pdf: "), kind
        outcomes[" ".join(sentence.split()[1:4]) if document is None else "read"] += 1
    print(f"{SLOW_PDFS} slow PDFs: {dict(outcomes)}, at most {longest:.1f} s and {most_memory / 1e6:.0f} MB")
    assert longest < SLOW_LIMIT + 30  # what a busy machine needs to end a process and begin another
    assert most_memory < 2 << 30
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(12):
        (folder / f"slow-{number}.pdf").write_bytes(slow_pdf(number)[1])
    (folder / "sound.pdf").write_bytes(pdf([["The bridge was designed by John Fowler."]]))
    index = SqliteIndex(tmp_path / "i")
    add(index, [folder], workers=1)
    assert index.search("Who designed the bridge?", 1)[0].file == "sound.pdf"
    index.close()


def peak_memory(process: int) -> int:
    """The most memory that a process had, in bytes; 0 where the system does not say or it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def test_a_parser_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is outside of it: the child sleeps, and does not even hear that it should end."""
    monkeypatch.setattr(
        sandboxes,
        "_PROGRAM",
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(1)",
    )
    box = Sandbox()
    began = time.monotonic()
    with pytest.raises(UserError, match=r"x.pdf: takes more than 0.2 s to read; convert it."):
        box.parse("x.pdf", b"%PDF-1.4", seconds=0.2)
    assert time.monotonic() - began < 20
    box.close()


def test_a_parser_that_ends_or_wants_too_much_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Sandbox()
    monkeypatch.setattr(sandboxes, "_PROGRAM", "import os; os._exit(3)")
    with pytest.raises(UserError, match="ends the program that reads it"):
        box.parse("x.docx", b"PK")
    monkeypatch.undo()
    monkeypatch.setattr(sandboxes, "_MEMORY", 300 << 20)
    with pytest.raises(UserError, match=r"x\.txt: (needs too much memory|ends the program)"):
        box.parse("x.txt", b"many words " * 4_000_000)
    assert box.parse("x.docx", docx([("Normal", "Ada.")])).original == "Ada.\n"
    box.close()


BUSY = """
import sys
sys.path[:] = sys.argv[2:]
from rmreader.documents import sandbox
def spin(task, content):
    while True: pass
sandbox._reply = spin
sandbox.serve(int(sys.argv[1]))
"""


def test_work_is_limited_however_long_the_clock_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxes, "_PROGRAM", BUSY)
    box = Sandbox()
    with pytest.raises(UserError, match=r"x.pdf: takes more than 1 s to read; convert it.") as refused:
        box.parse("x.pdf", b"%PDF-1.4", seconds=1, patience=1000)
    assert not isinstance(refused.value, ReadLater)
    # The limit is each document's own: what was worked before does not count.
    monkeypatch.undo()
    for _ in range(3):
        assert box.parse("x.docx", docx([("Normal", "Ada.")]), seconds=1, patience=1000).original == "Ada.\n"
    box.close()


@pytest.mark.parametrize("how", ["not in time", "killed"])
def test_what_a_busy_machine_could_not_read_is_read_by_the_next_run(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a refusal says nothing of the document, so it is not kept for it."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "x.docx").write_bytes(docx([("Normal", "Ada wrote it.")]))
    (folder / "y.txt").write_text("Tom read it.")
    index = SqliteIndex(tmp_path / "i")
    if how == "killed":
        program = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
        sentence = (
            "x.docx: the process that reads it was killed, perhaps as the machine has too little memory; try again."
        )
    else:
        program = "import time\nwhile True: time.sleep(1)"
        sentence = "x.docx: not read in 0.6 s, as the machine is busy; try again later."
        monkeypatch.setattr(indexing, "_PATIENCE", 0.01)
    sandboxes.sandbox.close()  # one that an earlier test started would read it
    with monkeypatch.context() as patch:
        patch.setattr(sandboxes, "_PROGRAM", program)
        first = add(index, [folder], workers=1)
    assert (first.added, first.refused) == (1, [sentence])
    monkeypatch.setattr(indexing, "_PATIENCE", 10)
    second = add(index, [folder], workers=1)
    index.close()
    assert (second.changed, second.unchanged, second.refused) == (1, 1, [])


def test_a_clock_that_ends_with_the_reply_spares_the_next_document(monkeypatch: pytest.MonkeyPatch) -> None:
    replied, fired, next_one, killed = (threading.Event() for _ in range(4))
    exchange = sandboxes._exchange
    first = True

    class Clock(threading.Timer):
        """Of the first document: it is past its wait when the reply comes, and slow to go on."""

        def run(self) -> None:
            if killed.is_set() or fired.is_set():
                return super().run()
            assert replied.wait(30)
            fired.set()
            next_one.wait(0.3)  # a moment in which the next document may begin, if it does not wait
            self.function()
            killed.set()

    def watched(*words: Any) -> bytes:
        nonlocal first
        if first:
            first = False
            reply = exchange(*words)
            replied.set()
            assert fired.wait(30)
            return reply
        next_one.set()
        assert killed.wait(30)
        return exchange(*words)

    monkeypatch.setattr(sandboxes.threading, "Timer", Clock)
    monkeypatch.setattr(sandboxes, "_exchange", watched)
    box = Sandbox()
    try:
        for text in ("The first.", "The second."):
            assert box.parse("a.txt", text.encode()).original == text
    finally:
        box.close()


def test_the_child_ends_with_its_parent() -> None:
    box = Sandbox()
    box.parse("x.docx", docx([("Normal", "Ada.")]))
    process = box._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()  # as when the parent is killed
    assert process.wait(20) == 0
    box.close()


UNITS: list[tuple[str, str]] = [
    ("x.html", "<div>"), ("x.html", "<a href='"), ("x.html", '<a ="<a >"'), ("x.html", "<!--"), ("x.html", "<script>"),
    ("x.html", "&amp"), ("x.html", "<a"), ("x.html", "</script"), ("x.html", "<table><tr><td rowspan=9>a"),
    ("x.html", "<tr><td colspan=99>a"), ("x.html", "<h1>a"), ("x.md", "["), ("x.md", "[a]("), ("x.md", "<!--"),
    ("x.md", "**_`"), ("x.md", "> "), ("x.md", "|-"), ("x.md", "\n```"), ("x.md", "_"), ("x.md", "*"), ("x.md", " "),
    ("x.md", "\t|"), ("x.md", "\n# a"), ("x.md", "\n|a|b|\n|-|-|"), ("x.md", "[a]: "), ("x.txt", "\n \n"),
    ("x.txt", "a."), ("x.txt", "a. "), ("x.txt", "\n>"), ("x.txt", "\n1:00 a"), ("x.txt", "\nLS(1) "),
    ("x.csv", "a,"), ("x.csv", '"'), ("x.csv", '""a,'), ("x.csv", '"a,'), ("x.csv", "\na,b"),
    ("x.rtf", "{"), ("x.rtf", "\\par "), ("x.rtf", "\\u65"), ("x.rtf", "\\intbl a\\cell\\row"),
    ("x.docx", "<w:p><w:t>a</w:t></w:p>"), ("x.docx", "<w:tr><w:tc><w:t>a</w:t></w:tc></w:tr>"),
    ("x.odt", "<text:p>a</text:p>"), ("x.odt", "<table:table-row><table:table-cell/></table:table-row>"),
    ("x.xlsx", '<row><c t="str"><v>a</v></c></row>'), ("x.xlsx", '<c r="ZZ1" t="str"><v>a</v></c>'),
    ("x.epub", "<p>a"), ("x.eml", "a\n\n"), ("x.eml", ">"), ("x.eml", "\nFrom "),
    ("x.mbox", "a\n\n"), ("x.mbox", "\nFrom a Mon\nFrom: Ada\n\nhello\n"), ("x.mbox", "\n>From "),
    ("x.pptx", "<a:p><a:r><a:t>a</a:t></a:r></a:p>"),
    ("x.pptx", "<a:tr><a:tc><a:p><a:r><a:t>a</a:t></a:r></a:p></a:tc></a:tr>"),
    ("x.pdf", "(a) Tj T* "),
]  # fmt: skip


def of(name: str, text: str) -> bytes:
    """A document of this format that is full of a text."""
    match name:
        case "x.rtf":
            return b"{\\rtf1 end " + text.encode() + b" end}"
        case "x.docx":
            return docx([], f'<w:document xmlns:w="{WORD}"><w:p><w:t>end</w:t></w:p>{text}</w:document>')
        case "x.odt":
            spaces = f'xmlns:text="{OPEN_TEXT}" xmlns:table="{OPEN_TABLE}"'
            xml = f"<document {spaces}><text:p>end</text:p>{text}</document>"
            return zipped({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": xml})
        case "x.xlsx":
            sheet = f'<worksheet xmlns="{SHEET}"><row><c t="str"><v>end</v></c></row>{text}</worksheet>'
            return xlsx([["end"]], sheet=sheet)
        case "x.epub":
            return epub([f"end {text} end"])
        case "x.eml":
            return b"From: Ada\n\nend " + text.encode() + b" end"
        case "x.mbox":
            return b"From a Mon\nFrom: Ada\n\nend " + text.encode() + b" end"
        case "x.pptx":
            return pptx([("end", [])], content=text)
        case "x.pdf":
            return pdf([[]], f"BT /F1 12 Tf 14 TL 50 750 Td (end) Tj {text} ET")
        case _:
            return f"end {text} end".encode()


@pytest.mark.parametrize(("name", "unit"), UNITS)
def test_time_is_linear_in_the_length(name: str, unit: str) -> None:
    """Deep, open, endless: four times as much may take no sixteen times as long."""
    if name == "x.pdf":
        pytest.importorskip("pypdfium2", reason="PDF documents need pypdfium2")

    def seconds(count: int) -> float:
        content = of(name, unit * count)
        took = []
        for _ in range(3):
            began = time.process_time()
            assert list(split(parse(name, content).paragraphs))
            took.append(time.process_time() - began)
            if took[-1] > 5:
                break
        return min(took)

    assert seconds(8_000) < 10 * max(0.01, seconds(2_000))


TINY = [
    ("x.txt", "a\n\n"), ("x.txt", "a\n \n"), ("x.txt", "1:00 a\n"), ("x.md", "a\n\n"), ("x.md", "# a\n"),
    ("x.md", "|a|\n"), ("x.html", "<p>a"), ("x.html", "<tr><td>a"), ("x.csv", "a,b\n"), ("x.rtf", "a\\par "),
    ("x.docx", "<w:p><w:t>a</w:t></w:p>"), ("x.odt", "<text:p>a</text:p>"), ("x.epub", "<p>a"), ("x.eml", "a\n\n"),
    ("x.xlsx", '<row><c t="str"><v>a</v></c></row>'), ("x.mbox", "a\n\n"), ("x.mbox", "\nFrom a Mon\nFrom: A\n\na\n"),
    ("x.pptx", "<a:p><a:r><a:t>a</a:t></a:r></a:p>"), ("x.pdf", "(a) Tj T* "),
]  # fmt: skip


# Bytes per paragraph where they are not 150: a cell has a name with a place of its own, a letter of a page a rectangle.
BYTES = {"x.csv": 600, "x.xlsx": 600, "x.pdf": 700, "x.pptx": 250}


@pytest.mark.parametrize(("name", "unit"), TINY)
def test_memory_is_linear_in_the_length(name: str, unit: str) -> None:
    """A document of tiny paragraphs is small, too."""

    def peak(count: int) -> int:
        content = of(name, unit * count)
        tracemalloc.start()
        try:
            kept = list(split(parse(name, content).paragraphs))
            assert kept
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    small = peak(3_000)
    large = peak(6_000)
    assert large < 2.5 * small
    most = 600 if "1:00" in unit or "Mon" in unit else BYTES.get(name, 150)
    assert large < most * 6_000  # one took 550 in a list of objects


@pytest.fixture(autouse=True)
def no_child_of_a_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Each test has a child of its own, which ends with it."""
    yield sandboxes.sandbox.close
    sandboxes.sandbox.close()
