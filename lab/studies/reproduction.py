"""The whole reproduction as one page, made of the results that were kept."""

import dataclasses
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lab.results import Group, groups
from lab.studies import paper
from lab.studies.claims import claims_table
from lab.studies.report import WORDS, Report, markdown, page, report
from lab.studies.tables import (
    ablation_table,
    attention_table,
    breakdown_table,
    reattention_table,
    rl_table,
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

    parts = [WORDS["reproduction"], *(markdown(section, 2) for section in sections)]
    claims.files["index.html"] = partial(page, WORDS["title"], sections)
    claims.files["reproduction.md"] = "\n".join(parts).encode
    return claims


def _missing(known: Sequence[Group]) -> Report:
    """What a whole reproduction has and these results lack, and how to measure it."""
    measured = {group.study for group in known}
    records = []
    for study, (what, command) in WORDS["kept"].items():
        if study not in measured:
            records.append({"what": what, "command": command})
    return report("missing", records, {})


def _question_groups(known: Sequence[Group]) -> dict[str, dict[str, str]]:
    """By dev file, the groups that its questions fall into."""
    found: dict[str, dict[str, str]] = {}
    for group in known:
        if group.study == "questions":
            for line in group.lines:
                found[line["row"]] = line
    return found


def _tables(group: Group, questions: dict[str, str] | None) -> Iterator[Report]:
    """The tables that a group of results makes."""
    lines = group.lines
    if group.study == "ablation":
        yield _ablations(group, [*paper.TABLE_4, paper.MORE_ML], "ablation")
        yield _ablations(group, paper.choose("", True), "ablation-ml")
    elif group.study == "rounds":
        yield _ablations(group, paper.ROUNDS, "rounds")
    elif group.study == "rl":
        yield rl_table(lines)
    elif group.study == "attention":
        yield attention_table(lines)
    elif group.study == "reattention":
        yield reattention_table(lines)
    if lines[0]["kind"] == "report":
        for line in lines:
            notes = list(line["notes"])
            if group.study in ("squad", "adversarial"):
                notes.append(WORDS["other_data"])
            yield Report(line["study"], line["title"], line["header"], line["rows"], notes)
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
        device_hours = sum(line["seconds"] / line["beside"] for line in lines) / 3600
        commits = dict.fromkeys(line["commit"] for line in lines)
        records.append(
            {
                "log": group.log,
                "study": group.study,
                "trainings": len(lines),
                "steps": sum(line["steps"] for line in lines),
                "hours": sum(line["seconds"] for line in lines) / 3600,
                "device": device_hours,
                "cost": device_hours * price if price else None,
                "commits": ", ".join(commits),
            }
        )
    return report("cost", records, {})
