"""The studies that train: Table 4's ablations, Table 1's architectures, and DCRL against SCST
against more ML.

A row of Table 4 is a network trained by maximum likelihood and then reinforced. Rows that share a
first stage share its trainings: without a second stage (2) is the full network's first, and (4)
reinforces the same one by SCST.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from lab.members import Member, variants
from lab.results import keep
from lab.runs import Job, claim, start_scores, train_all
from lab.studies import disagreements, paper
from lab.studies.attention import study_attention
from lab.studies.report import WORDS, Report, keep_report, save
from lab.studies.scores import study_breakdown, study_scores
from lab.studies.tables import OBJECTIVES, START, ablation_table, rl_table
from rmreader.core.errors import UserError
from rmreader.core.recipe import Recipe, load_recipe, recipe_from, to_tree
from rmreader.data.split import split_seed
from rmreader.data.squad import read_squad
from rmreader.readers.folder import RECIPE
from rmreader.training.run_folder import find_init, fingerprint, flat


def study_ablation(
    recipe: Recipe,
    job: Job,
    rows: Sequence[paper.Ablation],
    name: str = "ablation",
    second: Sequence[str] = (),
    starts_first: bool = False,
) -> Report:
    """Table 4: train what the rows need and compare; as ``ablation-ml`` and ``rounds``, after
    maximum likelihood alone.

    ``second`` changes settings of the second stage. A seed's trainings come together, so that a
    study that is stopped has whole seeds; with ``starts_first`` all first stages come before any
    second one, as where they alone answer together. A second stage has its first one's seed, so
    that the same articles are held out.
    """
    recipe = recipe_from(to_tree(recipe), ["training.objective=ml"])
    further = [] if name == "rounds" else [*WORDS["second_stage"], *second]
    going_on = recipe_from(to_tree(recipe), further, "the second stage")
    changes = [
        f"{key}={json.dumps(value)}"
        for key, value in flat(going_on).items()
        if value != flat(recipe)[key]
    ]
    job = claim(job, name.partition("-")[0], {"ml": recipe, "second": going_on})
    members: dict[str, Member] = {}

    def add(row: paper.Ablation, seed: int) -> None:
        """Add the two stages of a row, each unless it is there."""
        start = f"ml/{row.first}-seed-{seed}"
        first = Member(start, (*row.network.split(), f"training.seed={seed}"))
        members.setdefault(start, first)
        if row.second and name == "ablation":
            init = f"training.init={json.dumps(str(job.out / first.name / 'best'))}"
            words = *changes, *first.overrides, f"training.objective={row.second}", init
            later = f"second/{row.slug}-seed-{seed}"
            members.setdefault(later, Member(later, words, first.name))

    seeds = range(1, job.seeds + 1)
    for seed in seeds:
        for row in rows:
            add(row, seed)
    trainings = list(members.values())
    if starts_first:
        trainings.sort(key=lambda member: member.after != "")
    lines, problems = train_all(job, recipe, trainings)
    return replace(ablation_table(list(lines.values()), rows, name), problems=problems)


def study_rl(
    init: str, recipe: str | None, overrides: Sequence[str], job: Job, vary: Sequence[str] = ()
) -> Report:
    """DCRL, SCST and continued ML from one network with the same steps, rate and seeds: table,
    curves, disagreements.

    ``vary`` are variants of DCRL, as ``k32:training.top_k=32``. What is held out for selection is
    what was held out when the starting network was trained.
    """
    started = _init_recipe(init)
    words = overrides if recipe else [*WORDS["second_stage"], *overrides]
    settings = load_recipe(recipe, words) if recipe else recipe_from(to_tree(started), words)
    held = [
        f"training.init={json.dumps(init)}",
        f"training.holdout_seed={split_seed(started.training)}",
    ]
    settings = recipe_from(to_tree(settings), held)
    job = claim(job, "rl", {"runs": settings}, init=fingerprint(Path(init)))
    start = {
        "kind": "training",
        **job.about,
        "row": START,
        "seed": 0,
        **start_scores(job, settings),
    }
    keep(job.keep, [start])
    kinds = {objective: (f"training.objective={objective}",) for objective in OBJECTIVES}
    members = [
        Member(f"runs/{objective}-seed-{seed}", (*words, f"training.seed={seed}"))
        for seed in range(1, job.seeds + 1)
        for objective, words in kinds.items()
    ]
    for one in variants(vary, job.seeds) if vary else ():
        members.append(Member(f"runs/dcrl-{one.name}", (*kinds["dcrl"], *one.overrides)))
    trained, problems = train_all(job, settings, members)
    lines = [start, *trained.values()]
    report = replace(rl_table(lines), problems=problems)
    if settings.training.holdout > started.training.holdout:
        report.notes.append(
            WORDS["held_out"].format(was=started.training.holdout, now=settings.training.holdout)
        )
    for seed in range(1, job.seeds + 1):
        folders = [
            job.out / "runs" / f"{objective}-seed-{seed}" / "best" for objective in ("dcrl", "scst")
        ]
        if all(f"runs/{folder.parent.name}" in trained and folder.is_dir() for folder in folders):
            cases = disagreements.compare(folders, read_squad(job.dev), job.device)
            about = (
                f"Where DCRL and SCST disagree (seed {seed})",
                ("DCRL", "SCST"),
                cases,
                start["dev"]["total"],
            )
            report.files["disagreements.html"] = partial(disagreements.page, *about)
            report.data["disagreements"] = disagreements.counts(cases)
            break
    return report


def study_all(recipe: Recipe, job: Job, rows: str = "", second: Sequence[str] = ()) -> list[str]:
    """Run every study below ``job.out``, its lines in ``job.out/log``; what failed. Continues
    where it was stopped."""
    log, names = job.out / "log", ("ablation", "rounds", "rl")
    jobs = [
        replace(job, out=job.out / name, keep=log / f"{name}.jsonl", curve=name == "rl")
        for name in names
    ]
    trained = [study_ablation(recipe, jobs[0], paper.choose(rows, False), second=second)]
    trained.append(study_ablation(recipe, jobs[1], paper.ROUNDS, "rounds"))
    first = jobs[0].out / "ml" / "full-seed-1" / "best"
    trained += [study_rl(str(first), None, second, jobs[2])] if first.is_dir() else []
    for one in trained:
        save(one, job.out / one.name)
    without, with_ = (
        [str(path.parent) for path in sorted((jobs[0].out / "second").glob(f"{slug}-seed-*/best"))]
        for slug in ("dcrl-reattention-false", "dcrl-full")
    )
    if without and with_:
        study_attention(
            job.dev,
            {"without": without, "with": with_},
            job.device,
            keep_to=log / "attention.jsonl",
        )
    if with_:
        asked = [{"dev": job.dev}, *([job.attacks] if len(job.attacks) == 2 else [])]
        made = [study_scores(one, with_, job.device) for one in asked]
        for one in [
            *made,
            *study_breakdown(with_, job.dev, job.attacks.get("addsent"), job.device),
        ]:
            keep_report(log / f"{one.name.replace('failures', 'breakdown')}.jsonl", one)
    return [problem for one in trained for problem in one.problems]


def _init_recipe(init: str) -> Recipe:
    """The recipe of what ``training.init`` names."""
    manifest = find_init(init)
    if manifest is not None:
        for folder in (manifest.parent, manifest.parent.parent / "run"):
            if (folder / RECIPE).is_file():
                return load_recipe(folder / RECIPE)
    raise UserError(
        f"{init}: neither a reader folder nor a run; give what `rmreader train` left, as OUT/best."
    )
