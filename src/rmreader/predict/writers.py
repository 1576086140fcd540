"""Predictions as files: the official format, JSON Lines, CSV, TSV and Parquet; written and read."""

import csv
import dataclasses
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from rmreader.core.errors import UserError
from rmreader.data.tables import Source, kind_named, no_column, trees
from rmreader.reading.answers import Answer, Answers, text_of
from rmreader.reading.rows import QuestionRow

Answered = Iterable[tuple[QuestionRow, Answers]]

_FIELDS = ("text", "start", "end", "score", "confidence", "sentence")
COLUMNS = ["id", "question", "rank", *_FIELDS, "no_answer", "guess"]
"""Of a table: a row per answer, and one without a rank where no answer is given."""
_ROW_GROUP = 10_000
# A spreadsheet takes a cell that begins so for a formula. One that already has our mark gets
# another, so that reading takes away exactly what writing put there.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_MARKED = re.compile(r"''*[=+\-@\t\r]")


def pieces(kind: str, answered: Answered, *, run: str = "", raw: bool = False) -> Iterator[bytes]:
    """Yield the content of a file of predictions, piece by piece as the answers come.

    Formats that need all answers yield once. ``run`` is put into every line of JSON Lines. Unless
    ``raw``, a cell of CSV or TSV that a spreadsheet would run as a formula begins with a quote.
    """
    match kind:
        case "squad":
            texts = {row.id: text_of(answers) for row, answers in answered}
            yield json.dumps(texts).encode()
        case "parquet":
            yield _parquet(answered)
        case "jsonl":
            for row, answers in answered:
                yield f"{json.dumps(_line_tree(row, answers, run))}\n".encode()
        case _:
            yield from _delimited(answered, "\t" if kind == "tsv" else ",", raw)


def _line_tree(row: QuestionRow, answers: Answers, run: str) -> dict[str, Any]:
    tree = {"id": row.id, "question": row.question, **answers.to_dict()}
    if run:
        tree["run"] = run
    return tree


def answers_of_line(line: bytes) -> tuple[QuestionRow, Answers]:
    """Return the question of a line of JSON Lines and its answers, as they were written."""
    tree = json.loads(line)
    return QuestionRow(tree["id"], tree["question"], ""), Answers.from_dict(tree)


def _delimited(answered: Answered, delimiter: str, raw: bool) -> Iterator[bytes]:
    """Yield the lines of CSV or TSV, a question's at a time."""
    yield _csv_line(COLUMNS, delimiter)
    for row, answers in answered:
        rows = table_rows(row.id, row.question, answers)
        if not raw:
            rows = [[_harmless(cell) for cell in cells] for cells in rows]
        yield b"".join(_csv_line(cells, delimiter) for cells in rows)


def _csv_line(cells: Sequence[object], delimiter: str) -> bytes:
    """Return one row, with the cells quoted that need it."""
    buffer = io.StringIO(newline="")
    # Python quotes a cell with a line break only where the terminator has that character.
    csv.writer(buffer, delimiter=delimiter, lineterminator="\r\n").writerow(cells)
    return buffer.getvalue().removesuffix("\r\n").encode() + b"\n"


def _harmless(cell: object) -> object:
    """Put a quote before a text that a spreadsheet would run as a formula."""
    if isinstance(cell, str) and _FORMULA.match(cell):
        return f"'{cell}"
    return cell


def _plain(cell: object) -> object:
    """Take away the quote that ``_harmless`` put there."""
    if isinstance(cell, str) and _MARKED.match(cell):
        return cell[1:]
    return cell


def table_rows(id: str, question: str | None, answers: Answers) -> list[list[object]]:
    """Return the rows of a table for one question, cells in the order of ``COLUMNS``."""
    guess = None
    if not answers and answers.guess is not None:
        guess = answers.guess.text
    middles: list[list[object]] = []
    for rank, answer in enumerate(answers, start=1):
        fields = [getattr(answer, name) for name in _FIELDS]
        middles.append([rank, *fields])
    if not answers:
        middles.append([None] * (1 + len(_FIELDS)))
    rows = [[id, question, *middle, answers.no_answer, guess] for middle in middles]
    return [[_storable(cell) for cell in row] for row in rows]


def _storable(value: object) -> object:
    """Escape halves of characters: JSON can hold them, a table cannot."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    return value


def arrow_schema() -> Any:
    """Return the columns of a table as Arrow has them."""
    import pyarrow

    kinds = {"str": pyarrow.string(), "int": pyarrow.int64(), "float": pyarrow.float64()}
    types = {name: pyarrow.string() for name in COLUMNS}
    types["rank"] = pyarrow.int64()
    types["no_answer"] = pyarrow.float64()
    for field in dataclasses.fields(Answer):
        if field.name in _FIELDS:
            types[field.name] = kinds[str(field.type)]
    return pyarrow.schema(types)


def _parquet(answered: Answered) -> bytes:
    """Write one row group after the other, so that memory holds them packed."""
    import pyarrow
    import pyarrow.parquet

    buffer = io.BytesIO()
    schema = arrow_schema()
    rows = chain.from_iterable(
        table_rows(row.id, row.question, answers) for row, answers in answered
    )
    with pyarrow.parquet.ParquetWriter(buffer, schema) as writer:
        while group := list(islice(rows, _ROW_GROUP)):
            columns = [list(column) for column in zip(*group, strict=True)]
            writer.write_table(pyarrow.table(columns, schema=schema))
    return buffer.getvalue()


def read_predictions(path: Path) -> dict[str, str]:
    """Return the text predicted for each question id, from any format that ``pieces`` writes.

    The first answer of an id counts.
    """
    kind = kind_named(path, "squad")  # the official predictions end in .json, as SQuAD does
    if kind == "squad":
        from rmreader.scoring.squad import read_predictions as read_official

        return read_official(path)
    source = Source.of(path)

    def choose(there: Sequence[str]) -> list[str]:
        for name in ("id", "text"):
            if name not in there:
                problem = no_column(source, [name], there)
                raise UserError(f"{problem}; `rmreader predict` writes such a table.")
        return ["id", "text"]

    texts: dict[str, str] = {}
    for number, tree in trees(source, choose):
        try:
            id, text = _prediction(tree, kind)
        except ValueError as error:
            place = f"{'line' if kind == 'jsonl' else 'row'} {number}"
            raise UserError(f"{path}: {place}: {error}; fix the file.") from None
        texts.setdefault(id, text)
    return texts


def _prediction(tree: dict[str, Any] | str, kind: str) -> tuple[str, str]:
    """Return the id and the text of one row; ``ValueError`` says what is wrong with it."""
    if isinstance(tree, str):  # what is wrong with it
        raise ValueError(tree)
    try:
        answers = tree["answers"] if kind == "jsonl" else [tree]
        id = tree["id"]
        text = answers[0]["text"] if answers else ""
    except (KeyError, TypeError, IndexError):
        raise ValueError("not a prediction") from None
    if not isinstance(id, str | int) or not isinstance(text, str | None):
        raise ValueError("not a prediction")
    if kind in ("csv", "tsv"):
        id, text = _plain(id), _plain(text)
    return str(id), str(text or "")
