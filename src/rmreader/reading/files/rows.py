"""Questions from files: SQuAD JSON, JSON Lines, CSV, TSV and Parquet, streamed; a bad row is named and left out."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmreader.errors import UserError
from rmreader.reading.answering.answers import Row
from rmreader.reading.answering.reader import rows_of

KINDS = ("squad", "jsonl", "csv", "tsv", "parquet")
_SUFFIXES = {
    ".json": "squad",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
_LONGEST_FIELD = 2**31 - 1
_LISTED = 10  # columns named in an error
_USUAL = {"id": ("id",), "question": ("question",), "passage": ("passage", "context")}


@dataclass(frozen=True)
class Columns:
    """Where a row's parts stand; an empty name takes the usual one."""

    id: str = ""
    question: str = ""
    passage: str = ""

    def names(self, part: str) -> tuple[str, ...]:
        """The names under which a part may stand."""
        named: str = getattr(self, part)
        return (named,) if named else _USUAL[part]

    def pick(self, part: str, there: Container[str]) -> str | None:
        """The name under which it stands here, if it does."""
        return next((name for name in self.names(part) if name in there), None)


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be answered: where it stands and what is wrong with it."""

    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


def kind_of(path: Path, kind: str = "") -> str:
    """The format of a file, as named or by its ending."""
    if kind and kind not in KINDS:
        raise UserError(f"{kind!r} is no format that is known; take one of {', '.join(KINDS)}.")
    ending = path.with_suffix("").suffix if is_packed(path) else path.suffix
    found = kind or _SUFFIXES.get(ending.lower())
    if found is None:
        raise UserError(f"{path}: the ending says nothing about the format; name it: {', '.join(KINDS)}.")
    return found


def is_packed(path: Path) -> bool:
    """Whether a file is compressed, by its ending."""
    return path.suffix.lower() == ".gz"


def read_rows(path: Path, columns: Columns | None = None, kind: str = "") -> Iterator[Row | BadRow]:
    """Every row of a file, in order, the bad ones as what is wrong with them. No id comes twice."""
    columns, kind = columns or Columns(), kind_of(path, kind)
    if path.is_dir():
        raise UserError(f"{path}: a folder; give a file of questions.")
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: a pipe or device; save its content to an ordinary file and give that.")
    if not path.is_file():
        raise UserError(f"{path}: no such file.")
    if kind == "squad":
        yield from _squad(path)
    elif kind == "parquet":
        yield from _checked(path, lambda: _parquet(path, columns), columns, "row")
    elif kind == "jsonl":
        yield from _checked(path, lambda: _jsonl(path), columns, "line")
    else:
        yield from _checked(path, lambda: _csv(path, columns, "\t" if kind == "tsv" else ","), columns, "row")


def _squad(path: Path) -> Iterator[Row | BadRow]:
    from rmreader.data.squad import read_squad

    dataset = read_squad(path, answers_needed=False)
    for problem in dataset.problems:
        file, what = str(problem).split(": ", 1)
        yield BadRow(file, what)
    yield from rows_of(dataset)


def _checked(
    path: Path, read: Callable[[], Iterator[tuple[int, Any]]], columns: Columns, what: str
) -> Iterator[Row | BadRow]:
    """Plain rows, numbered from 1, as questions; a row without an id is known by its number, or where that is another
    row's id by what and number."""
    seen: set[str] = set()
    given: set[str] | None = None  # ids of the whole file that look like numbers, read when first needed
    for number, tree in read():
        place = f"{path}: {what} {number}"
        if isinstance(tree, str):  # what is wrong with it
            yield BadRow(place, tree)
            continue
        try:
            id = _id(tree, columns)
            if id is None:
                given = _numbers(read(), columns) if given is None else given
                id = f"{what} {number}" if str(number) in given else str(number)
            if id in seen:
                raise ValueError(f"its id, {_short(id)}, stood in an earlier row")
            row = Row(id, _text(tree, columns, "question"), _text(tree, columns, "passage"))
        except ValueError as error:
            yield BadRow(place, str(error))
            continue
        seen.add(id)
        yield row


def _id(tree: dict[str, Any], columns: Columns) -> str | None:
    """The id of a row, None where it has none."""
    name = columns.pick("id", tree)
    value = None if name is None else tree[name]
    if value is None or value == "":
        if columns.id:
            raise ValueError(f"{columns.id!r} is missing")
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{name!r} is neither text nor number but {type(value).__name__}")
    return str(value)


def _numbers(trees: Iterator[tuple[int, Any]], columns: Columns) -> set[str]:
    """Those ids of a file that could be the number of a row."""
    rows = (tree for _, tree in trees if isinstance(tree, dict))
    ids = (str(tree[name]) for tree in rows if (name := columns.pick("id", tree)) is not None)
    return {id for id in ids if id.isdecimal()}


def _text(tree: dict[str, Any], columns: Columns, part: str) -> str:
    name = columns.pick(part, tree)
    value = None if name is None else tree[name]
    if value is None:
        raise ValueError(f"{' or '.join(map(repr, columns.names(part)))} is missing")
    if not isinstance(value, str):
        raise ValueError(f"{name!r} is no text but {type(value).__name__}")
    if not value.strip():
        raise ValueError(f"{name!r} is empty")
    return value


def _jsonl(path: Path) -> Iterator[tuple[int, Any]]:
    with _lines(path) as file:
        for number, line in enumerate(_read(path, file), start=1):
            if not line.strip():
                continue
            try:
                tree = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield number, f"not valid JSON ({error})"
                continue
            yield number, tree if isinstance(tree, dict) else "not a JSON object"


def _csv(path: Path, columns: Columns, delimiter: str) -> Iterator[tuple[int, Any]]:
    csv.field_size_limit(_LONGEST_FIELD)
    with _lines(path) as file:
        rows = csv.reader(_read(path, file), delimiter=delimiter, strict=True)
        try:
            header = next(rows, None)
        except csv.Error as error:
            raise UserError(f"{path}: line 1: not valid CSV ({error}); it must name the columns.") from None
        if header is None:
            raise UserError(f"{path}: the file is empty; its first line must name the columns.")
        _need(path, columns, header)
        number = 0
        while True:
            number += 1
            before = rows.line_num
            try:
                cells = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                yield number, f"not valid CSV ({error}){_spread(before, rows.line_num)}"
                continue
            if not cells:
                continue
            if len(cells) != len(header):
                found = f"{len(cells)} fields where the header has {len(header)}"
                yield number, f"{found}{_spread(before, rows.line_num)}"
                continue
            yield number, dict(zip(header, cells, strict=True))


def _parquet(path: Path, columns: Columns) -> Iterator[tuple[int, Any]]:
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
        _need(path, columns, file.schema_arrow.names)
        picked = [columns.pick(part, file.schema_arrow.names) for part in _USUAL]
        number = 0
        for batch in file.iter_batches(batch_size=1024, columns=[name for name in picked if name is not None]):
            for place in range(len(batch)):
                number += 1
                try:
                    yield number, {name: batch.column(name)[place].as_py() for name in batch.schema.names}
                except (ValueError, OverflowError) as error:  # such as text that is not UTF-8
                    yield number, f"cannot be read ({error})"
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path}: not a Parquet file that can be read ({' '.join(str(error).split())}).") from None


def _spread(before: int, last: int) -> str:
    """Which lines a bad row of CSV takes up, where there are several: most often since a quote was left open."""
    return f"; it takes up lines {before + 1} to {last}: is a quote left open?" if last > before + 1 else ""


def _need(path: Path, columns: Columns, there: Sequence[str]) -> None:
    """Refuse a table without the columns that are needed, or with one of them twice."""
    for name in (columns.pick(part, there) for part in _USUAL):
        if name is not None and list(there).count(name) > 1:
            raise UserError(f"{path}: there are several columns {name!r}; leave one, or rename the others.")
    for part in ("question", "passage", *(["id"] if columns.id else [])):
        if columns.pick(part, there) is None:
            names = " or ".join(map(repr, columns.names(part)))
            listed = ", ".join(map(_short, there[:_LISTED])) + (", …" if len(there) > _LISTED else "")
            raise UserError(f"{path}: no column {names}; its columns are {listed}: say which it is.")


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")


def _lines(path: Path) -> io.TextIOWrapper:
    return io.TextIOWrapper(_bytes(path), encoding="utf-8-sig", errors="strict", newline="")


def _bytes(path: Path) -> Any:
    return gzip.GzipFile(path) if is_packed(path) else path.open("rb")


def _read(path: Path, file: io.TextIOWrapper) -> Iterator[str]:
    """The lines; one sentence where the file is not what its name says."""
    try:
        yield from file
    except UnicodeDecodeError:
        raise UserError(f"{path}: line {_undecodable(path)}: not UTF-8 text; save it as UTF-8.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read to its end ({error}); fetch or make it again.") from None


def _undecodable(path: Path) -> int:
    """The number of the first line that is not UTF-8."""
    with _bytes(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 0
