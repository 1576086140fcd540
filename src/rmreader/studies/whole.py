"""Everything at once: run every study, and make one self-contained page of what was kept, which needs no GPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from rmreader.config import Recipe
from rmreader.files import write_whole
from rmreader.learning.setup import pick_device
from rmreader.studies import paper, plots, tables
from rmreader.studies.attention import study_attention
from rmreader.studies.breakdown import study_breakdown
from rmreader.studies.claims import Group, claims_table, groups, judge
from rmreader.studies.kept import keep_report
from rmreader.studies.report import WORDS, Report, markdown, page, report, section
from rmreader.studies.runs import Job
from rmreader.studies.scores import study_adversarial, study_squad
from rmreader.studies.trainings import choose, study_ablation, study_rl


def study_all(recipe: Recipe, job: Job, rows: str = "", second: Sequence[str] = ()) -> list[str]:
    """Run every study below ``job.out``, its lines in ``job.out/log``; what failed. Continues where it was stopped."""

    def part(name: str, curve: bool = False) -> Job:
        return dataclasses.replace(job, out=job.out / name, keep=log / f"{name}.jsonl", curve=curve)

    log, ablation = job.out / "log", job.out / "ablation"
    problems = study_ablation(recipe, part("ablation"), choose(rows, False), second=second).problems
    problems += study_ablation(recipe, part("rounds"), paper.ROUNDS, "rounds").problems
    first = ablation / "ml" / "full-seed-1" / "best"
    if first.is_dir():
        problems += study_rl(str(first), None, second, part("rl", curve=True)).problems
    without, with_ = (
        [str(path.parent) for path in sorted((ablation / "second").glob(f"{slug}-seed-*/best"))]
        for slug in ("dcrl-reattention-false", "dcrl-full")
    )
    if without and with_:
        study_attention(job.dev, without, with_, pick_device(job.device), keep_to=log / "attention.jsonl")
    if with_:
        keep_report(log / "squad.jsonl", study_squad(job.dev, with_, job.device))
        for made in study_breakdown(with_, job.dev, job.attacks.get("addsent"), job.device):
            keep_report(log / "breakdown.jsonl", made)
        if len(job.attacks) == 2:
            keep_report(log / "adversarial.jsonl", study_adversarial(**job.attacks, models=with_, device=job.device))
    return problems


def build(folder: Path, out: Path, price: float = 0.0) -> Report:
    """Write ``index.html`` and ``reproduction.md`` from kept lines: tables, drawings, verdicts and cost."""
    known = groups(folder)
    there = {group.study for group in known}
    gaps = [{"what": pair[0], "command": pair[1]} for study, pair in WORDS["kept"].items() if study not in there]
    claims, cost, missing = claims_table(judge(known)), _cost(known, price), report("missing", gaps, {})
    first = [claims, *([cost] if cost.rows else []), *([missing] if gaps else [])]
    body, texts = [section(one) for one in first], [WORDS["reproduction"], *(markdown(one, 2) for one in first)]
    asked = {line["row"]: line for group in known if group.study == "questions" for line in group.lines}
    for group in known:
        for table, drawing in _tables(group, asked.get(group.lines[0].get("data", {}).get("dev"))):
            table = dataclasses.replace(table, title=f"{table.title} ({group.log})")
            body.append(section(table, plots.panel(drawing, f"{group.log}-{table.name}")))
            texts.append(markdown(table, 2))
    write_whole(out / "index.html", page("Reinforced Mnemonic Reader: a reproduction", body).encode())
    write_whole(out / "reproduction.md", "\n".join(texts).encode())
    claims.files.extend([out / "index.html", out / "reproduction.md"])
    return claims


def _tables(group: Group, asked: dict[str, str] | None) -> Iterator[tuple[Report, bytes | None]]:
    """The tables that a group of lines makes, each with its drawing; ``asked`` are the groups of its questions."""
    lines, slugs = group.lines, {line["row"] for line in group.lines}
    if group.study == "rl":
        yield tables.rl_table(lines), tables.draw(lines)[1]
    elif group.study == "attention":
        table = tables.attention_table(lines)
        yield table, tables.divergences(table.data["rows"])
    elif group.study in ("ablation", "rounds"):
        full = [row for row in paper.TABLE_4 if row.slug in slugs or row.number == 0]
        plain = [row for row in choose("", ml_only=True) if paper.changed(row.network) in slugs or row.number == 2]
        rounds = [row for row in paper.ROUNDS if row.slug in slugs or row.number == 0]
        named = {"rounds": rounds} if group.study == "rounds" else {"ablation": full, "ablation-ml": plain}
        for name, chosen in named.items():
            table = tables.ablation_table(lines, chosen, name)
            yield table, tables.differences(table.data["rows"])
    elif group.study != "questions":
        for line in lines:
            yield Report(line["study"], line["title"], line["header"], line["rows"], {}, line["notes"]), None
    if asked and group.study in ("ablation", "rl") and any("each" in line for line in lines):
        table = tables.breakdown_table(lines, asked)
        yield table, tables.draw_breakdown(table.data)


def _cost(known: Sequence[Group], price: float) -> Report:
    """Time by study, and what it cost at a price per hour of the device."""
    records = []
    for group in known:
        if lines := [line for line in group.lines if "seconds" in line]:
            device = sum(line["seconds"] / line["beside"] for line in lines) / 3600
            about = {"log": group.log, "study": group.study, "trainings": len(lines), "device": device}
            about |= {"steps": sum(line["steps"] for line in lines), "cost": device * price if price else None}
            about["hours"] = sum(line["seconds"] for line in lines) / 3600
            records.append({**about, "commits": ", ".join(dict.fromkeys(line["commit"] for line in lines))})
    return report("cost", records, {})
