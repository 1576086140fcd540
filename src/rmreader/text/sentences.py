"""The sentence around an answer, by a rule that any text survives."""

import re

_FAR = 1000  # characters looked at on either side: a longer sentence is cut at a space

# A sentence ends at a line break (in a text broken into lines: where no small letter follows), or
# at . ! ? with what closes after it, before a space and what may begin another. A run of dots is
# looked at once, not from each of them. Every match begins with one of a few characters: this makes
# the search fast.
_STOP = re.compile(
    r"[\n。！？.!?…](?:(?<=\n)\s*|(?<=[。！？])[”’»)\]」』]*"
    r"|(?<=[.!?…])(?<![.!?…]{2})(?P<more>[.!?…]*[\"'”’»)\]]*)\s+(?=(?P<next>\S)))"
)
_ABBREVIATIONS = {
    "capt",
    "cf",
    "col",
    "dr",
    "gen",
    "gov",
    "jr",
    "lt",
    "mr",
    "mrs",
    "ms",
    "mt",
    "no",
    "prof",
    "rev",
    "sen",
    "sgt",
    "st",
    "vs",
}


def sentence_around(text: str, start: int, end: int) -> tuple[int, int]:
    """Return begin and end of the sentence(s) around text[start:end], without space around."""
    low = max(0, start - _FAR)
    high = min(len(text), end + _FAR)
    left = low
    right = high
    for match in _STOP.finditer(text, low, high):
        if not _stops(match):
            continue
        # "Inc." may be an answer, and its dot end the sentence too.
        overlap = 0 if match["next"] is None else 1
        if match.end() <= start:
            left = match.end()
        elif match.start() >= end - overlap:
            right = max(end, match.end())
            break
    # Where no sentence begins or ends within reach, cut at the farthest space.
    if left == low > 0:
        left = min(start, 1 + _first_space(text, low, start))
    if right == high < len(text):
        right = max(end, text.rfind(" ", end, high), text.rfind("\n", end, high))
    sentence = text[left:right]
    if not sentence.strip():
        return start, end
    return right - len(sentence.lstrip()), left + len(sentence.rstrip())


def _first_space(text: str, begin: int, end: int) -> int:
    """Return the place of the first space or line break in text[begin:end], ``begin`` if none."""
    places = [text.find(space, begin, end) for space in " \n"]
    return min((place for place in places if place >= 0), default=begin)


def _stops(match: re.Match[str]) -> bool:
    """Whether this ends a sentence, and not just an initial (J. Smith) or an abbreviation."""
    if match[0].count("\n") > 1:  # a new paragraph
        return True
    text = match.string
    following = match["next"]
    if match[0][0] == "\n":
        return not text[match.end() : match.end() + 1].islower()
    if following is None:
        return True
    if following.islower():
        return False
    if match[0][0] != "." or match["more"]:
        return True
    word = re.split(r"\W", text[max(0, match.start() - 5) : match.start()])[-1]
    if word.lower() in _ABBREVIATIONS:
        return False
    is_initial = len(word) == 1 and word.isupper()
    return not (is_initial and (following.isalpha() or "\n" not in match[0]))
