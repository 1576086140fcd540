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
from rmreader.studies.claims import Group, claims_table, groups, judge, parts_table
from rmreader.studies.kept import keep_report
from rmreader.studies.report import DASH, WORDS, Report, markdown, page, report, section
from rmreader.studies.runs import Job
from rmreader.studies.scores import study_adversarial, study_squad
from rmreader.studies.tables import ablation_table, rl_table
from rmreader.studies.trainings import draw, study_ablation, study_rl, study_rounds

_BOTH = ("dcrl-reattention-false", "dcrl-full")
"""Table 5's two kinds of readers."""


def study_all(recipe: Recipe, job: Job, seeds: int = 3, rows: str = "", second: Sequence[str] = ()) -> list[str]:
    """Run every study below ``job.out``, its lines in ``job.out/log``; what failed. Continues where it was stopped."""

    def part(name: str, curve: bool = False) -> Job:
        return dataclasses.replace(job, out=job.out / name, keep=job.out / "log" / f"{name}.jsonl", curve=curve)

    ablation = part("ablation")
    problems = study_ablation(recipe, ablation, seeds, rows, second=second).problems
    problems += study_rounds(recipe, part("rounds"), seeds).problems
    first = ablation.out / "ml" / "full-seed-1" / "best"
    if first.is_dir():
        problems += study_rl(first, None, second, part("rl", curve=True), seeds).problems
    lists = {
        slug: [
            str(path) for path in sorted((ablation.out / "second").glob(f"{slug}-seed-*")) if (path / "best").is_dir()
        ]
        for slug in ("dcrl-reattention-false", "dcrl-full")
    }
    without, with_ = lists.values()
    if without and with_:
        study_attention(job.dev, without, with_, pick_device(job.device), 0, job.out / "log" / "attention.jsonl")
    if with_:
        keep_report(job.out / "log" / "squad.jsonl", study_squad(job.dev, with_, job.device))
        if len(job.attacks) == 2:
            attacked = study_adversarial(job.attacks["addsent"], job.attacks["addonesent"], with_, job.device)
            keep_report(job.out / "log" / "adversarial.jsonl", attacked)
    return problems


def build(folder: Path, out: Path, price: float = 0.0) -> Report:
    """Write ``index.html`` and ``reproduction.md`` from kept lines: tables, drawings, verdicts and cost."""
    known = groups(folder)
    judged = judge(known)
    there = {group.study for group in known}
    gaps = [[what, command] for study, (what, command) in WORDS["kept"].items() if study not in there]
    first = [claims_table(judged), parts_table(judged), _cost(known, price)]
    if gaps:
        first.append(report("missing", gaps, {}))
    tables = [(table, drawing) for group in known for table, drawing in _tables(group)]
    body = [section(one) for one in first] + [section(table) + drawing for table, drawing in tables]
    write_whole(out / "index.html", page("Reinforced Mnemonic Reader: a reproduction", "\n".join(body)).encode())
    intro = (
        "# Reproduction\n\nMade by `rmreader study all --from log/claims --out report` from the lines that are kept in "
        "`log/claims`; [studies.md](studies.md) says how they are measured.\n"
    )
    texts = [markdown(one, 2) for one in [*first, *(table for table, _ in tables)]]
    write_whole(out / "reproduction.md", "\n".join([intro, *texts]).encode())
    first[0].files.extend([out / "index.html", out / "reproduction.md"])
    return first[0]


def _tables(group: Group) -> Iterator[tuple[Report, str]]:
    """The tables that a group of lines makes, each with its drawing as HTML."""
    made = []
    rows = {line["row"] for line in group.lines}
    if group.study == "ablation":
        full = [row for row in paper.TABLE_4 if row.slug in rows]
        plain = [row for row in paper.TABLE_4 if row.number not in (0, 1, 4) and paper.changed(row.network) in rows]
        made = [(full, "ablation")] if any(row.second for row in full) else []
        made += [(plain, "ablation-ml")] if plain else []
    elif group.study == "rounds":
        made = [([row for row in paper.ROUNDS if row.slug in rows], "rounds")]
    for chosen, name in made:
        table = ablation_table(group.lines, chosen, name)
        yield _named(table, group), _panel(group, table, plots.differences(table.data["rows"].values()))
    if group.study == "rl":
        yield _named(table := rl_table(group.lines), group), _panel(group, table, draw(group.lines)[1])
    elif group.study == "attention":
        table = attention_table(group.lines)
        yield _named(table, group), _panel(group, table, plots.divergences(table.data["rows"], paper.TABLE_5))
    for line in group.lines:
        if line["kind"] == "report":
            yield Report(line["study"], line["title"], line["header"], line["rows"], {}, line["notes"]), ""


def _named(table: Report, group: Group) -> Report:
    return dataclasses.replace(table, title=f"{table.title} ({group.log})")


def _panel(group: Group, table: Report, drawing: bytes) -> str:
    return plots.panel(drawing, f"{group.log}-{table.name}")


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
