"""Documents of every kind, written by hand: what a person could have on a shelf."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from xml.sax.saxutils import escape

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_ESCAPED = {ord(c): f"\\{c}" for c in "()\\"}


def docx(paragraphs: Sequence[tuple[str, str]], xml: str = "") -> bytes:
    """A Word document of (style, text); a text is cut into runs at |, as Word does at will."""
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr>'
        + "".join(f'<w:r><w:t xml:space="preserve">{escape(run)}</w:t></w:r>' for run in text.split("|"))
        + "</w:p>"
        for style, text in paragraphs
    )
    xml = xml or f'<?xml version="1.0"?><w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", xml)
    return content.getvalue()


def pdf(pages: Sequence[Sequence[str]], stream: str = "") -> bytes:
    """A PDF document with these lines of ASCII on its pages, in Helvetica; or with this content."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for lines in pages:
        shown = " T* ".join(f"({line.translate(_ESCAPED)}) Tj" for line in lines)
        content = stream or f"BT /F1 12 Tf 14 TL 50 750 Td {shown} ET"
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
        kids.append(len(objects) + 1)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects)} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
    objects[1] = f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(f'{kid} 0 R' for kid in kids)}] >>"
    out, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n{content}\nendobj\n".encode("latin-1")
    table = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n" + "".join(f"{at:010} 00000 n \n" for at in places)
    end = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + table.encode() + end.encode()


def zipped(parts: dict[str, str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            stored = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(name, text, stored)
    return content.getvalue()


Rows = Sequence[Sequence[str]]
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
SLIDE = "http://schemas.openxmlformats.org/presentationml/2006/main"
OPEN_TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
OPEN_TABLE = "urn:oasis:names:tc:opendocument:xmlns:table:1.0"


def _rows(rows: Rows, row: str, cell: str) -> str:
    """Rows in XML; ``row`` and ``cell`` say how with {}."""
    return "".join(row.format("".join(cell.format(escape(text)) for text in texts)) for texts in rows)


def docx_table(rows: Rows, before: str = "") -> bytes:
    """A Word document with a table, after a paragraph."""
    cell = "<w:tc><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc>"
    table = f"<w:tbl>{_rows(rows, '<w:tr>{}</w:tr>', cell)}</w:tbl>"
    first = f"<w:p><w:r><w:t>{escape(before)}</w:t></w:r></w:p>"
    return docx([], f'<w:document xmlns:w="{WORD}"><w:body>{first}{table}</w:body></w:document>')


def pdf_table(rows: Rows, before: str = "", columns: int = 150) -> bytes:
    """A PDF document with a table, each cell at its own place, under a line of text."""
    placed = [(50, 750, before)] if before else []
    for number, row in enumerate(rows):
        placed += [(50 + columns * k, 710 - 16 * number, text) for k, text in enumerate(row)]
    shown = [f"1 0 0 1 {x} {y} Tm ({text.translate(_ESCAPED)}) Tj" for x, y, text in placed]
    return pdf([[]], "BT /F1 11 Tf " + " ".join(shown) + " ET")


def xlsx(rows: Rows, name: str = "Sheet", styles: str = "", sheet: str = "") -> bytes:
    """An Excel table of one sheet; what looks like a number is one, the rest are shared texts.

    A number may have a style, as 45000@1 has style 1."""
    strings = {text: number for number, text in enumerate(dict.fromkeys(text for row in rows for text in row))}
    lines = []
    for number, row in enumerate(rows, start=1):
        cells = []
        for column, text in enumerate(row):
            place = f"{chr(65 + column)}{number}"
            value, _, style = text.partition("@")
            if value.replace(".", "", 1).isdigit():
                cells.append(f'<c r="{place}" s="{style or 0}"><v>{value}</v></c>')
            elif text:
                cells.append(f'<c r="{place}" t="s"><v>{strings[text]}</v></c>')
        lines.append(f'<row r="{number}">{"".join(cells)}</row>')
    shared = "".join(f"<si><t>{escape(text)}</t></si>" for text in strings)
    names = f'<sheet name="{escape(name)}" sheetId="1" r:id="r1"/>'
    book = f'<workbook xmlns="{SHEET}" xmlns:r="{RELATIONS}"><sheets>{names}</sheets></workbook>'
    sheet = sheet or f'<worksheet xmlns="{SHEET}"><sheetData>{"".join(lines)}</sheetData></worksheet>'
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "xl/workbook.xml": book,
            "xl/_rels/workbook.xml.rels": _relations({"r1": "worksheets/sheet1.xml"}),
            "xl/sharedStrings.xml": f'<sst xmlns="{SHEET}">{shared}</sst>',
            "xl/styles.xml": f'<styleSheet xmlns="{SHEET}">{styles}</styleSheet>',
            "xl/worksheets/sheet1.xml": sheet,
        }
    )


def _relations(targets: dict[str, str]) -> str:
    inner = "".join(f'<Relationship Id="{id}" Target="{target}"/>' for id, target in targets.items())
    space = "http://schemas.openxmlformats.org/package/2006/relationships"
    return f'<Relationships xmlns="{space}">{inner}</Relationships>'


def pptx(slides: Sequence[tuple[str, Sequence[str]]], rows: Rows = (), content: str = "") -> bytes:
    """Slides of a title and paragraphs; a table is on the last one, and XML of its own where given."""
    paragraph = "<a:p><a:r><a:t>{}</a:t></a:r></a:p>"
    title_shape = '<p:sp><p:nvPr><p:ph type="title"/></p:nvPr><p:txBody>{}</p:txBody></p:sp>'
    parts = {"[Content_Types].xml": "<Types/>"}
    order = ""
    targets = {}
    for number, (title, texts) in enumerate(slides, start=1):
        words = "".join(paragraph.format(escape(text)) for text in texts)
        shapes = title_shape.format(paragraph.format(escape(title)))
        shapes += f"<p:sp><p:txBody>{words}</p:txBody></p:sp>"
        if rows and number == len(slides):
            shapes += f"<a:tbl>{_rows(rows, '<a:tr>{}</a:tr>', f'<a:tc>{paragraph}</a:tc>')}</a:tbl>"
        shapes += content
        slide = f'<p:sld xmlns:p="{SLIDE}" xmlns:a="{DRAWING}">{shapes}</p:sld>'
        parts[f"ppt/slides/slide{number}.xml"] = slide
        order += f'<p:sldId r:id="r{number}"/>'
        targets[f"r{number}"] = f"slides/slide{number}.xml"
    show = f'<p:presentation xmlns:p="{SLIDE}" xmlns:r="{RELATIONS}">{order}</p:presentation>'
    parts["ppt/presentation.xml"] = show
    parts["ppt/_rels/presentation.xml.rels"] = _relations(targets)
    return zipped(parts)


def odt(paragraphs: Sequence[tuple[str, str]], rows: Rows = ()) -> bytes:
    """An OpenDocument text of (level or "", text), and a table."""
    body = ""
    for level, text in paragraphs:
        tag = f'h text:outline-level="{level}"' if level else "p"
        body += f"<text:{tag}>{escape(text)}</text:{tag[0]}>"
    cell = "<table:table-cell><text:p>{}</text:p></table:table-cell>"
    if rows:
        body += f"<table:table>{_rows(rows, '<table:table-row>{}</table:table-row>', cell)}</table:table>"
    spaces = f'xmlns:text="{OPEN_TEXT}" xmlns:table="{OPEN_TABLE}"'
    return zipped(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": f"<document {spaces}>{body}</document>",
        }
    )


def epub(chapters: Sequence[str]) -> bytes:
    """A book of chapters that are HTML."""
    items = ""
    spine = ""
    parts = {"mimetype": "application/epub+zip"}
    for number, chapter in enumerate(chapters):
        items += f'<item id="c{number}" href="c{number}.xhtml" media-type="application/xhtml+xml"/>'
        spine += f'<itemref idref="c{number}"/>'
        parts[f"OEBPS/c{number}.xhtml"] = chapter
    root = '<container xmlns="x"><rootfile full-path="OEBPS/book.opf"/></container>'
    parts["META-INF/container.xml"] = root
    inner = f"<manifest>{items}</manifest><spine>{spine}</spine>"
    parts["OEBPS/book.opf"] = f'<package xmlns="http://www.idpf.org/2007/opf">{inner}</package>'
    return zipped(parts)


def rtf(paragraphs: Sequence[str], rows: Rows = ()) -> bytes:
    """An RTF document of paragraphs and a table; other letters than ASCII by their numbers."""

    def spelled(text: str) -> str:
        escaped = "".join(f"\\{c}" if c in "\\{}" else c for c in text)
        return "".join(c if ord(c) < 128 else f"\\u{ord(c)}?" for c in escaped)

    body = "".join(f"\\pard {spelled(text)}\\par\n" for text in paragraphs)
    for row in rows:
        body += "\\trowd\\pard\\intbl " + "".join(f"{spelled(text)}\\cell " for text in row) + "\\row\n"
    return f"{{\\rtf1\\ansi\\ansicpg1252{{\\fonttbl{{\\f0 Arial;}}}}{body}}}".encode("ascii")


MAIL = (
    b"From: Ada <ada@x.example>\r\nTo: Charles\r\nSubject: The =?utf-8?q?p=C3=BCmp?=\r\n"
    b"Date: Mon, 3 Mar 2025 10:00:00 +0000\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Transfer-Encoding: quoted-printable\r\n\r\n"
    b"The price is =E2=82=AC31.\r\nSee you.\r\n\r\n> What does\r\n>> the pump cost?\r\n"
)


SAYING = "The pump was built by Ada Fenwick of Leeds."


def every_format(saying: str = SAYING) -> dict[str, bytes]:
    """A document of every format that is read, each of which says one thing."""
    rows = [["Part", "Remark"], ["Pump", saying], ["Valve", "None."], ["Tap", "None."]]
    mail = f"From: a@example.org\r\nSubject: Pump\r\nContent-Type: text/plain\r\n\r\n{saying}\r\n".encode()
    return {
        "pump.txt": saying.encode(),
        "pump.md": f"# Pumps\n\n{saying}\n".encode(),
        "pump.html": f"<h1>Pumps</h1><p>{saying.replace(' ', ' <b></b>')}</p>".encode(),
        "pump.csv": "\n".join(f'{part},"{remark}"' for part, remark in rows).encode(),
        "pump.docx": docx([("Heading1", "Pumps"), ("", saying)]),
        "pump.xlsx": xlsx(rows),
        "pump.pptx": pptx([("Pumps", [saying])]),
        "pump.odt": odt([("1", "Pumps"), ("", saying)]),
        "pump.rtf": rtf(["Pumps", saying]),
        "pump.epub": epub([f"<p>{saying}</p>"]),
        "pump.eml": mail,
        "pump.mbox": b"From a Mon\n" + mail,
        "pump.pdf": pdf([["Pumps", "", saying]]),
    }


ROWS = [["Part", "Price"], *([f"Pump {k}", f"{k} EUR"] for k in range(30))]
PAGE = "<h1>Letters</h1><p>Written by <b>Ada</b> &amp; Co.<table>" + "<tr><td>a<td>b" * 30 + "</table>"


def sound_documents() -> dict[str, bytes]:
    """One document of every format with all that its parser looks for: what is damaged in tests."""
    return {
        "x.txt": "[10:32] Anna: at 5\n[10:33] Ben: in Zürich?\n[10:35] Anna: yes\n\n> quoted\n```x\ny\n```\n".encode(),
        "x.md": b"# Rivers\n\nThe **Danube** [rises](x) there.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- item\n",
        "x.html": PAGE.encode(),
        "x.csv": "\n".join(",".join(row) for row in ROWS).encode(),
        "x.docx": docx_table(ROWS, "Parts"),
        "x.xlsx": xlsx(ROWS),
        "x.pptx": pptx([("Plan", ["We begin."])], ROWS),
        "x.odt": odt([("1", "Rivers"), ("", "The Elbe.")], ROWS),
        "x.rtf": rtf(["Zürich", "Two"], ROWS),
        "x.epub": epub([PAGE, PAGE]),
        "x.eml": MAIL,
        "x.mbox": b"From a Mon\n" + MAIL + b"\nFrom b Tue\n" + MAIL,
        "x.pdf": pdf_table(ROWS, "Parts"),
    }
