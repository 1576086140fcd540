"""Mail (.eml, .mbox), by the standard library: who wrote what to whom and when, quotes unmarked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage, Message
from typing import NamedTuple

from rmreader.documents.formats.format import BinaryFormat
from rmreader.documents.formats.html import read_html
from rmreader.documents.paragraphs import DocumentBuilder, ParagraphBuilder

_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_LONGEST_HEADER = 2_000
_MESSAGE = re.compile(rb"(?:\A|\n)(?=From [^\n]{1,500}\n)")
_QUOTE = re.compile(r"(?:[ \t]?>)++[ \t]?")
_SIGNATURES = ("-- ", "--")


def read_mail(content: bytes, out: DocumentBuilder) -> None:
    """Write the headers and the text of every message; its subject is the heading."""
    for source in _messages(content):
        mail = _read_message(source)
        lines = [f"{name}: {value}" for name, value in mail.headers.items()]
        out.set_heading(1, mail.headers.get("Subject", ""))
        out.write("\n".join(lines))
        out.end_line()
        if mail.text is not None:
            _write_body(mail.text, out)


def _messages(content: bytes) -> Iterator[bytes]:
    """The messages of a mailbox, or the one message that the file is."""
    if not content.startswith(b"From "):
        yield content
        return
    begins = [match.end() for match in _MESSAGE.finditer(content)]
    if not begins:  # one line, or a first line that is no beginning
        yield content
        return
    for begin, end in zip(begins, [*begins[1:], len(content)], strict=True):
        head = content.find(b"\n", begin) + 1
        yield content[head:end]


class _Mail(NamedTuple):
    headers: dict[str, str]
    text: str | None


def _read_message(source: bytes) -> _Mail:
    """One message; where it breaks Python's parser in one of many ways, as well as it can be."""
    for read in (_by_the_rules, _by_its_words):
        try:
            return read(source)
        except MemoryError:
            raise
        except Exception:
            continue
    return _Mail({}, source.decode("utf-8", "replace").replace("\0", " "))


def _by_the_rules(source: bytes) -> _Mail:
    message = message_from_bytes(source, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return _Mail(_headers(message), _text(message.get_body(("plain", "html"))))


def _by_its_words(source: bytes) -> _Mail:
    """A message whose headers are words, which have no grammar that they could break."""
    message = message_from_bytes(source, policy=policy.compat32)
    return _Mail(_headers(message), _text(_first_text(message)))


def _headers(message: Message) -> dict[str, str]:
    headers = {}
    for name in _HEADERS:
        value = " ".join(str(message.get(name, "")).split())[:_LONGEST_HEADER]
        if value:
            headers[name] = value.encode("utf-8", "replace").decode()
    return headers


def _first_text(message: Message) -> Message | None:
    """The first part that is plain text; else the first that is HTML."""
    parts = [part for part in message.walk() if not part.is_multipart()]
    for kind in ("text/plain", "text/html"):
        for part in parts:
            if part.get_content_type() == kind:
                return part
    return None


def _text(body: Message | None) -> str | None:
    """The text of a message's body, which may be HTML; None where there is no such body."""
    if body is None or body.is_multipart():
        return None
    text = _decoded(body).replace("\r\n", "\n").replace("\0", " ")
    if body.get_content_subtype() != "html":
        return text
    page = ParagraphBuilder()
    read_html(text, page)
    return "\n\n".join(paragraph.text for paragraph in page.finish())


def _decoded(part: Message) -> str:
    """The text of a part. An encoding that nobody knows, or that is none of letters, is UTF-8."""
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    try:
        text = content.decode(part.get_content_charset("ascii"), "replace")
    except (LookupError, ValueError):
        return content.decode("utf-8", "replace")
    # Some encodings can spell halves of characters, which no file can hold.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _write_body(text: str, out: DocumentBuilder) -> None:
    """Write the lines as they are; the marks of quotes are in the original only."""
    for line in text.split("\n"):
        if not line.strip() or line in _SIGNATURES:
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
