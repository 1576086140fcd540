"""What a study found: records that become a table, and the table as Markdown, JSON and HTML. All
of it is made here."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from lab.results import keep
from lab.studies import plots
from lab.studies.significance import summary
from rmreader.core.files.atomic import write_whole
from rmreader.core.version import commit

DASH = "–"
_HERE = files("lab.studies")
WORDS: dict[str, Any] = yaml.safe_load((_HERE / "words.yaml").read_text(encoding="utf-8"))


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
    """A report in the words of ``words.yaml``, which say what of a record is in each column and
    what is drawn."""
    words = WORDS["reports"][name]
    notes = [note.format(**facts) for note in words.get("notes", ())]
    columns = [str(column).split() for column in words["columns"].values()]
    rows = [tuple(shown(record.get(key), *form) for key, *form in columns) for record in records]
    header = [str(column).format(**facts) for column in words["columns"]]
    made = Report(name, words["title"].format(**facts), header, rows, notes, data)
    for label, sides in words.get(
        "bars", {}
    ).items():  # the first choice that something is known of
        if values := plots.known(records, sides):
            made.files[f"{name}.svg"] = cache(partial(plots.bars, label, values))
            break
    return made


def shown(value: Any, form: str = ".2f") -> str:
    """A number, or a summary or several values as mean ± spread; a dash for nothing, and a text
    as it is."""
    if isinstance(value, list | tuple | Mapping):
        value, plain = (
            value if isinstance(value, Mapping) else summary(value),
            form.removeprefix("+"),
        )
        around = "" if value["spread"] is None else f" ± {value['spread']:{plain}}"
        apart = f" (ensembles ± {value['apart']:{plain}})" if value.get("apart") is not None else ""
        return shown(value["mean"], form) + around + apart
    return value if isinstance(value, str) else DASH if value is None else f"{value:{form}}"


def save(report: Report, out: Path) -> list[Path]:
    """Write the table as Markdown, the data as JSON, and other files; only a drawing may be
    absent, with a note."""
    data = (json.dumps(report.data, indent=1, ensure_ascii=False) + "\n").encode
    files, written = (
        {f"{report.name}.md": markdown(report).encode, f"{report.name}.json": data, **report.files},
        [],
    )
    for name, make in files.items():
        try:
            write_whole(out / name, make())
            written.append(out / name)
        except ModuleNotFoundError as error:
            if name.endswith(".html"):
                raise
            report.notes.append(
                f"{name} is not drawn without {error.name}: pip install 'rmreader[lab]', then again."
            )
    return written


def keep_report(path: Path | None, report: Report) -> None:
    """Keep a table as it is printed."""
    row = report.rows[0][0] if report.rows else ""
    words = {
        "title": report.title,
        "header": report.header,
        "rows": report.rows,
        "notes": report.notes,
    }
    keep(path, [{"kind": "report", "study": report.name, "row": row, "commit": commit(), **words}])


def markdown(report: Report, level: int = 1) -> str:
    """The report as text; ``level`` is that of its heading."""
    table = [report.header, ["---"] * len(report.header), *report.rows]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table]
    return (
        "\n\n".join(
            [f"{'#' * level} {report.title}", "\n".join(lines), *report.notes, *report.problems]
        )
        + "\n"
    )


def page(title: str, sections: Sequence[Report], wide: bool = False) -> bytes:
    """A self-contained HTML document by ``page.html``, which escapes every text."""
    from jinja2 import Environment

    made = Environment(autoescape=True, finalize=plots.visible)
    made.filters["base64"] = lambda content: b64encode(content).decode("ascii")
    template = made.from_string((_HERE / "page.html").read_text(encoding="utf-8"))
    return template.render(title=title, sections=sections, wide=wide).encode()
