"""Results as tables: scores over seeds, differences and their chance, the paper's beside them."""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from statistics import fmean
from typing import Any

from numpy.typing import NDArray

from lab.results import Line
from lab.studies import paper, plots
from lab.studies.claims import measured
from lab.studies.groups import GROUPS, TWINS, unpack
from lab.studies.report import Report, report
from lab.studies.significance import Difference, difference, summary

START = "start"
OBJECTIVES = {"dcrl": "DCRL", "scst": "SCST", "ml": "continued ML"}
SIDES = ("without", "with")
MAIN_ROWS = ("dcrl-full", "full", "dcrl")  # what a breakdown is about, the first that was trained

# What a part of the paper gives: the first trainings of a pair less the second. Of several pairs
# the first counts that was trained.
CONTRASTS = {
    "reattention": [("dcrl-full", "dcrl-reattention-false"), ("full", "reattention-false")],
    "dcrl": [("dcrl-full", "full"), ("dcrl", "ml")],
}
# Panels of `study rl`, each with its measures of the log; the second one is dashed.
CURVES = {
    "selection F1": ["selection F1"],
    "dev F1": ["dev F1"],
    "mean reward (greedy: line, sample: dashes)": ["reward_greedy", "reward_sample"],
    "share of questions with a suppressed true position": ["suppressed"],
}

Key = tuple[str, int]  # row and seed of a training


def compare(
    lines: Sequence[Line],
    name: str,
    slug: str,
    base: str,
    gain: paper.Score | None = None,
    printed: paper.Score | None = None,
    alone: bool = True,
) -> dict[str, Any]:
    """A row: a kind of training, what it gains over ``base``, and the paper's gain and scores.

    It is a difference of two rows, without scores of its own, where it is not ``alone``.
    """
    curves = {}
    for line in lines:
        if line["row"] == slug and "curve" in line:
            curves[str(line["seed"])] = line["curve"]
    row: dict[str, Any] = {
        "name": name,
        "suppressed": _mean_suppressed(curves),
        "curves": curves,
    }

    for k, key in enumerate(("exact_match", "f1")):
        ours = measured(lines, slug, key=key)
        gap = None
        if slug != base:
            gap = difference(ours, _base_scores(lines, base, key, ours))
        row[key] = summary(list(ours.values())) if alone else ""
        row[f"paper_{key}"] = printed[k] if printed else None
        row[f"paper_gain_{key}"] = gain[k] if gain else None
        row |= _gap_cells(key, gap)

    # F1 came last: the row's words are about it.
    row["seeds"] = list(ours)
    row["count"] = len(ours)
    row["interval"] = None
    row["chance"] = None
    row["words"] = ""
    if gap:
        row["interval"] = gap.interval
        row["chance"] = gap.chance
        row["words"] = gap.words(row["paper_gain_f1"])
        if not alone:
            row["count"] = gap.count
    return row


def _mean_suppressed(curves: Mapping[str, Mapping[str, Any]]) -> float | None:
    """The mean share of suppressed positions over all that was measured of some trainings."""
    values = []
    for curve in curves.values():
        for _, value in curve.get("suppressed", ()):
            values.append(value)
    mean: float | None = summary(values)["mean"]
    return mean


def _base_scores(
    lines: Sequence[Line],
    base: str,
    key: str,
    ours: Mapping[Any, float],
) -> Mapping[Any, float]:
    """The scores to compare with, by seed."""
    scores = measured(lines, base, key=key)
    if base == START and scores:
        # One network started all, so it counts for every seed.
        return dict.fromkeys(ours, scores[0])
    return scores


def _gap_cells(key: str, gap: Difference | None) -> dict[str, Any]:
    """What a row says of its difference in one measure."""
    if gap is None:
        return {
            f"gain_{key}": summary([]),
            f"delta_{key}": None,
            f"chance_{key}": None,
        }
    return {
        f"gain_{key}": summary(gap.gaps),
        f"delta_{key}": gap.mean,
        f"chance_{key}": gap.p,
    }


def ablation_table(
    lines: Sequence[Line],
    chosen: Sequence[paper.Ablation],
    name: str = "ablation",
) -> Report:
    """Trainings against the first row's; ``ablation-ml`` and ``rounds`` after ML alone."""
    ml_only = name != "ablation"
    first = chosen[0]
    base = first.first if ml_only else first.slug
    rows = {}
    for row in chosen:
        slug = row.first if ml_only else row.slug
        # The paper has the other rows after DCRL alone.
        against = 2 if ml_only and row.number == 3 else 0
        gain = None
        if row.score and row != first:
            gain = paper.gain(row.number, against)
        label = f"({row.number}) {row.name}" if row.number else row.name
        rows[row.number] = compare(lines, label, slug, base, gain, row.score)

    counts = [f"{model} {inter} + {own}" for model, inter, own, _ in paper.TABLE_1]
    return report(
        name,
        list(rows.values()),
        {"ml_only": ml_only, "rows": rows},
        counts=", ".join(counts),
    )


def rl_table(lines: Sequence[Line]) -> Report:
    """Objectives from one network, variants of DCRL, the differences of claims, and curves."""
    variants = {}
    for line in lines:
        if "dcrl-" in line["row"]:
            variants[line["row"]] = f"DCRL, {line['row'].removeprefix('dcrl-')}"
    gains = {
        "dcrl": paper.gain(0, 2),
        "scst": paper.gain(4, 2),
    }

    rows = {START: compare(lines, "ML, the start", START, START)}
    for slug, name in {**OBJECTIVES, **variants}.items():
        rows[slug] = compare(lines, name, slug, START, gains.get(slug))
    rows["dcrl_minus_scst"] = compare(
        lines,
        "DCRL − SCST",
        "dcrl",
        "scst",
        paper.gain(0, 4),
        alone=False,
    )
    for slug, name in {"dcrl": "DCRL", **variants}.items():
        key = f"{slug.replace('-', '_')}_minus_ml"
        rows[key] = compare(lines, f"{name} − continued ML", slug, "ml", alone=False)

    start: Line = next((line for line in lines if line["row"] == START), {})
    made = report("rl", list(rows.values()), {**rows, START: start.get("dev", {})})
    curves = _curves(rows, start)
    for kind in ("png", "svg"):
        draw = partial(plots.curves, curves, CURVES, kind)
        made.files[f"curves.{kind}"] = cache(draw)
    return made


def _curves(rows: Mapping[str, Any], start: Line) -> dict[str, list[Any]]:
    """The curves of each objective, which begin at the scores of the start."""
    first = {}
    for name, key in (("dev F1", "dev"), ("selection F1", "held_out")):
        if start.get(key):
            first[name] = [(0, start[key]["f1"])]
    curves: dict[str, list[Any]] = {}
    for slug, name in OBJECTIVES.items():
        curves[name] = []
        for curve in rows[slug]["curves"].values():
            whole = {}
            for key, points in curve.items():
                whole[key] = [*first.get(key, ()), *points]
            curves[name].append(whole)
    return curves


def attention_table(lines: Sequence[Line]) -> Report:
    """Table 5: a row for each divergence, from a line for each ensemble."""
    names = list(paper.TABLE_5)
    for line in lines:
        names += [name for name in line["rows"] if name not in names]

    rows: dict[str, dict[str, Any]] = {}
    records = []
    for name in names:
        rows[name] = {}
        record: dict[str, Any] = {"name": name}
        for k, side in enumerate(SIDES):
            ensembles = _ensembles(lines, side, name)
            if ensembles:
                values = _over_ensembles(ensembles)
                rows[name][side] = values
                record[side] = {
                    "mean": values["mean"],
                    "spread": values["deviation"],
                    "apart": values["ensembles"]["spread"],
                }
            if name in paper.TABLE_5:
                mean, spread = paper.TABLE_5[name][k]
                record[f"paper_{side}"] = {
                    "mean": mean,
                    "spread": spread,
                }
        records.append(record)

    readers: dict[str, list[str]] = {side: [] for side in SIDES}
    for line in lines:
        readers[line["row"]] += line["readers"]
    count = max((line["questions"] for line in lines), default=0)
    data = {
        "questions": count,
        "readers": readers,
        "rows": rows,
    }
    return report("attention", records, data, questions=f"{count:,}")


def _ensembles(lines: Sequence[Line], side: str, name: str) -> list[Mapping[str, Any]]:
    """What each ensemble of a side has of one divergence."""
    measures = [line["rows"] for line in lines if line["row"] == side]
    return [rows[name] for rows in measures if name in rows]


def _over_ensembles(ensembles: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One divergence over several ensembles: the means, and how far the ensembles are apart."""
    over = summary([ensemble["mean"] for ensemble in ensembles])
    readers: list[float] = []
    for ensemble in ensembles:
        readers += ensemble["readers"]
    return {
        "mean": over["mean"],
        "deviation": fmean(ensemble["deviation"] for ensemble in ensembles),
        "readers": readers,
        "ensembles": over,
    }


def reattention_table(lines: Sequence[Line], gamma: float = 0.0) -> Report:
    """Readers with their γ, the size of what it adds, and their scores with and without it."""
    records = []
    for line in lines:
        sizes = line["sizes"].values()
        shares = [size["added"] / size["logits"] for size in sizes]
        moved = [size["moved"] for size in sizes]
        overlaps = [size["overlap"] for size in sizes]
        gammas = [f"{name} {value:.2f}" for name, value in line["gammas"].items()]
        records.append(
            {
                "name": line["row"],
                "gammas": ", ".join(gammas),
                "overlap": f"{min(overlaps):.3f} to {max(overlaps):.3f}",
                "share": f"{min(shares):.1%} to {max(shares):.1%}",
                "moved": f"{min(moved):.2%} to {max(moved):.2%}",
                "entropy": line["entropy"],
                "as_is": _both_scores(line["as_is"]),
                "changed_to": _both_scores(line["other"]),
                "answers": f"{line['changed']:,} of {line['as_is']['total']:,}",
                "apart": _gains_apart(line.get("divergences", {})),
            }
        )
    made = report(
        "reattention",
        records,
        {"lines": list(lines), "gamma": gamma},
        gamma=f"{gamma:g}",
    )
    made.files["reattention.svg"] = cache(partial(plots.reattention, lines))
    return made


def _gains_apart(rows: Mapping[str, Mapping[str, float]]) -> str:
    """What γ adds to each divergence between two rounds, in one cell."""
    parts = []
    for name, row in rows.items():
        parts.append(f"{name} {row['other']:.2f} {row['gain']:+.3f} ± {row['error']:.3f}")
    return "; ".join(parts)


def _both_scores(score: Mapping[str, float]) -> str:
    """EM and F1 in one cell."""
    return f"{score['exact_match']:.2f} / {score['f1']:.2f}"


def breakdown_table(lines: Sequence[Line], packed: Mapping[str, str], what: str = "") -> Report:
    """F1 by group of questions, and what reattention and DCRL give there.

    ``packed`` has the group of every question; rows are those of the full network, if it was
    trained, or else all.
    """
    slugs = list(dict.fromkeys(line["row"] for line in lines))
    main = next((slug for slug in MAIN_ROWS if slug in slugs), None)
    shown = [main] if main else slugs
    each = _unpacked(lines, "each")
    twins = _unpacked(lines, "twins")

    data: dict[str, Any] = {}
    for name, (count, values) in _values_by_group(packed, each, twins).items():
        rows: dict[str, dict[int, float]] = {slug: {} for slug in slugs}
        for (slug, seed), value in values.items():
            rows[slug][seed] = value
        ours: list[float] = []
        for slug in shown:
            ours += rows[slug].values()
        data[name] = {
            "name": name,
            "count": count,
            "f1": summary(ours),
            **_contrasts(rows),
        }
    return report(
        "breakdown",
        list(data.values()),
        data,
        what=what or main or "the readers",
        count=sum(slug in shown for slug, _ in each),
    )


def _contrasts(rows: Mapping[str, Mapping[int, float]]) -> dict[str, Any]:
    """What each part of the paper gives, by the first of its pairs that was trained."""
    cells: dict[str, Any] = {}
    for part, pairs in CONTRASTS.items():
        for more, less in pairs:
            if more in rows and less in rows:
                gap = difference(rows[more], rows[less])
                if gap:
                    cells[part] = gap.gaps
                    cells[f"{part}_interval"] = gap.interval
                break
    return cells


def _unpacked(lines: Sequence[Line], name: str) -> dict[Key, NDArray[Any]]:
    """What was kept of every question, by row and seed."""
    values = {}
    for line in lines:
        if name in line:
            values[line["row"], line["seed"]] = unpack(line[name])
    return values


def _values_by_group(
    packed: Mapping[str, str],
    each: Mapping[Key, NDArray[Any]],
    twins: Mapping[Key, NDArray[Any]],
) -> dict[str, tuple[int, dict[Key, float]]]:
    """By group of questions: how many there are, and the mean F1 of each training on them."""
    values: dict[str, tuple[int, dict[Key, float]]] = {}
    for kind, names in GROUPS.items():
        places = unpack(packed[kind])
        for place, name in enumerate(names):
            inside = places == place
            if inside.any():
                means = {}
                for key, f1 in each.items():
                    # A byte is an F1 times 255; here it is in percent.
                    means[key] = float(f1[inside].mean()) / 2.55
                values[f"{kind}: {name}"] = int(inside.sum()), means
    if twins:
        total = len(next(iter(twins.values())))
        for place, name in enumerate(TWINS):
            shares = {}
            for key, kinds in twins.items():
                shares[key] = 100 * float((kinds == place).mean())
            values[f"twins: {name}"] = total, shares
    return values
