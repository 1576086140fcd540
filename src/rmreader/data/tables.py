"""Rows of files that are no SQuAD: JSON Lines, CSV, TSV and Parquet, plain or packed.

Files are streamed, and a bad row is named.
"""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import IO, Any, Self

from rmreader.core.errors import UserError, quoted, user_error_on
from rmreader.core.files.reading import open_bytes
from rmreader.core.sniff import kind_of_content

KINDS = {
    ".json": "squad",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
"""What a file is by its ending."""

_LONGEST_FIELD = 2**31 - 1
_LISTED = 10  # columns named in an error

Choose = Callable[[Sequence[str]], list[str]]
"""Chooses the columns of a table to read; refuses a table without what is needed."""


# How much of a file is looked at to tell what it is.
_BEGINNING = 1 << 16


@dataclass(frozen=True)
class Source:
    """A file to read rows from, or standard input.

    The content of standard input is kept, because some files are read twice.
    """

    path: Path
    kind: str
    content: bytes | None = None

    def __str__(self) -> str:
        return str(self.path)

    @classmethod
    def of(cls, path: Path, kind: str = "") -> Self:
        """Return the source that ``path`` names, ``-`` for standard input, or refuse it."""
        kind = kind_of(path, kind)
        if str(path) == "-":
            if sys.stdin is None:
                raise UserError(
                    "-: standard input is closed; give a file, or the rows through a pipe."
                )
            return cls(path, kind, sys.stdin.buffer.read())
        _check_file(path)
        return cls(path, kind)

    def open(self) -> IO[bytes]:
        """Open it for reading, unpacked."""
        return open_bytes(self.path, is_packed(self.path), self.content)

    def lines(self) -> Iterator[str]:
        """Yield its lines; one sentence where the file is not what its name says."""
        try:
            with self.open() as file:
                content = kind_of_content(file.read(_BEGINNING))
            if content is not None:
                raise UserError(
                    f"{self}: this is {content}, not {self.kind}; save it as UTF-8 text."
                )
            with io.TextIOWrapper(self.open(), encoding="utf-8-sig", newline="") as text:
                yield from text
        except UnicodeDecodeError:
            number = self._first_line_not_utf8()
            raise UserError(f"{self}: line {number}: not UTF-8 text; save it as UTF-8.") from None
        except OSError as error:
            raise UserError(
                f"{self}: cannot be read to its end ({error}); fetch or make it again."
            ) from None

    def _first_line_not_utf8(self) -> int:
        number = 0
        with self.open() as file:
            for line in file:
                number += 1
                if line.decode(errors="ignore").encode() != line:
                    break
        return number


def kind_of(path: Path, kind: str = "") -> str:
    """Return the format of a file, as named or by its ending.

    Standard input holds JSON Lines unless named otherwise.
    """
    known = sorted(set(KINDS.values()))
    if kind:
        if kind not in known:
            raise UserError(f"{kind!r} is not a known format; take one of {', '.join(known)}.")
        return kind
    if str(path) == "-":
        return "jsonl"
    kind = kind_named(path)
    if kind:
        return kind
    # Refused: say what the file is, if that can be told.
    _check_file(path)
    with path.open("rb") as file:
        content = kind_of_content(file.read(_BEGINNING))
    if content is not None:
        raise UserError(
            f"{path}: this is {content}, not a file of questions; save it as CSV, in UTF-8."
        )
    raise UserError(
        f"{path}: the ending says nothing about the format; rename it ({', '.join(KINDS)}), "
        "or give `predict` --format."
    )


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise UserError(f"{path}: a folder; give a file of questions.")
    if path.exists() and not path.is_file():
        raise UserError(
            f"{path}: a pipe or device; send its content through standard input, which is -."
        )
    if not path.exists():
        raise UserError(f"{path}: no such file; check the path.")


def is_table(path: Path) -> bool:
    """Whether a file is a table (or JSON Lines) by its ending; any other is taken for SQuAD."""
    return kind_named(path, "squad") != "squad"


def kind_named(path: Path, otherwise: str = "") -> str:
    """Return what a file is by its ending, that of packed files aside."""
    ending = path.with_suffix("").suffix if is_packed(path) else path.suffix
    return KINDS.get(ending.lower(), otherwise)


def is_packed(path: Path) -> bool:
    """Whether a file is compressed, by its ending."""
    return path.suffix.lower() == ".gz"


def trees(source: Source, choose: Choose) -> Iterator[tuple[int, Any]]:
    """Yield every row of a table or of JSON Lines with its number, as a dictionary.

    A bad row is a text that says what is wrong with it.
    """
    if source.kind == "parquet":
        return _parquet(source, choose)
    if source.kind == "jsonl":
        return _jsonl(source)
    return _csv(source, choose)


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
    if not first:
        raise UserError(f"{source}: the file is empty; its first line must name the columns.")
    delimiter = _delimiter(source, first, choose)
    rows = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    try:
        header = next(rows, [])
    except csv.Error as error:
        raise UserError(
            f"{source}: line 1: not valid CSV ({error}); it must name the columns."
        ) from None
    choose(header)
    for number in count(1):
        before = rows.line_num
        wrong = ""
        cells: list[str] | None = []
        try:
            cells = next(rows, None)
        except csv.Error as error:
            wrong = f"not valid CSV ({error})"
        if cells is None:
            return
        if cells and len(cells) != len(header):
            wrong = f"{len(cells)} fields where the header has {len(header)}"
        if wrong and rows.line_num > before + 1:
            wrong += f"; it takes up lines {before + 1} to {rows.line_num}: is a quote left open?"
        if wrong:
            yield number, wrong
        elif cells:
            yield number, dict(zip(header, cells, strict=True))


def _delimiter(source: Source, first: str, choose: Choose) -> str:
    """Return what is between the fields.

    Spreadsheets in many countries write CSV with a semicolon or a tab: taken where that makes the
    first line name the columns.
    """
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
    refusal = f"{source}: not a Parquet file that can be read ({{why}})."
    with user_error_on(refusal, pyarrow.ArrowException, OSError), source.open() as content:
        file = pyarrow.parquet.ParquetFile(content)
        columns = choose(file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=1024, columns=columns):
            for place in range(len(batch)):
                number += 1
                try:
                    row = {name: batch.column(name)[place].as_py() for name in batch.schema.names}
                except (ValueError, OverflowError) as error:  # such as text that is not UTF-8
                    yield number, f"cannot be read ({error})"
                    continue
                yield number, row


def no_column(source: Source, names: Sequence[str], columns: Sequence[str]) -> str:
    """Say that a table lacks a column, and which it has."""
    listed = ", ".join(map(quoted, columns[:_LISTED])) or "none"
    if len(columns) > _LISTED:
        listed += ", …"
    return f"{source}: no column {' or '.join(map(repr, names))}; its columns are {listed}"
