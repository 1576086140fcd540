"""Many questions in parts, so that any number of processes, on any machines, answer each of them exactly once.

A folder holds all of it. ``plan.json`` says what is answered (the data and the reader by their checksums, the options)
and where each shard's rows are in ``rows.jsonl``; ``bad.jsonl`` names the rows that cannot be answered. A shard becomes
one file, ``part-00003-PLAN.jsonl``, which depends on nothing else and appears when it is whole: whoever makes it, twice
or after a kill, makes the same. ``merge`` puts all parts together, in order, or says which are missing.
"""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from rmreader.core.errors import UserError
from rmreader.core.files.atomic import lock, whole_file, write_whole
from rmreader.core.files.manifest import file_sha256
from rmreader.core.files.reading import read_json
from rmreader.core.version import __version__
from rmreader.predict.predict import Summary, answerable
from rmreader.predict.rows import BadRow
from rmreader.predict.writers import pieces
from rmreader.readers.folder import MANIFEST, SHIPPED, find, reader_names
from rmreader.reading.answers import Answers
from rmreader.reading.reader import Reader
from rmreader.reading.rows import QuestionRow

PLAN, ROWS, BAD = "plan.json", "rows.jsonl", "bad.jsonl"
SHARD_ROWS = 500  # where nobody says how many shards: seconds of work, so that little is lost and all end together
_REMEDY = "remove the folder and begin anew"
_KEPT = 1000  # bad rows remembered
_OTHER = {  # what a plan is of, and what to say where a folder has the plan of another
    "format": "another version of rmreader",
    "data": "other data",
    "reader": "another reader, or another version of rmreader",
    "options": "other options",
    "shards": "another number of shards",
}


@dataclass(frozen=True)
class Asking:
    """What any process must know to answer rows as all others do; it travels as names and numbers."""

    readers: tuple[str, ...]
    """Shipped names or whole paths; several are an ensemble."""
    digest: str
    """Of the readers and of rmreader's version."""
    threads: int = 1
    max_length: int | None = None
    top: int = 1
    min_confidence: float = 0.0
    always: bool = False

    @classmethod
    def of(cls, model: str, **options: Any) -> Asking:
        """The job of a reader given as ``--model`` is, with options of the same names as the fields."""
        found = {name: find(name).resolve() for name in reader_names(model)}
        # another machine has the shipped ones elsewhere
        readers = tuple(path.name if path.parent == SHIPPED else str(path) for path in found.values())
        return cls(readers, _digest(readers), **options)

    def options(self) -> dict[str, Any]:
        """What the answers depend on, beside the reader."""
        return {name: getattr(self, name) for name in ("max_length", "top", "min_confidence", "always")}

    def reader(self) -> Reader:
        """Its reader, loaded once per process."""
        return _reader(self.readers, self.digest, self.threads, self.max_length)

    def found(self, rows: list[QuestionRow]) -> Iterator[tuple[QuestionRow, Answers]]:
        """Each row with its answers."""
        pairs = ((row.question, row.passage) for row in rows)
        options: dict[str, Any] = {"top": self.top, "min_confidence": self.min_confidence, "always": self.always}
        return zip(rows, self.reader().ask_many(pairs, **options), strict=True)

    def answer(self, content: bytes) -> bytes:
        """A part: the lines of ``predict`` for these lines of ``rows.jsonl``."""
        return b"".join(pieces("jsonl", self.found([QuestionRow(**json.loads(line)) for line in content.splitlines()])))


def _digest(readers: tuple[str, ...]) -> str:
    """A manifest has the checksum of every other file of its folder."""
    manifests = (hashlib.sha256((find(name) / MANIFEST).read_bytes()).hexdigest() for name in readers)
    return hashlib.sha256(" ".join((__version__, *manifests)).encode()).hexdigest()


@lru_cache(maxsize=2)
def _reader(readers: tuple[str, ...], digest: str, threads: int, max_length: int | None) -> Reader:
    if _digest(readers) != digest:
        raise UserError(
            f"{', '.join(readers)}: on this machine it is another reader, or rmreader has another version "
            f"({__version__}), than where the work was planned; install the same on all."
        )
    if len(readers) == 1:
        return Reader.load(readers[0], threads=threads, max_length=max_length)
    from rmreader.reading.ensemble import Ensemble

    return Ensemble.of(list(readers), threads=threads, max_length=max_length)


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
        """The file of a shard's answers."""
        return self.folder / f"part-{index:05}-{self.digest[:12]}.jsonl"

    def missing(self) -> list[int]:
        """The shards that have no part yet."""
        there = set(os.listdir(self.folder))
        return [index for index in range(len(self.shards)) if self.part(index).name not in there]

    def content(self, index: int) -> bytes:
        """The lines of a shard's rows."""
        shard, path = self.shards[index], self.folder / ROWS
        with path.open("rb") as file:
            file.seek(shard.begin)
            content = file.read(shard.end - shard.begin)
        if hashlib.sha256(content).hexdigest() != shard.sha256:
            raise UserError(f"{path}: damaged at byte {shard.begin:,} or after it; {_REMEDY}.")
        return content

    def put(self, index: int, part: bytes) -> None:
        """Put a part in its place."""
        write_whole(self.part(index), part)

    def bad(self) -> list[BadRow]:
        """The first of the rows that cannot be answered."""
        with (self.folder / BAD).open("rb") as file:
            return [BadRow(**json.loads(line)) for line, _ in zip(file, range(_KEPT), strict=False)]


def what(data: Path, job: Asking, shards: int, **options: Any) -> dict[str, Any]:
    """What a plan is of; ``shards`` is 0 where their number is left to us, ``options`` those of reading the data."""
    about = {"format": 1, "data": file_sha256(data), "reader": job.digest, "shards": shards}
    return about | {"options": job.options() | options}


def plan_of(folder: Path, about: dict[str, Any], rows: Iterable[QuestionRow | BadRow]) -> Plan:
    """The folder's plan, made of these rows unless it is there; refused where that is a plan of something else."""
    folder.mkdir(parents=True, exist_ok=True)
    with lock(folder):  # without locks several make it at once, each the same
        if not (folder / PLAN).exists():
            _make(folder, about, rows)
    found = read_json(folder / PLAN, _REMEDY)
    for key, other in _OTHER.items():
        if not isinstance(found, dict) or found.get(key) != about[key]:
            raise UserError(f"{folder}: it was begun with {other}; go on as it was begun, or choose another folder.")
    return read_plan(folder)


def read_plan(folder: Path) -> Plan:
    """The plan that a folder has."""
    path = folder / PLAN
    if not path.is_file():
        raise UserError(f"{folder}: it has no {PLAN}; give the folder that `predict --shards` wrote to.")
    found = read_json(path, _REMEDY)
    try:
        shards = [Shard(int(f), int(n), int(b), int(e), str(s)) for f, n, b, e, s in found["parts"]]
        return Plan(folder, file_sha256(path), shards, int(found["skipped"]))
    except (LookupError, TypeError, ValueError):
        raise UserError(f"{path}: damaged; {_REMEDY}.") from None


def _make(folder: Path, about: dict[str, Any], rows: Iterable[QuestionRow | BadRow]) -> None:
    """Read the data once, for all shards; the plan itself is written last."""
    begins, skipped = array("Q", [0]), 0
    with whole_file(folder / ROWS) as good, whole_file(folder / BAD) as bad:
        for row in map(answerable, rows):
            if isinstance(row, BadRow):
                bad.write(json.dumps(asdict(row)).encode() + b"\n")
                skipped += 1
            else:
                line = json.dumps({"id": row.id, "question": row.question, "passage": row.passage}).encode() + b"\n"
                good.write(line)
                begins.append(begins[-1] + len(line))
    count = len(begins) - 1
    number = about["shards"] or -(-count // SHARD_ROWS)
    firsts = [count * index // number for index in range(number + 1)] if number else []
    parts = []
    with (folder / ROWS).open("rb") as file:
        for first, last in pairwise(firsts):
            begin, end = begins[first], begins[last]
            parts.append([first, last - first, begin, end, hashlib.sha256(file.read(end - begin)).hexdigest()])
    tree = about | {"rmreader": __version__, "rows": count, "skipped": skipped, "parts": parts}
    write_whole(folder / PLAN, (json.dumps(tree) + "\n").encode())


def merged(plan: Plan, kind: str, summary: Summary, chances: dict[str, float] | None = None) -> Iterator[bytes]:
    """The content of one process's file of predictions, put together from all parts; refused where one is missing or
    is not of its rows. ``summary`` and ``chances`` take what ``predict`` says beside."""
    if missing := plan.missing():
        which = f"{len(missing):,} of {len(plan.shards):,} parts are missing, the first is {missing[0]}"
        raise UserError(f"{plan.folder}: {which}; make them (--shard {missing[0]}/{len(plan.shards)}, or --resume).")
    summary.skipped, summary.bad = plan.skipped, plan.bad()
    lines = _lines(plan, summary)
    if kind == "jsonl" and chances is None:
        return lines
    found = map(_found, lines)
    return pieces(kind, found if chances is None else _noted(found, chances))


def _lines(plan: Plan, summary: Summary) -> Iterator[bytes]:
    """Every line of every part, in order, once it is sure that each answers its row."""
    for index in range(len(plan.shards)):
        path, rows = plan.part(index), plan.content(index).splitlines()
        lines = path.read_bytes().splitlines(keepends=True)
        for number, (row, line) in enumerate(zip(rows, lines, strict=False), start=1):
            id, _, answers = line.partition(b', "answers": ')  # no text in JSON has a quote like these
            if id != row.partition(b', "question": ')[0] or not line.endswith(b"}\n"):
                raise UserError(f"{path}: line {number} does not answer row {plan.shards[index].first + number}; "
                                "remove the file, and make it again with --resume.")  # fmt: skip
            if answers.startswith(b"[]"):
                summary.unanswered += 1
            else:
                summary.answered += 1
        if len(rows) != len(lines):
            raise UserError(f"{path}: {len(lines):,} lines for {len(rows):,} rows; remove it, and make it again.")
        yield from lines


def _found(line: bytes) -> tuple[QuestionRow, Answers]:
    """A line of a part as what it was made of."""
    tree = json.loads(line)
    return QuestionRow(tree["id"], "", ""), Answers.from_dict(tree)


def _noted(
    found: Iterable[tuple[QuestionRow, Answers]], chances: dict[str, float]
) -> Iterator[tuple[QuestionRow, Answers]]:
    for row, answers in found:
        chances[row.id] = answers.no_answer if answers.no_answer is not None else float(not answers)
        yield row, answers
