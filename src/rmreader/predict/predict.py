"""Answers to every question of a file, into another file or a pipe; JSON Lines can be resumed where they were broken
off."""

import contextlib
import gzip
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, Any

from rmreader.core.errors import UserError, user_error_on
from rmreader.core.files.atomic import lock, whole_file
from rmreader.core.files.outputs import file_to_write
from rmreader.data.tables import is_packed, kind_named
from rmreader.predict.rows import BadRow
from rmreader.predict.writers import pieces
from rmreader.reading.answers import Answers
from rmreader.reading.question import MAX_QUESTION
from rmreader.reading.reader import Reader
from rmreader.reading.rows import QuestionRow
from rmreader.text.tokens import tokenize

_BEGIN = b'{"id": "'  # of every line we write
_KEPT = 1000  # bad rows remembered; the others are counted
_TRIED = 5  # answers of an earlier run that are asked for again
_SAME = (
    0.25  # part by which scores of one 8-bit reader never differed between machines (0.15 of 119 scores was the most)
)
_BUSY = "another process is writing to it; wait for it, or give another file."


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
    rows: Iterable[QuestionRow | BadRow],
    out: Path,
    *,
    top: int = 1,
    min_confidence: float = 0.0,
    always: bool = False,
    resume: bool = False,
    chances: dict[str, float] | None = None,
) -> Summary:
    """Answer the rows into ``out``, in the format its ending names.

    JSON Lines (.jsonl) hold one object per row, ``{"id", "answers": [{"text", "start", "end", "score", "confidence",
    "sentence"}]}`` and, of a reader that can tell, ``"no_answer"``, the chance that there is none, and ``"guess"``
    where no answer is given; written as they come. ``chances`` takes the same chances by id, as SQuAD 2.0's script
    wants them in a file beside. Tables (.csv, .tsv, .parquet) hold one row per answer, and the official file
    maps id to text; these appear when they are whole. Standard output (``-``) and pipes are written to as answers come,
    as JSON Lines where no ending says otherwise. Where ``out`` is a link, what it points at is written; a file of the
    reader's, or a folder, is refused.
    """
    streamed, packed = is_stream(out), is_packed(out)
    kind = kind_named(out, "jsonl" if streamed else "squad")
    if resume and (streamed or packed or kind != "jsonl"):
        raise UserError(f"{out}: only plain JSON Lines can be resumed; give --out a name that ends in .jsonl.")
    run = _Run(reader, rows, {"top": top, "min_confidence": min_confidence, "always": always}, chances)
    if streamed or kind != "jsonl":
        put(out, pieces(kind, run.answered()), reader.folder.path)
        return run.summary
    real = file_to_write(out, reader.folder.path)
    with contextlib.ExitStack() as leave:
        there = real.exists()
        if there and not resume:
            raise UserError(f"{out}: there already; {'' if packed else 'add --resume to go on with it, or '}remove it.")
        if there:
            leave.enter_context(lock(real, _BUSY))
            run.done = _done(real)
        found = run.answered()
        first = next(found, None)  # rows that cannot be read at all fail here, before there is a file
        for row in run.known:
            if not _answers_so(reader, row, run.done[row.id]):
                raise UserError(
                    f"{out}: its answer to {row.id} is another reader's; go on with the reader it was begun with, or "
                    "take another file."
                )
        real.parent.mkdir(parents=True, exist_ok=True)
        with user_error_on(f"{out}: {_BUSY}", FileExistsError):
            file = leave.enter_context(_opened(real, "ab" if there else "xb"))
        if not there:
            leave.enter_context(lock(real, _BUSY))
        remedy = "make room and remove it" if packed else "make room, then go on with --resume"
        _write(file, pieces(kind, chain([] if first is None else [first], found)), out, packed, remedy)
    run.summary.strangers = len(run.done) - run.summary.resumed
    return run.summary


def put(out: Path, content: Iterator[bytes], *inputs: Path) -> None:
    """Write predictions into a stream as they come, else into a file that appears when it is whole."""
    if is_stream(out):
        with _stream(out) as file:
            _write(file, content, out, is_packed(out), "check where it leads")
        return
    real, first = file_to_write(out, *inputs), next(content, b"")  # what cannot be read at all leaves no folder either
    with whole_file(real) as file:
        _write(file, chain([first], content), out, is_packed(out), "make room")


@dataclass
class _Run:
    """The rows on their way through a reader, and what became of them."""

    reader: Reader
    rows: Iterable[QuestionRow | BadRow]
    options: dict[str, Any]
    chances: dict[str, float] | None = None
    done: Mapping[str, float | None] = field(default_factory=dict)
    known: list[QuestionRow] = field(default_factory=list)  # the first rows that have an answer already
    summary: Summary = field(default_factory=Summary)

    def answered(self) -> Iterator[tuple[QuestionRow, Answers]]:
        """Each good row that is not done yet with its answers, in order."""
        total = len(self.rows) if isinstance(self.rows, list) else None
        for row, answers in self.reader.predict(self._good(), total=total, **self.options):
            if self.chances is not None:
                self.chances[row.id] = answers.no_answer if answers.no_answer is not None else float(not answers)
            self.summary.answered += bool(answers)
            self.summary.unanswered += not answers
            yield row, answers

    def _good(self) -> Iterator[QuestionRow]:
        for row in map(answerable, self.rows):
            if isinstance(row, BadRow):
                self.summary.skipped += 1
                if len(self.summary.bad) < _KEPT:
                    self.summary.bad.append(row)
            elif row.id in self.done:
                self.summary.resumed += 1
                if len(self.known) < _TRIED and self.done[row.id] is not None:
                    self.known.append(row)
            else:
                yield row


def is_stream(out: Path) -> bool:
    """Whether ``out`` is standard output, an open descriptor, a pipe or a terminal: written to, never replaced."""
    named = str(out) == "-" or str(out).startswith(("/dev/std", "/dev/fd/", "/proc/self/fd/"))
    return named or out.is_fifo() or out.is_char_device()


@contextlib.contextmanager
def _stream(out: Path) -> Iterator[IO[bytes]]:
    if str(out) in ("-", "/dev/stdout"):
        if sys.stdout is None:
            raise UserError(f"{out}: standard output is closed; give a file.")
        sys.stdout.flush()
        yield sys.stdout.buffer
    else:
        with out.open("ab") as file:  # at the end of the file that the shell may have put there
            try:
                yield file
            except UserError:  # what could not be written cannot be written when it is closed, either
                with contextlib.suppress(OSError):
                    file.close()
                raise


def _opened(path: Path, mode: str) -> IO[bytes]:
    return path.open(mode)


def _write(file: IO[bytes], content: Iterator[bytes], out: Path, packed: bool, remedy: str) -> None:
    """Write piece by piece; what was written is there, whatever comes after."""
    with gzip.GzipFile("", "wb", fileobj=file, mtime=0) if packed else contextlib.nullcontext(file) as to:
        for piece in content:
            try:
                to.write(piece)
                to.flush()
            except BrokenPipeError:
                raise
            except OSError as error:
                raise UserError(f"{out}: cannot be written to ({error.strerror}); {remedy}.") from None


def answerable(row: QuestionRow | BadRow) -> QuestionRow | BadRow:
    """The row, as a bad one where its question is too long to be read."""
    if isinstance(row, QuestionRow) and len(row.question) > MAX_QUESTION and len(tokenize(row.question)) > MAX_QUESTION:
        return BadRow(f"id {row.id}", f"the question has more than {MAX_QUESTION:,} words")
    return row


def _answers_so(reader: Reader, row: QuestionRow, score: float | None) -> bool:
    """Whether this reader's best answer has the score that the file has."""
    answers = reader.ask(row.question, row.passage, always=True)
    return score is not None and bool(answers) and abs(answers[0].score - score) < 1e-3 + _SAME * abs(score)


def _done(out: Path) -> dict[str, float | None]:
    """The ids that an earlier run has answered, each with the score of its best answer if it has any; a last line that
    was cut short is taken off the file, once it is sure that all of it are predictions."""
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
