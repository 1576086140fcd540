"""What is kept of measurements, a line of JSON each; tables are made of the lines again.

log/claims/README.md says what is in a line.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rmreader.core.errors import UserError
from rmreader.core.files.atomic import write_whole
from rmreader.core.files.reading import read_records

Line = dict[str, Any]


def read(path: Path | None) -> list[Line]:
    """The lines of a file; none without a file."""
    if path is None:
        return []
    refusal = "is not a line of a study; remove it, or give another file."
    return read_records(path, identity, refusal)


def keep(path: Path | None, lines: Sequence[Line]) -> None:
    """Add lines to a file, each in the place of the same one from before."""
    if path is None or not lines:
        return
    by_identity = {identity(line): line for line in [*read(path), *lines]}
    text = ""
    for line in by_identity.values():
        text += json.dumps(line, ensure_ascii=False) + "\n"
    write_whole(path, text.encode())


def identity(line: Line) -> tuple[str, ...]:
    """What a line is about; of two with the same, the later one counts."""
    return (
        line["kind"],
        line["study"],
        line["row"],
        *(str(line.get(key)) for key in ("setting", "seed", "readers")),
    )


class Group(NamedTuple):
    """Lines that may be compared: of one file, study and setting."""

    log: str
    study: str
    lines: list[Line]


def groups(folder: Path) -> list[Group]:
    """The kept lines in a folder's files."""
    if not folder.is_dir():
        raise UserError(
            f"{folder}: no such folder; give the one with the kept lines, as log/claims."
        )
    by_setting: dict[tuple[str, str, str], Group] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in read(path):
            key = path.stem, line["study"], str(line.get("setting"))
            group = by_setting.setdefault(key, Group(path.stem, line["study"], []))
            group.lines.append(line)
    return list(by_setting.values())
