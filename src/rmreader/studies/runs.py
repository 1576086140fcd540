"""The trainings of a study: started side by side, gone on with where they stopped, and never done twice."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmreader.config import Recipe, load_recipe, recipe_from, save_recipe, to_tree
from rmreader.errors import UserError
from rmreader.files import file_sha256
from rmreader.learning.log import read_log, say
from rmreader.learning.members import Member, train_members
from rmreader.learning.schedule import check
from rmreader.readers.folder import open_folder

SECOND_STAGE = (
    "training.rate=1e-4",
    "training.warmup=0",
    "training.schedule=halve",
    "training.patience=1000",
    "training.epochs=4",
    "training.evaluate_every=0.5",
)
"""How training goes on after maximum likelihood, unless told otherwise: the paper's rate and halving. Patience never
ends a run early, so that all objectives get the same budget."""


@dataclass(frozen=True)
class Job:
    """What all trainings of a study share."""

    train: Path
    dev: Path
    out: Path
    device: str | None = None
    at_once: int = 4
    """Trainings side by side; 0 is all of them."""
    curve: bool = False
    """Score dev at every evaluation."""


@dataclass(frozen=True)
class Run:
    """A training that came to its end."""

    folder: Path
    dev: dict[str, float]
    """Scores of its reader on dev."""

    @property
    def score(self) -> tuple[float, float]:
        """EM and F1 on dev."""
        return self.dev["exact_match"], self.dev["f1"]

    @property
    def reader(self) -> Path:
        """The reader folder."""
        return self.folder / "best"


def claim(job: Job, study: str, **more: str) -> None:
    """Make the study's folder ours: new, or holding the same study of the same files."""
    about = {"study": study, "train": file_sha256(job.train), "dev": file_sha256(job.dev), **more}
    path = job.out / "study.json"
    if path.is_file():
        _same(job.out, json.loads(path.read_text(encoding="utf-8")), about)
        return
    job.out.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def _same(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for key, value in now.items():
        if before.get(key) != value:
            raise UserError(
                f"{folder}: holds trainings that began otherwise: {key} was {before.get(key)}, is {value}; "
                "give another folder, or start as before."
            )


def check_stage(job: Job, stage: str, recipe: Recipe, members: Sequence[Member] = ()) -> None:
    """Refuse a stage that began otherwise, and a mistake in any of its trainings, before the first one starts."""
    folder = job.out / stage
    if (folder / "recipe.yaml").is_file():
        _same(folder, _flat(load_recipe(folder / "recipe.yaml")), _flat(recipe))
    check(recipe.training)
    for member in members:
        check(recipe_from(to_tree(recipe), member.overrides).training)


def train_all(job: Job, stage: str, recipe: Recipe, members: Sequence[Member]) -> tuple[dict[str, Run], list[str]]:
    """Train the members that are not finished into ``out/STAGE/NAME``: all that are by then, and why others are not."""
    check_stage(job, stage, recipe, members)
    folder = job.out / stage
    waiting = [member for member in members if not _complete(folder / member.name)]
    if done := len(members) - len(waiting):
        say(f"{folder}: {done} of {len(members)} trainings are finished already.")
    problems: dict[str, str] = {}
    if waiting:
        folder.mkdir(parents=True, exist_ok=True)
        save_recipe(recipe, folder / "recipe.yaml")
        options = ["--train", str(job.train), "--dev", str(job.dev)]
        options += ["--device", job.device] if job.device else []
        options += ["--curve"] if job.curve else []
        outcomes = train_members(folder / "recipe.yaml", recipe, waiting, options, folder, job.at_once, resume=True)
        problems = {outcome.name: outcome.problem for outcome in outcomes}
    runs = {member.name: finished(folder / member.name) for member in members}
    stopped = "it stopped before its end; give the command again"
    unfinished = [f"{stage}/{name}: {problems[name] or stopped}" for name, run in runs.items() if run is None]
    return {name: run for name, run in runs.items() if run is not None}, unfinished


def _flat(recipe: Recipe) -> dict[str, Any]:
    tree = to_tree(recipe)
    return {f"{section}.{key}": value for section, values in tree.items() for key, value in values.items()}


def finished(folder: Path) -> Run | None:
    """The run in a folder, if it came to its end."""
    for event in reversed(read_log(folder / "log.jsonl")):
        if event["event"] == "end" and (folder / "best").is_dir():
            return Run(folder, dict(event["scores"]["dev"]))
    return None


def _complete(folder: Path) -> bool:
    """Whether a run came to its end and was not broken off behind it, before its confidences were calibrated."""
    if finished(folder) is None:
        return False
    reader = open_folder(folder / "best")
    return "calibration" in reader.about or reader.recipe.training.holdout == 0


def evaluations(folder: Path) -> list[Mapping[str, Any]]:
    """What a run logged at its evaluations."""
    return [event for event in read_log(folder / "log.jsonl") if event["event"] == "evaluation"]
