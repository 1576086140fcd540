"""Everything at once: run every study, and make one self-contained page of what was kept, which needs no GPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from rmreader.config import Recipe
from rmreader.files import write_whole
from rmreader.learning.setup import pick_device
from rmreader.studies import paper, plots
from rmreader.studies.attention import attention_table, study_attention
from rmreader.studies.claims import Group, claims_table, groups, judge
from rmreader.studies.kept import keep_report
from rmreader.studies.report import DASH, WORDS, Report, markdown, page, report, section
from rmreader.studies.runs import Job
from rmreader.studies.scores import study_adversarial, study_squad
from rmreader.studies.tables import ablation_table, rl_table
from rmreader.studies.trainings import choose, draw, study_ablation, study_rl, study_rounds


def study_all(recipe: Recipe, job: Job, seeds: int = 3, rows: str = "", second: Sequence[str] = ()) -> list[str]:
    """Run every study below ``job.out``, its lines in ``job.out/log``; what failed. Continues where it was stopped."""

    def part(name: str, curve: bool = False) -> Job:
        return dataclasses.replace(job, out=job.out / name, keep=log / f"{name}.jsonl", curve=curve)

    log, ablation = job.out / "log", job.out / "ablation"
    problems = study_ablation(recipe, part("ablation"), seeds, rows, second=second).problems
    problems += study_rounds(recipe, part("rounds"), seeds).problems
    first = ablation / "ml" / "full-seed-1" / "best"
    if first.is_dir():
        problems += study_rl(first, None, second, part("rl", curve=True), seeds).problems
    without, with_ = (
        [str(path.parent) for path in sorted((ablation / "second").glob(f"{slug}-seed-*/best"))]
        for slug in ("dcrl-reattention-false", "dcrl-full")
    )
    if without and with_:
        study_attention(job.dev, without, with_, pick_device(job.device), keep_to=log / "attention.jsonl")
    if with_:
        keep_report(log / "squad.jsonl", study_squad(job.dev, with_, job.device))
        if len(job.attacks) == 2:
            keep_report(log / "adversarial.jsonl", study_adversarial(**job.attacks, models=with_, device=job.device))
    return problems


def build(folder: Path, out: Path, price: float = 0.0) -> Report:
    """Write ``index.html`` and ``reproduction.md`` from kept lines: tables, drawings, verdicts and cost."""
    known = groups(folder)
    there = {group.study for group in known}
    gaps = [[what, command] for study, (what, command) in WORDS["kept"].items() if study not in there]
    claims, cost, missing = claims_table(judge(known)), _cost(known, price), report("missing", gaps, {})
    first = [claims, *([cost] if cost.rows else []), *([missing] if gaps else [])]
    body, texts = [section(one) for one in first], [WORDS["reproduction"], *(markdown(one, 2) for one in first)]
    for group in known:
        for table, drawing in _tables(group):
            table = dataclasses.replace(table, title=f"{table.title} ({group.log})")
            body.append(section(table) + (plots.panel(drawing, f"{group.log}-{table.name}") if drawing else ""))
            texts.append(markdown(table, 2))
    write_whole(out / "index.html", page("Reinforced Mnemonic Reader: a reproduction", "\n".join(body)).encode())
    write_whole(out / "reproduction.md", "\n".join(texts).encode())
    claims.files.extend([out / "index.html", out / "reproduction.md"])
    return claims


def _tables(group: Group) -> Iterator[tuple[Report, bytes | None]]:
    """The tables that a group of lines makes, each with its drawing."""
    rows = {line["row"] for line in group.lines}
    if group.study == "rl":
        yield rl_table(group.lines), draw(group.lines)[1]
    elif group.study == "attention":
        table = attention_table(group.lines)
        yield table, plots.divergences(table.data["rows"], paper.TABLE_5)
    elif group.study in ("ablation", "rounds"):
        full = [row for row in paper.TABLE_4 if row.slug in rows or row.number == 0]
        plain = [row for row in choose("", ml_only=True) if paper.changed(row.network) in rows or row.number == 2]
        rounds = [row for row in paper.ROUNDS if row.slug in rows or row.number == 0]
        named = {"rounds": rounds} if group.study == "rounds" else {"ablation": full, "ablation-ml": plain}
        for name, chosen in named.items():
            table = ablation_table(group.lines, chosen, name)
            yield table, plots.differences(table.data["rows"].values())
    else:
        for line in group.lines:
            yield Report(line["study"], line["title"], line["header"], line["rows"], {}, line["notes"]), None


def _cost(known: Sequence[Group], price: float) -> Report:
    """Time by study, and what it cost at a price per hour of the device."""
    rows = []
    for group in known:
        if lines := [line for line in group.lines if "seconds" in line]:
            hours = sum(line["seconds"] for line in lines) / 3600
            device = sum(line["seconds"] / line["beside"] for line in lines) / 3600
            steps, commits = sum(line["steps"] for line in lines), dict.fromkeys(line["commit"] for line in lines)
            cells = str(len(lines)), f"{steps:,}", f"{hours:.2f}", f"{device:.2f}"
            cost = f"{device * price:.2f}" if price else DASH
            rows.append([group.log, group.study, *cells, cost, ", ".join(commits)])
    return report("cost", rows, {})
