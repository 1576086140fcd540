"""Answers for engines that hand out Arrow tables, such as Ray Data and Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rmreader.core.errors import UserError
from rmreader.predict.job import PredictJob
from rmreader.predict.predict import answerable
from rmreader.predict.rows import BadRow, Columns, id_of, row_of
from rmreader.predict.writers import arrow_schema, table_rows
from rmreader.reading.answers import Answers
from rmreader.reading.rows import QuestionRow

PROBLEM = "problem"


class TableAnswers:
    """Tables of questions in, tables of answers out. Each process loads the reader once.

    In: ``id``, ``question`` and ``passage`` (or ``context``). Out: one row per answer, as
    ``predict`` writes tables, and one without a rank where no answer is given. ``problem`` says
    what is wrong with a row that cannot be answered.

    >>> answers = TableAnswers("small")
    >>> dataset.map_batches(answers.batch, batch_format="pyarrow")  # doctest: +SKIP
    >>> frame.mapInArrow(answers.batches, answers.ddl)  # doctest: +SKIP
    """

    ddl = (
        "id string, question string, rank long, text string, start long, end long, score double, "
        "confidence double, sentence string, no_answer double, guess string, problem string"
    )
    """The columns of the answers, as Spark wants them."""

    def __init__(
        self,
        model: str = "small",
        *,
        columns: Columns | None = None,
        threads: int = 1,
        **asking: Any,
    ) -> None:
        """``asking`` are ``top``, ``min_confidence``, ``always`` and ``max_length``."""
        self.job = PredictJob.of(model, threads=threads, **asking)
        self.columns = columns or Columns()

    def batch(self, table: Any) -> Any:
        """Answer a table (or a record batch) of questions with a table; for Ray Data."""
        import pyarrow

        self._check_columns(table.schema.names)
        rows = [self._row(tree) for tree in table.to_pylist()]
        good = [row for row in rows if isinstance(row, QuestionRow)]
        answered = iter(self.job.answers(good))
        lines: list[list[object]] = []
        for row in rows:
            if isinstance(row, BadRow):
                problem: str | None = row.what
                cells = table_rows(row.place, None, Answers())
            else:
                problem = None
                cells = table_rows(row.id, row.question, next(answered)[1])
            lines += [[*line, problem] for line in cells]
        schema = arrow_schema().append(pyarrow.field(PROBLEM, pyarrow.string()))
        columns: list[list[object]] = [[] for _ in schema]
        if lines:
            columns = [list(column) for column in zip(*lines, strict=True)]
        return pyarrow.table(columns, schema=schema)

    def batches(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Answer record batches of questions with record batches; for Spark."""
        for batch in batches:
            yield from self.batch(batch).to_batches()

    def _check_columns(self, there: list[str]) -> None:
        for part in ("id", "question", "passage"):
            if self.columns.pick(part, there) is None:
                wanted = " or ".join(map(repr, self.columns.names(part)))
                columns = ", ".join(there)
                raise UserError(f"the table has no column {wanted}; its columns are {columns}.")

    def _row(self, tree: dict[str, Any]) -> QuestionRow | BadRow:
        """Return a question; a bad one has its id for a place."""
        id = None
        try:
            id = id_of(tree, self.columns)
            if id is None:
                raise ValueError("its id is missing")
            row = answerable(row_of(id, tree, self.columns))
        except ValueError as error:
            return BadRow(id or "", str(error))
        if isinstance(row, BadRow):
            return BadRow(id, row.what)
        return row
