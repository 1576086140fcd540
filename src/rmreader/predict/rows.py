"""Questions from files: SQuAD JSON, JSON Lines, CSV, TSV and Parquet, streamed.

A bad row is named and left out.
"""

import tempfile
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmreader.core.errors import UserError, quoted
from rmreader.data.squad import read_squad
from rmreader.data.tables import Source, no_column, trees
from rmreader.reading.rows import QuestionRow, rows_of

_USUAL = {"id": ("id",), "question": ("question",), "passage": ("passage", "context")}


@dataclass(frozen=True)
class Columns:
    """Under which names a row's parts are; an empty name takes the usual one."""

    id: str = ""
    question: str = ""
    passage: str = ""

    def names(self, part: str) -> tuple[str, ...]:
        """Return the names under which a part may be."""
        named: str = getattr(self, part)
        return (named,) if named else _USUAL[part]

    def pick(self, part: str, there: Container[str]) -> str | None:
        """Return the name under which a part is here, if it is."""
        for name in self.names(part):
            if name in there:
                return name
        return None


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be answered: where it is and what is wrong with it."""

    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


def read_rows(
    path: Path, columns: Columns | None = None, kind: str = ""
) -> Iterator[QuestionRow | BadRow]:
    """Yield every row of a file (``-``: of standard input), in order. No id comes twice."""
    source = Source.of(path, kind)
    if source.kind == "squad":
        yield from _squad_rows(source)
    else:
        yield from _table_rows(source, columns or Columns())


def _squad_rows(source: Source) -> Iterator[QuestionRow | BadRow]:
    with tempfile.TemporaryDirectory() as folder:
        path = source.path
        if source.content is not None:
            path = Path(folder) / "stdin"
            path.write_bytes(source.content)
        dataset = read_squad(path, answers_needed=False)
    for problem in dataset.problems:
        yield BadRow(str(source), str(problem).split(": ", 1)[1])
    yield from rows_of(dataset)


def _table_rows(source: Source, columns: Columns) -> Iterator[QuestionRow | BadRow]:
    """Yield plain rows, numbered from 1, as questions.

    A row without an id is known by its number; where that is another row's id, by kind and number.
    """
    unit = "line" if source.kind == "jsonl" else "row"
    seen: set[str] = set()
    numbers: set[str] | None = None  # ids that look like numbers, read when first needed

    def choose(there: Sequence[str]) -> list[str]:
        return _needed(source, columns, there)

    for number, tree in trees(source, choose):
        place = f"{source}: {unit} {number}"
        if isinstance(tree, str):  # what is wrong with it
            yield BadRow(place, tree)
            continue
        try:
            id = id_of(tree, columns)
            if id is None:
                if numbers is None:
                    numbers = _numbers(trees(source, choose), columns)
                id = f"{unit} {number}" if str(number) in numbers else str(number)
            if id in seen:
                raise ValueError(f"its id, {quoted(id)}, is that of an earlier row")
            row = row_of(id, tree, columns)
        except ValueError as error:
            yield BadRow(place, str(error))
            continue
        seen.add(id)
        yield row


def row_of(id: str, tree: dict[str, Any], columns: Columns) -> QuestionRow:
    """Return the question that plain data hold; ``ValueError`` says what is wrong with them."""
    return QuestionRow(id, _text(tree, columns, "question"), _text(tree, columns, "passage"))


def id_of(tree: dict[str, Any], columns: Columns) -> str | None:
    """Return the id of a row, None where it has none."""
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
    """Return those ids of a file that could be the number of a row."""
    ids = set()
    for _, tree in rows:
        if not isinstance(tree, dict):  # a bad row
            continue
        name = columns.pick("id", tree)
        if name is not None and str(tree[name]).isdecimal():
            ids.add(str(tree[name]))
    return ids


def _text(tree: dict[str, Any], columns: Columns, part: str) -> str:
    name = columns.pick(part, tree)
    value = None if name is None else tree[name]
    if value is None:
        raise ValueError(f"{' or '.join(map(repr, columns.names(part)))} is missing")
    if not isinstance(value, str):
        raise ValueError(f"{name!r} is not text but {type(value).__name__}")
    if not value.strip():
        raise ValueError(f"{name!r} is empty")
    return value


def _needed(source: Source, columns: Columns, there: Sequence[str]) -> list[str]:
    """Return the columns of a table to read; refuse one that lacks a column or has it twice."""
    picked = []
    for part in _USUAL:
        name = columns.pick(part, there)
        if name is not None:
            picked.append(name)
        elif part != "id" or columns.id:
            problem = no_column(source, columns.names(part), there)
            raise UserError(f"{problem}; say which it is: --{part}-column NAME.")
    for name in picked:
        if list(there).count(name) > 1:
            raise UserError(
                f"{source}: there are several columns {name!r}; leave one, or rename the others."
            )
    return picked
