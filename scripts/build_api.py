"""Write docs/api.md from the docstrings of the public names: ``python scripts/build_api.py``."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rmreader
from rmreader.core.settings import field_help

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"
WIDTH = 100  # of a signature that stays on one line
EMPTY = inspect.Parameter.empty


def page() -> str:
    """The whole page."""
    parts = [
        "# From Python\n",
        "Made from the docstrings by `scripts/build_api.py`; change those.\n",
        _code(inspect.getdoc(rmreader) or ""),
    ]
    for name in sorted(rmreader.__all__, key=lambda name: (not name[0].isupper(), name)):
        thing = getattr(rmreader, name)
        if inspect.isclass(thing):
            parts += _class(name, thing)
        elif inspect.isfunction(thing):
            parts += [f"## {name}\n", _function(name, thing)]
    return "\n".join(parts)


def _class(name: str, cls: type) -> Iterator[str]:
    yield f"## {name}\n"
    yield _code(inspect.getdoc(cls) or "")
    if dataclasses.is_dataclass(cls):
        helps, fields = field_help(cls), []
        for field in dataclasses.fields(cls):
            fields.append(f"- `{field.name}: {field.type}`" + (f": {helps[field.name]}" if field.name in helps else ""))
        yield "\n".join([*fields, ""])
    for key, value in vars(cls).items():
        function = value.__func__ if isinstance(value, classmethod) else value
        if inspect.isfunction(function) and not key.startswith("_"):
            yield f"### {name}.{key}\n"
            yield _function(f"{name}.{key}", function)


def _function(name: str, function: Any) -> str:
    """The signature as code, then the docstring."""
    words: list[str] = []
    keyword = False
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword:
            words.append("*")
            keyword = True
        default = "" if parameter.default is EMPTY else f" = {parameter.default!r}"
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        words.append(f"{stars}{parameter.name}: {parameter.annotation}{default}")
    line = f"{name}({', '.join(words)}) -> {signature.return_annotation}"
    if len(line) > WIDTH:
        inner = "".join(f"    {word},\n" for word in words)
        line = f"{name}(\n{inner}) -> {signature.return_annotation}"
    return f"```python\n{line}\n```\n\n" + _code(inspect.getdoc(function) or "")


def _code(docstring: str) -> str:
    """A docstring as Markdown: what it shows is code, what it names is code too."""
    lines: list[str] = []
    shown = False
    for line in docstring.replace("``", "`").replace("  # doctest: +SKIP", "").splitlines():
        if line.startswith(">>>") != shown and (line.startswith(">>>") or not line.strip()):
            lines.append("```")
            if not shown:
                lines[-1] += "python"
            shown = not shown
        lines.append(line)
    return "\n".join([*lines, *(["```"] if shown else []), ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
