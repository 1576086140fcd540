"""Validated settings, of recipes and of the server.

Settings are frozen dataclasses. A field's type and ``Range`` are what it may hold, the docstring
under it is its help text. An unknown key is an error that names the nearest one that exists.
"""

import ast
import dataclasses
import difflib
import inspect
import itertools
import math
import textwrap
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from rmreader.core.errors import UserError, quoted

T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """The numbers that make sense for a setting; as text, the words for them in a sentence."""

    least: float = -math.inf
    above: float = -math.inf
    below: float = math.inf
    most: float = math.inf

    def __contains__(self, number: float) -> bool:
        return self.least <= number <= self.most and self.above < number < self.below

    def __str__(self) -> str:
        bounds = {
            "at least": self.least,
            "above": self.above,
            "below": self.below,
            "at most": self.most,
        }
        return " and ".join(
            f"{word} {bound}" for word, bound in bounds.items() if math.isfinite(bound)
        )


Count = Annotated[int, Range(least=1)]
Natural = Annotated[int, Range(least=0)]
Seed = Annotated[int, Range(least=0, below=2**63)]
Positive = Annotated[float, Range(above=0)]
NonNegative = Annotated[float, Range(least=0)]
Share = Annotated[float, Range(least=0, below=1)]


def build_settings(cls: type[T], tree: Mapping[str, Any], where: str) -> T:
    """Build a frozen dataclass of settings from plain data.

    Each value is checked against its field's type and ``Range``. Fields may be dataclasses
    themselves. ``where`` opens the sentence of every refusal: a file, ``server setting`` …
    """
    hints = typing.get_type_hints(cls, include_extras=True)
    values: dict[str, Any] = {}
    for key, value in tree.items():
        if key not in hints:
            nearest = difflib.get_close_matches(str(key), hints, n=1, cutoff=0.0)[0]
            raise UserError(f"{where}: unknown key {quoted(key)}; the nearest is {nearest!r}.")
        hint = hints[key]
        place = f"{where}: {key}"
        if dataclasses.is_dataclass(hint):
            if not isinstance(value, Mapping):
                raise UserError(f"{place} must be a mapping.")
            values[key] = build_settings(typing.cast(type, hint), value, place)
        else:
            values[key] = _coerce(hint, value, place)
    return cls(**values)


def _coerce(hint: Any, value: Any, place: str) -> Any:
    """Return the value as the field's type, or refuse it in one sentence."""
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin is Annotated:
        number = _coerce(arguments[0], value, place)
        allowed = arguments[1]
        if number in allowed:
            return number
        raise UserError(f"{place} must be {allowed}; it is {quoted(value)}.")
    if origin is Literal:
        if value in arguments:
            return value
        choices = ", ".join(map(str, arguments))
        raise UserError(f"{place} must be one of {choices}; it is {quoted(value)}.")
    if origin is tuple:
        return _coerce_tuple(arguments, value, place)
    coerce = _SCALARS.get(hint)
    coerced = coerce(value, place) if coerce is not None else None
    if coerced is None:
        wanted = getattr(hint, "__name__", str(hint))
        raise UserError(f"{place} must be of type {wanted}; it is {quoted(value)}.")
    return coerced


def _coerce_tuple(hints: tuple[Any, ...], value: Any, place: str) -> tuple[Any, ...]:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    if not is_list or len(value) != len(hints):
        raise UserError(f"{place} must be a list of {len(hints)} numbers; it is {quoted(value)}.")
    return tuple(_coerce(hint, item, place) for hint, item in zip(hints, value, strict=True))


def _bool(value: Any, place: str) -> bool | None:
    return value if isinstance(value, bool) else None


def _int(value: Any, place: str) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if abs(value) >= 2**64:
        raise UserError(
            f"{place} must be a whole number of at most 64 bits; it is {quoted(value)}."
        )
    return value


def _float(value: Any, place: str) -> float | None:
    # A string too: YAML reads 1e-4 as one.
    if not isinstance(value, (int, float, str)) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if not abs(number) < 1e38:  # more than this is infinite in float32
        raise UserError(
            f"{place} must be a finite number, of single precision; it is {quoted(value)}."
        )
    return number


def _str(value: Any, place: str) -> str | None:
    if value is None:
        return ""
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return str(value)
    return None


# For each type of a field: the value as that type, or None where it is of another.
_SCALARS: dict[Any, Callable[[Any, str], Any]] = {
    bool: _bool,
    int: _int,
    float: _float,
    str: _str,
}


def field_help(cls: type) -> dict[str, str]:
    """Return the docstring that follows each field of a dataclass in its source."""
    definition = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(definition, ast.ClassDef)
    helps: dict[str, str] = {}
    for statement, following in itertools.pairwise(definition.body):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=text)):
                helps[name] = str(text)
    return helps


def field_ranges(cls: type) -> dict[str, str]:
    """Return in words what each field of a dataclass may be; empty where that is anything."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {name: _allowed(hint) for name, hint in hints.items()}


def _allowed(hint: Any) -> str:
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin is Annotated:
        return str(arguments[1])
    if origin is Literal:
        return " | ".join(arguments)
    if origin is tuple:
        return _allowed(arguments[0])
    return ""


def check_settings(settings: Any, where: str) -> None:
    """Check an instance of a dataclass that was not read from a file, field by field."""
    for name, hint in typing.get_type_hints(type(settings), include_extras=True).items():
        _coerce(hint, getattr(settings, name), f"{where} {name}")
