"""Predictions as files: the official format, JSON Lines, CSV, TSV and Parquet, written and read again."""

import csv
import dataclasses
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from rmreader.core.errors import UserError
from rmreader.data.tables import Source, kind_named, no_column, trees
from rmreader.reading.answers import Answer, Answers, text_of
from rmreader.reading.rows import QuestionRow

Found = Iterable[tuple[QuestionRow, Answers]]

_FIELDS = ("text", "start", "end", "score", "confidence", "sentence")
_TABLE = ["id", "rank", *_FIELDS]  # the columns of a table: a row per answer, one without a rank where there is none
_ROW_GROUP = 10_000


def pieces(kind: str, found: Found) -> Iterator[bytes]:
    """The content of a file of predictions, piece by piece as the answers come; of a whole that is none before its end,
    at the end."""
    if kind == "squad":
        yield json.dumps({row.id: text_of(answers) for row, answers in found}).encode()
    elif kind == "parquet":
        yield _parquet(found)
    elif kind == "jsonl":
        for row, answers in found:
            tree = {"id": row.id, **answers.to_dict()}
            yield f"{json.dumps(tree)}\n".encode()
    else:
        buffer = io.StringIO(newline="")
        writer = csv.writer(buffer, delimiter="\t" if kind == "tsv" else ",", lineterminator="\n")
        writer.writerow(_TABLE)
        for row, answers in found:
            writer.writerows(table_rows(row.id, answers))
            yield buffer.getvalue().encode()
            buffer.seek(0)
            buffer.truncate()
        yield buffer.getvalue().encode()


def table_rows(id: str, answers: Sequence[Answer]) -> list[list[object]]:
    """The rows of a table that a question has."""
    rows: list[list[object]] = []
    for rank, answer in enumerate(answers, start=1):
        rows.append([id, rank, *(getattr(answer, name) for name in _FIELDS)])
    if not rows:
        rows.append([id] + [None] * (len(_TABLE) - 1))
    return [[_storable(cell) for cell in row] for row in rows]


def _storable(value: object) -> object:
    """Half of a character, as JSON and some files can hold, is nothing that a table can."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


def arrow_schema() -> Any:
    """The columns of a table, as Arrow has them."""
    import pyarrow

    kinds = {"str": pyarrow.string(), "int": pyarrow.int64(), "float": pyarrow.float64()}
    fields = {field.name: kinds[str(field.type)] for field in dataclasses.fields(Answer)}
    types = {name: fields[name] for name in _FIELDS}
    return pyarrow.schema({"id": pyarrow.string(), "rank": pyarrow.int64(), **types})


def _parquet(found: Found) -> bytes:
    """One row group after the other, so that memory holds them packed."""
    import pyarrow
    import pyarrow.parquet

    buffer, schema = io.BytesIO(), arrow_schema()
    rows = (line for row, answers in found for line in table_rows(row.id, answers))
    with pyarrow.parquet.ParquetWriter(buffer, schema) as writer:
        while group := list(islice(rows, _ROW_GROUP)):
            writer.write_table(pyarrow.table(list(map(list, zip(*group, strict=True))), schema=schema))
    return buffer.getvalue()


def read_predictions(path: Path) -> dict[str, str]:
    """The text predicted for each question id, out of whatever ``pieces`` writes; the first answer of an id counts."""
    kind = kind_named(path, "squad")  # official predictions are of its ending, .json
    if kind == "squad":
        from rmreader.scoring.squad import read_predictions as official

        return official(path)
    source = Source.of(path)

    def choose(there: Sequence[str]) -> list[str]:
        if missing := next((name for name in ("id", "text") if name not in there), None):
            raise UserError(f"{no_column(source, [missing], there)}; `rmreader predict` writes such a table.")
        return ["id", "text"]

    texts: dict[str, str] = {}
    for number, tree in trees(source, choose):
        try:
            if isinstance(tree, str):
                raise ValueError(tree)
            answers = tree["answers"] if kind == "jsonl" else [tree]
            id, text = tree["id"], answers[0]["text"] if answers else ""
            if not isinstance(id, str | int) or not isinstance(text, str | None):
                raise TypeError
        except (ValueError, KeyError, TypeError, IndexError) as error:
            what = str(error) if type(error) is ValueError else "not a prediction"
            raise UserError(f"{path}: {'line' if kind == 'jsonl' else 'row'} {number}: {what}; fix the file.") from None
        texts.setdefault(str(id), text or "")
    return texts
