"""Tables made of kept lines: scores over seeds, differences with their chance, the paper's, and drawings of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rmreader.scoring.groups import GROUPS, TWINS, unpack
from rmreader.scoring.significance import difference
from rmreader.studies import paper, plots
from rmreader.studies.kept import Line
from rmreader.studies.report import Report, report, summary

START = "start"
OBJECTIVES = {"dcrl": "DCRL", "scst": "SCST", "ml": "continued ML"}
KEYS = ("exact_match", "f1")
NOTHING = (None, None)
SIDES = ("without", "with")


def by_seed(lines: Sequence[Line], slug: str, measure: str = "dev", key: str = "f1") -> dict[int, float]:
    """The scores of a row's trainings."""
    return {line["seed"]: line[measure][key] for line in lines if line["row"] == slug and line.get(measure)}


def compare(
    lines: Sequence[Line],
    name: str,
    slug: str,
    base: str,
    gain: paper.Score | None = None,
    printed: paper.Score | None = None,
    alone: bool = True,
) -> dict[str, Any]:
    """A row: a kind of training, what it gains over those it is compared with, and the paper's scores and gain.

    Its own scores are not told where it is not ``alone``, but a difference of two rows.
    """
    curves = {str(line["seed"]): line["curve"] for line in lines if line["row"] == slug and "curve" in line}
    hidden = summary([value for curve in curves.values() for _, value in curve.get("suppressed", ())])["mean"]
    row: dict[str, Any] = {"name": name, "suppressed": hidden, "curves": curves}
    for key, papers, gained in zip(KEYS, printed or NOTHING, gain or NOTHING, strict=True):
        ours, start = by_seed(lines, slug, key=key), by_seed(lines, base, key=key)
        if base == START and start:  # one network started all, so it counts for every seed
            start = dict.fromkeys(ours, start[0])
        gap = None if slug == base else difference(ours, start)
        row |= {key: summary(list(ours.values())) if alone else "", f"delta_{key}": gap and gap.mean}
        row |= {f"gain_{key}": summary(gap.gaps if gap else []), f"paper_{key}": papers, f"paper_gain_{key}": gained}
        told = (gap.interval, gap.chance, gap.p) if gap else (None, None, None)  # of F1, which comes last
        row |= dict(zip(("interval", "chance", f"chance_{key}"), told, strict=True))
        row |= {"seeds": list(ours), "count": gap.count if gap and not alone else len(ours)}
    return row


def ablation_table(lines: Sequence[Line], chosen: Sequence[paper.Ablation], name: str = "ablation") -> Report:
    """Trainings against the first row's; in ``ablation-ml`` and ``rounds``, after maximum likelihood alone."""
    rows, ml_only = {}, name != "ablation"
    for row in chosen:
        against = 2 if ml_only and row.number == 3 else 0  # the paper has the other rows after DCRL alone
        gain = paper.gain(row.number, against) if row.score and row != chosen[0] else None
        slug, base = (paper.changed(one.network) if ml_only else one.slug for one in (row, chosen[0]))
        label = f"({row.number}) {row.name}" if row.number else row.name
        rows[row.number] = compare(lines, label, slug, base, gain, row.score)
    counts = ", ".join(f"{row.model} {row.interactive} + {row.self_aligning}" for row in paper.TABLE_1)
    return report(name, list(rows.values()), {"ml_only": ml_only, "rows": rows}, counts=counts)


def rl_table(lines: Sequence[Line]) -> Report:
    """Objectives from one network, variants of DCRL after them, and the differences that the claims are about."""
    gains: Mapping[str, paper.Score] = {"dcrl": paper.gain(0, 2), "scst": paper.gain(4, 2)}
    rows = {START: compare(lines, "ML, the start", START, START)}
    variants = {line["row"]: f"DCRL, {line['row'].removeprefix('dcrl-')}" for line in lines if "dcrl-" in line["row"]}
    for slug, name in {**OBJECTIVES, **variants}.items():
        rows[slug] = compare(lines, name, slug, START, gains.get(slug))
    rows["dcrl_minus_scst"] = compare(lines, "DCRL − SCST", "dcrl", "scst", paper.gain(0, 4), alone=False)
    for slug, name in {"dcrl": "DCRL", **variants}.items():
        key = f"{slug.replace('-', '_')}_minus_ml"
        rows[key] = compare(lines, f"{name} − continued ML", slug, "ml", alone=False)
    start: dict[str, Any] = next((line["dev"] for line in lines if line["row"] == START), {})
    return report("rl", list(rows.values()), {**rows, START: start})


def draw(lines: Sequence[Line]) -> tuple[bytes, bytes]:
    """The curves of the objectives from one start, as PNG and SVG."""
    groups = {name: [line["curve"] for line in lines if line["row"] == slug] for slug, name in OBJECTIVES.items()}
    start = next((line for line in lines if line["row"] == START), {})
    known = {"dev F1": start.get("dev"), "selection F1": start.get("held_out")}
    return plots.curves(groups, {name: score["f1"] for name, score in known.items() if score})


def differences(rows: Mapping[Any, Mapping[str, Any]]) -> bytes | None:
    """ΔF1 of a table's rows with its spread over seeds, beside the paper's where there is one."""
    known = [row for row in rows.values() if row["delta_f1"] is not None]
    ours = {row["name"]: (row["delta_f1"], row["gain_f1"]["spread"] or 0.0) for row in known}
    papers = {row["name"]: (row["paper_gain_f1"], 0.0) for row in known if row["paper_gain_f1"] is not None}
    return plots.bars({"ours": ours, "paper": papers}, "ΔF1")


def attention_table(lines: Sequence[Line]) -> Report:
    """Table 5, a line for each ensemble; of several of a kind the mean, and their spread."""
    names = dict.fromkeys([*paper.TABLE_5, *(name for line in lines for name in line["rows"])])
    records: list[dict[str, Any]] = []
    rows: dict[str, dict[str, Any]] = {name: {} for name in names}
    for name, row in rows.items():
        records.append({"name": name})
        for k, kind in enumerate(SIDES):
            found = [line["rows"][name] for line in lines if line["row"] == kind and name in line["rows"]]
            if found:
                mean, deviation = (float(np.mean([one[key] for one in found])) for key in ("mean", "deviation"))
                over = summary([one["mean"] for one in found])  # ensembles
                readers = [value for one in found for value in one["readers"]]
                row[kind] = {"mean": mean, "deviation": deviation, "readers": readers, "ensembles": over}
                apart = f" (ensembles ± {over['spread']:.3f})" if len(found) > 1 else ""
                records[-1][kind] = f"{mean:.3f} ± {deviation:.3f}{apart}"
            if name in paper.TABLE_5:
                records[-1][f"paper_{kind}"] = "{:.3f} ± {:.3f}".format(*paper.TABLE_5[name][k])
    count = max((line["questions"] for line in lines), default=0)
    who = {side: [one for line in lines if line["row"] == side for one in line["readers"]] for side in SIDES}
    return report("attention", records, {"questions": count, "readers": who, "rows": rows}, questions=f"{count:,}")


def divergences(rows: Mapping[str, Any]) -> bytes | None:
    """Table 5 with its spread over questions."""
    sides: dict[str, plots.Bars] = {}
    for k, kind in enumerate(SIDES):
        sides[kind] = {name: (row[kind]["mean"], row[kind]["deviation"]) for name, row in rows.items() if kind in row}
        sides[f"{kind}, paper"] = {name: paper.TABLE_5[name][k] for name in sides[kind] if name in paper.TABLE_5}
    return plots.bars(sides, "KL divergence")


CONTRASTS = {
    "reattention": (("dcrl-full", "dcrl-reattention-false"), ("full", "reattention-false")),
    "dcrl": (("dcrl-full", "full"), ("dcrl", "ml")),
}
"""What a part of the paper gives: these trainings less those, or else these."""


def breakdown_table(lines: Sequence[Line], asked: Mapping[str, str], what: str = "") -> Report:
    """F1 by group of questions, and what reattention and DCRL give there, from the F1 that trainings keep of each.

    ``asked`` is the group of every question; rows are those of the full network, if it was trained, or else all.
    """
    slugs = dict.fromkeys(line["row"] for line in lines)
    main = next((slug for slug in ("dcrl-full", "full", "dcrl") if slug in slugs), None)
    sides = {name: next((pair for pair in pairs if slugs.keys() >= {*pair}), None) for name, pairs in CONTRASTS.items()}
    records: list[dict[str, Any]] = []

    def add(name: str, values: Mapping[tuple[str, int], float], count: int) -> None:
        """One group: ``values`` by row and seed."""
        rows = {slug: {seed: value for (row, seed), value in values.items() if row == slug} for slug in slugs}
        ours = [value for slug in slugs for value in rows[slug].values() if main in (slug, None)]
        record: dict[str, Any] = {"name": name, "count": count, "f1": summary(ours)}
        for part, pair in sides.items():
            gap = difference(rows[pair[0]], rows[pair[1]]) if pair else None
            record |= {part: gap.gaps, f"{part}_interval": gap.interval} if gap else {}
        records.append(record)

    each = {(line["row"], line["seed"]): unpack(line["each"]) / 2.55 for line in lines if "each" in line}
    for kind, names in GROUPS.items():
        places = unpack(asked[kind])
        for place, name in enumerate(names):
            if (chosen := places == place).any():
                means = {key: float(f1[chosen].mean()) for key, f1 in each.items()}
                add(f"{kind}: {name}", means, int(chosen.sum()))
    twins = {(line["row"], line["seed"]): unpack(line["twins"]) for line in lines if "twins" in line}
    for place, name in enumerate(TWINS if twins else ()):
        shares = {key: 100 * float((found == place).mean()) for key, found in twins.items()}
        add(f"twins: {name}", shares, len(next(iter(twins.values()))))
    data = {record["name"]: record for record in records}
    count = len([1 for row, _ in each if main in (row, None)])
    return report("breakdown", records, data, what=what or main or "the readers", count=count)


def draw_breakdown(data: Mapping[str, Mapping[str, Any]]) -> bytes | None:
    """What reattention and DCRL give in each group, or the F1 of each where nothing is compared."""
    names = {"reattention gives": "reattention", "DCRL gives": "dcrl"}
    sides: dict[str, plots.Bars] = {
        label: {name: _bar(record[key]) for name, record in data.items() if key in record}
        for label, key in names.items()
    }
    label = "ΔF1; of twins, difference of the shares in percent" if any(sides.values()) else "F1; of twins, their share"
    return plots.bars(
        sides if any(sides.values()) else {"F1": {n: _bar(r["f1"]["values"]) for n, r in data.items()}}, label
    )


def _bar(values: Sequence[float]) -> tuple[float, float]:
    found = summary(values)
    return found["mean"] or 0.0, found["spread"] or 0.0
