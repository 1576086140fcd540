"""Table 4: every ablation of the paper as trainings of ours, in the paper's two stages.

A row of the full table is a network trained by maximum likelihood and then reinforced. Rows that share a first stage
share its trainings: without a second stage (2) is the full network's first, and (4) reinforces the same one by SCST.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rmreader.config import Recipe, recipe_from, to_tree
from rmreader.errors import UserError
from rmreader.learning.members import Member
from rmreader.studies.paper import TABLE_4, Ablation
from rmreader.studies.report import DASH, Report, mean, shown, summary
from rmreader.studies.runs import SECOND_STAGE, Job, Run, check_stage, claim, train_all


def choose(rows: str, ml_only: bool) -> list[Ablation]:
    """The rows asked for, as ``1,5,9``, behind the one they are compared with; all of them for nothing.

    After maximum likelihood alone the full network is row 2, the one without reattention row 3, and 4 is none.
    """
    numbers = set(range(len(TABLE_4)))
    if rows.strip():
        parts = [part.strip() for part in rows.split(",") if part.strip()]
        if wrong := [part for part in parts if not part.isdecimal() or int(part) not in numbers]:
            raise UserError(f"--rows {rows}: there is no row {wrong[0]!r}; the rows are 0 to {len(TABLE_4) - 1}.")
        numbers = {int(part) for part in parts}
    if ml_only:
        numbers = {{0: 2, 1: 3}.get(number, number) for number in numbers} - {4}
    return [row for row in TABLE_4 if row.number in numbers | {_base(ml_only)}]


def _base(ml_only: bool) -> int:
    return 2 if ml_only else 0


def study_ablation(
    recipe: Recipe, job: Job, seeds: int = 3, rows: str = "", ml_only: bool = False, second: Sequence[str] = ()
) -> Report:
    """Train what the rows need and compare; ``second`` changes settings of the second stage."""
    chosen = choose(rows, ml_only)
    recipe = recipe_from(to_tree(recipe), ["training.objective=ml"])
    going_on = recipe_from(to_tree(recipe), [*SECOND_STAGE, *second], "the second stage")
    check_stage(job, "ml", recipe)
    if not ml_only:
        check_stage(job, "second", going_on)
    claim(job, "ablation")

    networks = list(dict.fromkeys(row.network for row in chosen))
    first = [Member(_name(network, seed), _settings(network, seed)) for network in networks for seed in _seeds(seeds)]
    trained, problems = train_all(job, "ml", recipe, first)
    if not ml_only:
        members = [
            Member(_name(row.network, seed, row.second), (*_settings(row.network, seed), *_second(row.second, start)))
            for row in chosen
            if row.second
            for seed in _seeds(seeds)
            if (start := trained.get(_name(row.network, seed))) is not None
        ]
        reinforced, more = train_all(job, "second", going_on, members)
        trained, problems = trained | reinforced, problems + more
    scores = {
        row.number: [
            run.score
            for seed in _seeds(seeds)
            if (run := trained.get(_name(row.network, seed, "" if ml_only else row.second))) is not None
        ]
        for row in chosen
    }
    return _table(chosen, scores, ml_only, problems)


def _seeds(count: int) -> range:
    return range(1, count + 1)


def _name(network: str, seed: int, second: str = "") -> str:
    """Folder of a training: how it goes on after maximum likelihood, what is changed, and the seed."""
    changed = network.partition(".")[2].replace("=", "-") or "full"
    return "-".join([*([second] if second else []), changed, "seed", str(seed)])


def _settings(network: str, seed: int) -> tuple[str, ...]:
    return (*([network] if network else []), f"training.seed={seed}")


def _second(objective: str, start: Run) -> tuple[str, ...]:
    """The second stage, from the best of the first: the same seed, so the same articles are held out."""
    return f"training.objective={objective}", f"training.init={json.dumps(str(start.reader))}"


def _table(
    chosen: Sequence[Ablation], scores: dict[int, list[tuple[float, float]]], ml_only: bool, problems: list[str]
) -> Report:
    base = [mean([score[k] for score in scores[_base(ml_only)]]) for k in (0, 1)]
    theirs = {row.number: row.score for row in TABLE_4}
    lines: list[tuple[str, ...]] = []
    data: dict[str, Any] = {"ml_only": ml_only, "rows": {}}
    for row in chosen:
        ours = [[score[k] for score in scores[row.number]] for k in (0, 1)]
        middle = [mean(values) for values in ours]
        deltas = [
            None if m is None or b is None or row.number == _base(ml_only) else m - b
            for m, b in zip(middle, base, strict=True)
        ]
        # the paper has the other rows after DCRL alone, so there they are compared with its full network
        against = theirs[2 if ml_only and row.number == 3 else 0]
        printed = [row.score[k] - against[k] for k in (0, 1)] if row.number != _base(ml_only) else [None, None]
        lines.append(
            (
                f"({row.number})" if row.number else "",
                row.name,
                *map(shown, ours),
                *(shown(delta, sign=True) for delta in deltas),
                *(f"{value:.1f}" for value in row.score),
                *(DASH if delta is None else f"{delta:+.1f}" for delta in printed),
                str(len(scores[row.number])),
            )
        )
        data["rows"][row.number] = {
            "name": row.name,
            "exact_match": summary(ours[0]),
            "f1": summary(ours[1]),
            "delta_exact_match": deltas[0],
            "delta_f1": deltas[1],
            "paper": {"exact_match": row.score[0], "f1": row.score[1]},
        }
    notes = ["Ours on dev, means over seeds ± standard deviation; Δ is to the first row."]
    if ml_only:
        notes.append(
            "After maximum likelihood alone. The paper has rows 5 to 12 after DCRL only; their Δ is to its row 0."
        )
    return Report(
        name="ablation-ml" if ml_only else "ablation",
        title="Table 4: ablations",
        header=(
            "",
            "configuration",
            "EM",
            "F1",
            "ΔEM",
            "ΔF1",
            "paper EM",
            "paper F1",
            "paper ΔEM",
            "paper ΔF1",
            "seeds",
        ),
        rows=lines,
        data=data,
        notes=notes,
        problems=problems,
    )
