"""``rmreader predict``: answer every question of a file, in one process or in parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmreader.cli.app import app
from rmreader.cli.output import note
from rmreader.cli.read import Always, MaxLength, MinConfidence, Model, Threads
from rmreader.core.console import counted
from rmreader.core.errors import UserError

if TYPE_CHECKING:
    from rmreader.predict.job import PredictJob
    from rmreader.predict.predict import Summary
    from rmreader.predict.rows import BadRow
    from rmreader.reading.rows import QuestionRow


@app.command(epilog="Example: rmreader predict questions.csv --out answers.csv")
def predict(
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="OUT",
            help="File: .jsonl, .csv, .tsv, .parquet, else the official format; - is stdout.",
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="DATA",
            help="SQuAD JSON, JSON Lines, CSV, TSV (.gz too) or Parquet; - is stdin.",
        ),
    ] = None,
    model: Model = "small",
    top: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Answers per question, best first (not official)."),
    ] = 1,
    min_confidence: MinConfidence = 0.0,
    always: Always = False,
    na_prob_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write each question's chance of having no answer, as SQuAD 2.0 scores it.",
        ),
    ] = None,
    max_length: MaxLength = None,
    threads: Threads = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Read in N processes, for more processors than threads can use.",
        ),
    ] = None,
    on: Annotated[
        str,
        typer.Option(
            metavar="ray[://HOST:PORT]", help="Read on a Ray cluster: this machine's, or that one."
        ),
    ] = "",
    shards: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Split the output into N parts; join them with --merge."
        ),
    ] = None,
    shard: Annotated[
        str, typer.Option(metavar="I/N", help="Make only part I of N, counted from 0.")
    ] = "",
    merge: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Join the parts in this folder into --out."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the files to write if they exist.")
    ] = False,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw",
            help="CSV, TSV: no quote before cells that a spreadsheet would run (= + - @).",
        ),
    ] = False,
    kind: Annotated[
        str,
        typer.Option(
            "--format", metavar="FORMAT", help="Format of DATA, if its ending does not say."
        ),
    ] = "",
    id_column: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Column (or key) with the id; default: id, else the row's number."
        ),
    ] = "",
    question_column: Annotated[
        str, typer.Option(metavar="NAME", help="Column (or key) with the question.")
    ] = "",
    passage_column: Annotated[
        str, typer.Option(metavar="NAME", help="Column (or key) with the passage.")
    ] = "",
) -> None:
    """Answer every question of a file.

    The output is the official format (id to text), or JSON Lines or a table with all details.
    --workers and --on read in parts, kept in OUT.parts until they are joined. With --shards or
    --shard, OUT is a folder of parts, made here or on any number of machines; --merge joins them.
    """
    in_parts = bool(shards or shard or workers or on)
    _check_options(data, merge, in_parts or resume, bool(workers and on))
    source = data or Path(str(merge))
    chances = _chances_for(na_prob_file, source, out, force, bool(shards or shard))
    asking: dict[str, Any] = {"top": top, "min_confidence": min_confidence, "always": always}
    columns = [id_column, question_column, passage_column]
    write: dict[str, Any] = {"chances": chances, "force": force, "raw": raw}
    summary: Summary | None
    if merge is not None:
        from rmreader.predict.run import merge as merge_parts

        summary = merge_parts(merge, out, **write)
    elif in_parts:
        from rmreader.predict.job import PredictJob

        parts = _Parts(shards, shard, workers or 1, on, resume)
        each = _threads(threads, workers, on)
        job = PredictJob.of(model, threads=each, max_length=max_length, **asking)
        summary = parts.make(source, out, job, kind, columns, write)
    else:
        summary = _predict_here(
            source,
            out,
            model,
            threads,
            max_length,
            kind,
            columns,
            {"resume": resume} | asking | write,
        )
    if na_prob_file is not None:
        _write_chances(na_prob_file, chances)
    if summary is not None:
        _report(summary, source, out)


def _check_options(data: Path | None, merge: Path | None, reads: bool, twice: bool) -> None:
    """Refuse options that do not go together.

    ``reads`` says that one is about reading, which --merge does not do; ``twice``, that two say
    where to read.
    """
    if (data is None) == (merge is None) or (merge is not None and reads):
        raise typer.BadParameter("give DATA, the file of questions; or --merge FOLDER, with --out.")
    if twice:
        raise typer.BadParameter("give either --workers or --on, and not both.")


def _chances_for(
    path: Path | None, source: Path, out: Path, force: bool, shards: bool
) -> dict[str, float] | None:
    """Return where to note the chances of no answer, if they are to be written."""
    if path is None:
        return None
    if shards:
        raise typer.BadParameter("--na-prob-file goes with --merge, once the parts are there.")
    from rmreader.core.files.outputs import file_to_write
    from rmreader.predict.predict import refuse_to_overwrite

    file_to_write(path, source, out)
    refuse_to_overwrite(path, force)
    return {}


def _write_chances(path: Path, chances: dict[str, float] | None) -> None:
    import json

    from rmreader.core.files.atomic import write_whole

    write_whole(path, json.dumps(chances).encode())


def _predict_here(
    source: Path,
    out: Path,
    model: str,
    threads: int | None,
    max_length: int | None,
    kind: str,
    columns: list[str],
    options: dict[str, Any],
) -> Summary:
    """Answer in this process. What can be refused is refused before a reader is loaded."""
    from rmreader.core.files.outputs import file_to_write
    from rmreader.data.tables import kind_of
    from rmreader.predict.predict import is_stream
    from rmreader.predict.predict import predict as predict_rows
    from rmreader.readers.folder import find, reader_names
    from rmreader.reading.reader import Reader

    if not is_stream(out):
        file_to_write(out, source, *map(find, reader_names(model)))
    rows = _rows(source, kind, columns)
    if kind_of(source, kind) == "squad":
        rows = list(rows)  # SQuAD is read as a whole anyway, and a bad file fails here
    reader = Reader.load(model, threads=threads, max_length=max_length)
    return predict_rows(reader, rows, out, **options)


def _rows(data: Path, kind: str, columns: list[str]) -> Iterable[QuestionRow | BadRow]:
    from rmreader.data.tables import kind_of
    from rmreader.predict.rows import Columns, read_rows

    if any(columns) and kind_of(data, kind) == "squad":
        raise typer.BadParameter(
            "SQuAD data have no columns; leave out --id-column, --question-column and the like."
        )
    return read_rows(data, Columns(*columns), kind)


@dataclass(frozen=True)
class _Parts:
    """The options of reading in parts."""

    shards: int | None
    shard: str
    workers: int
    on: str
    resume: bool

    def make(
        self,
        data: Path,
        out: Path,
        job: PredictJob,
        kind: str,
        columns: list[str],
        write: dict[str, Any],
    ) -> Summary | None:
        """Answer in several processes, or as a part of what others do."""
        from rmreader.predict.run import into_file, into_folder

        rows = _rows(data, kind, columns)
        where: dict[str, Any] = {"workers": self.workers, "on": self.on, "resume": self.resume}
        reading: dict[str, Any] = {"kind": kind, "columns": columns}
        if not self.shards and not self.shard:
            return into_file(out, data, rows, job, **where, **reading, **write)
        only, number = self._which()
        plan = into_folder(out, data, rows, job, number, only=only, **where, **reading)
        if only is not None:
            note(f"{out}: part {only} of {number}, {plan.shards[only].rows:,} questions.")
            return None
        _note_skipped(plan.bad(), plan.skipped)
        note(
            f"{out}: {plan.rows:,} questions in {number:,} parts; "
            f"`rmreader predict --merge {out} --out FILE` joins them."
        )
        return None

    def _which(self) -> tuple[int | None, int]:
        """Return the part to make (None: all of them) and how many there are."""
        if not self.shard:
            assert self.shards is not None
            return None, self.shards
        only, number = _index(self.shard)
        if (self.shards and self.shards != number) or self.on or self.workers > 1:
            raise typer.BadParameter(
                "--shard I/N makes one part in this process; "
                "leave out --shards, --workers and --on."
            )
        return only, number


def _index(shard: str) -> tuple[int, int]:
    """Return the two numbers of ``--shard``."""
    numbers = [
        int(part) if part.isdecimal() and len(part) < 10 else -1 for part in shard.split("/")
    ]
    if len(numbers) != 2 or not 0 <= numbers[0] < numbers[1]:
        raise typer.BadParameter(
            f"--shard is I/N, with I from 0 to N-1, such as 0/8; it is {shard!r}."
        )
    return numbers[0], numbers[1]


def _threads(threads: int | None, workers: int | None, on: str) -> int:
    """Return the threads of each process: those asked for, else its share of the processors."""
    from rmreader.core.cores import MOST_THREADS, cores

    if threads:
        return threads
    if on:  # a task of a cluster has one
        return 1
    return max(1, min(MOST_THREADS, cores() // (workers or 1)))


def _note_skipped(bad: list[BadRow], count: int) -> None:
    from rmreader.data.squad import skipped

    for sentence in skipped(bad, count):
        note(sentence)


def _report(summary: Summary, data: Path, out: Path) -> None:
    """Say what became of the rows; refuse a file of which none could be read."""
    _note_skipped(summary.bad, summary.skipped)
    if summary.strangers:
        others = f"{summary.strangers:,} questions that {data} does not have"
        note(f"{out} also holds answers to {others}.")
    earlier = f", {summary.resumed:,} from before" if summary.resumed else ""
    none = counted(summary.unanswered, "question")
    note(f"{out}: {counted(summary.answered, 'answer')}, {none} without one{earlier}.")
    if summary.skipped and not (summary.answered or summary.unanswered or summary.resumed):
        raise UserError(f"{data}: no row of it could be read; the first: {summary.bad[0]}.")
