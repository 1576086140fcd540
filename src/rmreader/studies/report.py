"""What a study found: a table for people, the same as data, and both as files."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DASH = "–"


@dataclass(frozen=True)
class Report:
    """A table beside the paper's, with everything behind it."""

    name: str
    """Of its files."""
    title: str
    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    data: dict[str, Any]
    """The same for programs."""
    notes: list[str] = field(default_factory=list)
    """What to know when reading the table."""
    files: list[Path] = field(default_factory=list)
    """Pages and drawings the study left."""
    problems: list[str] = field(default_factory=list)
    """What went wrong on the way; the table is made of the rest."""


def save(report: Report, out: Path) -> list[Path]:
    """Write the table as Markdown and the data as JSON; every file of the report, these first."""
    out.mkdir(parents=True, exist_ok=True)
    page, data = out / f"{report.name}.md", out / f"{report.name}.json"
    page.write_text(markdown(report), encoding="utf-8")
    data.write_text(json.dumps(report.data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return [page, data, *report.files]


def markdown(report: Report) -> str:
    """The report as a page."""
    lines = [f"# {report.title}", "", _line(report.header), _line(["---"] * len(report.header))]
    lines += [_line(row) for row in report.rows]
    for note in report.notes + report.problems:
        lines += ["", note]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def mean(values: Sequence[float]) -> float | None:
    """Mean, None of nothing."""
    return statistics.fmean(values) if values else None


def spread(values: Sequence[float]) -> float | None:
    """Standard deviation of a sample; None of fewer than two."""
    return statistics.stdev(values) if len(values) > 1 else None


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Values with their mean and spread, as data."""
    return {"mean": mean(values), "spread": spread(values), "values": list(values)}


def shown(values: Sequence[float] | float | None, digits: int = 2, sign: bool = False) -> str:
    """A number, or several as mean ± spread; a dash for nothing."""
    values = [] if values is None else [values] if isinstance(values, int | float) else values
    if not values:
        return DASH
    middle, width = mean(values), spread(values)
    form = f"{middle:{'+' if sign else ''}.{digits}f}"
    return form if width is None else f"{form} ± {width:.{digits}f}"
