"""Write docs/api.md from the docstrings of the public names: ``python scripts/build_api.py``.

Every call is shown with its signature, what it returns (a link where that is on the page, too) and
an example, which `tests/test_api.py` runs in a folder that holds `examples/`.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import rmreader
from rmreader.core.settings import field_help

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"
WIDTH = 100  # of a signature that stays on one line
EMPTY = inspect.Parameter.empty

# What public calls return, beside the public names themselves.
RETURNED = {
    "Added": "documents.indexing",
    "Attention": "reading.explanation",
    "Citation": "documents.citations",
    "Citations": "documents.citations",
    "Highlight": "reading.highlight",
    "Highlights": "reading.highlight",
    "Passage": "documents.index",
    "Score": "scoring.squad",
    "TrainResult": "training.trainer",
}
# Methods that only other parts of rmreader call.
INTERNAL = {"with_runner_up", "describe_guess", "of"}

HEAD = """# From Python

Every public name, what it takes and what it returns. `from rmreader import Reader` gets a name; the examples
take the public names as imported, and run in a checkout, which has the folder `examples/`.

This page is made from the docstrings by `scripts/build_api.py`; change those.
"""


def page() -> str:
    """The whole page."""
    names = sorted(rmreader.__all__, key=lambda name: (not name[0].isupper(), name))
    parts = [HEAD, _code(inspect.getdoc(rmreader) or "")]
    for name in names:
        thing = getattr(rmreader, name)
        if inspect.isclass(thing):
            parts += _class(name, thing)
        elif inspect.isfunction(thing):
            parts += [f"## {name}\n", _function(name, thing)]
    parts.append("## What the calls return\n")
    parts.append("These have no name in `rmreader` itself: you get them from the calls above.\n")
    for name, cls in returned().items():
        parts += _class(name, cls, level="###")
    return "\n".join(parts)


def returned() -> dict[str, type]:
    """The classes that public calls return and that are not public names."""
    classes = {}
    for name, module in RETURNED.items():
        classes[name] = getattr(import_module(f"rmreader.{module}"), name)
    return classes


def calls() -> Iterator[tuple[str, Any]]:
    """Every function and method of the public names."""
    for name in rmreader.__all__:
        thing = getattr(rmreader, name)
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing):
            for key, function in _methods(thing).items():
                if not isinstance(function, property):
                    yield f"{name}.{key}", function


def _methods(cls: type) -> dict[str, Any]:
    """The public methods and properties that a class has from this package, its own first."""
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        if not base.__module__.startswith("rmreader"):
            continue
        for key, value in vars(base).items():
            function = value.__func__ if isinstance(value, classmethod) else value
            is_own = base is cls and key == "of"  # Ensemble's, which people call
            if key.startswith("_") or (key in INTERNAL and not is_own):
                continue
            if inspect.isfunction(function) or isinstance(function, property):
                found.setdefault(key, function)
    return found


def _class(name: str, cls: type, level: str = "##") -> Iterator[str]:
    yield f"{level} {name}\n"
    yield _code(inspect.getdoc(cls) or "")
    if dataclasses.is_dataclass(cls):
        yield _fields(cls)
    methods = _methods(cls)
    if name == "Ensemble":  # a reader, with all that a reader has
        methods = {"of": methods["of"]}
    properties = {key: value for key, value in methods.items() if isinstance(value, property)}
    if properties:
        yield "\n".join([*(_property(key, value) for key, value in properties.items()), ""])
    for key, function in methods.items():
        if key not in properties:
            yield f"{level}# {name}.{key}\n"
            yield _function(f"{name}.{key}", function)


def _fields(cls: type) -> str:
    """The fields of a dataclass with their types and what they mean."""
    helps: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base) and base.__module__.startswith("rmreader"):
            helps |= field_help(base)
    lines = []
    for field in dataclasses.fields(cls):
        meaning = f": {_tidy(helps[field.name])}" if field.name in helps else ""
        lines.append(f"- `{field.name}: {field.type}`{meaning}")
    return "\n".join([*lines, ""])


def _property(key: str, value: property) -> str:
    kind = inspect.signature(value.fget).return_annotation if value.fget else ""
    meaning = " ".join((inspect.getdoc(value) or "").split())
    return f"- `{key}: {kind}` (property): {_tidy(meaning)}"


def _function(name: str, function: Any) -> str:
    """The signature as code, what it returns, then the docstring."""
    words: list[str] = []
    keyword = False
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            keyword = True
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword:
            words.append("*")
            keyword = True
        default = "" if parameter.default is EMPTY else f" = {_shown(parameter.default)}"
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        words.append(f"{stars}{parameter.name}: {parameter.annotation}{default}")
    line = f"{name}({', '.join(words)}) -> {signature.return_annotation}"
    if len(line) > WIDTH:
        inner = "".join(f"    {word},\n" for word in words)
        line = f"{name}(\n{inner}) -> {signature.return_annotation}"
    gives = _returns(str(signature.return_annotation))
    return f"```python\n{line}\n```\n\n{gives}" + _code(inspect.getdoc(function) or "")


def _shown(default: Any) -> str:
    """A default as it is written; a function by its name."""
    return default.__name__ if inspect.isfunction(default) else repr(default)


def _returns(annotation: str) -> str:
    """A line with links to the classes in a return type that are on this page."""
    known = [name for name in re.findall(r"\w+", annotation) if name in RETURNED or name in rmreader.__all__]
    if not known:
        return ""
    if annotation in known:
        return f"Returns [{annotation}](#{annotation.lower()}).\n\n"
    links = ", ".join(f"[{name}](#{name.lower()})" for name in dict.fromkeys(known))
    return f"Returns `{annotation}`: {links}.\n\n"


def _tidy(text: str) -> str:
    return text.replace("``", "`")


def _code(docstring: str) -> str:
    """A docstring as Markdown: what it shows is code, what it names is code too."""
    lines: list[str] = []
    shown = False
    for line in _tidy(docstring).replace("  # doctest: +SKIP", "").splitlines():
        if line.startswith(">>>") != shown and (line.startswith(">>>") or not line.strip()):
            lines.append("```")
            if not shown:
                lines[-1] += "python"
            shown = not shown
        lines.append(line)
    return "\n".join([*lines, *(["```"] if shown else []), ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
