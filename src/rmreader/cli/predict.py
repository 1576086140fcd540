"""``rmreader predict``: answers to every question of a file, in one process or in parts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmreader.cli.app import app
from rmreader.cli.output import note
from rmreader.cli.read import Always, MaxLength, MinConfidence, Model, Threads
from rmreader.core.console import counted
from rmreader.core.errors import UserError

if TYPE_CHECKING:
    from rmreader.predict.predict import Summary
    from rmreader.predict.rows import BadRow
    from rmreader.predict.shards import Asking
    from rmreader.reading.rows import QuestionRow


@app.command()
def predict(
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="File to write: .jsonl, .csv, .tsv, .parquet, else the official format; - is stdout."
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Argument(metavar="DATA", help="SQuAD JSON, JSON Lines, CSV, TSV (.gz too) or Parquet; - is stdin."),
    ] = None,
    model: Model = "small",
    top: Annotated[int, typer.Option(min=1, help="How many answers per question, best first (not official).")] = 1,
    min_confidence: MinConfidence = 0.0,
    always: Always = False,
    na_prob_file: Annotated[
        Path | None, typer.Option(help="Write each question's chance of having no answer too, as SQuAD 2.0 scores it.")
    ] = None,
    max_length: MaxLength = None,
    threads: Threads = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Read in so many processes, for more processors than threads can use.")
    ] = None,
    on: Annotated[
        str, typer.Option(metavar="ray[://HOST:PORT]", help="Read on a Ray cluster: this machine's, or that one.")
    ] = "",
    shards: Annotated[
        int | None, typer.Option(min=1, help="Write a folder of so many parts to --out, which --merge puts together.")
    ] = None,
    shard: Annotated[
        str, typer.Option(metavar="I/N", help="Make part I of N alone, the first is 0/N; others make the rest.")
    ] = "",
    merge: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Put the parts in this folder together into --out.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what was broken off: a .jsonl, parts.")] = False,
    kind: Annotated[str, typer.Option("--format", help="Format of DATA, where its ending does not tell.")] = "",
    id_column: Annotated[str, typer.Option(help="Column (or key) with the id; row numbers where there is none.")] = "",
    question_column: Annotated[str, typer.Option(help="Column (or key) with the question.")] = "",
    passage_column: Annotated[str, typer.Option(help="Column (or key) with the passage.")] = "",
) -> None:
    """Answer every question of a file: official predictions (id to text), or JSON Lines or a table with all details.

    --workers and --on read in parts, kept in OUT.parts until they are put together. With --shards or --shard, OUT is a
    folder of parts, made here or on any number of machines, and --merge puts them together.
    """
    import json

    from rmreader.core.files.atomic import write_whole
    from rmreader.core.files.outputs import file_to_write

    parts = bool(shards or shard or workers or on)
    if (data is None) == (merge is None) or (merge is not None and (parts or resume)):
        raise typer.BadParameter("give DATA, the file of questions; or --merge FOLDER, with --out.")
    if workers and on:
        raise typer.BadParameter("give either --workers or --on, and not both.")
    source, chances = data or Path(str(merge)), None if na_prob_file is None else dict[str, float]()
    if na_prob_file is not None:
        if shards or shard:
            raise typer.BadParameter("--na-prob-file goes with --merge, once the parts are there.")
        file_to_write(na_prob_file, source, out)
    asking: dict[str, Any] = {"top": top, "min_confidence": min_confidence, "always": always}
    reading: dict[str, Any] = {"kind": kind, "columns": [id_column, question_column, passage_column]}
    done: Summary | None
    if merge is not None:
        from rmreader.predict.run import merge as put_together

        done = put_together(merge, out, chances)
    elif parts:
        from rmreader.predict.shards import Asking

        job = Asking.of(model, threads=_threads(threads, workers, on), max_length=max_length, **asking)
        where = {"workers": workers or 1, "on": on, "resume": resume, **reading}
        done = _in_parts(source, out, job, shards, shard, chances, **where)
    else:
        from rmreader.data.tables import kind_of
        from rmreader.predict import predict as predicting
        from rmreader.readers.folder import find, reader_names
        from rmreader.reading.reader import Reader

        if not predicting.is_stream(out):
            file_to_write(out, source, *map(find, reader_names(model)))
        rows = _rows(source, **reading)
        if kind_of(source, kind) == "squad":
            rows = list(rows)  # is read as a whole anyway, and a bad file fails before a reader is loaded
        reader = Reader.load(model, threads=threads, max_length=max_length)
        done = predicting.predict(reader, rows, out, chances=chances, resume=resume, **asking)
    if na_prob_file is not None:
        write_whole(na_prob_file, json.dumps(chances).encode())
    if done is not None:
        _report(done, source, out)


def _rows(data: Path, kind: str, columns: list[str]) -> Iterable[QuestionRow | BadRow]:
    from rmreader.data.tables import kind_of
    from rmreader.predict.rows import Columns, read_rows

    if any(columns) and kind_of(data, kind) == "squad":
        raise typer.BadParameter("SQuAD data have no columns; leave out --id-column, --question-column and the like.")
    return read_rows(data, Columns(*columns), kind)


def _in_parts(
    data: Path, out: Path, job: Asking, shards: int | None, shard: str, chances: dict[str, float] | None, **where: Any
) -> Summary | None:
    """In several processes, or as a part of what others do."""
    from rmreader.data.squad import skipped
    from rmreader.predict.run import into_file, into_folder

    rows = _rows(data, where["kind"], where["columns"])
    if not shards and not shard:
        return into_file(out, data, rows, job, 0, chances=chances, **where)
    only, number = _index(shard) if shard else (None, shards)
    if number is None or (shards and shards != number) or (shard and (where["on"] or where["workers"] > 1)):
        raise typer.BadParameter("--shard I/N makes one part in this process; leave out --shards, --workers and --on.")
    plan = into_folder(out, data, rows, job, number, only=only, **where)
    if only is not None:
        note(f"{out}: part {only} of {number}, {plan.shards[only].rows:,} questions.")
        return None
    for sentence in skipped(plan.bad(), plan.skipped):
        note(sentence)
    note(f"{out}: {plan.rows:,} questions in {number:,} parts; `rmreader predict --merge {out} --out FILE` joins them.")
    return None


def _index(shard: str) -> tuple[int, int]:
    """The two numbers of ``--shard``."""
    numbers = [int(part) if part.isdecimal() and len(part) < 10 else -1 for part in shard.split("/")]
    if len(numbers) != 2 or not 0 <= numbers[0] < numbers[1]:
        raise typer.BadParameter(f"--shard is I/N, with I from 0 to N-1, such as 0/8; it is {shard!r}.")
    return numbers[0], numbers[1]


def _threads(threads: int | None, workers: int | None, on: str) -> int:
    """As many as there are processors for each process; a task of a cluster has one."""
    from rmreader.core.cores import MOST_THREADS, cores

    return threads or (1 if on else max(1, min(MOST_THREADS, cores() // (workers or 1))))


def _report(done: Summary, data: Path, out: Path) -> None:
    """What became of the rows; refused where none could be read."""
    from rmreader.data.squad import skipped

    for sentence in skipped(done.bad, done.skipped):
        note(sentence)
    if done.strangers:
        note(f"{out} also holds answers to {done.strangers:,} questions that {data} does not have.")
    earlier = f", {done.resumed:,} from before" if done.resumed else ""
    none = counted(done.unanswered, "question")
    note(f"{out}: {counted(done.answered, 'answer')}, {none} without one{earlier}.")
    if done.skipped and not (done.answered or done.unanswered or done.resumed):
        raise UserError(f"{data}: no row of it could be read; the first: {done.bad[0]}.")
