"""The studies that train: Table 4's ablations, Table 1's architectures, and DCRL beside SCST.

A row of Table 4 is a network trained by maximum likelihood and then reinforced. Rows that share a
first stage share its trainings: without a second stage (2) is the full network's first, and (4)
reinforces the same one by SCST.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from lab.members import Member, variants
from lab.results import Line, keep
from lab.runs import Job, claim, start_scores, train_all
from lab.studies import disagreements, paper
from lab.studies.attention import study_attention
from lab.studies.report import Report, keep_report, save
from lab.studies.scores import study_breakdown, study_scores
from lab.studies.tables import OBJECTIVES, START, ablation_table, rl_table
from rmreader.core.errors import UserError
from rmreader.core.recipe import Recipe, load_recipe, recipe_from, to_tree
from rmreader.data.split import split_seed
from rmreader.data.squad import read_squad
from rmreader.readers.folder import RECIPE
from rmreader.training.run_folder import find_init, fingerprint, flat

# What the second stage changes: the paper's rate and halving. Patience never ends a run, so that
# all have the same budget.
SECOND_STAGE = [
    "training.rate=1e-4",
    "training.warmup=0",
    "training.schedule=halve",
    "training.patience=1000",
    "training.epochs=4",
    "training.evaluate_every=0.5",
]


def study_ablation(
    recipe: Recipe,
    job: Job,
    rows: Sequence[paper.Ablation],
    name: str = "ablation",
    second: Sequence[str] = (),
    starts_first: bool = False,
) -> Report:
    """Table 4: train what the rows need and compare them.

    ``ablation-ml`` and ``rounds`` compare after maximum likelihood alone. ``second`` changes
    settings of the second stage. A seed's trainings come together, so that a study that is stopped
    has whole seeds; with ``starts_first`` all first stages come before any second one, as where
    they alone answer together. A second stage has its first one's seed, so that the same articles
    are held out.
    """
    recipe = recipe_from(to_tree(recipe), ["training.objective=ml"])
    overrides = [] if name == "rounds" else [*SECOND_STAGE, *second]
    second_recipe = recipe_from(to_tree(recipe), overrides, "the second stage")
    before = flat(recipe)
    changes = []
    for key, value in flat(second_recipe).items():
        if value != before[key]:
            changes.append(f"{key}={json.dumps(value)}")
    job = claim(job, name.partition("-")[0], {"ml": recipe, "second": second_recipe})

    members: dict[str, Member] = {}
    for seed in range(1, job.seeds + 1):
        for row in rows:
            first = _first_stage(row, seed)
            members.setdefault(first.name, first)
            if row.second and name == "ablation":
                later = _second_stage(row, seed, first, changes, job.out)
                members.setdefault(later.name, later)
    trainings = list(members.values())
    if starts_first:
        trainings.sort(key=lambda member: member.after != "")

    lines, problems = train_all(job, recipe, trainings)
    table = ablation_table(list(lines.values()), rows, name)
    return replace(table, problems=problems)


def _first_stage(row: paper.Ablation, seed: int) -> Member:
    """A row's training by maximum likelihood, which several rows may share."""
    overrides = (*row.network.split(), f"training.seed={seed}")
    return Member(f"ml/{row.first}-seed-{seed}", overrides)


def _second_stage(
    row: paper.Ablation,
    seed: int,
    first: Member,
    changes: Sequence[str],
    out: Path,
) -> Member:
    """What continues a first stage by the row's second objective."""
    start = json.dumps(str(out / first.name / "best"))
    overrides = (
        *changes,
        *first.overrides,
        f"training.objective={row.second}",
        f"training.init={start}",
    )
    return Member(f"second/{row.slug}-seed-{seed}", overrides, after=first.name)


def study_rl(
    init: str, recipe: str | None, overrides: Sequence[str], job: Job, vary: Sequence[str] = ()
) -> Report:
    """DCRL, SCST and continued ML from one network with the same steps, rate and seeds.

    Makes a table, curves, and a page of disagreements. ``vary`` are variants of DCRL, as
    ``k32:training.top_k=32``. What is held out for selection is what was held out when the starting
    network was trained.
    """
    started = _init_recipe(init)
    if recipe:
        settings = load_recipe(recipe, overrides)
    else:
        settings = recipe_from(to_tree(started), [*SECOND_STAGE, *overrides])
    same_start = [
        f"training.init={json.dumps(init)}",
        f"training.holdout_seed={split_seed(started.training)}",
    ]
    settings = recipe_from(to_tree(settings), same_start)
    job = claim(job, "rl", {"runs": settings}, init=fingerprint(Path(init)))
    start: Line = {
        "kind": "training",
        **job.about,
        "row": START,
        "seed": 0,
        **start_scores(job, settings),
    }
    keep(job.keep, [start])

    trained, problems = train_all(job, settings, list(_rl_members(job, vary)))
    report = replace(rl_table([start, *trained.values()]), problems=problems)
    before = started.training.holdout
    now = settings.training.holdout
    if now > before:
        report.notes.append(
            "The starting network learned from articles that are held out here "
            f"(training.holdout was {before:g}, is {now:g}): selection F1 is too high."
        )
    for seed in range(1, job.seeds + 1):
        names = [f"runs/{objective}-seed-{seed}" for objective in ("dcrl", "scst")]
        folders = [job.out / name / "best" for name in names]
        # The line of a training that another machine finished has no folder here.
        if trained.keys() >= set(names) and all(folder.is_dir() for folder in folders):
            _add_disagreements(report, job, folders, seed, start["dev"]["total"])
            break
    return report


def _rl_members(job: Job, vary: Sequence[str]) -> Iterator[Member]:
    """A training for every seed and objective, then the variants of DCRL."""
    for seed in range(1, job.seeds + 1):
        for objective in OBJECTIVES:
            overrides = (f"training.objective={objective}", f"training.seed={seed}")
            yield Member(f"runs/{objective}-seed-{seed}", overrides)
    if vary:
        for variant in variants(vary, job.seeds):
            changes = ("training.objective=dcrl", *variant.overrides)
            yield Member(f"runs/dcrl-{variant.name}", changes)


def _add_disagreements(
    report: Report, job: Job, folders: Sequence[Path], seed: int, total: int
) -> None:
    """Add the page of the questions on which DCRL and SCST disagree."""
    cases = disagreements.compare(folders, read_squad(job.dev), job.device)
    report.files["disagreements.html"] = partial(
        disagreements.page,
        f"Where DCRL and SCST disagree (seed {seed})",
        ("DCRL", "SCST"),
        cases,
        total,
    )
    report.data["disagreements"] = disagreements.counts(cases)


def study_all(recipe: Recipe, job: Job, rows: str = "", second: Sequence[str] = ()) -> list[str]:
    """Run every study below ``job.out``, with its lines in ``job.out/log``.

    Returns what failed. Continues where it was stopped.
    """

    def part(name: str) -> Job:
        """The job of one study."""
        return replace(
            job,
            out=job.out / name,
            keep=job.out / "log" / f"{name}.jsonl",
            curve=name == "rl",
        )

    ablation = part("ablation")
    reports = [
        study_ablation(recipe, ablation, paper.choose(rows, False), second=second),
        study_ablation(recipe, part("rounds"), paper.ROUNDS, "rounds"),
    ]
    start = ablation.out / "ml" / "full-seed-1" / "best"
    if start.is_dir():
        reports.append(study_rl(str(start), None, second, part("rl")))
    for report in reports:
        save(report, job.out / report.name)
    _study_readers(job, ablation)

    problems = []
    for report in reports:
        problems += report.problems
    return problems


def _study_readers(job: Job, ablation: Job) -> None:
    """Ask the readers that the ablation trained: attention, scores, and a breakdown."""
    log = job.out / "log"
    full = _best_readers(ablation, "dcrl-full")
    without = _best_readers(ablation, "dcrl-reattention-false")
    if full and without:
        readers = {"without": without, "with": full}
        study_attention(job.dev, readers, job.device, keep_to=log / "attention.jsonl")
    if not full:
        return
    keep_report(log / "squad.jsonl", study_scores({"dev": job.dev}, full, job.device))
    if len(job.attacks) == 2:
        keep_report(log / "adversarial.jsonl", study_scores(job.attacks, full, job.device))
    for report in study_breakdown(full, job.dev, job.attacks.get("addsent"), job.device):
        keep_report(log / "breakdown.jsonl", report)


def _best_readers(ablation: Job, slug: str) -> list[str]:
    """The readers of a row of Table 4, one for each seed."""
    second = ablation.out / "second"
    return [str(path.parent) for path in sorted(second.glob(f"{slug}-seed-*/best"))]


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
