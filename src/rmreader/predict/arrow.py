"""Answers for engines that hand out Arrow tables: Ray Data's ``map_batches`` and Spark's ``mapInArrow``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rmreader.core.errors import UserError
from rmreader.predict.predict import answerable
from rmreader.predict.rows import BadRow, Columns, id_of, row_of
from rmreader.predict.shards import Asking
from rmreader.predict.writers import arrow_schema, table_rows
from rmreader.reading.answers import Answers
from rmreader.reading.rows import QuestionRow

PROBLEM = "problem"


class TableAnswers:
    """Tables of questions in, tables of answers out, in whatever process: the reader is loaded there, once.

    In: ``id``, ``question`` and ``passage`` (or ``context``). Out: one row per answer, as ``predict`` writes tables,
    and one with the id alone where there is none; what is wrong with a row that cannot be answered is its ``problem``.

    >>> answers = TableAnswers("small")
    >>> dataset.map_batches(answers.batch, batch_format="pyarrow")  # doctest: +SKIP
    >>> frame.mapInArrow(answers.batches, answers.ddl)  # doctest: +SKIP
    """

    ddl = "id string, rank long, text string, start long, end long, score double, confidence double, sentence string"
    ddl += f", {PROBLEM} string"

    def __init__(
        self, model: str = "small", *, columns: Columns | None = None, threads: int = 1, **asking: Any
    ) -> None:
        """``asking`` are ``top``, ``min_confidence``, ``always`` and ``max_length``, as everywhere."""
        self.job, self.columns = Asking.of(model, threads=threads, **asking), columns or Columns()

    def batch(self, table: Any) -> Any:
        """For Ray Data: a ``pyarrow.Table`` (or a record batch) of questions as a table of answers."""
        import pyarrow

        for part in ("id", "question", "passage"):
            if self.columns.pick(part, table.schema.names) is None:
                wanted = " or ".join(map(repr, self.columns.names(part)))
                raise UserError(f"the table has no column {wanted}; its columns are {', '.join(table.schema.names)}.")
        rows = [self._row(tree) for tree in table.to_pylist()]
        answers = iter(self.job.found([row for row in rows if isinstance(row, QuestionRow)]))
        lines: list[list[object]] = []
        for row in rows:
            if isinstance(row, BadRow):
                lines += ([*line, row.what] for line in table_rows(row.place, Answers()))
            else:
                lines += ([*line, None] for line in table_rows(row.id, next(answers)[1]))
        schema = arrow_schema().append(pyarrow.field(PROBLEM, pyarrow.string()))
        columns = map(list, zip(*lines, strict=True)) if lines else ([] for _ in schema)
        return pyarrow.table(list(columns), schema=schema)

    def batches(self, batches: Iterable[Any]) -> Iterator[Any]:
        """For Spark: record batches of questions as record batches of answers."""
        for batch in batches:
            yield from self.batch(batch).to_batches()

    def _row(self, tree: dict[str, Any]) -> QuestionRow | BadRow:
        """A question; a bad one has its id for a place."""
        id = None
        try:
            id = id_of(tree, self.columns)
            if id is None:
                raise ValueError("its id is missing")
            row = answerable(row_of(id, tree, self.columns))
            return row if isinstance(row, QuestionRow) else BadRow(id, row.what)
        except ValueError as error:
            return BadRow(id or "", str(error))
