"""Rows of files that are no SQuAD: JSON Lines, CSV, TSV and Parquet, plain or packed, streamed; a bad row is named."""

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

KINDS = {".json": "squad", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
"""What a file is by its ending."""
_LONGEST_FIELD = 2**31 - 1
_LISTED = 10  # columns named in an error

Choose = Callable[[Sequence[str]], list[str]]
"""Of a table's columns those to read; refuses a table without what is needed."""


@dataclass(frozen=True)
class Source:
    """A file to read rows from, or standard input, whose content is kept, because some files are read twice."""

    path: Path
    kind: str
    content: bytes | None = None

    def __str__(self) -> str:
        return str(self.path)

    @classmethod
    def of(cls, path: Path, kind: str = "") -> Self:
        """The source that ``path`` names, ``-`` for standard input; refused where it cannot be one."""
        kind = kind_of(path, kind)
        if str(path) == "-":
            if sys.stdin is None:
                raise UserError("-: standard input is closed; give a file, or the rows through a pipe.")
            return cls(path, kind, sys.stdin.buffer.read())
        _check_file(path)
        return cls(path, kind)

    def open(self) -> IO[bytes]:
        """Its bytes, unpacked."""
        return open_bytes(self.path, is_packed(self.path), self.content)

    def lines(self) -> Iterator[str]:
        """Its lines; one sentence where the file is not what its name says."""
        try:
            with self.open() as file:
                begin = file.read(1 << 16)
                if (found := kind_of_content(begin)) is not None:
                    raise UserError(f"{self}: this is {found}, not {self.kind}; save it as UTF-8 text.")
            with io.TextIOWrapper(self.open(), encoding="utf-8-sig", newline="") as text:
                yield from text
        except UnicodeDecodeError:
            with self.open() as file:
                number = next(
                    number for number, line in enumerate(file, start=1) if line.decode(errors="ignore").encode() != line
                )
            raise UserError(f"{self}: line {number}: not UTF-8 text; save it as UTF-8.") from None
        except OSError as error:
            raise UserError(f"{self}: cannot be read to its end ({error}); fetch or make it again.") from None


def kind_of(path: Path, kind: str = "") -> str:
    """The format of a file, as named or by its ending; standard input holds JSON Lines unless named otherwise."""
    known = sorted(set(KINDS.values()))
    if kind and kind not in known:
        raise UserError(f"{kind!r} is no format that is known; take one of {', '.join(known)}.")
    found = kind or ("jsonl" if str(path) == "-" else kind_named(path))
    if not found:
        _check_file(path)
        with path.open("rb") as file:
            if (content := kind_of_content(file.read(1 << 16))) is not None:
                raise UserError(f"{path}: this is {content}, not a file of questions; save it as CSV, in UTF-8.")
        endings = ", ".join(KINDS)
        raise UserError(
            f"{path}: the ending says nothing about the format; rename it ({endings}), or give `predict` --format."
        )
    return found


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise UserError(f"{path}: a folder; give a file of questions.")
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: a pipe or device; send its content through standard input, which is -.")
    if not path.exists():
        raise UserError(f"{path}: no such file; check the path.")


def is_table(path: Path) -> bool:
    """Whether a file is a table (or JSON Lines) by its ending; any other with answers is taken for SQuAD."""
    return kind_named(path, "squad") != "squad"


def kind_named(path: Path, otherwise: str = "") -> str:
    """What a file is by its ending, that of packed files aside."""
    ending = path.with_suffix("").suffix if is_packed(path) else path.suffix
    return KINDS.get(ending.lower(), otherwise)


def is_packed(path: Path) -> bool:
    """Whether a file is compressed, by its ending."""
    return path.suffix.lower() == ".gz"


def trees(source: Source, choose: Choose) -> Iterator[tuple[int, Any]]:
    """Every row of a table or of JSON Lines with its number, as a dictionary; a bad one as what is wrong with it."""
    if source.kind == "parquet":
        return _parquet(source, choose)
    return _jsonl(source) if source.kind == "jsonl" else _csv(source, choose)


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
    for number in count(1):
        before, wrong = rows.line_num, ""
        try:
            cells = next(rows, None)
        except csv.Error as error:
            cells, wrong = [], f"not valid CSV ({error})"
        if cells is None:
            return
        if cells and len(cells) != len(header):
            wrong = f"{len(cells)} fields where the header has {len(header)}"
        if wrong and rows.line_num > before + 1:
            wrong += f"; it takes up lines {before + 1} to {rows.line_num}: is a quote left open?"
        if wrong or cells:
            yield number, wrong or dict(zip(header, cells, strict=True))


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

    number, sentence = 0, f"{source}: not a Parquet file that can be read ({{why}})."
    with user_error_on(sentence, pyarrow.ArrowException, OSError), source.open() as content:
        file = pyarrow.parquet.ParquetFile(content)
        for batch in file.iter_batches(batch_size=1024, columns=choose(file.schema_arrow.names)):
            for place in range(len(batch)):
                number += 1
                try:
                    yield number, {name: batch.column(name)[place].as_py() for name in batch.schema.names}
                except (ValueError, OverflowError) as error:  # such as text that is not UTF-8
                    yield number, f"cannot be read ({error})"


def no_column(source: Source, names: Sequence[str], there: Sequence[str]) -> str:
    """That a table lacks a column, and which it has."""
    listed = ", ".join(map(quoted, there[:_LISTED])) + (", …" if len(there) > _LISTED else "")
    return f"{source}: no column {' or '.join(map(repr, names))}; its columns are {listed or 'none'}"
