"""``rmreader predict`` in parts: into a folder that ``--merge`` reads, or into one file, with the folder beside it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rmreader.core.console import progress
from rmreader.core.errors import UserError
from rmreader.core.files.outputs import file_to_write
from rmreader.data.tables import kind_named
from rmreader.predict.predict import Summary, is_stream, put
from rmreader.predict.ray import answer_on_ray
from rmreader.predict.rows import BadRow
from rmreader.predict.shards import BAD, PLAN, ROWS, Asking, Plan, merged, plan_of, read_plan, what
from rmreader.predict.workers import answer_here
from rmreader.readers.folder import find
from rmreader.reading.rows import QuestionRow


def into_folder(
    folder: Path,
    data: Path,
    rows: Iterable[QuestionRow | BadRow],
    job: Asking,
    shards: int,
    *,
    only: int | None = None,
    workers: int = 1,
    on: str = "",
    resume: bool = False,
    **reading: Any,
) -> Plan:
    """Make the parts that are missing in ``folder``, or the one part ``only``, in so many processes or on a cluster.

    ``rows`` are those of ``data``, read with the options ``reading``, and only where the plan is not there yet.
    ``shards`` 0 leaves their number to us.
    """
    if str(data) == "-":
        raise UserError("-: standard input cannot be read in parts, as each looks at it again; save it to a file.")
    file_to_write(folder / PLAN, data, *map(find, job.readers))
    if (folder / PLAN).exists() and not resume and only is None:
        raise UserError(f"{folder}: there already; add --resume to go on with it, or remove it.")
    for name in os.listdir(folder) if folder.exists() and not (folder / PLAN).exists() else ():
        if name not in (PLAN, ROWS, BAD) and not name.startswith("part-") and not name.endswith(".tmp"):
            raise UserError(f"{folder}: it holds other files, such as {name}; give a folder of its own.")
    plan = plan_of(folder, what(data, job, shards, **reading), rows)
    todo = [index for index in plan.missing() if only in (None, index)]
    with progress("reading", total=plan.rows, unit="questions") as advance:
        advance(plan.rows - sum(plan.shards[index].rows for index in plan.missing()))
        for index in answer_on_ray(plan, job, todo, on) if on else answer_here(plan, job, todo, workers):
            advance(plan.shards[index].rows)
    return plan


def into_file(
    out: Path, *given: Any, chances: dict[str, float] | None = None, resume: bool = False, **options: Any
) -> Summary:
    """The same, put together into one file; until that is there the parts are beside it, in ``OUT.parts``."""
    if is_stream(out):
        raise UserError(f"{out}: answers in parts need a file to be put together in; give --out the name of one.")
    folder = out.with_name(f"{out.name}.parts")
    if out.exists() and kind_named(out, "squad") == "jsonl" and not (resume and (folder / PLAN).exists()):
        raise UserError(f"{out}: there already; remove it, or give another file.")
    file_to_write(out, given[0])
    plan = into_folder(folder, *given, resume=resume, **options)
    done = _put(plan, out, chances)
    shutil.rmtree(folder)
    return done


def merge(folder: Path, out: Path, chances: dict[str, float] | None = None) -> Summary:
    """Put the parts of a folder together into ``out``, byte by byte what one process would have written."""
    plan = read_plan(folder)
    if not is_stream(out) and out.exists() and kind_named(out, "squad") == "jsonl":
        raise UserError(f"{out}: there already; remove it, or give another file.")
    return _put(plan, out, chances)


def _put(plan: Plan, out: Path, chances: dict[str, float] | None) -> Summary:
    done = Summary()
    kind = kind_named(out, "jsonl" if is_stream(out) else "squad")
    put(out, merged(plan, kind, done, chances), *(path for path in plan.folder.iterdir()))
    return done
