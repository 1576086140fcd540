"""Tables of trainings, made of kept lines: scores over seeds, differences with their chance, and the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rmreader.scoring.significance import difference
from rmreader.studies import paper
from rmreader.studies.kept import Line
from rmreader.studies.report import DASH, Report, report, shown, summary

START = "start"
OBJECTIVES = {"dcrl": "DCRL", "scst": "SCST", "ml": "continued ML"}
KEYS = ("exact_match", "f1")


class Row(NamedTuple):
    """A row to fill: the trainings it shows, those it is compared with, and what the paper has."""

    label: str
    slug: str
    base: str
    printed: paper.Score | None = None
    gain: paper.Score | None = None
    alone: bool = True
    """Whether its scores are shown, or only the difference."""


def by_seed(lines: Sequence[Line], slug: str, measure: str = "dev", key: str = "f1") -> dict[int, float]:
    """The scores of a row's trainings."""
    return {line["seed"]: line[measure][key] for line in lines if line["row"] == slug and line.get(measure)}


def fill(lines: Sequence[Line], row: Row) -> tuple[list[str], dict[str, Any]]:
    """A row as printed, and as data."""
    ours, base = ([by_seed(lines, slug, key=key) for key in KEYS] for slug in (row.slug, row.base))
    if row.base == START and base[0]:  # one network started all, so it counts for every seed
        base = [dict.fromkeys(ours[k], base[k][0]) for k in (0, 1)]
    gaps = [None if row.base == row.slug else difference(*both) for both in zip(ours, base, strict=True)]
    curves = {str(line["seed"]): line["curve"] for line in lines if line["row"] == row.slug and "curve" in line}
    hidden = summary([value for curve in curves.values() for _, value in curve.get("suppressed", ())])["mean"]
    cells = [shown(list(values.values())) if row.alone else "" for values in ours]
    cells += [DASH if gap is None else shown(gap.gaps, sign=True) for gap in gaps]
    cells += [DASH, DASH] if gaps[1] is None else [gaps[1].interval, gaps[1].chance]
    cells += [shown(value, 1) for value in row.printed or (None, None)]
    cells += [shown(value, 1, sign=True) for value in row.gain or (None, None)]
    cells += ["" if hidden is None else f"{100 * hidden:.2f} %"]
    cells += [str(len(ours[1]) if row.alone or gaps[1] is None else gaps[1].count)]
    data: dict[str, Any] = {"name": row.label, "seeds": list(ours[1]), "suppressed": hidden, "curves": curves}
    for key, values, gap, printed in zip(KEYS, ours, gaps, row.printed or (None, None), strict=True):
        data |= {key: summary(list(values.values())), f"delta_{key}": gap and gap.mean, f"chance_{key}": gap and gap.p}
        data |= {f"gain_{key}": summary(gap.gaps if gap else []), f"paper_{key}": printed}
    data["paper_gain"] = row.gain and row.gain[1]
    return [row.label, *cells], data


def ablation_table(lines: Sequence[Line], chosen: Sequence[paper.Ablation], name: str = "ablation") -> Report:
    """Trainings against the first row's; in ``ablation-ml`` and ``rounds``, after maximum likelihood alone."""
    rows, data, ml_only = [], {}, name != "ablation"
    for row in chosen:
        against = 2 if ml_only and row.number == 3 else 0  # the paper has the other rows after DCRL alone
        gain = paper.gain(row.number, against) if row.score and row != chosen[0] else None
        slug, base = (paper.changed(one.network) if ml_only else one.slug for one in (row, chosen[0]))
        label = f"({row.number}) {row.name}" if row.number else row.name
        cells, data[row.number] = fill(lines, Row(label, slug, base, row.score, gain))
        rows.append(cells)
    counts = ", ".join(f"{row.model} {row.interactive} + {row.self_aligning}" for row in paper.TABLE_1)
    return report(name, rows, {"ml_only": ml_only, "rows": data}, counts=counts)


def rl_table(lines: Sequence[Line]) -> Report:
    """Three objectives from one network, and the differences that the claims are about."""
    gains = {"dcrl": paper.gain(0, 2), "scst": paper.gain(4, 2)}
    wanted = {START: Row("ML, the start", START, START)}
    wanted |= {slug: Row(name, slug, START, None, gains.get(slug)) for slug, name in OBJECTIVES.items()}
    wanted["dcrl_minus_scst"] = Row("DCRL − SCST", "dcrl", "scst", None, paper.gain(0, 4), alone=False)
    wanted["dcrl_minus_ml"] = Row("DCRL − continued ML", "dcrl", "ml", alone=False)
    made = {key: fill(lines, row) for key, row in wanted.items()}
    start: dict[str, Any] = next((line["dev"] for line in lines if line["row"] == START), {})
    data = {key: found for key, (_, found) in made.items()} | {START: start}
    return report("rl", [cells for cells, _ in made.values()], data)
