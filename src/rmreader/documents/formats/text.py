"""Plain text: what any file is that has no other suffix.

Most texts are read as they are. Chat logs, quoted mail, code between fences and man pages have
marks that are no part of an answer. Of the choices in a line of a form only those that are ticked
are read: "Kind: [ ] suitcase [x] rucksack" says that it is a rucksack.
"""

from __future__ import annotations

import re
from enum import Enum
from itertools import islice

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
_SENDER = re.compile(  # "Ada Lovelace  10:31 AM", a line above what she says
    r"([^\W\d][\w.'’ -]{0,38}?)(?:,? [-–—] |,?[ \t]{1,8})(?:[Tt]oday at )?"
    rf"[\[(]?((?:{_DATE})?{_TIME})[\])]?[ \t]*\Z"
)
_TIME_LAST = re.compile(rf"{_TIME}[\])]?[ \t]*$", re.MULTILINE)
_BOX = re.compile(r"(?<!\S)(?:\[[ xX✓✔]\]|\([ xX]\)|[☐☑☒])[ \t]+")
_EMPTY_BOX = re.compile(r"[\[(] [\])]|☐")
_TICKED_BOX = re.compile(r"[\[(][xX✓✔][\])]|[☑☒]")
_LEAST_MESSAGES = 3  # of a chat log
_LONG_LINE = 300  # characters of a line that is a paragraph by itself


class _Chat(Enum):
    """How messages say who wrote them, and when."""

    NONE = "no chat"
    STAMPED = "a time at the beginning of the line"
    HEADED = "sender and time on the line above"


def read_text(text: str, out: ParagraphBuilder) -> None:
    """Add the paragraphs of a plain text."""
    chat = _kind_of_chat(text)
    if chat is _Chat.NONE and not _MARKED.search(text) and not _has_choices(text):
        out.add_text(text)
        return

    out.has_marks = True
    at = 0
    while at <= len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        _add_line(text[at:end], at, chat, out)
        at = end + 1

    out.end()


def _kind_of_chat(text: str) -> _Chat:
    """Stamped where most lines begin with the time they were written at."""
    messages = sum(1 for _ in _STAMPED.finditer(text))
    if messages >= _LEAST_MESSAGES and 2 * messages > text.count("\n"):
        return _Chat.STAMPED

    if sum(1 for _ in islice(_TIME_LAST.finditer(text), _LEAST_MESSAGES)) < _LEAST_MESSAGES:
        return _Chat.NONE

    lines = text.split("\n")
    is_sender = [len(line) < _LONG_LINE and bool(_SENDER.match(line)) for line in lines]
    heads = 0
    for number in range(len(lines) - 1):
        says_something = bool(lines[number + 1].strip()) and not is_sender[number + 1]
        heads += is_sender[number] and says_something

    # A timetable has such lines, too, but one below the other.
    is_headed = heads >= _LEAST_MESSAGES and 2 * heads > sum(is_sender)
    return _Chat.HEADED if is_headed else _Chat.NONE


def _has_choices(text: str) -> bool:
    """Whether a line has boxes, of which some are ticked."""
    if not (_EMPTY_BOX.search(text) and _TICKED_BOX.search(text)):
        return False

    return any(_ticked(line) for line in text.split("\n"))


def _ticked(line: str) -> list[tuple[int, int]]:
    """What is left of a line with choices: its beginning, and each choice that is ticked.

    Nothing where no box is ticked, or each one: then they say nothing of each other.
    """
    boxes = list(_BOX.finditer(line))
    ticked = [bool(_TICKED_BOX.match(box[0])) for box in boxes]
    if not any(ticked) or all(ticked):
        return []

    kept = [(0, boxes[0].start())]
    ends = [*(box.start() for box in boxes[1:]), len(line)]
    for box, end, is_ticked in zip(boxes, ends, ticked, strict=True):
        if is_ticked:
            kept.append((box.end(), len(line[:end].rstrip())))

    return kept


def _add_line(line: str, at: int, chat: _Chat, out: ParagraphBuilder) -> None:
    if not line.strip() or _FENCE.match(line) or _RUNNING_HEAD.match(line):
        out.end()
        return

    if _add_sender(line, at, chat, out):
        return

    quote = _QUOTE.match(line)
    begin = quote.end() if quote else 0
    if len(line) > _LONG_LINE:
        out.end()
    elif out.current.size and not (chat is _Chat.HEADED and out.current.ends_with(" ")):
        out.current.add("\n", at - 1, 1)

    for first, last in _ticked(line) or [(begin, len(line))]:
        out.current.add(line[first:last], at + first)

    if len(line) > _LONG_LINE:
        out.end()


def _add_sender(line: str, at: int, chat: _Chat, out: ParagraphBuilder) -> bool:
    """Begin a message, where the line does.

    The time is read like the name of a column: it is known, but at the edge of no answer.
    """
    if chat is _Chat.STAMPED:
        stamp = _STAMP.match(line)
        if stamp:
            out.end()
            out.current.add(stamp[1], at + stamp.start(1))
            out.current.add(LABEL, at + stamp.end(), 0)
            out.current.add(line[stamp.end() :], at + stamp.end())
            return True

    if chat is _Chat.HEADED:
        sender = _SENDER.match(line) if len(line) < _LONG_LINE else None
        if sender:
            out.end()
            out.current.add(sender[2], at + sender.start(2))
            out.current.add(LABEL, at + len(line), 0)
            out.current.add(sender[1], at)
            out.current.add(": ", at + sender.end(1), len(line) + 1 - sender.end(1))
            return True

    return False


FORMAT = TextFormat("plain text", (".txt", ".text"), read_text, is_plain=True)
