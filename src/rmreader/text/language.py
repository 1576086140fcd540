"""Whether a text is English, by its small words: readers know no other language.

A guess that stays silent in doubt. A text is called another language only where the small words of
that language are clearly more than the English ones.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W\d_]+")
_LONG = 2000  # letters that are looked at

_SMALL_WORDS = {
    "English": (
        "the of and a an to in is are was were be been it its that this these those for on with "
        "as by at from he she they his her their who what when where why which how many much did "
        "do does has have had not or but if about after before between during into than then "
        "there will would can could i you we my your our me him them us all any some no one two "
        "first last name year"
    ),
    "German": (
        "der die das den dem des ein eine einen einem einer und ist sind war waren wer wie wann wo "
        "warum welche welcher welches wieviel viele nicht mit von zu auf für im am bei nach aus "
        "wurde hat haben sich auch"
    ),
    "French": (
        "le la les des du une et est sont était qui que quoi quand où pourquoi comment combien "
        "quel quelle dans pour avec sur par au aux ce cette il elle ils elles pas ne se plus ont"
    ),
    "Spanish": (
        "el la los las una y es son fue quién qué cuándo dónde por cómo cuánto cuántos cuál en del "
        "al con para su sus se no que más como pero este esta"
    ),
    "Italian": (
        "il lo la gli le una è sono era chi che cosa quando dove perché come quanto quanti quale "
        "nel della del dei delle di per con su al alla non si anche"
    ),
    "Portuguese": (
        "o os as uma é são foi quem que quando onde porque como quanto quantos qual em do da dos "
        "das no na com para por não se mais"
    ),
    "Dutch": (
        "de het een en is zijn was wie wat wanneer waar waarom hoe welke veel niet met van te op "
        "voor bij uit aan werd heeft hebben ook naar"
    ),
}
_PROFILES = {language: frozenset(words.split()) for language, words in _SMALL_WORDS.items()}
_ENGLISH = _PROFILES.pop("English")


def language_remark(question: str, passage: str) -> str | None:
    """What to say where the question or the passage is clearly not English; else None."""
    for name, text in (("question", question), ("passage", passage)):
        language = other_language(text)
        if language is not None:
            return f"the {name} looks like {language}; this reader reads English only."
    return None


def other_language(text: str) -> str | None:
    """The name of the language where the text is clearly not English; None where it may be."""
    words = [word.lower() for word in _WORD.findall(text[:_LONG])]
    letters = "".join(words)
    if len(letters) > 5 and sum(letter > "\u024f" for letter in letters) > len(letters) / 2:
        return "another language"
    english = sum(word in _ENGLISH for word in words)
    counts = {
        name: sum(word in profile and word not in _ENGLISH for word in words)
        for name, profile in _PROFILES.items()
    }
    likeliest = max(counts, key=counts.__getitem__)
    if counts[likeliest] >= 2 and counts[likeliest] > 3 * english:
        return likeliest
    return None
