"""Plain text: what any file is that has no other suffix.

Most texts are read as they are. Chat logs, quoted mail, code between fences and man pages have
marks that are no part of an answer.
"""

from __future__ import annotations

import re

from rmreader.documents.formats.format import TextFormat
from rmreader.documents.paragraphs import ParagraphBuilder
from rmreader.documents.places import LABEL

_QUOTE = re.compile(r"(?:[ \t]?>)++[ \t]?")
_FENCE = re.compile(r"[ \t]{0,3}(?:```|~~~)")
_RUNNING_HEAD = re.compile(r"(\S{1,60}\(\d\w{0,5}\))[ \t]++.{0,200}\1[ \t]*\Z")  # of a man page
_DATE = r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4},?[ T]{1,2}"
_TIME = r"\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d{1,6})?(?:[ \u202f]?[AaPp]\.?[Mm]\.?)?"
_STAMP = re.compile(
    rf"[ \t]{{0,8}}[\[(<]?((?:{_DATE})?{_TIME})[\])>]?[ \t]{{0,4}}(?:[-–|] )?[ \t]?"
)
_MARKED = re.compile(r"^(?:[ \t]?>|[ \t]{0,3}(?:```|~~~)|\S{1,60}\(\d\w{0,5}\)[ \t])", re.MULTILINE)
_STAMPED = re.compile(rf"^[ \t]{{0,8}}[\[(<]?(?:{_DATE})?{_TIME}[\])> ]", re.MULTILINE)
_LEAST_MESSAGES = 3  # of a chat log
_LONG_LINE = 300  # characters of a line that is a paragraph by itself


def read_text(text: str, out: ParagraphBuilder) -> None:
    """Add the paragraphs of a plain text."""
    is_chat = _is_chat(text)
    if not is_chat and not _MARKED.search(text):
        out.add_text(text)
        return
    out.has_marks = True
    at = 0
    while at <= len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        _add_line(text[at:end], at, is_chat, out)
        at = end + 1
    out.end()


def _is_chat(text: str) -> bool:
    """Whether most lines begin with the time they were written at."""
    messages = sum(1 for _ in _STAMPED.finditer(text))
    return messages >= _LEAST_MESSAGES and 2 * messages > text.count("\n")


def _add_line(line: str, at: int, is_chat: bool, out: ParagraphBuilder) -> None:
    stamp = _STAMP.match(line) if is_chat else None
    if not line.strip() or _FENCE.match(line) or _RUNNING_HEAD.match(line):
        out.end()
        return
    if stamp:
        # The time is read like the name of a column: it is known, but at the edge of no answer.
        out.end()
        out.current.add(stamp[1], at + stamp.start(1))
        out.current.add(LABEL, at + stamp.end(), 0)
        out.current.add(line[stamp.end() :], at + stamp.end())
        return
    quote = _QUOTE.match(line)
    begin = quote.end() if quote else 0
    if len(line) > _LONG_LINE:
        out.end()
    elif out.current.size:
        out.current.add("\n", at - 1, 1)
    out.current.add(line[begin:], at + begin)
    if len(line) > _LONG_LINE:
        out.end()


FORMAT = TextFormat("plain text", (".txt", ".text"), read_text, is_plain=True)
