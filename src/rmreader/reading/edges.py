"""Whole answers: a span is widened until it is no part of a word, number, address or path.

Tokens split letters from digits and end at every dot, so a span of tokens may hold ``64`` of
``u64`` or ``com`` of ``ada@example.com``. Here a span widens to the whole of such a run. What
belongs to the sentence or to the layout, and not to the answer, is not taken in.
"""

from __future__ import annotations

import re

from rmreader.reading.runs import is_address, runs, spaced_runs

_SPACE = re.compile(r"\s")
_FAR = 2048  # characters on either side that a run without blanks may have
_NEAR = 60  # the same for a run with blanks, and for the other side of a bracket

_NEGATIONS = {"not", "never", "cannot"}
_HAS_NEGATION = re.compile(r"\b(?:not?|never|cannot|neither|nor|without)\b|n['’]t\b", re.IGNORECASE)
# Before these, "not" is more often the sentence's than the answer's: "not the box but the bag".
_NOT_NEGATED = re.compile(
    "the|an?|this|that|these|those|his|her|its|their|our|your|my|in|on|at|by|for|from|to|of|because"
)
_COMPARED = re.compile("more|less|fewer|later|earlier|sooner|longer|one")  # after "no"

_PAIRS = {"(": ")", "[": "]", "{": "}", "“": "”", "‘": "’", "«": "»", "„": "“", '"': '"', "`": "`"}
_CLOSING = {closing: opening for opening, closing in _PAIRS.items()}

_MARKS = (("**", "**"), ("*", "*"), ("<", ">"))

# At the head of a line: the mark of a quoted mail, of an item, a heading or a row, and the time in
# a chat, with who speaks.
_QUOTE_MARK = re.compile(r"(?:>[> ]*)+")
_LINE_MARK = re.compile(r"(?:[-*+•|]|#{1,6})[ \t]+")
_STAMP = re.compile(
    r"\[?(?:\d{1,4}[./-]\d{1,2}[./-]\d{1,4}(?:,? |T))?\d{1,2}:\d{2}(?::\d{2})?Z?"
    r"(?: ?[AaPp]\.?[Mm]\.?)?\]?(?: ?[-–]|:)?[ \t]+(?:<[\w. -]{1,40}>:? |[\w. ]{1,40}: )?"
)
# The lines around code, with its language.
_FENCE_BEFORE = re.compile(r"[ \t]{0,3}(?:```|~~~)[ \t]*[\w+#.-]*[ \t]*\n")
_FENCE_AFTER = re.compile(r"\n[ \t]{0,3}(?:```|~~~)\s*\Z")
_PROMPT = re.compile(r"[ \t]*(?:\$|>>>) (?=[A-Za-z./~])([^\n]{0,200}[^\s])")
_OPTION = re.compile(r"(?<= )--?[A-Za-z][\w-]*")
# After an option may come its value: a number, a path, NAME, name=value.
_OPTIONS = re.compile(
    r"(?: --?[A-Za-z][\w-]*(?:=[^\s,;]*\w)?"
    r"(?: (?:\d[\w.:%-]*(?<![.:])|[\w.~-]*/[\w./~-]*\w|[A-Z][A-Z_]+|\w+=\w+)(?!\w))?)+"
)
_PREPOSITION = re.compile(r"(?:at|to|from|in|on|via|under|see) ", re.IGNORECASE)
_TELEPHONE = re.compile(r"(?:[TMF]|[Tt]el|[Ff]ax|[Pp]hone|[Mm]obile)[.:]* (?=[+(0])")
_ASKS_ADDRESS = re.compile(
    r"\b(?:the|an|his|her|its|our|your|my|their|whose|what|postal|street|home|['’]s) address\b"
    r"(?! of (?:the|this) (?:page|site|web))",
    re.IGNORECASE,
)
_PART = r"[A-Z0-9][\w'’.-]*(?: (?:of|the|de|la|[A-Z0-9][\w'’-]*)){0,4}"
_PARTS = re.compile(rf"(?:, {_PART}(?= ?[,.;)|\n(]|\Z)){{1,4}}")
_HARD_END = re.compile(r"[\n.!?;]\s|\n")
_ABBREVIATION = re.compile(
    r"(?:\.\w+|\b\w|\b(?:Inc|Ltd|Co|Corp|Jr|Sr|St|Dr|Mr|Mrs|Ms|etc|vs|No|approx))$"
)


def whole(text: str, start: int, end: int, question: str = "") -> tuple[int, int]:
    """The span ``text[start:end]`` with its edges where something whole begins and ends.

    A question that says "not" itself ("What can it not do?") wants the answer without it.
    """
    new_start, new_end = _trim(text, start, end)

    # Take in the rest of what it is a part of.
    new_start, new_end = _widen(text, new_start, new_end)
    new_start, new_end = _widen_over_blanks(text, new_start, new_end)
    new_start, new_end = _command(text, new_start, new_end)
    if _ASKS_ADDRESS.search(question):
        new_end = _postal_address(text, new_start, new_end)
    if not _HAS_NEGATION.search(question):
        new_start = _take_negation(text, new_start, new_end)

    # Close what opens, and leave out what is not its own.
    new_start, new_end = _close_pairs(text, new_start, new_end)
    new_start, new_end = _close_marks(text, new_start, new_end)
    new_start, new_end = _close_inside(text, new_start, new_end)
    new_start, new_end = _without_neighbours(text, new_start, new_end)
    new_start, new_end = _without_blanks(text, new_start, new_end)

    if any(character.isalnum() for character in text[new_start:new_end]):
        return new_start, new_end

    return _widen(text, start, end)


def _widen(text: str, start: int, end: int) -> tuple[int, int]:
    """Take in the rest of the runs that the edges are in."""
    low = _blank_before(text, start)
    high = _blank_after(text, end)
    spans = [(low + first, low + last) for first, last in runs(text[low:high])]
    for first, last in spans:
        if first < start < last:
            start = first
        if first < end < last:
            end = last

    return start, end


def _widen_over_blanks(text: str, start: int, end: int) -> tuple[int, int]:
    """The same for runs with blanks, such as telephone numbers."""
    low = max(0, start - _NEAR)
    for first, last in spaced_runs(text, low, end + _NEAR):
        if first < start < last:
            start = first
        if first < end < last:
            end = last

    return start, end


def _blank_before(text: str, at: int) -> int:
    """Where the run without blanks around ``at`` begins."""
    low = max(0, at - _FAR)
    for place in range(at - 1, low - 1, -1):
        if text[place].isspace():
            return place + 1

    return low


def _blank_after(text: str, at: int) -> int:
    """Where the run without blanks around ``at`` ends."""
    blank = _SPACE.search(text, at, at + _FAR)
    return blank.start() if blank else min(len(text), at + _FAR)


def _take_negation(text: str, start: int, end: int) -> int:
    """Take in a "not" right before an answer, which without it says the opposite."""
    if start < 2 or text[start - 1] not in " \u00a0\n":
        return start

    begin = _blank_before(text, start - 1)
    word = text[begin : start - 1].lower().replace("’", "'")
    following = text[start : _blank_after(text, start)].lower()
    if word == "neither":
        return begin if " nor " in text[start:end] else start

    if word == "no":
        return begin if _COMPARED.fullmatch(following) else start

    negates = word in _NEGATIONS or word.endswith("n't")
    return begin if negates and not _NOT_NEGATED.fullmatch(following) else start


def _close_pairs(text: str, start: int, end: int) -> tuple[int, int]:
    """Take in the other side of quotes and brackets, or leave out the one side at the edge."""
    first = text[start]
    last = text[end - 1]
    inside = text[start:end]

    if first in _PAIRS and _PAIRS[first] not in inside[1:]:
        if text[end : end + 1] == _PAIRS[first]:
            return start, end + 1
        return start + 1, end

    if last in _CLOSING and _CLOSING[last] not in inside[:-1]:
        if text[start - 1 : start] == _CLOSING[last] and start > 0:
            return start - 1, end
        return start, end - 1

    after = text[end : end + 1]
    if after in _CLOSING and after != _CLOSING[after]:
        missing = inside.count(_CLOSING[after]) - inside.count(after)
        if missing > 0:
            return start, end + 1

    return start, end


def _close_marks(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave out one side of ``*emphasis*`` and of ``<ada>``; take in the other one of 'quotes'."""
    inside = text[start:end]
    for mark, closing in _MARKS:
        if inside.startswith(mark) and text.startswith(closing, end):
            return start + len(mark), end
        if inside.endswith(closing) and text.endswith(mark, 0, start):
            return start, end - len(closing)

    # An apostrophe is a quote only where the other one is there.
    if inside.startswith("'") and inside.count("'") == 1 and text.startswith("'", end):
        return start, end + 1

    if inside.endswith("'") and inside.count("'") == 1 and text.endswith("'", 0, start):
        return start - 1, end

    return start, end


def _close_inside(text: str, start: int, end: int) -> tuple[int, int]:
    """Take in the other side of a bracket or a code mark that opens inside; or end before it."""
    inside = text[start:end]

    for opening, closing in (("(", ")"), ("[", "]"), ("`", "`")):
        at = inside.rfind(opening)
        is_open = inside.count("`") % 2 == 1 if opening == "`" else closing not in inside[at:]
        if at <= 0 or not is_open:
            continue

        place = text.find(closing, end, end + _NEAR)
        if place >= 0 and not _HARD_END.search(text, end, place):
            return start, place + 1

        kept = inside[:at].rstrip()
        if any(character.isalnum() for character in kept):
            return start, start + len(kept)

    return start, end


def _without_neighbours(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave out the name of the next value, as in "4.7.2 pid=8812", and "at" before an address."""
    if text.startswith("=", end):
        begin = _blank_before(text, end)
        if start < begin:
            end = start + len(text[start:begin].rstrip())

    preposition = _PREPOSITION.match(text, start, end)
    if preposition and is_address(text[preposition.end() : end]):
        start = preposition.end()

    label = _TELEPHONE.match(text, start, end)
    if label and spaced_runs(text, label.end(), end) == [(label.end(), end)]:
        start = label.end()

    return start, end


def _postal_address(text: str, start: int, end: int) -> int:
    """Where an address of houses and towns ends of which an answer has the first parts."""
    parts = _PARTS.match(text, end)
    if parts is None or "@" in text[start:end]:
        return end

    has_number = any(character.isdigit() for character in text[start : parts.end()])
    return parts.end() if has_number else end


def _command(text: str, start: int, end: int) -> tuple[int, int]:
    """A command without its prompt, to the end of its line; elsewhere with all of its options."""
    prompt = _PROMPT.match(text, _line_start(text, start))
    if prompt and prompt.start() <= start < prompt.start(1) < end:
        return prompt.span(1)

    if prompt and start == prompt.start(1) and " " in text[start:end]:
        return prompt.span(1)

    if _OPTION.search(text, start, end):
        options = _OPTIONS.match(text, end)
        end = options.end() if options else end

    return start, end


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave out marks of lines, fences, stamps, and the punctuation at the end."""
    start, end = _without_fences(text, start, end)
    if not text[_line_start(text, start) : start].strip(" \t"):
        for mark in (_QUOTE_MARK, _LINE_MARK, _STAMP):
            match = mark.match(text, start, end)
            if match and match.end() < end:
                start = match.end()

    while end - start > 1 and text[start] in ".,;:!?)]}" and text[start + 1].isspace():
        start += 1

    while end - start > 1 and _ends_sentence(text, start, end):
        end -= 1

    return _without_blanks(text, start, end)


def _line_start(text: str, at: int) -> int:
    """Where the line of ``at`` begins, or a place far before it."""
    low = max(0, at - _FAR)
    return max(low, text.rfind("\n", low, at) + 1)


def _without_fences(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave out the lines around code, where the answer has more than these."""
    before = _FENCE_BEFORE.match(text, _line_start(text, start))
    if before and start < before.end() < end:
        start = before.end()

    after = _FENCE_AFTER.search(text[start:end])
    if after and after.start() > 0:
        end = start + after.start()

    return start, end


def _without_blanks(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without blanks at its edges."""
    inside = text[start:end]
    return end - len(inside.lstrip()), start + len(inside.rstrip())


def _ends_sentence(text: str, start: int, end: int) -> bool:
    """Whether the last character is punctuation of the sentence, not of an abbreviation."""
    last = text[end - 1]
    if last in ",;:":
        return True

    return last == "." and not _ABBREVIATION.search(text[start : end - 1])
