"""The sentence around an answer, by a rule that any text survives."""

import re

_FAR = 1000  # characters looked at on either side: a longer sentence is cut at a space

# A sentence ends at a line break (of a text broken into lines: where no small letter follows), or at . ! ? with what
# closes after it, before a space and what may begin another. A run of dots is looked at once, not from each of them.
# That every match begins with one of a few characters makes the search fast.
_STOP = re.compile(
    r"[\n。！？.!?…](?:(?<=\n)\s*|(?<=[。！？])[”’»)\]」』]*"
    r"|(?<=[.!?…])(?<![.!?…]{2})(?P<more>[.!?…]*[\"'”’»)\]]*)\s+(?=(?P<next>\S)))"
)
_ABBREVIATIONS = {"capt", "cf", "col", "dr", "gen", "gov", "jr", "lt", "mr", "mrs", "ms", "mt", "no", "prof", "rev"}
_ABBREVIATIONS |= {"sen", "sgt", "st", "vs"}


def sentence_around(text: str, start: int, end: int) -> tuple[int, int]:
    """Where the sentence (or sentences) that text[start:end] is in begins and ends, without the space around."""
    low, high = max(0, start - _FAR), min(len(text), end + _FAR)
    left, right = low, high
    for match in _STOP.finditer(text, low, high):
        if not _stops(match):
            continue
        if match.end() <= start:
            left = match.end()
        elif match.start() >= end - (match["next"] is not None):  # "Inc." may be an answer, and end a sentence
            right = max(end, match.end())
            break
    if left == low > 0:
        left = min(start, 1 + min((at for space in " \n" if (at := text.find(space, low, start)) >= 0), default=low))
    if right == high < len(text):
        right = max(end, *(text.rfind(space, end, high) for space in " \n"))
    found = text[left:right]
    return (right - len(found.lstrip()), left + len(found.rstrip())) if found.strip() else (start, end)


def _stops(match: re.Match[str]) -> bool:
    """Whether this is the end of a sentence, and not of an initial (J. Smith) or an abbreviation."""
    if match[0].count("\n") > 1:  # a new paragraph
        return True
    text, following = match.string, match["next"]
    if match[0][0] == "\n":
        return not text[match.end() : match.end() + 1].islower()
    if following is None:
        return True
    if following.islower():
        return False
    if match[0][0] != "." or match["more"]:
        return True
    before = re.split(r"\W", text[max(0, match.start() - 5) : match.start()])[-1]
    initial = len(before) == 1 and before.isupper() and (following.isalpha() or "\n" not in match[0])
    return not (before.lower() in _ABBREVIATIONS or initial)
