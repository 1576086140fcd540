"""What a study found: records that become a table, and the table as Markdown, JSON and HTML. All of it is made here."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import yaml

from rmreader.files import write_whole

DASH = "–"
_HERE = files("rmreader") / "studies"
WORDS: dict[str, Any] = yaml.safe_load((_HERE / "words.yaml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Report:
    """A table beside the paper's, with everything it was made from."""

    name: str
    """Of its files."""
    title: str
    header: list[str]
    rows: list[tuple[str, ...]]
    data: dict[str, Any]
    """The same for programs."""
    notes: list[str]
    """What to know when reading the table."""
    files: list[Path] = field(default_factory=list)
    """Pages and drawings the study left."""
    problems: list[str] = field(default_factory=list)
    """What went wrong on the way; the table is made of the rest."""


def report(name: str, records: Sequence[Mapping[str, Any]], data: dict[str, Any], **facts: object) -> Report:
    """A report in the words of ``words.yaml``, which say what of a record is in each column, and in what form."""
    words = WORDS["reports"][name]
    notes = [note.format(**facts) for note in words.get("notes", ())]
    columns = [str(column).split() for column in words["columns"].values()]
    rows = [tuple(shown(record.get(key), *form) for key, *form in columns) for record in records]
    return Report(name, words["title"].format(**facts), list(words["columns"]), rows, data, notes)


def shown(value: Any, form: str = ".2f") -> str:
    """A number, or a summary or several values as mean ± spread; a dash for nothing, and a text as it is."""
    value = summary(value) if isinstance(value, list | tuple) else value
    if isinstance(value, Mapping):
        around = value["spread"]
        return shown(value["mean"], form) + ("" if around is None else f" ± {around:{form.removeprefix('+')}}")
    return value if isinstance(value, str) else DASH if value is None else f"{value:{form}}"


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Values with their mean and standard deviation, as data; None of too few."""
    mean, spread = statistics.fmean(values) if values else None, statistics.stdev(values) if len(values) > 1 else None
    return {"mean": mean, "spread": spread, "values": list(values)}


def save(report: Report, out: Path) -> list[Path]:
    """Write the table as Markdown and the data as JSON; every file of the report, these first."""
    page, data = out / f"{report.name}.md", out / f"{report.name}.json"
    write_whole(page, markdown(report).encode())
    write_whole(data, (json.dumps(report.data, indent=1, ensure_ascii=False) + "\n").encode())
    return [page, data, *report.files]


def markdown(report: Report, level: int = 1) -> str:
    """The report as text; ``level`` is that of its heading."""
    table = [report.header, ["---"] * len(report.header), *report.rows]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table]
    return "\n\n".join([f"{'#' * level} {report.title}", "\n".join(lines), *report.notes, *report.problems]) + "\n"


def section(report: Report, drawing: str = "") -> str:
    """The report as a part of a page."""
    notes = "".join(f'<p class="soft">{text(note)}</p>' for note in report.notes + report.problems)
    return f"<h2>{text(report.title)}</h2>{grid(report.header, report.rows)}{notes}{drawing}"


def grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table of plain texts."""
    head = "".join(f"<th>{text(name)}</th>" for name in header)
    lines = ("<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def page(title: str, body: Sequence[str], wide: bool = False) -> str:
    """A whole self-contained HTML document; the parts of its body are taken as they are, the title is escaped."""
    template = Template((_HERE / "page.html").read_text(encoding="utf-8"))
    return template.substitute(title=text(title), body="\n".join(body), kind="wide" if wide else "")


def text(value: str) -> str:
    """A text made safe inside an element or an attribute."""
    return escape(visible(value), quote=True)


def visible(value: str) -> str:
    """The text with U+FFFD for lone surrogates and control characters, which no XML file may hold."""
    return "".join(c if c in "\n\t\r" or (c >= " " and not 0xD800 <= ord(c) <= 0xDFFF) else "\ufffd" for c in value)
