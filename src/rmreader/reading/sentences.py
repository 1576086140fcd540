"""The sentence around an answer, by a rule that any text survives."""

from __future__ import annotations

import re

_FAR = 1000  # characters looked at on either side: a longer sentence is cut at a space

# A sentence ends at a line break (of a text broken into lines: where no small letter follows), or at . ! ? with what
# closes behind it, before a space and what may begin another. A run of dots is looked at once, not from each of them.
_STOP = re.compile(
    r"(?P<line>\n\s*)|[。！？][”’»)\]」』]*"
    r"|(?P<before>\w{0,5})(?<![.!?…])(?P<stop>[.!?…]+[\"'”’»)\]]*)\s+(?=(?P<next>\S))"
)
_ABBREVIATIONS = {"capt", "cf", "col", "dr", "gen", "gov", "jr", "lt", "mr", "mrs", "ms", "mt", "no", "prof", "rev"}
_ABBREVIATIONS |= {"sen", "sgt", "st", "vs"}


def sentence_around(text: str, start: int, end: int) -> str:
    """The sentence (or sentences) that text[start:end] stands in, without the space around."""
    low, high = max(0, start - _FAR), min(len(text), end + _FAR)
    left, right = low, high
    for match in _STOP.finditer(text, low, high):
        if not _stops(match):
            continue
        if match.end() <= start:
            left = match.end()
        elif match.start() >= end or match.end("before") >= end - 1:
            right = max(end, match.end())
            break
    if left == low > 0:
        left = min(start, 1 + min((at for space in " \n" if (at := text.find(space, low, start)) >= 0), default=low))
    if right == high < len(text):
        right = max(end, *(text.rfind(space, end, high) for space in " \n"))
    return text[left:right].strip() or text[start:end]


def _stops(match: re.Match[str]) -> bool:
    """Whether this is the end of a sentence, and not of an initial (J. Smith) or an abbreviation."""
    if match[0].count("\n") > 1:  # a new paragraph
        return True
    if match["line"]:
        return not match.string[match.end() : match.end() + 1].islower()
    if not match["next"]:
        return True
    before = match["before"]
    short = match["stop"] == "." and (before.lower() in _ABBREVIATIONS or (len(before) == 1 and before.isupper()))
    return not (short or match["next"].islower())
