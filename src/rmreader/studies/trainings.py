"""The studies that train: Table 4's ablations, Table 1's architectures, and DCRL against SCST against more ML.

A row of Table 4 is a network trained by maximum likelihood and then reinforced. Rows that share a first stage share its
trainings: without a second stage (2) is the full network's first, and (4) reinforces the same one by SCST.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rmreader.config import Recipe, load_recipe, recipe_from, to_tree
from rmreader.data.encode import encode_file
from rmreader.data.split import split, split_seed
from rmreader.data.squad import read_squad
from rmreader.errors import UserError
from rmreader.files import write_whole
from rmreader.learning import readerfolder
from rmreader.learning.evaluate import evaluate
from rmreader.learning.feed import Feed
from rmreader.learning.members import Member
from rmreader.learning.outfolder import fingerprint
from rmreader.learning.setup import pick_device, read_init
from rmreader.learning.text_inputs import TextInputs
from rmreader.studies import disagreements, paper, plots
from rmreader.studies.kept import Line, keep
from rmreader.studies.report import Report
from rmreader.studies.runs import SECOND_STAGE, Job, changes, claim, train_all
from rmreader.studies.tables import OBJECTIVES, START, ablation_table, rl_table


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
    recipe: Recipe, job: Job, seeds: int = 3, rows: str = "", ml_only: bool = False, second: Sequence[str] = ()
) -> Report:
    """Table 4: train what the rows need and compare; ``second`` changes settings of the second stage."""
    return _study("ablation", recipe, job, seeds, choose(rows, ml_only), ml_only, second)


def study_rounds(recipe: Recipe, job: Job, seeds: int = 3) -> Report:
    """Table 1's architectures, as far as our network has the settings, after maximum likelihood."""
    return _study("rounds", recipe, job, seeds, paper.ROUNDS, True, ())


def _study(
    study: str,
    recipe: Recipe,
    job: Job,
    seeds: int,
    rows: Sequence[paper.Ablation],
    ml_only: bool,
    second: Sequence[str],
) -> Report:
    """Every first stage side by side, then every second one, each from the best of its first."""
    recipe = recipe_from(to_tree(recipe), ["training.objective=ml"])
    going_on = recipe_from(to_tree(recipe), [*SECOND_STAGE, *second], "the second stage")
    job = claim(job, study, {"ml": recipe, "second": going_on})
    members: dict[str, Member] = {}
    for seed in range(1, seeds + 1):  # a seed's rows together, so that what is stopped early has whole seeds
        for row in rows:
            name = f"ml/{paper.changed(row.network)}-seed-{seed}"
            members[name] = Member(name, (*row.network.split(), f"training.seed={seed}"))
        for row in (row for row in rows if row.second and not ml_only):
            # the same seed as its first stage, so the same articles are held out
            start = members[f"ml/{paper.changed(row.network)}-seed-{seed}"]
            init = f"training.init={json.dumps(str(job.out / start.name / 'best'))}"
            second_stage = (*changes(recipe, going_on), *start.overrides, f"training.objective={row.second}", init)
            name = f"second/{row.slug}-seed-{seed}"
            members[name] = Member(name, second_stage, start.name)
    lines, problems = train_all(job, recipe, list(members.values()))
    name = "ablation-ml" if study == "ablation" and ml_only else study
    return dataclasses.replace(ablation_table(list(lines.values()), rows, name), problems=problems)


def study_rl(init: Path, recipe: str | Path | None, overrides: Sequence[str], job: Job, seeds: int = 3) -> Report:
    """DCRL, SCST and continued ML from one network with the same steps, rate and seeds: table, curves, disagreements.

    What is held out for selection is what was held out when the starting network was trained.
    """
    started = init_recipe(init)
    settings = (
        load_recipe(recipe, overrides)
        if recipe is not None
        else recipe_from(to_tree(started), [*SECOND_STAGE, *overrides])
    )
    held = [f"training.init={json.dumps(str(init))}", f"training.holdout_seed={split_seed(started.training)}"]
    settings = recipe_from(to_tree(settings), held)
    job = claim(job, "rl", {"runs": settings}, init=fingerprint(init))
    start = _start(init, settings, job)
    start = {"kind": "training", **job.about, "row": START, "seed": 0, **start}
    keep(job.keep, [start])
    members = [
        Member(f"runs/{objective}-seed-{seed}", (f"training.objective={objective}", f"training.seed={seed}"))
        for seed in range(1, seeds + 1)
        for objective in OBJECTIVES
    ]
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
    pairs = {
        n: [job.out / "runs" / f"{one}-seed-{n}" / "best" for one in ("dcrl", "scst")] for n in range(1, seeds + 1)
    }
    both = [seed for seed, folders in pairs.items() if all(folder.is_dir() for folder in folders)]
    if both:
        folders = [job.out / "runs" / f"{objective}-seed-{both[0]}" / "best" for objective in ("dcrl", "scst")]
        dataset = read_squad(job.dev)
        cases = disagreements.compare(folders, dataset, job.device)
        title, total = f"Where DCRL and SCST disagree (seed {both[0]})", sum(1 for _ in dataset.questions())
        report.files.append(job.out / "disagreements.html")
        write_whole(report.files[-1], disagreements.page(title, ("DCRL", "SCST"), cases, total).encode())
        report.data["disagreements"] = disagreements.counts(cases)
    return report


def _start(init: Path, settings: Recipe, job: Job) -> dict[str, Any]:
    """The scores of the starting network on dev and on what is held out."""
    device = pick_device(job.device)
    weights, lexicon = read_init(init)
    text_inputs = TextInputs(settings.inputs, device)
    network = readerfolder.make_network(settings, lexicon, text_inputs.shape, text_inputs.tuned)
    readerfolder.load_weights(network, weights, str(init))
    _, held_out = split(encode_file(job.train), settings.training.holdout, split_seed(settings.training))
    network, longest = network.to(device), settings.decoding.max_length
    sets = {"dev": encode_file(job.dev), "held_out": held_out}
    feeds = {name: Feed(data, lexicon, device, text_inputs=text_inputs) for name, data in sets.items() if data}
    return {name: evaluate(network, feed, longest).tree() for name, feed in feeds.items()}


def draw(lines: Sequence[Line]) -> tuple[bytes, bytes]:
    """The curves of three objectives from one start, as PNG and SVG."""
    groups = {name: [line["curve"] for line in lines if line["row"] == slug] for slug, name in OBJECTIVES.items()}
    start = next((line for line in lines if line["row"] == START), {})
    known = {"dev F1": start.get("dev"), "selection F1": start.get("held_out")}
    return plots.curves(groups, {name: score["f1"] for name, score in known.items() if score})


def init_recipe(init: Path) -> Recipe:
    """The recipe of what is started from: a reader folder, a run, or a run's checkpoint."""
    for path in (init / "best" / "recipe.yaml", init / "recipe.yaml", init.parent / "run" / "recipe.yaml"):
        if path.is_file():
            return load_recipe(path)
    raise UserError(f"{init}: neither a reader folder nor a run; give what `rmreader train` left, as OUT/best.")
