"""The studies that train: Table 4's ablations, Table 1's architectures, and DCRL against SCST against more ML.

A row of Table 4 is a network trained by maximum likelihood and then reinforced. Rows that share a first stage share its
trainings: without a second stage (2) is the full network's first, and (4) reinforces the same one by SCST.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rmreader.config import Recipe, load_recipe, recipe_from, to_tree
from rmreader.data.split import split_seed
from rmreader.data.squad import read_squad
from rmreader.errors import UserError
from rmreader.files import write_whole
from rmreader.learning.evaluate import evaluate
from rmreader.learning.members import Member, variants
from rmreader.learning.outfolder import find_init, fingerprint
from rmreader.learning.setup import prepare
from rmreader.studies import disagreements, paper
from rmreader.studies.kept import keep
from rmreader.studies.report import Report
from rmreader.studies.runs import Job, changes, claim, train_all
from rmreader.studies.tables import OBJECTIVES, START, ablation_table, draw, rl_table

SECOND_STAGE = [f"training.{setting}" for setting in ("rate=1e-4", "warmup=0", "schedule=halve", "patience=1000")]
SECOND_STAGE += ["training.epochs=4", "training.evaluate_every=0.5"]
"""How training continues after maximum likelihood, unless told otherwise: the paper's rate and halving. Patience never
ends a run early, so that all objectives get the same budget."""


def choose(rows: str, ml_only: bool) -> list[paper.Ablation]:
    """The rows asked for, as ``1,5,9``, after the one they are compared with; all of them for nothing.

    After maximum likelihood alone the full network is row 2, the one without reattention row 3, and 4 is none.
    """
    numbers = {row.number for row in paper.TABLE_4}
    if rows.strip():
        parts = [part.strip() for part in rows.split(",") if part.strip()]
        if wrong := [part for part in parts if not part.isdecimal() or int(part) not in numbers]:
            raise UserError(f"--rows {rows}: there is no row {wrong[0]!r}; the rows are 0 to {max(numbers)}.")
        numbers = {int(part) for part in parts}
    if ml_only:
        numbers = {{0: 2, 1: 3}.get(number, number) for number in numbers} - {4} | {2}
    return [row for row in paper.TABLE_4 if row.number in numbers or (row.number == 0 and not ml_only)]


def study_ablation(
    recipe: Recipe, job: Job, rows: Sequence[paper.Ablation], name: str = "ablation", second: Sequence[str] = ()
) -> Report:
    """Table 4: train what the rows need and compare; as ``ablation-ml`` and ``rounds``, after maximum likelihood alone.

    ``second`` changes settings of the second stage. A seed's trainings come together, so that a study that is stopped
    has whole seeds; a second stage has its first one's seed, so that the same articles are held out.
    """
    recipe = recipe_from(to_tree(recipe), ["training.objective=ml"])
    going_on = recipe_from(to_tree(recipe), [*SECOND_STAGE, *second], "the second stage")
    job = claim(job, name.partition("-")[0], {"ml": recipe, "second": going_on})
    members: dict[str, Member] = {}
    for seed in range(1, job.seeds + 1):
        for row in rows:
            start = f"ml/{paper.changed(row.network)}-seed-{seed}"
            members[start] = Member(start, (*row.network.split(), f"training.seed={seed}"))
        for row in (row for row in rows if row.second and name == "ablation"):
            first = members[f"ml/{paper.changed(row.network)}-seed-{seed}"]
            init = f"training.init={json.dumps(str(job.out / first.name / 'best'))}"
            words = *changes(recipe, going_on), *first.overrides, f"training.objective={row.second}", init
            later = f"second/{row.slug}-seed-{seed}"
            members[later] = Member(later, words, first.name)
    lines, problems = train_all(job, recipe, list(members.values()))
    return dataclasses.replace(ablation_table(list(lines.values()), rows, name), problems=problems)


def study_rl(init: str, recipe: str | None, overrides: Sequence[str], job: Job, vary: Sequence[str] = ()) -> Report:
    """DCRL, SCST and continued ML from one network with the same steps, rate and seeds: table, curves, disagreements.

    ``vary`` are variants of DCRL, as ``k32:training.top_k=32``. What is held out for selection is what was held out
    when the starting network was trained.
    """
    started = init_recipe(init)
    settings = load_recipe(recipe, overrides) if recipe else recipe_from(to_tree(started), [*SECOND_STAGE, *overrides])
    held = [f"training.init={json.dumps(init)}", f"training.holdout_seed={split_seed(started.training)}"]
    settings = recipe_from(to_tree(settings), held)
    job = claim(job, "rl", {"runs": settings}, init=fingerprint(Path(init)))
    start = {"kind": "training", **job.about, "row": START, "seed": 0, **_start(settings, job)}
    keep(job.keep, [start])
    members = [
        Member(f"runs/{objective}-seed-{seed}", (f"training.objective={objective}", f"training.seed={seed}"))
        for seed in range(1, job.seeds + 1)
        for objective in OBJECTIVES
    ]
    for one in variants(vary, job.seeds) if vary else ():
        members.append(Member(f"runs/dcrl-{one.name}", ("training.objective=dcrl", *one.overrides)))
    trained, problems = train_all(job, settings, members)
    lines = [start, *trained.values()]
    report = dataclasses.replace(rl_table(lines), problems=problems)
    if settings.training.holdout > started.training.holdout:
        report.notes.append(
            f"The starting network learned from articles that are held out here (training.holdout was "
            f"{started.training.holdout:g}, is {settings.training.holdout:g}): selection F1 is too high."
        )
    try:
        for path, content in zip((job.out / "curves.png", job.out / "curves.svg"), draw(lines), strict=True):
            write_whole(path, content)
            report.files.append(path)
    except ModuleNotFoundError:
        report.notes.append("The curves are not drawn: pip install 'rmreader[plots]', then give the command again.")
    for seed in range(1, job.seeds + 1):
        folders = [job.out / "runs" / f"{objective}-seed-{seed}" / "best" for objective in ("dcrl", "scst")]
        if all(f"runs/{folder.parent.name}" in trained and folder.is_dir() for folder in folders):
            cases = disagreements.compare(folders, read_squad(job.dev), job.device)
            title = f"Where DCRL and SCST disagree (seed {seed})"
            page = disagreements.page(title, ("DCRL", "SCST"), cases, start["dev"]["total"])
            report.files.append(job.out / "disagreements.html")
            write_whole(report.files[-1], page.encode())
            report.data["disagreements"] = disagreements.counts(cases)
            break
    return report


def _start(settings: Recipe, job: Job) -> dict[str, Any]:
    """The scores of the starting network on dev and on what is held out."""
    recipe = recipe_from(to_tree(settings), ["training.objective=ml"])
    with tempfile.TemporaryDirectory() as folder:
        setup = prepare(recipe, job.train, job.dev, Path(folder), False, job.device, None)
    feeds = {"dev": setup.dev, "held_out": setup.selection}
    longest = recipe.decoding.max_length
    return {name: evaluate(setup.network, feed, longest).tree() for name, feed in feeds.items() if feed}


def init_recipe(init: str) -> Recipe:
    """The recipe of what is started from: a reader by name or folder, a run, or a run's checkpoint."""
    found = find_init(init)
    for path in (found.parent / "recipe.yaml", found.parent.parent / "run" / "recipe.yaml") if found else ():
        if path.is_file():
            return load_recipe(path)
    raise UserError(f"{init}: neither a reader folder nor a run; give what `rmreader train` left, as OUT/best.")
