"""Questions from files: SQuAD JSON, JSON Lines, CSV, TSV and Parquet, streamed; a bad row is named and left out."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmreader.errors import UserError

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
class Row:
    """One question to answer."""

    id: str
    question: str
    passage: str


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
    ending = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    found = kind or _SUFFIXES.get(ending.lower())
    if found is None:
        raise UserError(f"{path}: the ending says nothing about the format; name it: {', '.join(KINDS)}.")
    return found


def read_rows(path: Path, columns: Columns | None = None, kind: str = "") -> Iterator[Row | BadRow]:
    """Every row of a file, in order, the bad ones as what is wrong with them. No id comes twice."""
    columns, kind = columns or Columns(), kind_of(path, kind)
    if not path.is_file():
        raise UserError(f"{path}: no such file.")
    if kind == "squad":
        rows = _squad(path)
    elif kind == "parquet":
        rows = _checked(path, _parquet(path, columns), columns, "row")
    elif kind == "jsonl":
        rows = _checked(path, _jsonl(path), columns, "line")
    else:
        rows = _checked(path, _csv(path, columns, "\t" if kind == "tsv" else ","), columns, "row")
    seen: set[str] = set()
    for row in rows:
        if isinstance(row, Row) and row.id in seen:
            yield BadRow(f"{path}: id {row.id}", "the id stood in an earlier row")
            continue
        if isinstance(row, Row):
            seen.add(row.id)
        yield row


def _squad(path: Path) -> Iterator[Row | BadRow]:
    from rmreader.data.squad import read_squad

    dataset = read_squad(path, answers_needed=False)
    for problem in dataset.problems:
        file, what = str(problem).split(": ", 1)
        yield BadRow(file, what)
    for paragraph, question in dataset.questions():
        yield Row(question.id, question.text, paragraph.context)


def _checked(path: Path, trees: Iterator[tuple[int, Any]], columns: Columns, what: str) -> Iterator[Row | BadRow]:
    """Plain rows, numbered from 1, as questions; a row without an id is known by its number."""
    for number, tree in trees:
        place = f"{path}: {what} {number}"
        if isinstance(tree, str):  # what is wrong with it
            yield BadRow(place, tree)
            continue
        try:
            yield Row(_id(tree, columns, number), _text(tree, columns, "question"), _text(tree, columns, "passage"))
        except ValueError as error:
            yield BadRow(place, str(error))


def _id(tree: dict[str, Any], columns: Columns, number: int) -> str:
    name = columns.pick("id", tree)
    if columns.id and (name is None or tree[name] in (None, "")):
        raise ValueError(f"{columns.id!r} is missing")
    return str(number) if name is None or tree[name] in (None, "") else str(tree[name])


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
        rows = csv.reader(_read(path, file), delimiter=delimiter)
        header = next(rows, None)
        if header is None:
            raise UserError(f"{path}: the file is empty; its first line must name the columns.")
        _need(path, columns, header)
        number = 0
        while True:
            number += 1
            try:
                cells = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                yield number, f"not valid CSV ({error})"
                continue
            if not cells:
                continue
            if len(cells) != len(header):
                yield number, f"{len(cells)} fields where the header has {len(header)}"
                continue
            yield number, dict(zip(header, cells, strict=True))


def _parquet(path: Path, columns: Columns) -> Iterator[tuple[int, Any]]:
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
        _need(path, columns, file.schema_arrow.names)
        number = 0
        for batch in file.iter_batches(batch_size=1024):
            for tree in batch.to_pylist():
                number += 1
                yield number, tree
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path}: not a Parquet file that can be read ({' '.join(str(error).split())}).") from None


def _need(path: Path, columns: Columns, there: Sequence[str]) -> None:
    """Refuse a table without the columns that are needed."""
    for part in ("question", "passage", *(["id"] if columns.id else [])):
        if columns.pick(part, there) is None:
            names = " or ".join(map(repr, columns.names(part)))
            raise UserError(
                f"{path}: no column {names}; its columns are {', '.join(map(repr, there))}: say which it is."
            )


def _lines(path: Path) -> io.TextIOWrapper:
    opened: Any = gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb")
    return io.TextIOWrapper(opened, encoding="utf-8-sig", errors="strict", newline="")


def _read(path: Path, file: io.TextIOWrapper) -> Iterator[str]:
    """The lines; one sentence where the file is not what its name says."""
    try:
        yield from file
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error.reason}); save it as UTF-8.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read to its end ({error}); fetch or make it again.") from None
