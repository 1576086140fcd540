"""Questions from files: SQuAD JSON, JSON Lines, CSV, TSV and Parquet, streamed; a bad row is named and left out."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import tempfile
import zlib
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

from rmreader.errors import UserError
from rmreader.reading.answering.answers import Row
from rmreader.reading.answering.reader import rows_of
from rmreader.reading.files.passages import foreign

KINDS = {".json": "squad", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
"""What a file is by its ending."""
_LONGEST_FIELD = 2**31 - 1
_LISTED = 10  # columns named in an error
_USUAL = {"id": ("id",), "question": ("question",), "passage": ("passage", "context")}

Choose = Callable[[Sequence[str]], list[str]]
"""Of a table's columns those to read; refuses a table without what is needed."""


@dataclass(frozen=True)
class Columns:
    """Under which names a row's parts are; an empty name takes the usual one."""

    id: str = ""
    question: str = ""
    passage: str = ""

    def names(self, part: str) -> tuple[str, ...]:
        """The names under which a part may be."""
        named: str = getattr(self, part)
        return (named,) if named else _USUAL[part]

    def pick(self, part: str, there: Container[str]) -> str | None:
        """The name under which it is here, if it is."""
        return next((name for name in self.names(part) if name in there), None)


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be answered: where it is and what is wrong with it."""

    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


@dataclass(frozen=True)
class Source:
    """A file to read rows from, or standard input, whose content is kept, because some files are read twice."""

    path: Path
    kind: str
    content: bytes | None = None

    def __str__(self) -> str:
        return str(self.path)

    @classmethod
    def of(cls, path: Path, kind: str = "") -> Source:
        """The source that ``path`` names, ``-`` for standard input; refused where it cannot be one."""
        kind = kind_of(path, kind)
        if str(path) == "-":
            if sys.stdin is None:
                raise UserError("-: standard input is closed; give a file, or the rows through a pipe.")
            return cls(path, kind, sys.stdin.buffer.read())
        if path.is_dir():
            raise UserError(f"{path}: a folder; give a file of questions.")
        if path.exists() and not path.is_file():
            raise UserError(f"{path}: a pipe or device; send its content through standard input, which is -.")
        if not path.is_file():
            raise UserError(f"{path}: no such file.")
        return cls(path, kind)

    def open(self) -> IO[bytes]:
        """Its bytes, unpacked."""
        if self.content is not None:
            packed = self.content[:2] == b"\x1f\x8b"
            return io.BytesIO(gzip.decompress(self.content) if packed else self.content)
        return io.BufferedReader(gzip.GzipFile(self.path)) if is_packed(self.path) else self.path.open("rb")

    def lines(self) -> Iterator[str]:
        """Its lines; one sentence where the file is not what its name says."""
        try:
            with self.open() as file:
                begin = file.read(1 << 16)
                if (found := foreign(begin)) is not None:
                    raise UserError(f"{self}: this is {found}, not {self.kind}; save it as UTF-8 text.")
            with io.TextIOWrapper(self.open(), encoding="utf-8-sig", newline="") as text:
                yield from text
        except UnicodeDecodeError:
            raise UserError(f"{self}: line {self._undecodable()}: not UTF-8 text; save it as UTF-8.") from None
        except (OSError, EOFError, zlib.error) as error:
            raise UserError(f"{self}: cannot be read to its end ({error}); fetch or make it again.") from None

    def _undecodable(self) -> int:
        """The number of the first line that is not UTF-8."""
        with self.open() as file:
            for number, line in enumerate(file, start=1):
                try:
                    line.decode()
                except UnicodeDecodeError:
                    return number
        return 0


def kind_of(path: Path, kind: str = "") -> str:
    """The format of a file, as named or by its ending; standard input holds JSON Lines unless named otherwise."""
    known = sorted(set(KINDS.values()))
    if kind and kind not in known:
        raise UserError(f"{kind!r} is no format that is known; take one of {', '.join(known)}.")
    ending = path.with_suffix("").suffix if is_packed(path) else path.suffix
    found = kind or ("jsonl" if str(path) == "-" else KINDS.get(ending.lower()))
    if found is None:
        raise UserError(f"{path}: the ending says nothing about the format; name it: {', '.join(known)}.")
    return found


def is_packed(path: Path) -> bool:
    """Whether a file is compressed, by its ending."""
    return path.suffix.lower() == ".gz"


def read_rows(path: Path, columns: Columns | None = None, kind: str = "") -> Iterator[Row | BadRow]:
    """Every row of a file (``-``: of standard input), in order, the bad ones as what is wrong with them. No id comes
    twice."""
    source, columns = Source.of(path, kind), columns or Columns()
    yield from _squad(source) if source.kind == "squad" else _checked(source, columns)


def trees(source: Source, choose: Choose) -> Iterator[tuple[int, Any]]:
    """Every row of a table or of JSON Lines with its number, as a dictionary; a bad one as what is wrong with it."""
    if source.kind == "parquet":
        return _parquet(source, choose)
    return _jsonl(source) if source.kind == "jsonl" else _csv(source, choose)


def _squad(source: Source) -> Iterator[Row | BadRow]:
    from rmreader.data.squad import read_squad

    with tempfile.TemporaryDirectory() as folder:
        path = source.path
        if source.content is not None:
            path = Path(folder) / "stdin"
            path.write_bytes(source.content)
        dataset = read_squad(path, answers_needed=False)
    for problem in dataset.problems:
        yield BadRow(str(source), str(problem).split(": ", 1)[1])
    yield from rows_of(dataset)


def _checked(source: Source, columns: Columns) -> Iterator[Row | BadRow]:
    """Plain rows, numbered from 1, as questions; a row without an id is known by its number, or where that is another
    row's id by what and number."""
    what = "line" if source.kind == "jsonl" else "row"
    seen: set[str] = set()
    given: set[str] | None = None  # ids of the whole file that look like numbers, read when first needed

    def choose(there: Sequence[str]) -> list[str]:
        return _needed(source, columns, there)

    for number, tree in trees(source, choose):
        place = f"{source}: {what} {number}"
        if isinstance(tree, str):  # what is wrong with it
            yield BadRow(place, tree)
            continue
        try:
            id = _id(tree, columns)
            if id is None:
                given = _numbers(trees(source, choose), columns) if given is None else given
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


def _numbers(rows: Iterator[tuple[int, Any]], columns: Columns) -> set[str]:
    """Those ids of a file that could be the number of a row."""
    good = (tree for _, tree in rows if isinstance(tree, dict))
    ids = (str(tree[name]) for tree in good if (name := columns.pick("id", tree)) is not None)
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


def _jsonl(source: Source) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(source.lines(), start=1):
        if not line.strip():
            continue
        try:
            tree = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield number, f"not valid JSON ({error})"
            continue
        yield number, tree if isinstance(tree, dict) else "not a JSON object"


def _csv(source: Source, choose: Choose) -> Iterator[tuple[int, Any]]:
    csv.field_size_limit(_LONGEST_FIELD)
    lines = source.lines()
    first = next(lines, "")
    rows = csv.reader(chain([first] * bool(first), lines), delimiter=_delimiter(source, first, choose), strict=True)
    try:
        header = next(rows, None)
    except csv.Error as error:
        raise UserError(f"{source}: line 1: not valid CSV ({error}); it must name the columns.") from None
    if header is None:
        raise UserError(f"{source}: the file is empty; its first line must name the columns.")
    choose(header)
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


def _delimiter(source: Source, first: str, choose: Choose) -> str:
    """What is between the fields: of CSV a semicolon or a tab too, as spreadsheets in many countries write it, where
    that makes the first line name the columns."""
    if source.kind == "tsv":
        return "\t"
    for delimiter in (",", ";", "\t"):
        try:
            choose(next(csv.reader([first], delimiter=delimiter, strict=True), []))
        except (UserError, csv.Error):
            continue
        return delimiter
    return ","


def _parquet(source: Source, choose: Choose) -> Iterator[tuple[int, Any]]:
    import pyarrow
    import pyarrow.parquet

    number = 0
    try:
        with source.open() as content:
            file = pyarrow.parquet.ParquetFile(content)
            for batch in file.iter_batches(batch_size=1024, columns=choose(file.schema_arrow.names)):
                for place in range(len(batch)):
                    number += 1
                    try:
                        yield number, {name: batch.column(name)[place].as_py() for name in batch.schema.names}
                    except (ValueError, OverflowError) as error:  # such as text that is not UTF-8
                        yield number, f"cannot be read ({error})"
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{source}: not a Parquet file that can be read ({' '.join(str(error).split())}).") from None


def _spread(before: int, last: int) -> str:
    """Which lines a bad row of CSV takes up, where there are several: most often since a quote was left open."""
    return f"; it takes up lines {before + 1} to {last}: is a quote left open?" if last > before + 1 else ""


def _needed(source: Source, columns: Columns, there: Sequence[str]) -> list[str]:
    """The columns of a table that are read; refused where one that is needed is missing, or there twice."""
    picked = [name for part in _USUAL if (name := columns.pick(part, there)) is not None]
    for name in picked:
        if list(there).count(name) > 1:
            raise UserError(f"{source}: there are several columns {name!r}; leave one, or rename the others.")
    for part in ("question", "passage", *(["id"] if columns.id else [])):
        if columns.pick(part, there) is None:
            raise UserError(f"{no_column(source, columns.names(part), there)}: say which it is.")
    return picked


def no_column(source: Source, names: Sequence[str], there: Sequence[str]) -> str:
    """That a table lacks a column, and which it has."""
    listed = ", ".join(map(_short, there[:_LISTED])) + (", …" if len(there) > _LISTED else "")
    return f"{source}: no column {' or '.join(map(repr, names))}; its columns are {listed}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")
