"""What a text would have to say for an answer: the one rule for every door.

It is a sentence for a person who was refused: the kind of thing that the question asks for, by its
first words, and words of the question that the text never has. Where the question or the text is
not English, that is said instead: the words of another language are missing from every text.
Nothing is decided by it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rmreader.text.language import language_remark

# What the first words of a question ask for; the first that fits.
_KINDS = (
    (r"who|whom|whose", "names a person"),
    (r"when|what (?:year|date|day|time)", "says when"),
    (r"where|which (?:country|city|town|place)", "says where"),
    (r"how (?:many|much)", "gives a number"),
    (r"how (?:long|far|old|tall|high|deep|often|large|big)", "gives a measure"),
    (r"why", "gives a reason"),
    (r"how", "says how"),
)
# Words that say nothing of what is asked about.
_SMALL_WORDS = """
    a about an and any are as at be been before by can could did do does for from had has have how
    in into is it its many me much my not of on or our should tell than that the their them there
    these they this those to under until was we were what when where which who whom whose why will
    with would you your
    """
_COMMON = frozenset(_SMALL_WORDS.split())
_WORD = re.compile(r"[^\W_]+(?:[’'.-][^\W_]+)*")
_ENDING = re.compile(r"(?:’s|'s|ing|ed|es|s)$")
_MOST = 3  # missing words that are named


def what_it_needs(question: str, text: str, where: str) -> str:
    """Say what the text, called ``where``, would need to answer the question.

    >>> what_it_needs("Who painted it?", "Ada wrote a letter.", "this passage")
    'An answer would need a sentence that names a person; this passage never mentions “painted”.'
    """
    remark = language_remark(question, text)
    if remark is not None:
        return remark[0].upper() + remark[1:]
    need = f"An answer would need a sentence that {_kind(question)}"
    missing = [f"“{word}”" for word in missing_words(question, text)]
    if not missing:
        return f"{need}; {where} has the words of the question, but no such sentence was found."
    return f"{need}; {where} never mentions {_listed(missing)}."


def missing_words(question: str, text: str) -> list[str]:
    """List the first words of a question that the text never has, in any ending."""
    known = {_stem(word) for word in _WORD.findall(text)}
    missing: list[str] = []
    for word in _WORD.findall(question):
        if word.lower() in _COMMON or word in missing:
            continue
        if _stem(word) not in known:
            missing.append(word)
    return missing[:_MOST]


def _kind(question: str) -> str:
    for pattern, kind in _KINDS:
        if re.match(rf"\s*(?:{pattern})\b", question, re.IGNORECASE):
            return kind
    return "says it"


def _stem(word: str) -> str:
    return _ENDING.sub("", word.lower())


def _listed(items: Sequence[str]) -> str:
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} or {items[-1]}"
