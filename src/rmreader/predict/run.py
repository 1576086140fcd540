"""``rmreader predict`` in parts: into a folder that ``--merge`` reads, or into one file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rmreader.core.console import progress
from rmreader.core.errors import UserError
from rmreader.core.files.outputs import file_to_write
from rmreader.predict.job import PredictJob
from rmreader.predict.predict import Summary, is_stream, kind_of_output, put, refuse_to_overwrite
from rmreader.predict.ray import answer_on_ray
from rmreader.predict.rows import BadRow
from rmreader.predict.shards import BAD, PLAN, ROWS, Plan, make_plan, merged, plan_facts, read_plan
from rmreader.predict.workers import answer_here
from rmreader.readers.folder import find
from rmreader.reading.rows import QuestionRow


def into_folder(
    folder: Path,
    data: Path,
    rows: Iterable[QuestionRow | BadRow],
    job: PredictJob,
    shards: int,
    *,
    only: int | None = None,
    workers: int = 1,
    on: str = "",
    resume: bool = False,
    **reading: Any,
) -> Plan:
    """Make the parts that are missing in ``folder``, or the one part ``only``.

    ``workers`` processes of this machine make them, or the cluster ``on``. ``rows`` are those of
    ``data``, read with the options ``reading``, and only where there is no plan yet. ``shards`` 0
    leaves their number to us.
    """
    if str(data) == "-":
        raise UserError(
            "-: standard input cannot be read in parts, as each looks at it again; "
            "save it to a file."
        )
    file_to_write(folder / PLAN, data, *map(find, job.readers))
    if not (folder / PLAN).exists():
        _refuse_other_files(folder)
    elif not resume and only is None:
        raise UserError(f"{folder}: there already; add --resume to go on with it, or remove it.")
    plan = make_plan(folder, plan_facts(data, job, shards, **reading), rows)
    missing = plan.missing()
    todo = [index for index in missing if only in (None, index)]
    done = plan.rows - sum(plan.shards[index].rows for index in missing)
    made = answer_on_ray(plan, job, todo, on) if on else answer_here(plan, job, todo, workers)
    with progress("reading", total=plan.rows, unit="questions") as advance:
        advance(done)
        for index in made:
            advance(plan.shards[index].rows)
    return plan


def _refuse_other_files(folder: Path) -> None:
    """Refuse a folder with files that no planning leaves behind."""
    names = os.listdir(folder) if folder.exists() else []
    for name in names:
        ours = name in (PLAN, ROWS, BAD) or name.startswith("part-") or name.endswith(".tmp")
        if not ours:
            raise UserError(
                f"{folder}: it holds other files, such as {name}; give a folder of its own."
            )


def into_file(
    out: Path,
    data: Path,
    rows: Iterable[QuestionRow | BadRow],
    job: PredictJob,
    *,
    chances: dict[str, float] | None = None,
    resume: bool = False,
    force: bool = False,
    raw: bool = False,
    **options: Any,
) -> Summary:
    """Do the same into one file. Until it is there, the parts are in ``OUT.parts``."""
    if is_stream(out):
        raise UserError(
            f"{out}: answers in parts need a file to be put together in; give --out a file."
        )
    folder = out.with_name(f"{out.name}.parts")
    # A run that was killed while it put the parts together has left the file whole or not at all.
    if not (resume and (folder / PLAN).exists()):
        refuse_to_overwrite(out, force)
    file_to_write(out, data)
    plan = into_folder(folder, data, rows, job, 0, resume=resume, **options)
    summary = _put(plan, out, chances, raw)
    _remove(folder)
    return summary


def _remove(folder: Path) -> None:
    """Remove the parts. They lose their name at once: half of a plan is never gone on with."""
    unnamed = folder.with_name(f"{folder.name}.done")
    # A run that was killed here has left one behind.
    shutil.rmtree(unnamed, ignore_errors=True)
    folder.rename(unnamed)
    shutil.rmtree(unnamed)


def merge(
    folder: Path,
    out: Path,
    chances: dict[str, float] | None = None,
    *,
    force: bool = False,
    raw: bool = False,
) -> Summary:
    """Join the parts of a folder into ``out``: byte for byte what one process writes."""
    plan = read_plan(folder)
    if not is_stream(out):
        file_to_write(out, *folder.iterdir())
        refuse_to_overwrite(out, force)
    return _put(plan, out, chances, raw)


def _put(plan: Plan, out: Path, chances: dict[str, float] | None, raw: bool) -> Summary:
    summary = Summary()
    content = merged(plan, kind_of_output(out), summary, chances, raw)
    put(out, content, *plan.folder.iterdir(), force=True)
    return summary
