"""Many questions in parts: any number of processes, on any machines, answer each exactly once.

A folder holds all of it. ``plan.json`` says what is answered (the data and the reader by their
checksums, the options) and where each shard's rows are in ``rows.jsonl``; ``bad.jsonl`` names the
rows that cannot be answered. A shard becomes one file, ``part-00003-PLAN.jsonl``, which depends on
nothing else and appears when it is whole: whoever makes it, twice or after a kill, makes the same.
Its last line is its checksum. ``merged`` joins all parts in order, or says which are missing.
"""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from rmreader.core.errors import UserError
from rmreader.core.files.atomic import lock, whole_file, write_whole
from rmreader.core.files.manifest import file_sha256
from rmreader.core.files.reading import read_json
from rmreader.core.version import __version__
from rmreader.predict.job import PredictJob
from rmreader.predict.predict import Summary, answerable, no_answer_chance
from rmreader.predict.rows import BadRow
from rmreader.predict.writers import answers_of_line, pieces
from rmreader.reading.rows import QuestionRow

PLAN = "plan.json"
ROWS = "rows.jsonl"
BAD = "bad.jsonl"
SHARD_ROWS = 500
"""If no number of shards is given: seconds of work, so that little is lost in a kill."""
_FORMAT = 2  # of the folder; 1 had no checksums in its parts
_REMEDY = "remove the folder and begin anew"
_MOST_BAD = 1000  # bad rows remembered
_OTHER = {  # what a plan is of, and what to say where a folder has the plan of another
    "format": "another version of rmreader",
    "data": "other data",
    "reader": "another reader, or another version of rmreader",
    "options": "other options",
    "shards": "another number of shards",
}


@dataclass(frozen=True)
class Shard:
    """Rows of the data, ``first`` and those after it, and where they are in ``rows.jsonl``."""

    first: int
    rows: int
    begin: int
    end: int
    sha256: str


@dataclass(frozen=True)
class Plan:
    """A folder's plan."""

    folder: Path
    digest: str
    shards: list[Shard]
    skipped: int

    @property
    def rows(self) -> int:
        """How many there are to answer."""
        return sum(shard.rows for shard in self.shards)

    def part(self, index: int) -> Path:
        """Return the file of a shard's answers."""
        return self.folder / f"part-{index:05}-{self.digest[:12]}.jsonl"

    def missing(self) -> list[int]:
        """Return the shards that have no part yet."""
        there = set(os.listdir(self.folder))
        indices = range(len(self.shards))
        return [index for index in indices if self.part(index).name not in there]

    def content(self, index: int) -> bytes:
        """Return the lines of a shard's rows."""
        shard = self.shards[index]
        path = self.folder / ROWS
        with path.open("rb") as file:
            file.seek(shard.begin)
            content = file.read(shard.end - shard.begin)
        if hashlib.sha256(content).hexdigest() != shard.sha256:
            raise UserError(f"{path}: damaged at byte {shard.begin:,} or after it; {_REMEDY}.")
        return content

    def put(self, index: int, lines: bytes) -> None:
        """Put a part in its place: the answers' lines, and their checksum as the last line."""
        write_whole(self.part(index), lines + self._seal(index, lines))

    def read_part(self, index: int) -> bytes:
        """Return the answers' lines of a part, as they were put."""
        path = self.part(index)
        content = path.read_bytes()
        end = content.rfind(b"\n", 0, -1) + 1  # where the last line begins
        lines, seal = content[:end], content[end:]
        if seal != self._seal(index, lines):
            raise UserError(
                f"{path}: damaged, or changed after it was made; "
                "remove the file, and make it again with --resume."
            )
        return lines

    def _seal(self, index: int, lines: bytes) -> bytes:
        """Return a part's last line. It fits this plan, this shard and these answers alone."""
        digest = hashlib.sha256(f"{self.digest} {index} ".encode())
        digest.update(lines)
        return json.dumps({"sha256": digest.hexdigest()}).encode() + b"\n"

    def bad(self) -> list[BadRow]:
        """Return the first of the rows that cannot be answered."""
        with (self.folder / BAD).open("rb") as file:
            return [BadRow(**json.loads(line)) for line in islice(file, _MOST_BAD)]


def plan_facts(data: Path, job: PredictJob, shards: int, **options: Any) -> dict[str, Any]:
    """Return what a plan is of.

    ``shards`` is 0 where their number is left to us. ``options`` are those of reading the data.
    """
    return {
        "format": _FORMAT,
        "data": file_sha256(data),
        "reader": job.digest,
        "shards": shards,
        "options": job.options() | options,
    }


def make_plan(folder: Path, facts: dict[str, Any], rows: Iterable[QuestionRow | BadRow]) -> Plan:
    """Make the folder's plan of these rows unless it has one; refuse a plan of something else."""
    folder.mkdir(parents=True, exist_ok=True)
    with lock(folder):  # where there are no locks, several make it at once, each the same
        if not (folder / PLAN).exists():
            _write_plan(folder, facts, rows)
    tree = read_json(folder / PLAN, _REMEDY)
    for key, other in _OTHER.items():
        if not isinstance(tree, dict) or tree.get(key) != facts[key]:
            raise UserError(
                f"{folder}: it was begun with {other}; "
                "go on as it was begun, or choose another folder."
            )
    return read_plan(folder)


def read_plan(folder: Path) -> Plan:
    """Return the plan that a folder has."""
    path = folder / PLAN
    if not path.is_file():
        raise UserError(
            f"{folder}: it has no {PLAN}; give the folder that `predict --shards` wrote to."
        )
    tree = read_json(path, _REMEDY)
    try:
        shards = [
            Shard(int(first), int(rows), int(begin), int(end), str(sha256))
            for first, rows, begin, end, sha256 in tree["parts"]
        ]
        return Plan(folder, file_sha256(path), shards, int(tree["skipped"]))
    except (LookupError, TypeError, ValueError):
        raise UserError(f"{path}: damaged; {_REMEDY}.") from None


def _write_plan(folder: Path, facts: dict[str, Any], rows: Iterable[QuestionRow | BadRow]) -> None:
    """Read the data once, for all shards. The plan itself is written last."""
    begins, skipped = _write_rows(folder, rows)
    count = len(begins) - 1
    number = facts["shards"] or -(-count // SHARD_ROWS)
    firsts = [count * index // number for index in range(number + 1)] if number else []
    parts = []
    with (folder / ROWS).open("rb") as file:
        for first, last in pairwise(firsts):
            begin, end = begins[first], begins[last]
            digest = hashlib.sha256(file.read(end - begin)).hexdigest()
            parts.append([first, last - first, begin, end, digest])
    counts = {"rows": count, "skipped": skipped, "parts": parts}
    tree = facts | {"rmreader": __version__} | counts
    write_whole(folder / PLAN, json.dumps(tree).encode() + b"\n")


def _write_rows(folder: Path, rows: Iterable[QuestionRow | BadRow]) -> tuple[array[int], int]:
    """Write the good rows and the bad ones.

    Return where each good one begins, and the last ends, and how many are bad.
    """
    begins = array("Q", [0])
    skipped = 0
    with whole_file(folder / ROWS) as good, whole_file(folder / BAD) as bad:
        for row in map(answerable, rows):
            if isinstance(row, BadRow):
                bad.write(json.dumps(asdict(row)).encode() + b"\n")
                skipped += 1
                continue
            tree = {"id": row.id, "question": row.question, "passage": row.passage}
            line = json.dumps(tree).encode() + b"\n"
            good.write(line)
            begins.append(begins[-1] + len(line))
    return begins, skipped


def merged(
    plan: Plan,
    kind: str,
    summary: Summary,
    chances: dict[str, float] | None = None,
    raw: bool = False,
) -> Iterator[bytes]:
    """Return the content of the file that one process would have written, from all parts.

    Refused where a part is missing or damaged. ``summary`` and ``chances`` take what ``predict``
    says of the rows.
    """
    missing = plan.missing()
    if missing:
        which = f"{len(missing):,} of {len(plan.shards):,} parts are missing"
        raise UserError(
            f"{plan.folder}: {which}, the first is {missing[0]}; "
            f"make them (--shard {missing[0]}/{len(plan.shards)}, or --resume)."
        )
    summary.skipped = plan.skipped
    summary.bad = plan.bad()
    lines = _lines(plan, summary, chances)
    if kind == "jsonl":
        return lines
    return pieces(kind, map(answers_of_line, lines), raw=raw)


def _lines(plan: Plan, summary: Summary, chances: dict[str, float] | None) -> Iterator[bytes]:
    """Yield every line of every part, in order."""
    for index in range(len(plan.shards)):
        for line in plan.read_part(index).splitlines(keepends=True):
            if b', "answers": [], ' in line:  # no text in JSON has quotes like these
                summary.unanswered += 1
            else:
                summary.answered += 1
            if chances is not None:
                row, answers = answers_of_line(line)
                chances[row.id] = no_answer_chance(answers)
            yield line
