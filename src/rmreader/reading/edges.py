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

# What is one thing, though tokens split it. None holds a blank; of two that fit, the first counts.
_KINDS = {
    "address": rf"(?<![\w+.-])[A-Za-z][\w+.-]*://{_REST}|www\.{_REST}",
    "web page": rf"(?<![\w.-]){_DOMAIN}(?::\d+)?/{_REST}",
    "mail address": rf"(?<![\w.+-])[\w.+-]*{_W}@{_W}[\w-]*(?:\.{_W}[\w-]*)*",
    "name with @ or #": rf"(?<![\w@#])[@#]{_W}+(?:[.-]{_W}+)*",
    "path from the root": rf"(?<![\w/)\]])(?:~|\.{{1,2}})?/{_FOLDERS}",
    "path with an ending": rf"(?<![\w.~+/-])(?:[\w.~+-]+/)+[\w+-]*[._]{_L}{_W}*(?:\.{_W}+)*",
    "path of Windows": r"(?:[A-Za-z]:|\\)\\[^\s<>:\"|?*]*[\w\\]",
    "version": rf"(?<![\w.])[vV]?\d+(?:\.\d+)+{_STAGE}{_W}*",
    "dotted name in small letters": rf"(?<![\w.])[a-z_]{_W}*(?:\.[a-z_]{_W}*)+(?:\.{_W}+)+",
    # "end.The" is two sentences that lack a blank.
    "dotted name": rf"(?<![\w-]){_L}[\w-]*(?:(?:(?<![a-z0-9])|(?!\.[A-Z][a-z]))\.{_W}[\w-]*)+",
    "hidden file": r"(?<!\S)\.[a-z][\w-]*(?:\.[\w-]+)*|(?<!\S)\.\d+",
    "variable": rf"\$\{{?{_L}{_W}*\}}?|%{_L}{_W}*%",
    "qualified name": rf"(?<!{_W}){_W}+(?:(?:::|->){_W}+)+(?:\(\))?|(?<!{_W}){_W}+\(\)",
    "option": r"(?<![^\s([“‘\"'`])(?:--[a-z][\w-]*\w(?:=[^\s,;]*\w)?|-[A-Za-z](?!\w))",
    "code": r"(?<![\w-])[A-Z][A-Z0-9]*(?:-[A-Z0-9]*\d[A-Z0-9]*)+(?!\w)",
    "hexadecimal groups": r"(?<![\w:])[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{0,4}){2,}",
    "date": r"\d{4}-\d{2}-\d{2}(?:T[\d:.]*\d(?:Z|[+-]\d{2}:?\d{2})?)?|\d{1,2}/\d{1,2}(?:/\d{2,4})?",
    "groups of digits": r"\+?\d{2,5}(?:-\d{2,6}){2,}|\d{3}-\d{4}(?!\d)",
    "number": rf"(?:(?<![\w)\]])[+−±-])?[$€£¥₹]?{_DIGITS}{_UNIT}?",
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

# The mark of a quoted mail, and the time at the head of a line of a chat, with who speaks.
_QUOTE_MARK = re.compile(r"(?:>[> ]*)+")
_STAMP = re.compile(
    r"\[?(?:\d{1,4}[./-]\d{1,2}[./-]\d{1,4},? )?\d{1,2}:\d{2}(?::\d{2})?(?: ?[AaPp]\.?[Mm]\.?)?\]?"
    r"(?: ?[-–])?[ \t]+(?:<?[\w. ]{1,40}>?: )?"
)
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
        new_start = _take_negation(text, new_start)
    new_start, new_end = _close_pairs(text, new_start, new_end)
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


def _take_negation(text: str, start: int) -> int:
    """Take in a "not" right before an answer, which without it says the opposite."""
    if start < 2 or text[start - 1] not in " \u00a0":
        return start
    begin = _blank_before(text, start - 1)
    word = text[begin : start - 1].lower().replace("’", "'")
    following = text[start : _blank_after(text, start)].lower()
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


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave out marks of quoted mail, stamps of a chat, and the punctuation after an answer."""
    if start == 0 or text[start - 1] == "\n":
        for mark in (_QUOTE_MARK, _STAMP):
            match = mark.match(text, start, end)
            if match and match.end() < end:
                start = match.end()
    while end - start > 1 and text[start] in ".,;:!?)]}" and text[start + 1].isspace():
        start += 1
    while end - start > 1 and _ends_sentence(text, start, end):
        end -= 1
    return _without_blanks(text, start, end)


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
