"""Validated settings, of recipes and of the server: frozen dataclasses whose fields say what they may be and what for.

A field's type and ``Range`` are what it may hold, the docstring under it is its help text. An unknown key is an error
that names the nearest one that exists.
"""

import ast
import contextlib
import dataclasses
import difflib
import inspect
import math
import textwrap
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from rmreader.core.errors import UserError, quoted

T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """The numbers that make sense for a setting; its text is how they are told."""

    least: float = -math.inf
    above: float = -math.inf
    below: float = math.inf
    most: float = math.inf

    def __contains__(self, number: float) -> bool:
        return self.least <= number <= self.most and self.above < number < self.below

    def __str__(self) -> str:
        bounds = (("at least", self.least), ("above", self.above), ("below", self.below), ("at most", self.most))
        return " and ".join(f"{word} {bound}" for word, bound in bounds if math.isfinite(bound))


Count = Annotated[int, Range(least=1)]
Natural = Annotated[int, Range(least=0)]
Seed = Annotated[int, Range(least=0, below=2**63)]
Positive = Annotated[float, Range(above=0)]
NonNegative = Annotated[float, Range(least=0)]
Share = Annotated[float, Range(least=0, below=1)]


def build_settings(cls: type[T], tree: Mapping[str, Any], where: str) -> T:
    """A frozen dataclass of settings from plain data: each value checked against its field's type and ``Range``.

    Fields may be dataclasses themselves. ``where`` opens the sentence of every refusal: a file, ``server setting`` …
    """
    hints = typing.get_type_hints(cls, include_extras=True)
    values: dict[str, Any] = {}
    for key, value in tree.items():
        if key not in hints:
            near = difflib.get_close_matches(str(key), hints, n=1, cutoff=0.0)
            raise UserError(f"{where}: unknown key {quoted(key)}; the nearest is {near[0]!r}.")
        place = f"{where}: {key}"
        if dataclasses.is_dataclass(hints[key]):
            if not isinstance(value, Mapping):
                raise UserError(f"{place} must be a mapping.")
            values[key] = build_settings(typing.cast(type, hints[key]), value, place)
        else:
            values[key] = _coerce(hints[key], value, place)
    return cls(**values)


def _coerce(hint: Any, value: Any, place: str) -> Any:
    """The value as the field's type, or one clear sentence."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        number, allowed = _coerce(args[0], value, place), args[1]
        if number in allowed:
            return number
        raise UserError(f"{place} must be {allowed}; it is {quoted(value)}.")
    if origin is Literal:
        if value in args:
            return value
        raise UserError(f"{place} must be one of {', '.join(map(str, args))}; it is {quoted(value)}.")
    if origin is tuple:
        if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == len(args):
            return tuple(_coerce(a, v, place) for a, v in zip(args, value, strict=True))
        raise UserError(f"{place} must be a list of {len(args)} numbers; it is {quoted(value)}.")
    if hint is bool and isinstance(value, bool):
        return value
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        if abs(value) < 2**64:
            return value
        raise UserError(f"{place} must be a whole number of at most 64 bits; it is {quoted(value)}.")
    if hint is float and isinstance(value, (int, float, str)) and not isinstance(value, bool):
        with contextlib.suppress(ValueError, OverflowError):
            if abs(number := float(value)) < 1e38:  # YAML reads 1e-4 as a string; more than this is infinite in float32
                return number
            raise UserError(f"{place} must be a finite number, of single precision; it is {quoted(value)}.")
    if hint is str and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return str(value)
    if hint is str and value is None:
        return ""
    wanted = getattr(hint, "__name__", str(hint))
    raise UserError(f"{place} must be of type {wanted}; it is {quoted(value)}.")


def field_help(cls: type) -> dict[str, str]:
    """The docstring that follows each field of a dataclass in its source."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    helps: dict[str, str] = {}
    for statement, following in zip(body.body, body.body[1:], strict=False):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=text)):
                helps[name] = str(text)
    return helps


def field_ranges(cls: type) -> dict[str, str]:
    """What the numbers and the choices of a dataclass may be, in words, by field; empty where that is anything."""
    return {name: _allowed(hint) for name, hint in typing.get_type_hints(cls, include_extras=True).items()}


def _allowed(hint: Any) -> str:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return str(args[1])
    return " | ".join(args) if origin is Literal else _allowed(args[0]) if origin is tuple else ""


def check_settings(settings: Any, where: str) -> None:
    """Hold an instance of a dataclass that was not read from a file to the types and ranges of its fields."""
    for name, hint in typing.get_type_hints(type(settings), include_extras=True).items():
        _coerce(hint, getattr(settings, name), f"{where} {name}")
