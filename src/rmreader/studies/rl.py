"""The paper's second claim: from one network trained by maximum likelihood, DCRL against SCST against more of the same.

Every objective gets the same steps, the same rate and the same seeds; what is held out for selection is what was held
out when the starting network was trained, so that nobody selects on what was learned.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from rmreader.config import Recipe, load_recipe, recipe_from, to_tree
from rmreader.data.encode import encode_file
from rmreader.data.split import split, split_seed
from rmreader.errors import UserError
from rmreader.learning import readerfolder
from rmreader.learning.evaluate import Scores, evaluate
from rmreader.learning.feed import Feed
from rmreader.learning.members import Member
from rmreader.learning.outfolder import fingerprint
from rmreader.learning.setup import pick_device, read_init
from rmreader.learning.text_inputs import TextInputs
from rmreader.studies import curves, disagreements, paper
from rmreader.studies.report import Report, mean, shown, summary
from rmreader.studies.runs import SECOND_STAGE, Job, Run, check_stage, claim, evaluations, train_all

OBJECTIVES = {"dcrl": "DCRL", "scst": "SCST", "ml": "continued ML"}
Runs = dict[str, dict[int, Run]]
"""By objective and seed."""


def study_rl(init: Path, recipe: str | Path | None, overrides: Sequence[str], job: Job, seeds: int = 3) -> Report:
    """Train, score and compare; draws the curves and writes the page of disagreements."""
    started = init_recipe(init)
    if recipe is not None:
        settings = load_recipe(recipe, overrides)
    else:
        settings = recipe_from(to_tree(started), [*SECOND_STAGE, *overrides])
    held = [f"training.init={json.dumps(str(init))}", f"training.holdout_seed={split_seed(started.training)}"]
    settings = recipe_from(to_tree(settings), held)
    check_stage(job, "runs", settings)
    device = pick_device(job.device)
    weights, lexicon = read_init(init)
    text_inputs = TextInputs(settings.inputs, device)
    network = readerfolder.make_network(settings, lexicon, text_inputs.shape, text_inputs.tuned)
    readerfolder.load_weights(network, weights, str(init))
    claim(job, "rl", init=fingerprint(init))
    encoded = encode_file(job.dev)
    _, held_out = split(encode_file(job.train), settings.training.holdout, split_seed(settings.training))
    start, selection = (
        evaluate(network.to(device), Feed(data, lexicon, device, text_inputs=text_inputs), settings.decoding.max_length)
        if data is not None
        else None
        for data in (encoded, held_out)
    )
    assert start is not None
    del network, text_inputs

    members = [
        Member(f"{objective}-seed-{seed}", (f"training.objective={objective}", f"training.seed={seed}"))
        for seed in range(1, seeds + 1)
        for objective in OBJECTIVES
    ]
    trained, problems = train_all(job, "runs", settings, members)
    runs = {
        objective: {
            seed: trained[name] for seed in range(1, seeds + 1) if (name := f"{objective}-seed-{seed}") in trained
        }
        for objective in OBJECTIVES
    }
    report = _table(start, runs, problems)
    if settings.training.holdout > started.training.holdout:
        report.notes.append(
            f"The starting network learned from articles that are held out here (training.holdout was "
            f"{started.training.holdout:g}, is {settings.training.holdout:g}): selection F1 is too high."
        )
    _draw(job.out, {"dev F1": start, "selection F1": selection}, runs, report)
    _compare(job.out, runs, report, encoded, device)
    return report


def init_recipe(init: Path) -> Recipe:
    """The recipe of what is started from: a reader folder, a run, or a run's checkpoint."""
    for path in (init / "best" / "recipe.yaml", init / "recipe.yaml", init.parent / "run" / "recipe.yaml"):
        if path.is_file():
            return load_recipe(path)
    raise UserError(f"{init}: neither a reader folder nor a run; give what `rmreader train` left, as OUT/best.")


def _table(start: Scores, runs: Runs, problems: list[str]) -> Report:
    base = (start.exact_match, start.f1)
    rows: list[tuple[str, ...]] = [("ML, the start", shown(base[0]), shown(base[1]), *[""] * 6)]
    data: dict[str, Any] = {"start": {"exact_match": base[0], "f1": base[1], "total": start.total}}
    for objective, name in OBJECTIVES.items():
        found = [run.score for run in runs[objective].values()]
        scores = [[score[k] for score in found] for k in (0, 1)]
        gains = [[value - base[k] for value in scores[k]] for k in (0, 1)]
        hidden = [
            value for run in runs[objective].values() if (value := _mean_of(run.folder, "suppressed")) is not None
        ]
        cells = (*map(shown, scores), *_gains(gains, paper.gain(objective)))
        rows.append((name, *cells, f"{100 * sum(hidden) / len(hidden):.2f} %" if hidden else "", str(len(found))))
        data[objective] = {
            "seeds": list(runs[objective]),
            **_both("", scores),
            **_both("gain_", gains),
            "suppressed": mean(hidden),
            "curves": {str(seed): curves.read(evaluations(run.folder)) for seed, run in runs[objective].items()},
        }
    shared = sorted(runs["dcrl"].keys() & runs["scst"].keys())  # seed by seed, so that what both share falls out
    gaps = [[runs["dcrl"][seed].score[k] - runs["scst"][seed].score[k] for seed in shared] for k in (0, 1)]
    ours, theirs = paper.gain("dcrl"), paper.gain("scst")
    assert ours is not None
    assert theirs is not None
    rows.append(
        ("DCRL − SCST", "", "", *_gains(gaps, (ours[0] - theirs[0], ours[1] - theirs[1])), "", str(len(shared)))
    )
    data["dcrl_minus_scst"] = _both("", gaps)
    return Report(
        name="rl",
        title="Reinforcement after maximum likelihood, on dev",
        header=("objective", "EM", "F1", "ΔEM", "ΔF1", "paper ΔEM", "paper ΔF1", "suppressed", "seeds"),
        rows=rows,
        data=data,
        notes=[
            "Means over seeds ± standard deviation; Δ is the gain over the starting network. 'suppressed' is the share "
            "of questions whose true start or end a training step pushed down (the paper's convergence suppression).",
        ],
        problems=problems,
    )


def _gains(ours: Sequence[Sequence[float]], theirs: paper.Score | None) -> tuple[str, ...]:
    """Our gains in EM and F1, and the paper's."""
    printed = (shown(theirs[k] if theirs else None, 1, sign=True) for k in (0, 1))
    return (*(shown(gain, sign=True) for gain in ours), *printed)


def _both(prefix: str, values: Sequence[Sequence[float]]) -> dict[str, Any]:
    """EM and F1 over seeds, as data."""
    return {f"{prefix}exact_match": summary(values[0]), f"{prefix}f1": summary(values[1])}


def _mean_of(folder: Path, measure: str) -> float | None:
    return mean([event[measure] for event in evaluations(folder) if measure in event])


def _draw(out: Path, starts: Mapping[str, Scores | None], runs: Runs, report: Report) -> None:
    drawn = {
        name: [curves.read(evaluations(run.folder)) for run in runs[key].values()] for key, name in OBJECTIVES.items()
    }
    try:
        report.files.extend(curves.draw(drawn, {name: score.f1 for name, score in starts.items() if score}, out))
    except ModuleNotFoundError:
        report.notes.append("The curves are not drawn: pip install 'rmreader[plots]', then give the command again.")


def _compare(out: Path, runs: Runs, report: Report, encoded: Any, device: torch.device) -> None:
    """The page of disagreements, from the first seed that has both readers."""
    both = sorted(runs["dcrl"].keys() & runs["scst"].keys())
    if not both:
        return
    folders = [runs[objective][both[0]].reader for objective in ("dcrl", "scst")]
    cases = disagreements.compare(folders[0], folders[1], encoded, device)
    report.files.append(out / "disagreements.html")
    title = f"Where DCRL and SCST disagree (seed {both[0]})"
    report.files[-1].write_text(disagreements.page(title, ("DCRL", "SCST"), cases, len(encoded)), encoding="utf-8")
    report.data["disagreements"] = disagreements.counts(cases)
