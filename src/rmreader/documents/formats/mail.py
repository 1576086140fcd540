"""Mail (.eml, .mbox), by the standard library: who wrote what to whom and when, quotes unmarked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage

from rmreader.documents.formats.format import BinaryFormat
from rmreader.documents.formats.html import read_html
from rmreader.documents.paragraphs import DocumentBuilder, ParagraphBuilder

_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_LONGEST_HEADER = 2_000
_MESSAGE = re.compile(rb"(?:\A|\n)(?=From [^\n]{1,500}\n)")
_QUOTE = re.compile(r"(?:[ \t]?>)++[ \t]?")
_SIGNATURE = "-- "


def read_mail(content: bytes, out: DocumentBuilder) -> None:
    """Write the headers and the text of every message; its subject is the heading."""
    for source in _messages(content):
        message = message_from_bytes(source, policy=policy.default)
        assert isinstance(message, EmailMessage)
        _write_headers(message, out)
        for part in _texts(message):
            _write_body(part, out)


def _messages(content: bytes) -> Iterator[bytes]:
    """The messages of a mailbox, or the one message that the file is."""
    if not content.startswith(b"From "):
        yield content
        return
    begins = [match.end() for match in _MESSAGE.finditer(content)]
    for begin, end in zip(begins, [*begins[1:], len(content)], strict=True):
        head = content.find(b"\n", begin) + 1
        yield content[head:end]


def _write_headers(message: EmailMessage, out: DocumentBuilder) -> None:
    lines = []
    for name in _HEADERS:
        value = " ".join(str(message.get(name, "")).split())[:_LONGEST_HEADER]
        if value:
            lines.append(f"{name}: {value}")
    out.set_heading(1, str(message.get("Subject", ""))[:_LONGEST_HEADER])
    out.write("\n".join(lines))
    out.end_line()


def _texts(message: EmailMessage) -> Iterator[str]:
    """The text of the body; of its HTML where it has no other."""
    body = message.get_body(("plain", "html"))
    if body is None or body.is_multipart():
        return
    text = body.get_content()
    if not isinstance(text, str):
        return
    text = text.replace("\r\n", "\n").replace("\0", " ")
    if body.get_content_subtype() == "html":
        page = ParagraphBuilder()
        read_html(text, page)
        text = "\n\n".join(paragraph.text for paragraph in page.finish())
    yield text


def _write_body(text: str, out: DocumentBuilder) -> None:
    """Write the lines as they are; the marks of quotes are in the original only."""
    for line in text.split("\n"):
        if not line.strip() or line == _SIGNATURE:
            out.end()
            out.write_outside("\n")
            continue
        if out.current.size:
            out.current.add("\n", out.place - 1, 1)
        quote = _QUOTE.match(line)
        begin = quote.end() if quote else 0
        out.write_outside(line[:begin])
        out.write(line[begin:])
        out.write_outside("\n")
    out.end()


FORMAT = BinaryFormat(
    name="a mail",
    suffixes=(".eml", ".mbox"),
    read=read_mail,
    offsets="the headers and text of the messages, as they are decoded",
)
