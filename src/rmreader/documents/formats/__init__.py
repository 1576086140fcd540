"""The formats that can be read, one file each: a file with a ``FORMAT`` is all that one needs."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import PurePath
from pkgutil import iter_modules

from rmreader.core.sniff import kind_of_content
from rmreader.documents.formats.format import BinaryFormat, Format

_PLAIN = ".txt"  # the format of a name that says nothing


@cache
def formats() -> dict[str, Format]:
    """Every format by the suffix of its files."""
    found: dict[str, Format] = {}
    for module in iter_modules(__path__):
        format = getattr(import_module(f"{__name__}.{module.name}"), "FORMAT", None)
        if format is not None:
            found |= dict.fromkeys(format.suffixes, format)
    return found


def format_of(name: str) -> Format:
    """The format that a file's name says; plain text where it says none."""
    suffix = PurePath(name).suffix.lower()
    return formats().get(suffix, formats()[_PLAIN])


def has_known_suffix(name: str) -> bool:
    """Whether the name says the format."""
    return PurePath(name).suffix.lower() in formats()


def kind_of(content: bytes) -> str | None:
    """What a file is by its content, where that is no plain text."""
    for format in formats().values():
        if isinstance(format, BinaryFormat) and format.magic and format.matches(content):
            return format.name
    return kind_of_content(content)
