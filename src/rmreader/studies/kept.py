"""What is kept of a study: one line of JSON for each training, ensemble or table, which reports are made of again.

log/claims/README.md says what a line holds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rmreader.errors import UserError
from rmreader.files import write_whole
from rmreader.studies.report import Report
from rmreader.version import __version__

Line = dict[str, Any]


def read(path: Path | None) -> list[Line]:
    """The lines of a file; a last one cut off by a kill is left out."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path is not None and path.is_file() else []
    found: list[Line] = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(json.loads(line))
            identity(found[-1])
        except (ValueError, TypeError, KeyError, AttributeError):
            raise UserError(f"{path}: line {number} is no line of a study; remove it, or give another file.") from None
    return found


def keep(path: Path | None, lines: Sequence[Line]) -> None:
    """Add lines to a file, each in the place of the same one from before."""
    if path is not None and lines:
        together = {identity(line): line for line in [*read(path), *lines]}
        write_whole(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in together.values()).encode())


def keep_report(path: Path | None, report: Report) -> None:
    """Keep a table as it is printed."""
    words = {"title": report.title, "header": report.header, "rows": report.rows, "notes": report.notes}
    about = {
        "kind": "report",
        "study": report.name,
        "row": report.rows[0][0] if report.rows else "",
        "commit": commit(),
    }
    keep(path, [{**about, **words}])


def identity(line: Line) -> tuple[str, ...]:
    """What a line is about; of two with the same, the later one counts."""
    return line["kind"], line["study"], line["row"], *(str(line.get(key)) for key in ("setting", "seed", "readers"))


def commit() -> str:
    """The commit of this code, with + where it was changed; else ``RMREADER_COMMIT``, or the version."""
    told = _told("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+", "--exclude=*")
    return told or os.environ.get("RMREADER_COMMIT") or __version__


def device_name(device: str | None) -> str:
    """What a training ran on, asked without CUDA, since a process that uses it would hold up the end of MPS."""
    names = "" if device == "cpu" else _told("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    return names.partition("\n")[0] or "CPU"


def _told(program: str, *words: str) -> str:
    """What a program prints; nothing where it fails or is absent."""
    found = shutil.which(program)
    return subprocess.run([found, *words], capture_output=True, check=False).stdout.decode().strip() if found else ""
