"""Every place that is cited, mapped back, is the same text in the original: for any document that can be made up."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.documents import docx, pdf

from rmreader.documents.document import Document, read_document
from rmreader.documents.passages import split
from rmreader.documents.places import TextSpan, join

WORDS = st.text("abcdefghij ABC 0123 éß漢,.;:'\"()-&<", min_size=1, max_size=40).filter(str.strip)
SOME = st.lists(WORDS, min_size=1, max_size=6)


class Stripped(HTMLParser):
    """The text of HTML by the standard library, to compare with."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.hidden = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.hidden |= tag in ("script", "style")
        self.parts.append(" " if tag in ("p", "div", "br", "li", "h2", "td") else "")

    def handle_endtag(self, tag: str) -> None:
        self.hidden &= tag not in ("script", "style")
        self.parts.append(" " if tag in ("p", "div", "li", "h2", "td") else "")

    def handle_data(self, data: str) -> None:
        self.parts.append("" if self.hidden else data)


def bare(text: str) -> str:
    return "".join(text.split())


def spans(draw: st.DataObject, passage: TextSpan) -> tuple[int, int]:
    """A part of a passage that begins and ends with what is no space, as answers do."""
    words = [match.span() for match in re.finditer(r"\S+", passage.text)]
    first = draw.draw(st.integers(0, len(words) - 1))
    last = draw.draw(st.integers(first, len(words) - 1))
    return words[first][0], words[last][1]


def passages(document: Document) -> list[TextSpan]:
    made = list(split(document.paragraphs))
    assert made
    assert all(passage.text == passage.text.strip() != "" for passage in made)
    return made


@st.composite
def pages(draw: st.DrawFn) -> str:
    """HTML as people and programs write it."""
    parts = ["<!doctype html><html><head><title>A &amp; B</title><style>p > a {x: '<p>'}</style></head><body>"]
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["p", "div", "li", "h2", "td", "tr", "dt", "dd"]))
        inner = ""
        for word in draw(SOME):
            text = html.escape(word, quote=draw(st.booleans()))
            text = text.replace("é", draw(st.sampled_from(["é", "&eacute;", "&#233;", "&#xE9;"])))
            inline = draw(st.sampled_from(["", "b", "a href='x>y' title=\"<\"", "span"]))
            inner += f"<{inline}>{text}</{inline.split()[0]}>" if inline else text
            inner += draw(
                st.sampled_from(["", " ", "\n   ", "<br>", "<!-- no <p> -->", "<script>if (a<b) {}</script>"])
            )
        parts.append(f"<{kind}>{inner}" + (f"</{kind}>" if draw(st.booleans()) else ""))
    return "".join(parts)


@settings(deadline=None)
@given(pages(), st.data())
def test_html(page: str, data: st.DataObject) -> None:
    document = read_document("x.html", page.encode())
    assert document.original == page
    assert bare("".join(one.text for one in document.paragraphs)) == bare("".join(Stripped(page).parts))
    for passage in passages(document):
        start, end = spans(data, passage)
        first, last = passage.span(start, end)
        assert bare("".join(Stripped(page[first:last]).parts)) == bare(passage.text[start:end])


MARKS = ["{}", "**{}**", "*{}*", "_{}_", "`{}`", "[{}](URL)", "![{}](URL 'X')", "\\*{}", "[**{}**][REF]", "<B>{}</B>"]
MARKS += ["&amp;{}", "{} * ", "~~{}~~"]


@st.composite
def notes(draw: st.DrawFn) -> str:
    """Markdown in which every word of the text is of small letters and nothing else is."""
    word, lines = st.from_regex(r"[a-z]{1,9}(_[a-z]{1,3})?", fullmatch=True), []
    for _ in range(draw(st.integers(1, 12))):
        text = ""
        for one in draw(st.lists(word, min_size=1, max_size=8)):
            text += draw(st.sampled_from(MARKS)).format(one)
            text += draw(st.sampled_from([" ", "\n", ", "]))
        mark = draw(st.sampled_from(["", "", "# ", "### ", "- ", "1. ", "> ", "* [X] "]))
        lines.append(mark + (text.replace("\n", " ") if mark else text).strip())
        lines.append(
            draw(st.sampled_from(["", "", "---", "[REF]: URL", "| A | B |\n|---|---|", "```\ncode here\n```"]))
        )
        lines.append("")
    return "\n".join(lines)


@settings(deadline=None)
@given(notes(), st.data())
def test_markdown(text: str, data: st.DataObject) -> None:
    document = read_document("x.md", text.encode())
    words = re.compile(r"[a-z]+(?:_[a-z]+)*")
    plain = text.replace("&amp;", "&")
    assert words.findall(" ".join(one.text for one in document.paragraphs)) == words.findall(plain.replace("~~", " "))
    for passage in passages(document):
        start, end = spans(data, passage)
        first, last = passage.span(start, end)
        cited = document.original[first:last].replace("&amp;", "&")
        assert words.findall(cited) == words.findall(passage.text[start:end])
        assert {document.original[first], passage.text[start]} in (
            {passage.text[start]},
            {"&"},
            {"\\", passage.text[start]},
        )


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["Normal", "Heading1", "Title", "heading 2"]), SOME), min_size=1), st.data())
def test_word(content: list[tuple[str, list[str]]], data: st.DataObject) -> None:
    document = read_document("x.docx", docx([(style, "|".join(runs)) for style, runs in content]))
    assert document.original.splitlines() == ["".join(runs) for _, runs in content]
    for passage in passages(document):
        start, end = spans(data, passage)
        first, last = passage.span(start, end)
        assert bare(document.original[first:last]) == bare(passage.text[start:end])


LINE = st.from_regex(r"[A-Za-z0-9(][A-Za-z0-9 ,.()\\]{0,60}[a-z.]", fullmatch=True)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.lists(LINE, min_size=1, max_size=8), min_size=1, max_size=4), st.data())
def test_pdf(content: list[list[str]], data: st.DataObject) -> None:
    pytest.importorskip("pypdfium2", reason="PDF documents need pypdfium2")
    document = read_document("x.pdf", pdf(content))
    texts = document.original.split("\f")
    assert [bare(text) for text in texts] == [*(bare("".join(lines)) for lines in content), ""]
    for passage in passages(document):
        start, end = spans(data, passage)
        first, last = passage.span(start, end)
        cited = document.original[first:last]
        if "\n\n" in passage.text[start:end]:  # two paragraphs, which a page may have on two lines
            assert bare(cited) == bare(passage.text[start:end])
        else:
            assert cited == passage.text[start:end]
        assert passage.page == document.original[:first].count("\f") + 1


@settings(deadline=None)
@given(st.lists(st.text(max_size=400), max_size=8), st.sampled_from(["\n", "\n\n", "\r\n\r\n", " "]), st.data())
def test_plain_text(parts: list[str], between: str, data: st.DataObject) -> None:
    text = between.join(parts).replace("\0", "") + "\nend"
    document = read_document("x.txt", text.encode(errors="replace"))
    assume(document.plain)  # no quotes, fences or the like
    assert document.whole.text == document.original
    for passage in passages(document):
        start, end = spans(data, passage)
        first, last = passage.span(start, end)
        assert bare(document.original[first:last]) == bare(passage.text[start:end])


@given(st.text("ab .\n&", min_size=1, max_size=60), st.data())
def test_a_part_keeps_its_places(text: str, data: st.DataObject) -> None:
    pieces = read_document("x.html", f"x{html.escape(text)}".encode()).paragraphs
    whole = join(pieces)
    start = data.draw(st.integers(0, len(whole.text) - 1))
    part = whole.cut(start, data.draw(st.integers(start + 1, len(whole.text))))
    if part.text:
        at = next(k for k in range(start, len(whole.text)) if not whole.text[k].isspace())
        assert part.span(0, len(part.text)) == whole.span(at, at + len(part.text))


def test_headings_are_the_way_to_a_passage() -> None:
    text = "# Rivers\n\nLong ones.\n\n## Danube\n\nIt rises.\n\nElbe\n====\n\nIt too.\n"
    made = read_document("x.md", text.encode()).paragraphs
    assert [(one.text, one.heading) for one in made] == [
        ("Rivers", "Rivers"), ("Long ones.", "Rivers"), ("Danube", "Rivers › Danube"), ("It rises.", "Rivers › Danube"),
        ("Elbe", "Elbe"), ("It too.", "Elbe"),
    ]  # fmt: skip


def test_a_heading_goes_with_what_is_below_it() -> None:
    text = "# Handbook\n\n## Fees\n\n### Late\n\nIt costs 5 euros.\n\n## Empty\n\n## Rules\n\nNo dogs.\n"
    made = passages(read_document("x.md", text.encode()))
    assert [(one.text, one.heading) for one in made] == [
        ("Handbook\n\nFees\n\nLate\n\nIt costs 5 euros.", "Handbook › Fees › Late"),
        ("Empty", "Handbook › Empty"),
        ("Rules\n\nNo dogs.", "Handbook › Rules"),
    ]
    start = made[0].text.index("5 euros")
    begin, end = made[0].span(start, start + 7)
    assert text[begin:end] == "5 euros"


def test_passages_are_of_the_size_that_readers_know() -> None:
    text = "\n\n".join(f"Short paragraph number {k}." for k in range(100)) + "\n\n" + "A sentence of some words. " * 400
    document = read_document("x.txt", (text + "\n\n" + "x" * 5000).encode())
    sizes = [len(one.text) for one in passages(document)]
    assert max(sizes) <= 1500
    assert sum(size < 300 for size in sizes) <= 2
    assert bare("".join(one.text for one in passages(document))) == bare(document.original)
