"""What hands type after ``rmreader ask``: files among the questions, keywords, other languages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rmreader.core.checks import check_question
from rmreader.core.console import one_line
from rmreader.core.errors import UserError

_QUESTION_WORD = re.compile(
    r"\?|\b(?:who|whom|whose|what|when|where|which|why|how|is|are|was|were|do|does|did|can|could"
    r"|may|should|will|would|has|have|had|tell|name|list)\b",
    re.IGNORECASE,
)
_MOST_KEYWORDS = 5
_SHOWN_LINES = 3
_LONGEST_LINE = 160  # characters that are shown


def files_and_questions(words: Sequence[str], files: Sequence[str]) -> tuple[list[str], list[str]]:
    """Tell files from questions: a shell writes ``-p *.txt`` as ``-p a.txt b.txt c.txt``.

    Only files right after those of --passage are taken, and only where a question is left.
    """
    more = []
    for word in words:
        check_question(word)
    for word in words:
        if not _is_file(word):
            break
        more.append(word)
    questions = list(words[len(more) :])
    strays = [word for word in questions if _is_file(word)]
    if more and files and questions and not strays:
        return [*files, *more], questions
    strays = more + strays
    if strays:
        raise UserError(
            f"{strays[0]}: this is a file, not a question; give files before the question: "
            f'--passage {strays[0]} "your question".'
        )
    return list(files), questions


def _is_file(word: str) -> bool:
    try:
        return "?" not in word and Path(word).is_file()
    except (OSError, ValueError):  # too long for a name, or no name at all
        return False


def check_is_no_text(place: str) -> None:
    """Refuse a --passage that is a text and no file, with a hint at --text."""
    if place == "-" or " " not in place.strip():
        return
    try:
        exists = Path(place).exists()
    except (OSError, ValueError):
        exists = False
    if not exists:
        shown = one_line(place[:40])
        raise UserError(f"{shown}: no such file; to ask about a text itself, give it as --text.")


def keyword_lines(question: str, passage: str) -> list[str]:
    """The lines of a passage that hold the most of a few keywords; none for a real question."""
    keywords = {word.lower() for word in re.findall(r"\w+", question)}
    if not keywords or len(keywords) > _MOST_KEYWORDS or _QUESTION_WORD.search(question):
        return []
    scored = []
    for number, line in enumerate(passage.splitlines()):
        words = {word.lower() for word in re.findall(r"\w+", line)}
        hits = sum(any(word.startswith(keyword) for word in words) for keyword in keywords)
        if hits:
            scored.append((-hits, number, line))
    best = sorted(scored)[:_SHOWN_LINES]
    most = best[0][0] if best else 0
    return [_shorten(line, keywords) for hits, _, line in best if hits == most]


def _shorten(line: str, keywords: set[str]) -> str:
    """The line, or of a long one what is around the first keyword."""
    line = one_line(line).strip()
    if len(line) <= _LONGEST_LINE:
        return line
    places = [line.lower().find(keyword) for keyword in keywords]
    first = min(place for place in places if place >= 0) if max(places) >= 0 else 0
    begin = max(0, first - _LONGEST_LINE // 2)
    return f"…{line[begin : begin + _LONGEST_LINE]}…"
