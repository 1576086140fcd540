"""What was kept, as tables: scores over seeds, differences and their chance, the paper's beside
them, and verdicts."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

from lab.results import Group, Line, groups
from lab.studies import paper, plots
from lab.studies.groups import GROUPS, TWINS, unpack
from lab.studies.report import DASH, WORDS, Report, markdown, page, report
from lab.studies.significance import FAILS, HOLDS, OPEN, difference, summary, verdict

START = "start"
OBJECTIVES = {"dcrl": "DCRL", "scst": "SCST", "ml": "continued ML"}
SIDES = ("without", "with")
DIVERGENCES = {
    "redundancy": (1, [name for name in paper.TABLE_5 if not name.endswith("*")]),
    "deficiency": (-1, [name for name in paper.TABLE_5 if name.endswith("*")]),
}
"""By measure of attentions: whether more (1) or less (-1) of a divergence is better, and the
rows of Table 5."""


def build(folder: Path, price: float = 0.0) -> Report:
    """The verdicts, with ``index.html`` and ``reproduction.md``: every table and drawing that
    kept lines make."""
    known = groups(folder)
    missing = WORDS["kept"].keys() - {group.study for group in known}
    gaps = [
        {"what": pair[0], "command": pair[1]}
        for study, pair in WORDS["kept"].items()
        if study in missing
    ]
    claims = claims_table(known)
    sections = [
        claims,
        *(one for one in (_cost(known, price), report("missing", gaps, {})) if one.rows),
    ]
    asked = {
        line["row"]: line for group in known if group.study == "questions" for line in group.lines
    }
    for group in known:
        for table in _tables(group, asked.get(group.lines[0].get("data", {}).get("dev"))):
            sections.append(dataclasses.replace(table, title=f"{table.title} ({group.log})"))
    text = "\n".join([WORDS["reproduction"], *(markdown(one, 2) for one in sections)])
    claims.files.update(
        {"index.html": partial(page, WORDS["title"], sections), "reproduction.md": text.encode}
    )
    return claims


def _tables(group: Group, asked: dict[str, str] | None) -> Iterator[Report]:
    """The tables that a group of lines makes; ``asked`` are the groups of its questions."""
    lines, slugs = group.lines, {line["row"] for line in group.lines}
    rows = {
        "ablation": paper.TABLE_4,
        "ablation-ml": paper.choose("", True),
        "rounds": paper.ROUNDS,
    }
    for name, chosen in (
        (name, rows[name]) for name in rows if name.partition("-")[0] == group.study
    ):
        there = [
            row
            for row in chosen
            if row == chosen[0] or (row.slug if name == "ablation" else row.first) in slugs
        ]
        yield ablation_table(lines, there, name)
    if group.study in ("rl", "attention"):
        yield rl_table(lines) if group.study == "rl" else attention_table(lines)
    for line in lines if lines[0]["kind"] == "report" else ():
        yield Report(line["study"], line["title"], line["header"], line["rows"], line["notes"])
    if asked and group.study in ("ablation", "rl") and any("each" in line for line in lines):
        yield breakdown_table(lines, asked)


def _cost(known: Sequence[Group], price: float) -> Report:
    """Time by study, and what it cost at a price per hour of the device."""
    records: list[dict[str, Any]] = []
    for group in known:
        if lines := [line for line in group.lines if "seconds" in line]:
            device = sum(line["seconds"] / line["beside"] for line in lines) / 3600
            about = {
                "log": group.log,
                "study": group.study,
                "trainings": len(lines),
                "device": device,
            }
            about |= {name: sum(line[name] for line in lines) for name in ("steps", "seconds")}
            about |= {"hours": about["seconds"] / 3600, "cost": device * price if price else None}
            records.append(
                {**about, "commits": ", ".join(dict.fromkeys(line["commit"] for line in lines))}
            )
    return report("cost", records, {})


def claims_table(known: Sequence[Group]) -> Report:
    """Each of the paper's claims with its verdict, and below it every comparison that it rests on.

    A claim holds where all of them hold, and does not where any does not; one that was not measured
    leaves it open. Of a comparison that was made in several settings all pairs together decide.
    """
    records, data = list[dict[str, Any]](), dict[str, Any]()
    for claim in WORDS["claims"]:
        parts, verdicts = list[dict[str, Any]](), set[str]()
        for what, study, more, less, measure, *rows in claim["parts"]:
            papers = paper.gain(*rows)[1] if rows else _papers(measure)
            lines = [(one.log, one.lines) for one in known if one.study == study]
            pairs = [
                (log, [measured(some, row, measure) for row in (more, less)]) for log, some in lines
            ]
            if len(pairs := [(log, sides) for log, sides in pairs if all(sides)]) > 1:
                pairs.append(("together", [_joined(pairs, k) for k in (0, 1)]))
            told = [
                {
                    "what": what,
                    "paper": papers,
                    "log": DASH,
                    "ours": "not measured",
                    "count": 0,
                    "verdict": OPEN,
                }
            ]
            for log, sides in pairs:
                if gap := difference(*sides):
                    found = {"log": log, "ours": gap.ours, "chance": gap.chance, "count": gap.count}
                    told.append(
                        {"what": what, "paper": papers, **found, "verdict": verdict(gap, papers)}
                    )
            verdicts.add(told[-1]["verdict"])
            parts += told[1:] or told
        whole = HOLDS if verdicts == {HOLDS} else FAILS if FAILS in verdicts else OPEN
        blank = dict.fromkeys(("ours", "paper", "chance", "count"), "")
        records.append({**blank, "what": claim["claim"], "verdict": whole, "log": claim["command"]})
        records += [{**part, "what": f"· {part['what']}"} for part in parts]
        data[claim["claim"]] = {"verdict": whole, "parts": parts}
    return report("claims", records, data)


def _joined(
    pairs: Sequence[tuple[str, Sequence[Mapping[Any, float]]]], side: int
) -> dict[Any, float]:
    return {(log, seed): value for log, sides in pairs for seed, value in sides[side].items()}


def _papers(measure: str) -> float:
    """What reattention gave the paper in Table 5: the mean over the rows that are about it."""
    sign, names = DIVERGENCES[measure]
    return sign * fmean(paper.TABLE_5[name][1][0] - paper.TABLE_5[name][0][0] for name in names)


def measured(
    lines: Sequence[Line], row: str, measure: str = "dev", key: str = "f1"
) -> dict[Any, float]:
    """What was measured of a row's trainings, by seed; of its readers' attentions, higher is
    better."""
    chosen = [line for line in lines if line["row"] == row]
    if measure not in DIVERGENCES:
        return {line["seed"]: line[measure][key] for line in chosen if line.get(measure)}
    (sign, names), found = DIVERGENCES[measure], dict[Any, float]()
    for place, line in enumerate(chosen):  # an ensemble
        each = [line["rows"][name]["readers"] for name in names if name in line["rows"]]
        paired = len(set(line["seeds"])) == len(line["seeds"])
        for k, seed in enumerate(line["seeds"] if each else ()):
            found[(place, seed) if paired else (row, place, k)] = sign * fmean(
                values[k] for values in each
            )
    return found


def compare(
    lines: Sequence[Line],
    name: str,
    slug: str,
    base: str,
    gain: Any = None,
    printed: Any = None,
    alone: bool = True,
) -> dict[str, Any]:
    """A row: a kind of training, what it gains over those it is compared with, and the paper's gain
    and scores.

    Its own scores are not told where it is not ``alone``, but a difference of two rows.
    """
    curves = {
        str(line["seed"]): line["curve"]
        for line in lines
        if line["row"] == slug and "curve" in line
    }
    hidden = summary(
        [value for curve in curves.values() for _, value in curve.get("suppressed", ())]
    )["mean"]
    row: dict[str, Any] = {"name": name, "suppressed": hidden, "curves": curves}
    for k, key in enumerate(("exact_match", "f1")):
        ours, start = measured(lines, slug, key=key), measured(lines, base, key=key)
        if base == START and start:  # one network started all, so it counts for every seed
            start = dict.fromkeys(ours, start[0])
        gap = None if slug == base else difference(ours, start)
        row |= {
            key: summary(list(ours.values())) if alone else "",
            f"delta_{key}": gap and gap.mean,
        }
        row |= {f"gain_{key}": summary(gap.gaps if gap else []), f"chance_{key}": gap and gap.p}
        row |= {f"paper_{key}": printed and printed[k], f"paper_gain_{key}": gain and gain[k]}
        row |= {
            "interval": gap and gap.interval,
            "chance": gap and gap.chance,
        }  # of F1, which comes last
        row |= {"said": gap.said(gain and gain[k]) if gap else "", "seeds": list(ours)}
        row |= {"count": gap.count if gap and not alone else len(ours)}
    return row


def ablation_table(
    lines: Sequence[Line], chosen: Sequence[paper.Ablation], name: str = "ablation"
) -> Report:
    """Trainings against the first row's; in ``ablation-ml`` and ``rounds``, after maximum
    likelihood alone."""
    rows, ml_only = {}, name != "ablation"
    for row in chosen:
        against = (
            2 if ml_only and row.number == 3 else 0
        )  # the paper has the other rows after DCRL alone
        gain = paper.gain(row.number, against) if row.score and row != chosen[0] else None
        slug, base = (one.first if ml_only else one.slug for one in (row, chosen[0]))
        label = f"({row.number}) {row.name}" if row.number else row.name
        rows[row.number] = compare(lines, label, slug, base, gain, row.score)
    counts = ", ".join(
        f"{model} {interactive} + {own}" for model, interactive, own, _ in paper.TABLE_1
    )
    return report(name, list(rows.values()), {"ml_only": ml_only, "rows": rows}, counts=counts)


def rl_table(lines: Sequence[Line]) -> Report:
    """Objectives from one network, variants of DCRL after them, the differences that claims are
    about, and curves."""
    gains = {"dcrl": paper.gain(0, 2), "scst": paper.gain(4, 2)}
    variants = {
        line["row"]: f"DCRL, {line['row'].removeprefix('dcrl-')}"
        for line in lines
        if "dcrl-" in line["row"]
    }
    rows = {START: compare(lines, "ML, the start", START, START)}
    for slug, name in {**OBJECTIVES, **variants}.items():
        rows[slug] = compare(lines, name, slug, START, gains.get(slug))
    rows["dcrl_minus_scst"] = compare(
        lines, "DCRL − SCST", "dcrl", "scst", paper.gain(0, 4), alone=False
    )
    for slug, name in {"dcrl": "DCRL", **variants}.items():
        key = f"{slug.replace('-', '_')}_minus_ml"
        rows[key] = compare(lines, f"{name} − continued ML", slug, "ml", alone=False)
    start: Line = next((line for line in lines if line["row"] == START), {})
    made = report("rl", list(rows.values()), {**rows, START: start.get("dev", {})})
    known = {"dev F1": start.get("dev"), "selection F1": start.get("held_out")}
    first = {name: [(0, score["f1"])] for name, score in known.items() if score}
    curves = {
        name: [
            {key: [*first.get(key, ()), *curve[key]] for key in curve}
            for curve in rows[slug]["curves"].values()
        ]
        for slug, name in OBJECTIVES.items()
    }
    made.files.update(
        (f"curves.{kind}", cache(partial(plots.curves, curves, WORDS["curves"], kind)))
        for kind in ("png", "svg")
    )
    return made


def attention_table(lines: Sequence[Line]) -> Report:
    """Table 5, a line for each ensemble; of several of a kind the mean, and their spread."""
    names = dict.fromkeys([*paper.TABLE_5, *(name for line in lines for name in line["rows"])])
    rows: dict[str, dict[str, Any]] = {name: {} for name in names}
    records: list[dict[str, Any]] = [{"name": name} for name in names]
    for record, (name, row) in zip(records, rows.items(), strict=True):
        for k, kind in enumerate(SIDES):
            found = [
                line["rows"][name] for line in lines if line["row"] == kind and name in line["rows"]
            ]
            if found:
                over, deviation = (
                    summary([one["mean"] for one in found]),
                    fmean(one["deviation"] for one in found),
                )
                readers = [value for one in found for value in one["readers"]]
                row[kind] = {
                    "mean": over["mean"],
                    "deviation": deviation,
                    "readers": readers,
                    "ensembles": over,
                }
                record[kind] = {"mean": over["mean"], "spread": deviation, "apart": over["spread"]}
            if name in paper.TABLE_5:
                record[f"paper_{kind}"] = dict(
                    zip(("mean", "spread"), paper.TABLE_5[name][k], strict=True)
                )
    count = max((line["questions"] for line in lines), default=0)
    who = {
        side: [one for line in lines if line["row"] == side for one in line["readers"]]
        for side in SIDES
    }
    return report(
        "attention",
        records,
        {"questions": count, "readers": who, "rows": rows},
        questions=f"{count:,}",
    )


def breakdown_table(lines: Sequence[Line], asked: Mapping[str, str], what: str = "") -> Report:
    """F1 by group of questions, and what reattention and DCRL give there, from the F1 that
    trainings keep of each.

    ``asked`` is the group of every question; rows are those of the full network, if it was trained,
    or else all.
    """
    each, twins = (
        {(line["row"], line["seed"]): unpack(line[key]) for line in lines if key in line}
        for key in ("each", "twins")
    )
    groups = {
        f"{kind}: {name}": (
            int(inside.sum()),
            {key: float(f1[inside].mean()) / 2.55 for key, f1 in each.items()},
        )
        for kind, names in GROUPS.items()
        for place, name in enumerate(names)
        if (inside := unpack(asked[kind]) == place).any()
    }
    for place, name in enumerate(TWINS if twins else ()):
        shares = {key: 100 * float((found == place).mean()) for key, found in twins.items()}
        groups[f"twins: {name}"] = len(next(iter(twins.values()))), shares
    slugs = dict.fromkeys(line["row"] for line in lines)
    main = next((slug for slug in ("dcrl-full", "full", "dcrl") if slug in slugs), None)
    pairs = {
        part: next((two for two in both if slugs.keys() >= {*two}), ())
        for part, both in WORDS["contrasts"].items()
    }
    data: dict[str, Any] = {}
    for name, (count, values) in groups.items():
        rows = {
            slug: {seed: value for (row, seed), value in values.items() if row == slug}
            for slug in slugs
        }
        ours = [value for slug in slugs for value in rows[slug].values() if main in (slug, None)]
        data[name] = {"name": name, "count": count, "f1": summary(ours)}
        for part, pair in pairs.items():
            if pair and (gap := difference(*(rows[slug] for slug in pair))):
                data[name] |= {part: gap.gaps, f"{part}_interval": gap.interval}
    count = len([row for row, _ in each if main in (row, None)])
    return report(
        "breakdown", list(data.values()), data, what=what or main or "the readers", count=count
    )
