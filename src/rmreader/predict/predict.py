"""Answer every question of a file, in this process.

JSON Lines grow as the answers come and can be resumed; other files appear when they are whole.
"""

import contextlib
import gzip
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, Any

from rmreader.core.errors import UserError, user_error_on
from rmreader.core.files.atomic import lock, whole_file
from rmreader.core.files.outputs import file_to_write
from rmreader.data.tables import is_packed, kind_named
from rmreader.predict.job import run_id
from rmreader.predict.rows import BadRow
from rmreader.predict.writers import pieces
from rmreader.reading.answers import Answers
from rmreader.reading.question import MAX_QUESTION
from rmreader.reading.reader import Reader
from rmreader.reading.rows import QuestionRow
from rmreader.text.tokens import tokenize

_BEGIN = b'{"id": "'  # of every line we write
_MOST_BAD = 1000  # bad rows remembered; the others are counted
_BUSY = "another process is writing to it; wait for it, or give another file."
_TAKE_ANOTHER = "resume it as it was begun, or give another file."


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
    force: bool = False,
    raw: bool = False,
    chances: dict[str, float] | None = None,
) -> Summary:
    """Answer the rows into ``out``, in the format that its ending names.

    JSON Lines (.jsonl) hold one object per row: ``id``, ``question``, ``answers`` (a list of
    ``text``, ``start``, ``end``, ``score``, ``confidence``, ``sentence``) and ``run``, which says
    by which reader and options. A reader that can tell adds ``no_answer``, the chance that there
    is none, and ``guess`` where no answer is given. Tables (.csv, .tsv, .parquet) have the same in
    columns, a row per answer. The official file maps id to text. Standard output (``-``) and pipes
    get answers as they come, as JSON Lines where no ending says otherwise.

    Where ``out`` is a link, what it points at is written. A folder, a file of the reader's, and
    without ``force`` a file that is there already, are refused. ``raw`` writes CSV cells as they
    are (see ``pieces``). ``chances`` takes the chance of no answer by id, as SQuAD 2.0's script
    wants it in a file of its own.
    """
    asking = {"top": top, "min_confidence": min_confidence, "always": always}
    run = _Run(reader, rows, asking, chances)
    kind = kind_of_output(out)
    if resume and not _can_resume(out, kind):
        raise UserError(
            f"{out}: only plain JSON Lines can be resumed; give --out a name that ends in .jsonl."
        )
    if is_stream(out) or kind != "jsonl":
        content = pieces(kind, run.answered(), run=run.id, raw=raw)
        put(out, content, reader.folder.path, force=force)
    else:
        _grow(out, run, resume, force)
    return run.summary


def kind_of_output(out: Path) -> str:
    """Return the format of a file to write, by its ending."""
    return kind_named(out, "jsonl" if is_stream(out) else "squad")


def _can_resume(out: Path, kind: str) -> bool:
    return kind == "jsonl" and not is_stream(out) and not is_packed(out)


def refuse_to_overwrite(out: Path, force: bool, also: str = "") -> None:
    """Refuse a file that is there already, unless ``force``. ``also`` is a further remedy."""
    if out.exists() and not force:
        raise UserError(
            f"{out}: there already; {also}add --force to replace it, or give another file."
        )


def put(out: Path, content: Iterator[bytes], *inputs: Path, force: bool = False) -> None:
    """Write into a stream as the content comes, else into a file that appears when it is whole."""
    if is_stream(out):
        with _stream(out) as file:
            _write(file, content, out, is_packed(out), "check where it leads")
        return
    real = file_to_write(out, *inputs)
    refuse_to_overwrite(out, force)
    first = next(content, b"")  # what cannot be read at all fails here, before a folder is made
    with whole_file(real) as file:
        _write(file, chain([first], content), out, is_packed(out), "make room")


def _grow(out: Path, run: "_Run", resume: bool, force: bool) -> None:
    """Write JSON Lines as the answers come, after those that an earlier run has written."""
    packed = is_packed(out)
    real = file_to_write(out, run.reader.folder.path)
    there = real.exists() and resume
    if not there:
        also = "" if packed else "add --resume to go on with it, "
        refuse_to_overwrite(out, force, also)
    with contextlib.ExitStack() as stack:
        if there:
            stack.enter_context(lock(real, _BUSY))
            run.done = _done(real, run.id)
        answered = run.answered()
        first = next(answered, None)  # rows that cannot be read at all fail here, before the file
        real.parent.mkdir(parents=True, exist_ok=True)
        if force and not there:
            real.unlink(missing_ok=True)
        with user_error_on(f"{out}: {_BUSY}", FileExistsError):
            file = stack.enter_context(_opened(real, "ab" if there else "xb"))
        if not there:
            stack.enter_context(lock(real, _BUSY))
        remedy = "make room and remove it" if packed else "make room, then go on with --resume"
        all_answered = answered if first is None else chain([first], answered)
        _write(file, pieces("jsonl", all_answered, run=run.id), out, packed, remedy)
    run.summary.strangers = len(run.done) - run.summary.resumed


class _Run:
    """Rows on their way through a reader, and what became of them."""

    def __init__(
        self,
        reader: Reader,
        rows: Iterable[QuestionRow | BadRow],
        asking: dict[str, Any],
        chances: dict[str, float] | None,
    ) -> None:
        self.reader = reader
        self.rows = rows
        self.asking = asking
        self.chances = chances
        self.id = run_id(reader, asking)
        self.done: set[str] = set()  # ids that an earlier run has answered
        self.summary = Summary()

    def answered(self) -> Iterator[tuple[QuestionRow, Answers]]:
        """Yield each good row that is not done yet with its answers, in order."""
        total = len(self.rows) if isinstance(self.rows, list) else None
        for row, answers in self.reader.predict(self._good(), total=total, **self.asking):
            if self.chances is not None:
                self.chances[row.id] = no_answer_chance(answers)
            if answers:
                self.summary.answered += 1
            else:
                self.summary.unanswered += 1
            yield row, answers

    def _good(self) -> Iterator[QuestionRow]:
        for row in map(answerable, self.rows):
            if isinstance(row, BadRow):
                self.summary.skipped += 1
                if len(self.summary.bad) < _MOST_BAD:
                    self.summary.bad.append(row)
            elif row.id in self.done:
                self.summary.resumed += 1
            else:
                yield row


def no_answer_chance(answers: Answers) -> float:
    """Return the chance that there is no answer; 0 or 1 for a reader that cannot tell."""
    if answers.no_answer is not None:
        return answers.no_answer
    return 0.0 if answers else 1.0


def answerable(row: QuestionRow | BadRow) -> QuestionRow | BadRow:
    """Return the row, or a bad one where its question is too long to be read."""
    if isinstance(row, BadRow) or len(row.question) <= MAX_QUESTION:
        return row
    if len(tokenize(row.question)) <= MAX_QUESTION:
        return row
    return BadRow(f"id {row.id}", f"the question has more than {MAX_QUESTION:,} words")


def is_stream(out: Path) -> bool:
    """Whether ``out`` is written to and never replaced: standard output, a pipe, a terminal."""
    if str(out) == "-" or str(out).startswith(("/dev/std", "/dev/fd/", "/proc/self/fd/")):
        return True
    return out.is_fifo() or out.is_char_device()


@contextlib.contextmanager
def _stream(out: Path) -> Iterator[IO[bytes]]:
    if str(out) in ("-", "/dev/stdout"):
        if sys.stdout is None:
            raise UserError(f"{out}: standard output is closed; give a file.")
        sys.stdout.flush()
        yield sys.stdout.buffer
        return
    with _opened(out, "ab") as file:  # at the end of the file that the shell may have put there
        yield file


@contextlib.contextmanager
def _opened(path: Path, mode: str) -> Iterator[IO[bytes]]:
    with path.open(mode) as file:
        try:
            yield file
        except UserError:  # what could not be written cannot be written at its close, either
            with contextlib.suppress(OSError):
                file.close()
            raise


def _write(file: IO[bytes], content: Iterator[bytes], out: Path, packed: bool, remedy: str) -> None:
    """Write piece by piece. What was written stays, whatever comes after."""
    to: IO[bytes] | gzip.GzipFile = file
    if packed:
        to = gzip.GzipFile("", "wb", fileobj=file, mtime=0)
    try:
        for piece in content:
            with _failures_told(out, remedy):
                to.write(piece)
                to.flush()
    finally:
        if packed:  # its end is written now
            with _failures_told(out, remedy):
                to.close()


@contextlib.contextmanager
def _failures_told(out: Path, remedy: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(f"{out}: cannot be written to ({error.strerror}); {remedy}.") from None


def _done(out: Path, run: str) -> set[str]:
    """Return the ids that an earlier run has answered, once it is sure that it is the same run.

    A last line that was cut short is taken off the file.
    """
    ids: set[str] = set()
    whole = 0
    with out.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n") and (line.startswith(_BEGIN) or _BEGIN.startswith(line)):
                break
            prediction = _prediction(line)
            if prediction is None:
                raise UserError(f"{out}: line {number} is not a prediction; give another file.")
            id, its_run = prediction
            if its_run is None:
                raise UserError(
                    f"{out}: line {number} does not say which reader wrote it; give another file."
                )
            if its_run != run:
                raise UserError(
                    f"{out}: line {number} was written by another reader, with other options or by "
                    f"another version of rmreader; {_TAKE_ANOTHER}"
                )
            ids.add(id)
            whole += len(line)
    if whole < out.stat().st_size:
        os.truncate(out, whole)
    return ids


def _prediction(line: bytes) -> tuple[str, str | None] | None:
    """Return the id and the run of a line; None where it is no line of ours."""
    if not line.endswith(b"\n"):
        return None
    try:
        tree = json.loads(line)
        id, answers, run = tree["id"], tree["answers"], tree.get("run")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not isinstance(id, str) or not isinstance(answers, list):
        return None
    return id, str(run) if run is not None else None
