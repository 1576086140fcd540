"""Whole answers: a span is widened until it is no part of a word, number, address or path.

Tokens split letters from digits and end at every dot, so a span of tokens may hold ``64`` of
``u64`` or ``com`` of ``ada@example.com``. Here a span widens to the whole of such a run. What
belongs to the sentence or to the layout, and not to the answer, is not taken in.
"""

from __future__ import annotations

import re

# Letters of the alphabets that are written with blanks between words, digits and underscores.
# In the others a digit in the middle of a sentence must not take the whole sentence with it.
_W = "[A-Za-z0-9_\u00aa-\u00ba\u00bc-\u024f\u0370-\u052f]"
_L = "[A-Za-z\u00c0-\u024f\u0370-\u052f]"
_SPACE = re.compile(r"\s")
_FAR = 2048  # characters on either side that a run without blanks may have

# Parts of the patterns. A pattern that could begin anywhere in a long run begins at its start only,
# so that no text takes quadratic time.
_REST = r"[^\s<>\"“”]*[\w/=#~&%+-]"  # of an address: without the punctuation after it
_DOMAIN = rf"{_W}[\w-]*(?:\.{_W}[\w-]*)+"
_FOLDERS = r"[\w.~+@%-]+(?:/[\w.~+@%-]+)*/?(?<!\.)"
_STAGE = rf"(?:[-+.]?(?:alpha|beta|rc|dev|post|pre|a|b){_W}*(?:\.\d+)*)?"
_DIGITS = r"\d+(?:(?:,\d{3})+(?!\d)|,\d+(?![\d,])|(?:[.:]\d+)+)?(?:\.\d+)?"
_UNIT = rf"(?:[%‰€£¥₹]|°[CFK]?|{_W}+(?:/{_L}+)?)"
_MONEY = r"[$€£¥₹]"
_HEX = "[0-9A-Fa-f]"
_GROUPS = rf"{_HEX}{{1,4}}(?::{_HEX}{{1,4}})"
_KEY = "(?:Ctrl|Control|Strg|Alt|AltGr|Shift|Cmd|Command|Meta|Super|Win|Fn)"

# What is one thing, though tokens split it. None holds a blank; of two that fit, the first counts.
_KINDS = {
    "address": rf"(?<![\w+.-])[A-Za-z][\w+.-]*://{_REST}|www\.{_REST}",
    "web page": rf"(?<![\w.-]){_DOMAIN}(?::\d+)?/{_REST}",
    "mail address": (
        rf"(?<![\w.+-])(?:{_L}{{1,2}}['’])?[\w.+-]*{_W}@{_W}[\w-]*(?:\.{_W}[\w-]*)*"
        rf"(?::[\w.~-]+/[\w./~-]*\w)?"  # git@example.org:ada/tool.git
    ),
    "name with @ or #": rf"(?<![\w@#])[@#]{_W}+(?:[.-]{_W}+)*",
    "path from the root": rf"(?<![\w/)\]])(?:~|\.{{1,2}})?/{_FOLDERS}",
    "path with an ending": rf"(?<![\w.~+/-])(?:[\w.~+-]+/)+[\w+-]*[._]{_L}{_W}*(?:\.{_W}+)*",
    "path of Windows": r"(?:[A-Za-z]:|\\)\\[^\s<>:\"|?*]*[\w\\]",
    "groups with dashes": rf"(?<!\w){_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}(?!\w)",
    "power": r"(?<![\w.])[+−±-]?\d+(?:\.\d+)?(?:[eE][+-]?|\^-?)\d+(?!\w)",
    "amount with a comma": rf"(?<![\w.,]){_MONEY}?\d{{1,3}}(?:\.\d{{3}})+,\d{{1,2}}(?!\d){_UNIT}?",
    "computer in a network": (
        r"(?<![\w.])(?:\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?|localhost)(?::\d+)?(?!\w)"
    ),
    "build": rf"(?<![\w.])\d+(?:\.\d+){{2,}}-\d+-?{_L}{_W}*",
    "version": rf"(?<![\w.])[vV]?\d+(?:\.\d+)+{_STAGE}{_W}*(?:\+{_W}+(?:\.{_W}+)*)?",
    "any version of": r"(?<![\w.])[vV]?\d+(?:\.\d+)*\.[xX](?!\w)",
    "file named by a number": rf"(?<![\w.+-])\d[\w-]*[_-]{_L}[\w-]*\.[a-z]{_W}{{1,4}}(?!\w)",
    "dotted name in small letters": rf"(?<![\w.])[a-z_]{_W}*(?:\.[a-z_]{_W}*)+(?:\.{_W}+)+",
    # "end.The" is two sentences that lack a blank.
    "dotted name": rf"(?<![\w-]){_L}[\w-]*(?:(?:(?<![a-z0-9])|(?!\.[A-Z][a-z]))\.{_W}[\w-]*)+",
    "hidden file": r"(?<!\S)\.[a-z][\w-]*(?:\.[\w-]+)*|(?<!\S)\.(?:\d+|[A-Z]{2,})",
    "variable": (
        rf"\$\{{?{_L}{_W}*\}}?(?:/{_FOLDERS})?"
        rf"|%{_L}{_W}*%(?:\\[^\s<>:\"|?*]*[\w\\])?"
    ),
    "type with types": (
        rf"(?<![\w:<,\[]){_L}{_W}*(?:::{_W}+)*"
        rf"(?:<[\w:,&*<>]{{0,80}}{_W}>+|\[(?!sic\]|citation|note){_L}{_W}[\w.,\[\]]{{0,80}}\])"
    ),
    "hexadecimal groups": rf"(?<![\w:])(?:{_GROUPS}{{2,}}|{_GROUPS}*::(?:{_GROUPS}*)?)(?!\w)",
    "qualified name": rf"(?<!{_W}){_W}+(?:(?:::|->){_W}+)+(?:\(\))?|(?<!{_W}){_W}+\(\)",
    "option": r"(?<![^\s([“‘\"'`])(?:--[a-z][\w-]*\w(?:=[^\s,;]*\w)?|-[A-Za-z]{1,3}(?!\w))",
    "keys": rf"(?<!{_W}){_KEY}(?:[+-]{_W}+)+",
    "code": r"(?<![\w-])[A-Z][A-Z0-9]*(?:-[A-Z0-9]*\d[A-Z0-9]*)+(?!\w)",
    "date": (
        r"\d{4}-\d{2}-\d{2}(?:T[\d:.]*\d(?:Z|[+-]\d{2}:?\d{2})?)?|\d{1,2}/\d{1,2}(?:/\d{2,4})?"
        r"|(?<!\w)\d{1,2}-[A-Z][a-z]{2,8}-\d{2,4}(?!\w)"
    ),
    "groups of digits": (
        r"(?<![\w-])\d{1,5}(?:-\d{1,7}){3,}(?:-?X)?(?!\w)"
        r"|\+?\d{2,5}(?:-\d{2,6}){2,}|\d{3}-\d{4}(?!\d)"
    ),
    "C++ of a year": r"(?<!\w)C\+\+\d{2}(?!\w)",
    "number": rf"(?:(?<![\w)\]])[+−±-])?{_MONEY}?{_DIGITS}{_UNIT}?",
    "word with an apostrophe": rf"{_L}+(?:['’](?![sS](?!{_W})){_L}+)+",
    "name with &": r"[A-Z]+(?:&[A-Z]+)+",
    "word with a sign": rf"(?<!{_W}){_L}{{1,2}}(?:\+\+|#)(?!{_W})",
    "negated word": rf"(?<!{_W})[Nn]on-{_L}+",
    "word": rf"{_W}+",
}
_RUN = re.compile("|".join(f"(?:{kind})" for kind in _KINDS.values()))

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
_ABBREVIATION = re.compile(
    r"(?:\.\w+|\b\w|\b(?:Inc|Ltd|Co|Corp|Jr|Sr|St|Dr|Mr|Mrs|Ms|etc|vs|No|approx))$"
)


def whole(text: str, start: int, end: int, question: str = "") -> tuple[int, int]:
    """The span ``text[start:end]`` with its edges where something whole begins and ends.

    A question that says "not" itself ("What can it not do?") wants the answer without it.
    """
    new_start, new_end = _trim(text, start, end)
    new_start, new_end = _widen(text, new_start, new_end)
    if not _HAS_NEGATION.search(question):
        new_start = _take_negation(text, new_start, new_end)
    new_start, new_end = _close_pairs(text, new_start, new_end)
    new_start, new_end = _close_marks(text, new_start, new_end)
    new_start, new_end = _without_blanks(text, new_start, new_end)
    if any(character.isalnum() for character in text[new_start:new_end]):
        return new_start, new_end
    return _widen(text, start, end)


def runs(text: str) -> list[tuple[int, int]]:
    """Where each run that an answer must not be cut in begins and ends."""
    return [match.span() for match in _RUN.finditer(text)]


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
