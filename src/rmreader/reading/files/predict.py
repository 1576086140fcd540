"""Answers to every question of a file, into another file: the official prediction format, or JSON Lines, which can be
taken up again where it was broken off."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO

from rmreader.errors import UserError
from rmreader.files import file_to_write, write_whole
from rmreader.reading.answering.answers import Answer, Row, text_of
from rmreader.reading.answering.reader import MAX_QUESTION, Reader
from rmreader.reading.files.rows import BadRow, is_packed
from rmreader.text.tokens import tokenize

_BEGIN = b'{"id": "'  # of every line we write
_KEPT = 1000  # bad rows remembered; the others are counted
_TRIED = 5  # answers of an earlier run that are asked for again
_SAME = (
    0.25  # part by which scores of one 8-bit reader never differed between machines (0.15 of 119 scores was the most)
)


@dataclass
class Summary:
    """What became of the rows."""

    answered: int = 0
    unanswered: int = 0  # read, and no answer sure enough
    resumed: int = 0  # answered by an earlier run
    strangers: int = 0  # answers of that run to questions that are not in the data
    skipped: int = 0
    bad: list[BadRow] = field(default_factory=list)  # the first of those skipped


def predict(
    reader: Reader,
    rows: Iterable[Row | BadRow],
    out: Path,
    *,
    top: int = 1,
    min_confidence: float = 0.0,
    official: bool | None = None,
    resume: bool = False,
) -> Summary:
    """Answer the rows into ``out``; the format is ``official`` or JSON Lines as asked, else as ``out`` ends.

    JSON Lines hold one object a row, ``{"id", "answers": [{"text", "start", "end", "score", "confidence",
    "sentence"}]}``, written as they come. The official file maps id to text and appears when it is whole. Where ``out``
    is a link, what it points at is written; a file of the reader's, or what is no ordinary file, is refused.
    """
    real, packed = file_to_write(out, reader.folder.path), is_packed(out)
    name = out.name.lower().removesuffix(".gz")
    if official is None:
        official = not name.endswith((".jsonl", ".ndjson"))
    summary = Summary()
    if official:
        if resume:
            raise UserError(f"{out}: only JSON Lines can be resumed; give --out a name that ends in .jsonl.")
        texts = {row.id: text_of(answers) for row, answers in _answered(reader, rows, summary, {}, top, min_confidence)}
        content = json.dumps(texts).encode()
        write_whole(real, gzip.compress(content) if packed else content)
        return summary
    if packed and resume:
        raise UserError(f"{out}: a compressed file cannot be resumed; give --out a name that ends in .jsonl.")
    if not resume and real.exists():
        raise UserError(f"{out}: there already; {'' if packed else 'add --resume to go on with it, or '}remove it.")
    done = _done(out) if resume else {}
    known: list[Row] = []
    found = _answered(reader, rows, summary, done, top, min_confidence, known)
    first = next(found, None)  # rows that cannot be read at all fail here, before there is a file
    for row in known:
        if not _answers_so(reader, row, done[row.id]):
            raise UserError(
                f"{out}: its answer to {row.id} is another reader's; go on with the reader it was begun with, or take "
                "another file."
            )
    real.parent.mkdir(parents=True, exist_ok=True)
    with _opened(real, "a" if resume else "x", packed) as file:
        for row, answers in chain([] if first is None else [first], found):
            tree = {"id": row.id, "answers": [dataclasses.asdict(answer) for answer in answers]}
            try:
                file.write(f"{json.dumps(tree)}\n")
                file.flush()
            except OSError as error:
                remedy = "make room and remove it" if packed else "make room, then go on with --resume"
                raise UserError(f"{out}: cannot be written to ({error.strerror}); {remedy}.") from None
    summary.strangers = len(done) - summary.resumed
    return summary


def _answered(
    reader: Reader,
    rows: Iterable[Row | BadRow],
    summary: Summary,
    done: Mapping[str, float | None],
    top: int,
    min_confidence: float,
    known: list[Row] | None = None,
) -> Iterator[tuple[Row, list[Answer]]]:
    """Each good row that is not done yet with its answers, in order; the summary is kept on the way, and the first rows
    that have an answer already are put into ``known``."""

    def good() -> Iterator[Row]:
        for row in rows:
            if isinstance(row, Row) and _too_long(row.question):
                row = BadRow(f"id {row.id}", f"the question has more than {MAX_QUESTION:,} words")
            if isinstance(row, BadRow):
                summary.skipped += 1
                if len(summary.bad) < _KEPT:
                    summary.bad.append(row)
            elif row.id in done:
                summary.resumed += 1
                if known is not None and len(known) < _TRIED and done[row.id] is not None:
                    known.append(row)
            else:
                yield row

    total = len(rows) if isinstance(rows, list) else None
    for row, answers in reader.predict(good(), top=top, min_confidence=min_confidence, total=total):
        if answers:
            summary.answered += 1
        else:
            summary.unanswered += 1
        yield row, answers


def _too_long(question: str) -> bool:
    return len(question) > MAX_QUESTION and len(tokenize(question)) > MAX_QUESTION


def _answers_so(reader: Reader, row: Row, score: float | None) -> bool:
    """Whether this reader's best answer has the score that the file has."""
    answers = reader.ask(row.question, row.passage)
    return score is not None and bool(answers) and abs(answers[0].score - score) < 1e-3 + _SAME * abs(score)


def _done(out: Path) -> dict[str, float | None]:
    """The ids that an earlier run has answered, each with the score of its best answer if it has any; a last line that
    was cut short is taken off the file, once it is sure that all of it are predictions."""
    if not out.exists():
        return {}
    done: dict[str, float | None] = {}
    whole = 0
    with out.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n") and (line.startswith(_BEGIN) or _BEGIN.startswith(line)):
                break
            if (predicted := _predicted(line)) is None:
                raise UserError(f"{out}: line {number} is not a prediction; take another file.")
            done |= [predicted]
            whole += len(line)
    if whole < out.stat().st_size:
        os.truncate(out, whole)
    return done


def _predicted(line: bytes) -> tuple[str, float | None] | None:
    """The id of the question that a line answers and its best answer's score; None where it is no line of ours."""
    try:
        tree = json.loads(line)
        id, answers = tree["id"], tree["answers"]
        score = float(answers[0]["score"]) if answers else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return (id, score) if line.endswith(b"\n") and isinstance(id, str) and isinstance(answers, list) else None


def _opened(path: Path, mode: str, packed: bool) -> IO[str]:
    if packed:
        return io.TextIOWrapper(gzip.GzipFile(path, mode), encoding="utf-8", newline="\n")
    return path.open(mode, encoding="utf-8", newline="\n")
