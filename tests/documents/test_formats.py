"""What each format is read as: tables with their column names, mail, chats, slides, books; and the places of it all."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.documents import MAIL, docx_table, epub, odt, pdf_table, pptx, rtf, xlsx
from typer.testing import CliRunner

from rmreader.cli import app
from rmreader.core.errors import UserError
from rmreader.documents.document import Document, read_document
from rmreader.documents.passages import Passages
from rmreader.documents.places import TextSpan
from rmreader.documents.shelf import Shelf
from rmreader.reading.answers import Answer

ROWS = [
    ["Part", "Price", "Stock"],
    ["Pump C-310", "31 EUR", "4"],
    ["Valve", "12 EUR", "17"],
    ["Gasket", "3 EUR", "250"],
]
READ = [
    "Part: Pump C-310, Price: 31 EUR, Stock: 4.",
    "Part: Valve, Price: 12 EUR, Stock: 17.",
    "Part: Gasket, Price: 3 EUR, Stock: 250.",
]
HTML = "<table>" + "".join("<tr><td>" + "</td><td>".join(row) + "</td></tr>" for row in ROWS) + "</table>"
TABLES = {
    "x.csv": "\n".join(",".join(row) for row in ROWS).encode(),
    "x.tsv": "\r\n".join("\t".join(row) for row in ROWS).encode(),
    "semicolons.csv": "\n".join('";"'.join(row).join('""') for row in ROWS).encode(),
    "x.html": HTML.encode(),
    "x.md": "\n".join(["Part | Price | Stock", "---|:--:|--", *(" | ".join(row) for row in ROWS[1:])]).encode(),
    "x.docx": docx_table(ROWS),
    "x.xlsx": xlsx(ROWS),
    "x.pptx": pptx([("", [])], ROWS),
    "x.odt": odt([], ROWS),
    "x.rtf": rtf([], ROWS),
    "x.pdf": pdf_table(ROWS),
    "x.epub": epub([HTML]),
}


def texts(document: Document) -> list[str]:
    return [paragraph.text for paragraph in document.paragraphs]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_read_with_its_column_names_and_every_cell_has_its_place(name: str) -> None:
    if name == "x.pdf":
        pytest.importorskip("pypdfium2", reason="PDF documents need pypdfium2")
    document = read_document(name, TABLES[name])
    assert texts(document) == READ
    for paragraph, row in zip(document.paragraphs, ROWS[1:], strict=True):
        for column, cell in zip(ROWS[0], row, strict=True):
            at = paragraph.text.index(f"{column}: {cell}")
            for start in (at, at + len(column) + 2):  # with its column name, and without
                first, last = paragraph.span(start, at + len(column) + 2 + len(cell))
                assert document.original[first:last] == cell
            first, last = paragraph.span(at, at + len(column))
            assert document.original[first:last] == column


def test_an_answer_leaves_out_column_names_at_its_edges() -> None:
    document = read_document("x.csv", TABLES["x.csv"])
    passages = Passages([""], [document.whole.text], [document])

    def located(text: str) -> str:
        at = passages.text.index(text)
        answer = Answer(text, at, at + len(text), 0.0, 1.0, "", at)
        here = passages.locate(answer)[1]
        assert document.original[here.start : here.end] == here.text
        return here.text

    assert located("Price: 31 EUR") == "31 EUR"
    assert located("31 EUR, Stock") == "31 EUR"
    assert located("Stock") == "Stock"
    assert located("Pump C-310") == "Pump C-310"


@pytest.mark.parametrize(
    ("rows", "read"),
    [
        (["Mon,9,17", "Tue,9,17", "Wed,9,12"], ["Mon\t9\t17", "Tue\t9\t17", "Wed\t9\t12"]),
        (["yes,no,yes", "no,no,yes", "yes,yes,no"], ["yes\tno\tyes", "no\tno\tyes", "yes\tyes\tno"]),
        (["City,2019,2020", "Ulm,4,5", "Bonn,6,7"], ["City: Ulm, 2019: 4, 2020: 5.", "City: Bonn, 2019: 6, 2020: 7."]),
        (["Prices 2024", "", "A,B", "x,1", "y,2"], ["Prices 2024", "A: x, B: 1.", "A: y, B: 2."]),
        (['"A ""b""",B', '"x, y",', ",2"], ['A "b": x, y.', "B: 2."]),
        (["A,B", '"never closed,1', "y,2"], ['A: "never closed, B: 1.', "A: y, B: 2."]),
    ],
)
def test_whether_the_first_row_names_the_columns(rows: list[str], read: list[str]) -> None:
    assert texts(read_document("x.csv", "\n".join(rows).encode())) == read


def test_wide_and_high_cells_keep_the_columns_apart() -> None:
    page = (
        "<table><tr><th>Day<th>Class<th>Room<th>Time</tr><tr><td rowspan=2>Monday<td>Yoga<td><td>7:00"
        "<tr><td>Chess<td>A1<td>8:00<tr><td>Friday<td colspan='2'>closed<td>9:00</table>"
    )
    assert texts(read_document("x.html", page.encode())) == [
        "Day: Monday, Class: Yoga, Time: 7:00.",
        "Day: Monday, Class: Chess, Room: A1, Time: 8:00.",
        "Day: Friday, Class: closed, Time: 9:00.",
    ]


def test_numbers_of_a_sheet_are_read_as_they_are_shown() -> None:
    styles = (
        '<numFmts><numFmt numFmtId="164" formatCode="#,##0.00\\ &quot;€&quot;"/></numFmts>'
        '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="9"/><xf numFmtId="164"/></cellXfs>'
    )
    rows = [["Item", "Day", "Share", "Cost"], ["a", "45000@1", "0.25@2", "31.5@3"], ["b", "45001@1", "0.5@2", "3@3"]]
    document = read_document("x.xlsx", xlsx(rows, "Costs", styles))
    assert texts(document)[0] == "Item: a, Day: 2023-03-15, Share: 25%, Cost: 31.5 €."
    assert document.paragraphs[0].heading == "Costs"


def test_mail() -> None:
    document = read_document("x.eml", MAIL)
    assert texts(document) == [
        "From: Ada <ada@x.example>\nTo: Charles\nDate: Mon, 03 Mar 2025 10:00:00 +0000\nSubject: The pümp",
        "The price is €31.\nSee you.",
        "What does\nthe pump cost?",
    ]
    assert {paragraph.heading for paragraph in document.paragraphs} == {"The pümp"}
    quote = document.paragraphs[2]
    first, last = quote.span(5, 13)
    assert document.original[first:last] == "does\n>> the"
    box = (
        b"From ada Mon\n" + MAIL + b"\nFrom ben Tue\nFrom: Ben\nContent-Type: text/html\n\n<p>Hello <b>you</b>.<p>Bye."
    )
    assert texts(read_document("x.mbox", box))[3:] == ["From: Ben", "Hello you.", "Bye."]


@pytest.mark.parametrize("sender", ["<", '"', "Ada <", "=?utf-8?q?=FF"])
def test_a_header_that_breaks_its_parser_costs_no_mail(sender: str) -> None:
    """Python's own parser has an IndexError for some; the other mails of the box are not to be lost."""
    mail = f"From: {sender}\nSubject: Pumps\nContent-Type: text/plain; charset=utf-8\n\nIn Zürich.\n".encode()
    box = b"From ada Mon\n" + mail + b"\nFrom ben Tue\n" + MAIL
    headers, text, *others = texts(read_document("x.mbox", box))
    assert headers.endswith("Subject: Pumps")
    assert text == "In Zürich."
    assert others[1:] == ["The price is €31.\nSee you.", "What does\nthe pump cost?"]


def test_parts_within_parts_without_end_cost_no_mailbox() -> None:
    parts = [b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (k, k) for k in range(2_000)]
    box = b"From ada Mon\n" + b"".join(parts) + b"\n\nHello.\n\nFrom ben Tue\n" + MAIL
    assert texts(read_document("x.mbox", box))[-2:] == ["The price is €31.\nSee you.", "What does\nthe pump cost?"]


@pytest.mark.parametrize("charset", ["utf-9", "unknown-8bit", "rot13", "zlib", "undefined", "punycode"])
def test_an_encoding_that_nobody_knows_costs_no_mail(charset: str) -> None:
    mail = f"From: Ada\nContent-Type: text/plain; charset={charset}\n\nIn Zürich.\n".encode()
    assert texts(read_document("x.eml", mail)) == ["From: Ada", "In Zürich."]


def test_an_encoding_that_spells_halves_of_characters() -> None:
    mail = b"From: Ada\nContent-Type: text/plain; charset=unicode_escape\n\nIn \\ud800 or \\ud83d\\ude00.\n"
    assert texts(read_document("x.eml", mail)) == ["From: Ada", "In \ufffd or \U0001f600."]


def test_a_mailbox_of_one_line_is_read_or_refused() -> None:
    with pytest.raises(UserError, match=r"x\.mbox: no text in it"):
        read_document("x.mbox", b"From somebody")


def test_the_line_above_a_signature_is_left_out() -> None:
    """Many programs send it without its blank."""
    for line in ("-- ", "--"):
        document = read_document("x.eml", f"From: Ada\n\nSee you.\n{line}\nAda Byron\n".encode())
        assert texts(document) == ["From: Ada", "See you.", "Ada Byron"]


CHATS = [
    (
        "[10:32] Anna: at five\n[10:33] Ben: where?\nmore\n[10:35:07] Anna: At the station.\n",
        "10:35:07",
        "At the station.",
    ),
    (
        "12/03/2024, 14:05 - Anna: hi\n12/03/2024, 14:06 - Ben: ho\n12/03/2024, 14:07 - Anna: it is 4711",
        "14:07",
        "4711",
    ),
    ("09:01 AM <ada> hello\n09:02 AM <ben> hi\n09:05 AM <ada> lunch at noon\n", "09:05 AM", "noon"),
]


@pytest.mark.parametrize(("text", "stamp", "said"), CHATS)
def test_a_chat_line_is_a_paragraph_and_its_stamp_at_the_edge_of_no_answer(text: str, stamp: str, said: str) -> None:
    document = read_document("x.txt", text.encode())
    assert len(document.paragraphs) == 3
    message = document.paragraphs[2]
    first, last = message.span(0, message.text.index(said) + len(said))
    assert document.original[first:last] == re.search(r"(<?ada>? |Anna: ).*", text.splitlines()[-1])[0]  # type: ignore[index]
    at = message.text.index(stamp)
    first, last = message.span(at, at + len(stamp))
    assert document.original[first:last] == stamp


def test_marks_of_plain_text_are_no_part_of_it() -> None:
    text = (
        "LS(1)      User Commands      LS(1)\n\nNAME\n  ls - list\n\n> > What is it?\n> A list.\n\n"
        "Run it:\n```python\nimport os\n```\nDone.\n"
    )
    document = read_document("x.txt", text.encode())
    assert texts(document) == ["NAME\n  ls - list", "What is it?\nA list.", "Run it:", "import os", "Done."]
    assert not document.plain
    plain = read_document("x.txt", b"At 10:30 we met.\n\nA > b, and x(1) is small.\n")
    assert plain.plain


SENDERS = """#release | 4 messages

dev-anton  10:33 AM
me until noon, then @yusuf

yusuf — Today at 10:41
I'll do it.
The key is in the vault.

dev-anton  10:52 AM
release/5.3 is cut
"""


def test_a_sender_above_a_message_is_read_as_who_said_it() -> None:
    document = read_document("x.txt", SENDERS.encode())
    assert texts(document) == [
        "#release | 4 messages",
        "10:33 AM: dev-anton: me until noon, then @yusuf",
        "10:41: yusuf: I'll do it.\nThe key is in the vault.",
        "10:52 AM: dev-anton: release/5.3 is cut",
    ]
    for message, words in ((document.paragraphs[1], "dev-anton"), (document.paragraphs[2], "in the vault")):
        at = message.text.index(words)
        first, last = message.span(at, at + len(words))
        assert document.original[first:last] == words


def test_a_timetable_is_no_chat() -> None:
    document = read_document("x.txt", b"Alder Cross  06:42\nFenwick  07:10\nPort Denby  07:31\nStoke  07:50\n")
    assert document.plain


def test_of_choices_those_that_are_ticked_are_read() -> None:
    text = "Kind: [ ] suitcase   [x] rucksack   [ ] pram\nSeen: ( ) no (x) at the belt ( ) later\nPaid: ☒ card ☐ cash\n"
    document = read_document("x.txt", text.encode())
    assert texts(document) == ["Kind: rucksack\nSeen: at the belt\nPaid: card"]
    line = document.paragraphs[0]
    first, last = line.span(line.text.index("rucksack"), line.text.index("rucksack") + 8)
    assert document.original[first:last] == "rucksack"


@pytest.mark.parametrize("text", ["[ ] buy milk\n[x] call Ben\n", "f (x) = g (x)\n", "Take [x] and [y].\n"])
def test_lists_of_things_to_do_and_formulas_are_read_as_they_are(text: str) -> None:
    document = read_document("x.txt", text.encode())
    assert texts(document) == [text.strip()]


@pytest.mark.parametrize("tag", ["th", "td"])
def test_parts_of_a_table_in_html_have_its_column_names(tag: str) -> None:
    """Seen before: most tables on the web were read without their column names."""
    head = f"<thead><tr><{tag}>Room</{tag}><{tag}>Floor</{tag}></tr></thead>"
    body = "<tbody><tr><td>Heron</td><td>2</td></tr></tbody><tbody><tr><td>Wren</td><td>5</td></tr></tbody>"
    document = read_document("x.html", f"<table>{head}{body}</table><p>Keys are here.</p>".encode())
    assert texts(document) == ["Room: Heron, Floor: 2.", "Room: Wren, Floor: 5.", "Keys are here."]


def test_badges_of_a_readme_say_nothing() -> None:
    text = (
        "# tool\n\n[![Python 3.10+](https://img.example/p.svg)](https://www.python.org)\n[![build][b]][ci]\n\n"
        "It reads ![a chart](chart.png) and [the guide](guide.md).\n"
    )
    assert texts(read_document("README.md", text.encode())) == ["tool", "It reads a chart and the guide."]


def test_slides_are_pages_and_chapters_have_headings() -> None:
    slides = read_document("x.pptx", pptx([("Plan", ["We begin in May."]), ("Costs", ["It costs 31 EUR."])]))
    assert [(one.text, one.page, one.heading) for one in slides.paragraphs] == [
        ("Plan", 1, "Plan"), ("We begin in May.", 1, "Plan"), ("Costs", 2, "Costs"), ("It costs 31 EUR.", 2, "Costs"),
    ]  # fmt: skip
    book = read_document("x.epub", epub(["<h1>One</h1><p>It <i>began</i>.</p>", "<h1>Two</h1><p>It ended in Ulm.</p>"]))
    last = book.paragraphs[3]
    assert (last.text, last.heading) == ("It ended in Ulm.", "Two")
    first, end = last.span(12, 15)
    assert book.original[first:end] == "Ulm"
    text = read_document("x.odt", odt([("1", "Rivers"), ("", "The Elbe.")]))
    assert [(one.text, one.heading) for one in text.paragraphs] == [("Rivers", "Rivers"), ("The Elbe.", "Rivers")]
    rich = read_document("x.rtf", rtf(["Zürich – “naïve” {x}", "Two"]))
    assert rich.original == "Zürich – “naïve” {x}\nTwo\n"


def test_an_answer_in_a_pdf_document_has_its_rectangle_on_the_page() -> None:
    pytest.importorskip("pypdfium2", reason="PDF documents need pypdfium2")
    document = read_document("x.pdf", pdf_table(ROWS, "The list of May"))
    at = document.original.index("31 EUR")
    (box,) = document.boxes(at, at + len("31 EUR"))
    assert box.page == 1
    assert 195 < box.left < 205 < box.right < 260
    assert 690 < box.bottom < 694 < box.top < 705
    passages = Passages([""], [document.whole.text], [document])
    at = passages.text.index("Price: 31 EUR")
    assert passages.boxes(Answer("Price: 31 EUR", at, at + 13, 0.0, 1.0, "", at)) == [box]
    lines = document.boxes(0, len(document.original))
    assert len(lines) == 5
    assert read_document("x.txt", b"Ada.").boxes(0, 3) == []


def test_a_span_of_cells_reaches_from_the_first_to_the_last() -> None:
    document = read_document("x.csv", TABLES["x.csv"])
    paragraph: TextSpan = document.paragraphs[0]
    first, last = paragraph.span(0, len(paragraph.text))
    assert document.original[first:last] == "Pump C-310,31 EUR,4"


def test_a_table_is_asked_by_the_command_line(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2", reason="PDF documents need pypdfium2")
    for name in ("x.csv", "x.pdf"):
        (tmp_path / name).write_bytes(TABLES[name])
        asked = CliRunner().invoke(
            app, ["ask", "-p", str(tmp_path / name), "--json", "What is the price of Pump C-310?"]
        )
        best = json.loads(asked.stdout)["answers"][0]
        assert best["text"] == "31 EUR"
        document = read_document(tmp_path / name)
        assert document.original[best["start"] : best["end"]] == "31 EUR"
        assert ("boxes" in best) == (name == "x.pdf")
    (box,) = best["boxes"]
    assert (box["page"], list(box)) == (1, ["page", "left", "bottom", "right", "top"])
    shelf = Shelf.open(tmp_path / "i")
    shelf.add(tmp_path / "x.csv")
    cited = shelf.ask("What is the price of Pump C-310?")[0]
    assert cited.text == "31 EUR"
    assert TABLES["x.csv"].decode()[cited.start : cited.end] == "31 EUR"


def test_nothing_in_code_of_markdown_is_a_mark() -> None:
    text = "The type is `Option<u64>`, or ``a `*b*` c``; `&lt;` and <b>bold</b> `glob/*_test.*` too."
    document = read_document("x.md", text.encode())
    assert "type is Option<u64>, or" in texts(document)[0]
    assert "&lt; and bold glob/*_test.* too" in texts(document)[0]
