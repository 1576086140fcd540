"""Runs that are one thing, though tokens split them: words, numbers, addresses, paths, versions."""

from __future__ import annotations

import re

# Letters of the alphabets that are written with blanks between words, digits and underscores.
# In the others a digit in the middle of a sentence must not take the whole sentence with it.
_W = "[A-Za-z0-9_\u00aa-\u00ba\u00bc-\u024f\u0370-\u052f]"
_L = "[A-Za-z\u00c0-\u024f\u0370-\u052f]"

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

# What is one thing, though tokens split it; of two that fit, the first counts. None holds a blank.
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
    "branch": r"(?<![\w./-])[a-z][\w-]*/(?:\d+(?:\.\d+)+|[A-Z]+-\d+)(?:[\w-]*\w)?",
    "build": rf"(?<![\w.])\d+(?:\.\d+){{2,}}-\d+-?{_L}{_W}*",
    "version": rf"(?<![\w.])[vV]?\d+(?:\.\d+)+{_STAGE}{_W}*(?:\+{_W}+(?:\.{_W}+)*)?",
    "any version of": r"(?<![\w.])[vV]?\d+(?:\.\d+)*\.[xX](?!\w)",
    "file named by a number": rf"(?<![\w.+-])\d[\w-]*[_-]{_L}[\w-]*\.[a-z]{_W}{{1,4}}(?!\w)",
    "initials": r"(?<![\w.])(?:[A-Z]\.){2,}(?!\w)",
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

# The same for what is written with blanks.
_SPACED_KINDS = {
    "telephone number": (
        r"(?<![\w+])\+\d{1,3}(?:[ \u00a0.-]\(?\d{1,5}\)?){2,6}(?!\w)"
        r"|(?<![\w.,-])\(?0\d{1,5}\)?(?:[ \u00a0]\d{2,8}){1,4}(?![\w.,]\w)(?!\w)"
    ),
    "bank account": r"(?<!\w)[A-Z]{2}\d{2}(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,4})?(?!\w)",
    "card": r"(?<![\w.])(?!(?:19|20)\d\d )\d{4}(?: \d{4}){3}(?! ?\w)",
    "thousands": r"(?<![\w.,])\d{1,3}(?:[\u00a0\u2009\u202f]\d{3})+(?!\w)",
    "postal code": r"(?<!\w)[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}(?!\w)",
    "post box": r"(?<!\w)P\. ?O\. Box \d+(?: \d\d)*(?!\w)",
    "type with types": rf"(?<!\w){_L}{_W}*\[{_W}+(?:, {_W}+){{1,5}}\]"
    rf"|(?<!\w){_L}{_W}*<{_W}+(?:, {_W}+){{1,5}}>",
}
_SPACED = re.compile("|".join(f"(?:{kind})" for kind in _SPACED_KINDS.values()))

_ADDRESSES = ("address", "web page", "mail address", "path from the root", "path with an ending")
_ADDRESS = re.compile("|".join(f"(?:{_KINDS[name]})" for name in _ADDRESSES))


def runs(text: str) -> list[tuple[int, int]]:
    """Where each run that an answer must not be cut in begins and ends; none holds a blank."""
    return [match.span() for match in _RUN.finditer(text)]


def spaced_runs(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The same for runs with blanks, in a part of a text."""
    return [match.span() for match in _SPACED.finditer(text, start, end)]


def is_address(text: str) -> bool:
    """Whether a text is an address of a page or a mail, or a path, and nothing else."""
    return _ADDRESS.fullmatch(text) is not None
