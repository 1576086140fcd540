"""What a study measured: records that become a table, and the table as Markdown, JSON and HTML."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from lab.results import keep
from lab.studies import plots
from lab.studies.layouts import LAYOUTS
from lab.studies.significance import summary
from rmreader.core.files.atomic import write_whole
from rmreader.core.version import commit

DASH = "–"
PAGE = files("lab.studies") / "page.html"


@dataclass(frozen=True)
class Report:
    """A table beside the paper's with all that belongs to it; on a page, a section.

    ``data`` is the same for programs, ``files`` what is to be written beside it, made when it is
    asked for (drawings, which a page shows, end in .svg), ``problems`` what went wrong on the way,
    and ``passage`` a text in marked pieces.
    """

    name: str
    title: str
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    notes: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Callable[[], bytes]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    passage: Sequence[tuple[str, str]] = ()


def report(
    name: str, records: Sequence[Mapping[str, Any]], data: dict[str, Any], **facts: object
) -> Report:
    """Lay records out as the table of that name; ``facts`` fill in the ``{names}`` of its texts."""
    layout = LAYOUTS[name]
    rows = []
    for record in records:
        cells = [cell_text(record.get(column.key), column.form) for column in layout.columns]
        rows.append(tuple(cells))
    made = Report(
        name,
        title=layout.title.format(**facts),
        header=[column.title.format(**facts) for column in layout.columns],
        rows=rows,
        notes=[note.format(**facts) for note in layout.notes],
        data=data,
    )
    for bars in layout.bars:
        values = plots.known(records, bars.sides)
        if values:
            made.files[f"{name}.svg"] = cache(partial(plots.bars, bars.label, values))
            break
    return made


def cell_text(value: Any, form: str = ".2f") -> str:
    """Write a value into a cell: a dash for nothing, a text as it is, a number in its form.

    Several values, or a summary of them, become their mean ± spread.
    """
    if value is None:
        return DASH
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        value = summary(value)
    if not isinstance(value, Mapping):
        return f"{value:{form}}"
    text = cell_text(value["mean"], form)
    unsigned = form.removeprefix("+")
    if value["spread"] is not None:
        text += f" ± {value['spread']:{unsigned}}"
    if value.get("apart") is not None:
        text += f" (ensembles ± {value['apart']:{unsigned}})"
    return text


def save(report: Report, out: Path) -> list[Path]:
    """Write the table as Markdown, its data as JSON, and its other files; return what was written.

    Only a drawing may be left out, where matplotlib is missing; a note says so.
    """
    data = json.dumps(report.data, indent=1, ensure_ascii=False) + "\n"
    files = {
        f"{report.name}.md": markdown(report).encode,
        f"{report.name}.json": data.encode,
        **report.files,
    }
    paths = []
    for name, make in files.items():
        try:
            write_whole(out / name, make())
        except ModuleNotFoundError as error:
            if name.endswith(".html"):
                raise
            report.notes.append(
                f"{name} is not drawn without {error.name}: pip install 'rmreader[lab]', "
                "then again."
            )
        else:
            paths.append(out / name)
    return paths


def keep_report(path: Path | None, report: Report) -> None:
    """Keep a table as it is printed."""
    line = {
        "kind": "report",
        "study": report.name,
        "row": report.rows[0][0] if report.rows else "",
        "commit": commit(),
        "title": report.title,
        "header": report.header,
        "rows": report.rows,
        "notes": report.notes,
    }
    keep(path, [line])


def markdown(report: Report, level: int = 1) -> str:
    """The report as text; ``level`` is that of its heading."""
    lines = []
    for row in (report.header, ["---"] * len(report.header), *report.rows):
        cells = [cell.replace("|", "\\|") for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
    heading = f"{'#' * level} {report.title}"
    paragraphs = [heading, "\n".join(lines), *report.notes, *report.problems]
    return "\n\n".join(paragraphs) + "\n"


def page(title: str, sections: Sequence[Report], wide: bool = False) -> bytes:
    """A self-contained HTML document by ``page.html``, which escapes every text."""
    from jinja2 import Environment

    environment = Environment(autoescape=True, finalize=plots.visible)
    environment.filters["base64"] = lambda content: b64encode(content).decode("ascii")
    template = environment.from_string(PAGE.read_text(encoding="utf-8"))
    return template.render(title=title, sections=sections, wide=wide).encode()
