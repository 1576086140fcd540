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
from lab.studies.report import WORDS, Report, report
from lab.studies.significance import difference, summary

START = "start"
OBJECTIVES = {"dcrl": "DCRL", "scst": "SCST", "ml": "continued ML"}
SIDES = ("without", "with")
MAIN_ROWS = ("dcrl-full", "full", "dcrl")  # what a breakdown is about, the first that was trained
Key = tuple[str, int]  # row and seed of a training


def compare(
    lines: Sequence[Line],
    name: str,
    slug: str,
    base: str,
    gain: Any = None,
    printed: Any = None,
    alone: bool = True,
) -> dict[str, Any]:
    """A row: a kind of training, what it gains over ``base``, and the paper's gain and scores.

    It is a difference of two rows, without scores of its own, where it is not ``alone``.
    """
    curves = {}
    for line in lines:
        if line["row"] == slug and "curve" in line:
            curves[str(line["seed"])] = line["curve"]
    suppressed = [value for curve in curves.values() for _, value in curve.get("suppressed", ())]
    row: dict[str, Any] = {
        "name": name,
        "suppressed": summary(suppressed)["mean"],
        "curves": curves,
    }
    for k, key in enumerate(("exact_match", "f1")):
        ours = measured(lines, slug, key=key)
        start = measured(lines, base, key=key)
        if base == START and start:  # one network started all, so it counts for every seed
            start = dict.fromkeys(ours, start[0])
        gap = None if slug == base else difference(ours, start)
        papers = gain[k] if gain else None
        row[key] = summary(list(ours.values())) if alone else ""
        row[f"paper_{key}"] = printed[k] if printed else None
        row[f"paper_gain_{key}"] = papers
        row[f"gain_{key}"] = summary(gap.gaps if gap else [])
        row[f"delta_{key}"] = gap.mean if gap else None
        row[f"chance_{key}"] = gap.p if gap else None
        # Of F1, which comes last:
        row["interval"] = gap.interval if gap else None
        row["chance"] = gap.chance if gap else None
        row["words"] = gap.words(papers) if gap else ""
        row["seeds"] = list(ours)
        row["count"] = gap.count if gap and not alone else len(ours)
    return row


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
        gain = paper.gain(row.number, against) if row.score and row != first else None
        label = f"({row.number}) {row.name}" if row.number else row.name
        rows[row.number] = compare(lines, label, slug, base, gain, row.score)
    counts = ", ".join(f"{model} {inter} + {own}" for model, inter, own, _ in paper.TABLE_1)
    return report(name, list(rows.values()), {"ml_only": ml_only, "rows": rows}, counts=counts)


def rl_table(lines: Sequence[Line]) -> Report:
    """Objectives from one network, variants of DCRL, the differences of claims, and curves."""
    variants = {}
    for line in lines:
        if "dcrl-" in line["row"]:
            variants[line["row"]] = f"DCRL, {line['row'].removeprefix('dcrl-')}"
    gains = {"dcrl": paper.gain(0, 2), "scst": paper.gain(4, 2)}

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
    curves = _curves(rows, start)
    for kind in ("png", "svg"):
        draw = partial(plots.curves, curves, WORDS["curves"], kind)
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
            whole = {key: [*first.get(key, ()), *points] for key, points in curve.items()}
            curves[name].append(whole)
    return curves


def attention_table(lines: Sequence[Line]) -> Report:
    """Table 5, a line for each ensemble; of several of a kind the mean, and their spread."""
    names = dict.fromkeys([*paper.TABLE_5, *(name for line in lines for name in line["rows"])])
    rows: dict[str, dict[str, Any]] = {}
    records: list[dict[str, Any]] = []
    for name in names:
        rows[name] = {}
        record: dict[str, Any] = {"name": name}
        for k, kind in enumerate(SIDES):
            found = [
                line["rows"][name] for line in lines if line["row"] == kind and name in line["rows"]
            ]
            if found:
                over = summary([one["mean"] for one in found])
                deviation = fmean(one["deviation"] for one in found)
                readers = [value for one in found for value in one["readers"]]
                rows[name][kind] = {
                    "mean": over["mean"],
                    "deviation": deviation,
                    "readers": readers,
                    "ensembles": over,
                }
                record[kind] = {
                    "mean": over["mean"],
                    "spread": deviation,
                    "apart": over["spread"],
                }
            if name in paper.TABLE_5:
                mean, spread = paper.TABLE_5[name][k]
                record[f"paper_{kind}"] = {"mean": mean, "spread": spread}
        records.append(record)
    count = max((line["questions"] for line in lines), default=0)
    readers_of = {
        side: [reader for line in lines if line["row"] == side for reader in line["readers"]]
        for side in SIDES
    }
    data = {"questions": count, "readers": readers_of, "rows": rows}
    return report("attention", records, data, questions=f"{count:,}")


def reattention_table(lines: Sequence[Line], gamma: float = 0.0) -> Report:
    """Readers with their γ, the size of what it adds, and their scores with and without it."""
    records = []
    for line in lines:
        sizes = line["sizes"].values()
        share = [size["added"] / size["logits"] for size in sizes]
        shift = [size["moved"] for size in sizes]
        overlap = [size["overlap"] for size in sizes]
        records.append(
            {
                "name": line["row"],
                "gammas": ", ".join(
                    f"{name} {value:.2f}" for name, value in line["gammas"].items()
                ),
                "overlap": f"{min(overlap):.3f} to {max(overlap):.3f}",
                "share": f"{min(share):.1%} to {max(share):.1%}",
                "moved": f"{min(shift):.2%} to {max(shift):.2%}",
                "entropy": line["entropy"],
                "as_is": f"{line['as_is']['exact_match']:.2f} / {line['as_is']['f1']:.2f}",
                "changed_to": f"{line['other']['exact_match']:.2f} / {line['other']['f1']:.2f}",
                "answers": f"{line['changed']:,} of {line['as_is']['total']:,}",
            }
        )
    facts = {"gamma": f"{gamma:g}"}
    made = report("reattention", records, {"lines": list(lines), "gamma": gamma}, **facts)
    made.files["reattention.svg"] = cache(partial(plots.reattention, lines))
    return made


def breakdown_table(lines: Sequence[Line], packed: Mapping[str, str], what: str = "") -> Report:
    """F1 by group of questions, and what reattention and DCRL give there.

    ``packed`` has the group of every question; rows are those of the full network, if it was
    trained, or else all.
    """
    slugs = list(dict.fromkeys(line["row"] for line in lines))
    main = next((slug for slug in MAIN_ROWS if slug in slugs), None)
    pairs = {part: _trained_pair(both, slugs) for part, both in WORDS["contrasts"].items()}
    each = _unpacked(lines, "each")
    twins = _unpacked(lines, "twins")

    data: dict[str, Any] = {}
    for name, (count, values) in _values_by_group(packed, each, twins).items():
        rows: dict[str, dict[int, float]] = {slug: {} for slug in slugs}
        for (slug, seed), value in values.items():
            rows[slug][seed] = value
        ours = [value for slug in slugs for value in rows[slug].values() if main in (slug, None)]
        record = {"name": name, "count": count, "f1": summary(ours)}
        for part, pair in pairs.items():
            gap = difference(rows[pair[0]], rows[pair[1]]) if pair else None
            if gap:
                record[part] = gap.gaps
                record[f"{part}_interval"] = gap.interval
        data[name] = record
    count = sum(main in (slug, None) for slug, _ in each)
    title = what or main or "the readers"
    return report("breakdown", list(data.values()), data, what=title, count=count)


def _trained_pair(choices: Sequence[Sequence[str]], slugs: Sequence[str]) -> Sequence[str]:
    """The first pair of rows that were both trained; nothing without one."""
    for pair in choices:
        if set(pair) <= set(slugs):
            return pair
    return ()


def _unpacked(lines: Sequence[Line], name: str) -> dict[Key, NDArray[Any]]:
    """What was kept of every question, by row and seed."""
    return {(line["row"], line["seed"]): unpack(line[name]) for line in lines if name in line}


def _values_by_group(
    packed: Mapping[str, str],
    each: Mapping[Key, NDArray[Any]],
    twins: Mapping[Key, NDArray[Any]],
) -> dict[str, tuple[int, dict[Key, float]]]:
    """By group of questions: how many there are, and the mean F1 of each training on them."""
    found: dict[str, tuple[int, dict[Key, float]]] = {}
    for kind, names in GROUPS.items():
        places = unpack(packed[kind])
        for place, name in enumerate(names):
            inside = places == place
            if inside.any():
                means = {key: float(f1[inside].mean()) / 2.55 for key, f1 in each.items()}
                found[f"{kind}: {name}"] = int(inside.sum()), means
    if twins:
        total = len(next(iter(twins.values())))
        for place, name in enumerate(TWINS):
            shares = {key: 100 * float((one == place).mean()) for key, one in twins.items()}
            found[f"twins: {name}"] = total, shares
    return found
