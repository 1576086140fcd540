"""Arrow in, Arrow out: as ``predict`` answers, with every bad row named."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from support.questions import write_questions

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from rmreader.core.errors import UserError  # noqa: E402
from rmreader.predict.arrow import TableAnswers  # noqa: E402
from rmreader.predict.predict import predict  # noqa: E402
from rmreader.predict.rows import Columns, read_rows  # noqa: E402


def test_a_table_is_answered_as_a_file_is(tmp_path: Path) -> None:
    import pyarrow.parquet

    data = write_questions(tmp_path / "data.jsonl", 40, bad=False)
    table = pyarrow.Table.from_pylist([json.loads(line) for line in data.read_text().splitlines()])
    answers = pickle.loads(pickle.dumps(TableAnswers("small", top=2)))
    found = answers.batch(table)
    predict(answers.job.reader(), read_rows(data), tmp_path / "out.parquet", top=2)
    assert found.drop_columns("problem") == pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert found["problem"].null_count == len(found)
    halves = list(answers.batches(table.to_batches(max_chunksize=20)))
    assert pyarrow.Table.from_batches(halves) == found
    assert found.schema.names == [column.split()[0] for column in answers.ddl.split(", ")]


def test_bad_rows_have_a_problem_and_nothing_else(tmp_path: Path) -> None:
    rows = [
        {"id": 7, "q": "Who?", "context": "Ada."},
        {"id": None, "q": "Who?", "context": "Ada."},
        {"id": 8, "q": None, "context": "Ada."},
        {"id": 9, "q": "who " * 10_001, "context": "Ada."},
    ]
    answers = TableAnswers("small", columns=Columns(question="q"), always=True)
    found = answers.batch(pyarrow.Table.from_pylist(rows)).to_pylist()
    assert [row["id"] for row in found] == ["7", "", "8", "9"]
    assert [row["text"] for row in found] == ["Ada", None, None, None]
    problems = [None, "its id is missing", "'q' is missing", "the question has more than 10,000 words"]
    assert [row["problem"] for row in found] == problems
    nothing = answers.batch(pyarrow.Table.from_pylist(rows[:0], schema=pyarrow.Table.from_pylist(rows).schema))
    assert (len(nothing), nothing.schema.names) == (0, [column.split()[0] for column in answers.ddl.split(", ")])
    with pytest.raises(UserError, match="no column 'q'; its columns are id, question"):
        answers.batch(pyarrow.table({"id": ["a"], "question": ["Who?"]}))
