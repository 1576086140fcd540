"""The whole reproduction as one page, made of the results that were kept."""

import dataclasses
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lab.results import Group, groups
from lab.studies import paper
from lab.studies.claims import claims_table
from lab.studies.report import Report, markdown, page, report
from lab.studies.tables import (
    ablation_table,
    attention_table,
    breakdown_table,
    reattention_table,
    rl_table,
)

TITLE = "Reinforced Mnemonic Reader: a reproduction"
HEAD = """\
# Reproduction

Made by `python -m lab study all --from log/claims --out report` from the lines that are kept in \
`log/claims`, and copied
here; [studies.md](studies.md) says how they are measured.
"""
# What a whole reproduction has, by the study of its lines: what it is, and its command.
WHOLE = {
    "ablation": (
        "Table 4",
        "python -m lab study ablation RECIPE --train TRAIN --dev DEV --out DIR --keep FILE",
    ),
    "rounds": (
        "Table 1",
        "python -m lab study rounds RECIPE --train TRAIN --dev DEV --out DIR --keep FILE",
    ),
    "rl": (
        "Section 3 and Figure 5",
        "python -m lab study rl --init RUN --train TRAIN --dev DEV --out DIR --keep FILE",
    ),
    "attention": (
        "Table 5",
        "python -m lab study attention --data DEV --with A … --without B … --keep FILE",
    ),
    "squad": (
        "Table 2",
        "python -m lab study squad MODEL … --dev DEV --keep FILE",
    ),
    "adversarial": (
        "Table 3",
        "python -m lab study adversarial MODEL … --addsent FILE --addonesent FILE --keep FILE",
    ),
    "breakdown": (
        "Lengths, types and examples",
        "python -m lab study breakdown MODEL … --dev DEV --addsent FILE --keep FILE",
    ),
}
OTHER_DATA = (
    "Shipped readers are not under the paper's conditions: they learned from SQuAD 2.0's "
    "questions, 335,000 made and everyday questions and five generations of distillation too, and "
    "none was reinforced. The README has the rows of SQuAD 1.1 alone."
)


def build(folder: Path, price: float = 0.0) -> Report:
    """The claims, with ``index.html`` and ``reproduction.md``: every table that results make."""
    known = groups(folder)
    claims = claims_table(known)
    sections = [claims]
    for section in (_cost(known, price), _missing(known)):
        if section.rows:
            sections.append(section)
    questions = _question_groups(known)
    for group in known:
        dev = group.lines[0].get("data", {}).get("dev")
        for table in _tables(group, questions.get(dev)):
            sections.append(dataclasses.replace(table, title=f"{table.title} ({group.log})"))

    claims.files["index.html"] = partial(page, TITLE, sections)
    parts = [HEAD, *(markdown(section, 2) for section in sections)]
    claims.files["reproduction.md"] = "\n".join(parts).encode
    return claims


def _missing(known: Sequence[Group]) -> Report:
    """What a whole reproduction has and these results lack, and how to measure it."""
    measured = {group.study for group in known}
    records = []
    for study, (what, command) in WHOLE.items():
        if study not in measured:
            records.append({"what": what, "command": command})
    return report("missing", records, {})


def _question_groups(known: Sequence[Group]) -> dict[str, dict[str, str]]:
    """By dev file, the groups that its questions fall into."""
    groups_by_file: dict[str, dict[str, str]] = {}
    for group in known:
        if group.study == "questions":
            for line in group.lines:
                groups_by_file[line["row"]] = line
    return groups_by_file


def _tables(group: Group, questions: dict[str, str] | None) -> Iterator[Report]:
    """The tables that a group of results makes."""
    lines = group.lines
    match group.study:
        case "ablation":
            yield _ablations(group, [*paper.TABLE_4, paper.MORE_ML], "ablation")
            yield _ablations(group, paper.choose("", True), "ablation-ml")
        case "rounds":
            yield _ablations(group, paper.ROUNDS, "rounds")
        case "rl":
            yield rl_table(lines)
        case "attention":
            yield attention_table(lines)
        case "reattention":
            yield reattention_table(lines)
    if lines[0]["kind"] == "report":
        for line in lines:
            notes = list(line["notes"])
            if group.study in ("squad", "adversarial"):
                notes.append(OTHER_DATA)
            yield Report(
                line["study"],
                line["title"],
                line["header"],
                line["rows"],
                notes,
            )
    trained = group.study in ("ablation", "rl")
    if questions and trained and any("each" in line for line in lines):
        yield breakdown_table(lines, questions)


def _ablations(group: Group, chosen: Sequence[paper.Ablation], name: str) -> Report:
    """A table of ablations with the first row and those that were trained."""
    trained = {line["row"] for line in group.lines}
    rows = []
    for row in chosen:
        slug = row.slug if name == "ablation" else row.first
        if row == chosen[0] or slug in trained:
            rows.append(row)
    return ablation_table(group.lines, rows, name)


def _cost(known: Sequence[Group], price: float) -> Report:
    """Time by study, and what it cost at a price per hour of the device."""
    records: list[dict[str, Any]] = []
    for group in known:
        lines = [line for line in group.lines if "seconds" in line]
        if not lines:
            continue
        hours = sum(line["seconds"] for line in lines) / 3600
        # Trainings side by side share the device.
        device_hours = sum(line["seconds"] / line["beside"] for line in lines) / 3600
        commits = dict.fromkeys(line["commit"] for line in lines)
        record = {
            "log": group.log,
            "study": group.study,
            "trainings": len(lines),
            "steps": sum(line["steps"] for line in lines),
            "hours": hours,
            "device": device_hours,
            "cost": device_hours * price if price else None,
            "commits": ", ".join(commits),
        }
        records.append(record)
    return report("cost", records, {})
