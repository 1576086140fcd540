"""Answers to every question of a file, into another file: the official prediction format, or JSON Lines, which can be
taken up again where it was broken off."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from rmreader.console import progress
from rmreader.errors import UserError
from rmreader.reading.answers import Answer
from rmreader.reading.reader import MAX_QUESTION, Reader
from rmreader.reading.rows import BadRow, Row
from rmreader.text.tokens import tokenize

_KEPT = 1000  # bad rows remembered; the others are counted


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
    batch_size: int = 32,
    official: bool | None = None,
    resume: bool = False,
) -> Summary:
    """Answer the rows into ``out``; the format is ``official`` or JSON Lines as asked, else as ``out`` ends.

    JSON Lines hold one object a row, ``{"id", "answers": [{"text", "start", "end", "score", "confidence",
    "sentence"}]}``, written as they come. The official file maps id to text and appears when it is whole.
    """
    name = out.name.removesuffix(".gz")
    if official is None:
        official = not name.endswith((".jsonl", ".ndjson"))
    summary = Summary()
    if official:
        if resume:
            raise UserError(f"{out}: only JSON Lines can be resumed; give --out a name that ends in .jsonl.")
        texts: dict[str, str] = {}
        with _replacing(out) as file:
            for row, answers in _answered(reader, rows, summary, set(), top, min_confidence, batch_size):
                texts[row.id] = answers[0].text if answers else ""
            json.dump(texts, file)
        return summary
    done = _done(out) if resume else set()
    if not resume and out.exists():
        raise UserError(f"{out}: there already; add --resume to go on with it, or remove it.")
    out.parent.mkdir(parents=True, exist_ok=True)
    with _opened(out, "a" if resume else "x") as file:
        for row, answers in _answered(reader, rows, summary, done, top, min_confidence, batch_size):
            json.dump({"id": row.id, "answers": [dataclasses.asdict(answer) for answer in answers]}, file)
            file.write("\n")
            file.flush()
    summary.strangers = len(done) - summary.resumed
    return summary


def _answered(
    reader: Reader,
    rows: Iterable[Row | BadRow],
    summary: Summary,
    done: set[str],
    top: int,
    min_confidence: float,
    batch_size: int,
) -> Iterator[tuple[Row, list[Answer]]]:
    """Each good row that is not done yet with its answers, in order; the summary is kept on the way."""
    asked: deque[Row] = deque()  # read ahead of the answers

    def flow() -> Iterator[tuple[str, str]]:
        for row in rows:
            if isinstance(row, Row) and _too_long(row.question):
                row = BadRow(f"id {row.id}", f"the question has more than {MAX_QUESTION:,} words")
            if isinstance(row, BadRow):
                summary.skipped += 1
                if len(summary.bad) < _KEPT:
                    summary.bad.append(row)
            elif row.id in done:
                summary.resumed += 1
            else:
                asked.append(row)
                yield row.question, row.passage

    with progress("reading", total=_length(rows), unit="questions") as advance:
        for answers in reader.ask_many(flow(), top=top, min_confidence=min_confidence, batch_size=batch_size):
            if answers:
                summary.answered += 1
            else:
                summary.unanswered += 1
            advance(1)
            yield asked.popleft(), answers


def _too_long(question: str) -> bool:
    return len(question) > MAX_QUESTION and len(tokenize(question)) > MAX_QUESTION


def _length(rows: Iterable[Any]) -> int | None:
    return len(rows) if isinstance(rows, list) else None


def _done(out: Path) -> set[str]:
    """The ids that an earlier run has answered; a last line that was cut short is taken off the file."""
    if out.suffix == ".gz":
        raise UserError(f"{out}: a compressed file cannot be resumed; give --out a name that ends in .jsonl.")
    if not out.exists():
        return set()
    ids: set[str] = set()
    with out.open("r+b") as file:
        whole = 0
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                break
            try:
                ids.add(str(json.loads(line)["id"]))
            except (ValueError, KeyError, TypeError):
                raise UserError(f"{out}: line {number} is none of a prediction; take another file.") from None
            whole += len(line)
        file.truncate(whole)
    return ids


def _opened(path: Path, mode: str) -> IO[str]:
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.GzipFile(path, mode), encoding="utf-8", newline="\n")
    return path.open(mode, encoding="utf-8", newline="\n")


@contextmanager
def _replacing(path: Path) -> Iterator[IO[str]]:
    """A file that takes its place only when it is whole; opened at once, so that a bad place fails before the work."""
    if path.is_dir():
        raise UserError(f"{path}: a folder; give the file to write.")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name.removesuffix('.gz')}.{os.getpid()}.tmp{'.gz' * (path.suffix == '.gz')}")
    try:
        with _opened(temporary, "w") as file:
            yield file
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
