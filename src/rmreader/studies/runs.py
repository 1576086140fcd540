"""The trainings of a study: run side by side, continued where they stopped, never done twice, each kept as a line."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rmreader.config import Recipe, load_recipe, recipe_from, save_recipe, to_tree
from rmreader.data.squad import read_squad
from rmreader.errors import UserError
from rmreader.files import file_sha256, write_whole
from rmreader.learning.log import read_log, say
from rmreader.learning.members import Member, Outcome, train_members
from rmreader.learning.setup import pick_device
from rmreader.readers.folder import open_folder
from rmreader.studies.kept import Line, commit, device_name, identity, keep, read
from rmreader.studies.readers import load, predictions
from rmreader.studies.scores import scored

SECOND_STAGE = (
    "training.rate=1e-4",
    "training.warmup=0",
    "training.schedule=halve",
    "training.patience=1000",
    "training.epochs=4",
    "training.evaluate_every=0.5",
)
"""How training continues after maximum likelihood, unless told otherwise: the paper's rate and halving. Patience never
ends a run early, so that all objectives get the same budget."""
MEASURES = ("reward_sample", "reward_greedy", "suppressed", "sample_better", "sigma_a", "sigma_b", "loss")


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
    keep: Path | None = None
    """File that the lines go to."""
    attacks: Mapping[str, Path] = field(default_factory=dict)
    """Adversarial files to score every reader on, by name."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What ``claim`` found: study, setting and data."""


def claim(job: Job, study: str, *recipes: Recipe, **more: str) -> Job:
    """Make the study's folder ours: new, or with the same study of the same files in it."""
    about = {"study": study, "train": file_sha256(job.train), "dev": file_sha256(job.dev), **more}
    path = job.out / "study.json"
    if path.is_file():
        _same(job.out, json.loads(path.read_text(encoding="utf-8")), about)
    else:
        write_whole(path, (json.dumps(about, indent=1) + "\n").encode())
    shared = json.dumps([about, *({**_flat(one), "training.init": ""} for one in recipes)], sort_keys=True)
    data = {name: f"{one.name} {about[name][:10]}" for name, one in (("train", job.train), ("dev", job.dev))}
    setting = hashlib.sha256(shared.encode()).hexdigest()[:10]
    return dataclasses.replace(job, about={"study": study, "setting": setting, "data": data})


def check_stage(job: Job, stage: str, recipe: Recipe, members: Sequence[Member] = ()) -> None:
    """Refuse a stage that began otherwise, and a mistake in any of its trainings, before the first one starts."""
    if (path := job.out / stage / "recipe.yaml").is_file():
        _same(path.parent, _flat(load_recipe(path)), _flat(recipe))
    for member in members:
        recipe_from(to_tree(recipe), member.overrides)


def _same(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for key, value in now.items():
        if before.get(key) != value:
            raise UserError(
                f"{folder}: holds trainings that began otherwise: {key} was {before.get(key)}, is {value}; "
                "give another folder, or start as before."
            )


def _flat(recipe: Recipe) -> dict[str, Any]:
    return {f"{name}.{key}": value for name, section in to_tree(recipe).items() for key, value in section.items()}


def train_all(job: Job, stage: str, recipe: Recipe, members: Sequence[Member]) -> tuple[dict[str, Line], list[str]]:
    """Train the members that are not finished into ``out/STAGE/NAME``: a line for each that is, and why others are not.

    A member's name ends with its seed, as ``dcrl-full-seed-1``.
    """
    check_stage(job, stage, recipe, members)
    folder = job.out / stage
    waiting = [member for member in members if not _complete(folder / member.name)]
    if earlier := len(members) - len(waiting):
        say(f"{folder}: {earlier} of {len(members)} trainings are finished already.")
    problems: dict[str, str] = {}
    beside = min(job.at_once or len(members), len(members))

    def ended(outcome: Outcome) -> None:
        """Keep a training when it ends, whatever becomes of the others; attacks can wait."""
        if _complete(folder / outcome.name):
            keep(job.keep, [line_of(job, folder / outcome.name, beside, {})])

    if waiting:
        folder.mkdir(parents=True, exist_ok=True)
        save_recipe(recipe, folder / "recipe.yaml")
        options = ["--train", str(job.train), "--dev", str(job.dev), *(["--curve"] if job.curve else [])]
        options += ["--device", job.device] if job.device else []
        path, at_once = folder / "recipe.yaml", job.at_once
        outcomes = train_members(path, recipe, waiting, options, folder, at_once, resume=True, ended=ended)
        problems = {outcome.name: outcome.problem for outcome in outcomes}
    done = [member.name for member in members if _complete(folder / member.name)]
    lines = {name: line_of(job, folder / name, beside, job.attacks) for name in done}
    keep(job.keep, list(lines.values()))
    again = "it stopped before its end; give the command again"
    return lines, [f"{stage}/{m.name}: {problems.get(m.name) or again}" for m in members if m.name not in lines]


def finished(folder: Path) -> dict[str, Any] | None:
    """The last event of the run in a folder, if it came to its end."""
    ends = [event for event in read_log(folder / "log.jsonl") if event["event"] == "end"]
    return ends[-1] if ends and (folder / "best").is_dir() else None


def _complete(folder: Path) -> bool:
    """Whether a run came to its end and was not killed after it, before its confidences were calibrated."""
    if finished(folder) is None:
        return False
    reader = open_folder(folder / "best")
    return "calibration" in reader.about or reader.recipe.training.holdout == 0


def line_of(job: Job, folder: Path, beside: int, attacks: Mapping[str, Path]) -> Line:
    """All that a table needs of a finished training; a reader that was attacked before is not attacked again."""
    end, recipe, events = finished(folder), load_recipe(folder / "run" / "recipe.yaml"), read_log(folder / "log.jsonl")
    assert end is not None
    row, seed = folder.name.rpartition("-seed-")[0], recipe.training.seed
    line: Line = {"kind": "training", **job.about, "row": row, "seed": seed}
    known = next((old for old in read(job.keep) if identity(old) == identity(line)), {})
    new: Line = {name: known[name] for name in ("addsent", "addonesent") if name in known}
    for name, path in attacks.items():
        if name not in new:
            dataset = read_squad(path)
            texts = predictions(load(folder / "best", _fastest(job)), dataset)
            new[name] = scored(dataset, texts, attacked=True)
    default, told = _flat(Recipe()), [event for event in events if event["event"] == "train"]
    spans = zip(told, [0, *(event["step"] for event in told)], strict=False)
    seconds = sum((e["step"] - at) * recipe.training.batch_size / e["questions_per_second"] for e, at in spans)
    skip = ("training.seed", "training.init")
    new |= {
        "recipe": {k: value for k, value in _flat(recipe).items() if value != default[k] and k not in skip},
        "steps": end["step"],
        "dev": end["scores"]["dev"],
        "held_out": end["scores"].get("selection"),
        "seconds": round(seconds, 1),
        **({"curve": curve(events)} if job.curve else {}),
    }
    here = {"commit": commit(), "beside": beside, "device": device_name(job.device)}
    return {**line, **new, **{key: known.get(key) or value for key, value in here.items()}}  # as when it was trained


def _fastest(job: Job) -> str | None:
    """The device to read on: the one that was given, or the GPU where there is one; else as ``evaluate`` reads."""
    device = pick_device(job.device)
    return str(device) if device.type == "cuda" else job.device


def curve(events: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    """What a run's evaluations measured, by name: (step, value)."""
    found: dict[str, list[tuple[int, float]]] = {}
    for event in (event for event in events if event["event"] == "evaluation"):
        values = {name: event[name] for name in MEASURES if name in event}
        for data, score in event.get("scores", {}).items():
            values |= {f"{data} F1": score["f1"], f"{data} EM": score["exact_match"]}
        for name, value in values.items():
            found.setdefault(name, []).append((int(event["step"]), float(value)))
    return found
