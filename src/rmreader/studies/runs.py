"""The trainings of a study: run side by side, continued where they stopped, never done twice, each kept as a line."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rmreader.config import Recipe, load_recipe, recipe_from, save_recipe, to_tree
from rmreader.console import say
from rmreader.data.encode import encode_file
from rmreader.data.squad import read_squad
from rmreader.errors import UserError
from rmreader.files import file_sha256, write_whole
from rmreader.learning.log import curve, finished, read_log, seconds_of
from rmreader.learning.members import Member, Outcome, train_members
from rmreader.learning.setup import pick_device
from rmreader.readers.folder import open_folder
from rmreader.scoring.groups import each_question, each_twin, groups_of
from rmreader.studies.kept import Line, commit, device_name, identity, keep, read
from rmreader.studies.readers import load, predictions
from rmreader.studies.scores import scored


@dataclass(frozen=True)
class Job:
    """What all trainings of a study share."""

    train: Path
    dev: Path
    out: Path
    device: str | None = None
    at_once: int = 4
    """Trainings side by side; 0 is all of them."""
    seeds: int = 3
    """Trainings of each kind."""
    curve: bool = False
    """Score dev at every evaluation."""
    keep: Path | None = None
    """File that the lines go to."""
    attacks: Mapping[str, Path] = field(default_factory=dict)
    """Adversarial files to score every reader on, by name."""
    until: float = math.inf
    """When to stop, by the monotonic clock; the same command continues."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What ``claim`` found: study, setting and data."""


def claim(job: Job, study: str, stages: Mapping[str, Recipe], **more: str) -> Job:
    """Make the study's folder ours: new, or with the same study of the same files and recipes in it."""
    about = {"study": study, "train": file_sha256(job.train), "dev": file_sha256(job.dev), **more}
    paths = {stage: job.out / stage / "recipe.yaml" for stage in stages}
    for stage, path in paths.items():
        if path.is_file():
            _same(path.parent, _flat(load_recipe(path)), _flat(stages[stage]))
    path = job.out / "study.json"
    if path.is_file():
        _same(job.out, json.loads(path.read_text(encoding="utf-8")), about)
    write_whole(path, (json.dumps(about, indent=1) + "\n").encode())
    for stage, path in paths.items():
        path.parent.mkdir(exist_ok=True)
        save_recipe(stages[stage], path)
    shared = json.dumps([about, *({**_flat(one), "training.init": ""} for one in stages.values())], sort_keys=True)
    data = {name: f"{one.name} {about[name][:10]}" for name, one in (("train", job.train), ("dev", job.dev))}
    setting = hashlib.sha256(shared.encode()).hexdigest()[:10]
    if job.keep is not None:
        line = {"kind": "questions", "study": "questions", "row": data["dev"], **groups_of(read_squad(job.dev))}
        keep(job.keep.with_name("questions.jsonl"), [line])
    return dataclasses.replace(job, about={"study": study, "setting": setting, "data": data})


def _same(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for key, value in now.items():
        if before.get(key) != value:
            raise UserError(
                f"{folder}: holds trainings that began otherwise: {key} was {before.get(key)}, is {value}; "
                "give another folder, or start as before."
            )


def _flat(recipe: Recipe) -> dict[str, Any]:
    return {f"{name}.{key}": value for name, section in to_tree(recipe).items() for key, value in section.items()}


def changes(before: Recipe, after: Recipe) -> list[str]:
    """The overrides that make one recipe of another."""
    old = _flat(before)
    return [f"{key}={json.dumps(value)}" for key, value in _flat(after).items() if value != old[key]]


def train_all(job: Job, recipe: Recipe, members: Sequence[Member]) -> tuple[dict[str, Line], list[str]]:
    """Train the members that are not finished into ``out/NAME``: a line for each that is, and why others are not.

    A name is STAGE/ROW-seed-SEED, as ``second/dcrl-full-seed-1``. A training of another machine, whose line is kept and
    whose folder is not here, is done again only where another one starts from it.
    """
    for member in members:  # a mistake in any of them is told before the first one starts
        recipe_from(to_tree(recipe), member.overrides)
    kept = {f"{line['row']}-seed-{line['seed']}": line for line in _kept(job)}
    elsewhere = {one.name: kept[key] for one in members if (key := one.name.partition("/")[2]) in kept}
    done = {member.name for member in members if _complete(job.out / member.name)}
    waiting = [member for member in members if member.name not in done | elsewhere.keys()]
    starts = {member.after for member in waiting} - done
    waiting = [one for one in members if one in waiting or one.name in starts]
    if len(waiting) < len(members):
        say(f"{job.out}: {len(members) - len(waiting)} of {len(members)} trainings are finished already.")
    problems: dict[str, str] = {}
    wide = max(sum(bool(one.after) == later for one in members) for later in (False, True))
    beside = min(job.at_once or wide, wide)

    def ended(outcome: Outcome) -> None:
        """Keep a training when it ends, whatever becomes of the others."""
        if _complete(job.out / outcome.name):
            done.add(outcome.name)
            line = line_of(job, job.out / outcome.name, beside, ask=False)
            keep(job.keep, [line])
            left, scores = len(members) - len(done), f"EM {line['dev']['exact_match']:.2f}, F1 {line['dev']['f1']:.2f}"
            say(f"{outcome.name}: {scores} on dev after {outcome.seconds:.0f} s; {left} of {len(members)} are left.")

    if waiting:
        asked = {"dev": job.dev, **job.attacks} if job.keep else {}
        for data in {job.train, job.dev, *asked.values()}:
            encode_file(data)  # once, instead of in every training
        options = ["--train", str(job.train), "--dev", str(job.dev), *(["--curve"] if job.curve else [])]
        options += [word for name, path in asked.items() for word in ("--predict", f"{name}={path}")]
        options += ["--device", job.device] if job.device else []
        recipe_file = job.out / members[0].name.partition("/")[0] / "recipe.yaml"
        words = recipe_file, recipe, waiting, options, job.out, job.at_once
        outcomes = train_members(*words, resume=True, ended=ended, until=job.until)
        problems = {outcome.name: outcome.problem for outcome in outcomes}
        done.update(member.name for member in waiting if _complete(job.out / member.name))
    lines = {name: line_of(job, job.out / name, beside) for name in (one.name for one in members) if name in done}
    keep(job.keep, list(lines.values()))
    lines = elsewhere | lines
    again = "it stopped before its end; give the command again"
    return lines, [f"{m.name}: {problems.get(m.name) or again}" for m in members if m.name not in lines]


def _kept(job: Job) -> list[Line]:
    """The lines of this study's trainings from before."""
    about = {"kind": "training", "study": job.about.get("study"), "setting": job.about.get("setting")}
    return [line for line in read(job.keep) if about.items() <= {key: line.get(key) for key in about}.items()]


def _complete(folder: Path) -> bool:
    """Whether a run came to its end and was not killed after it, before its confidences were calibrated."""
    if finished(folder) is None:
        return False
    reader = open_folder(folder / "best")
    return "calibration" in reader.about or reader.recipe.training.holdout == 0


def line_of(job: Job, folder: Path, beside: int, ask: bool = True) -> Line:
    """All that a table needs of a finished training; what was measured before is not measured again.

    What the training did not answer at its end, the reader is asked here, if it may be.
    """
    end, recipe, events = finished(folder), load_recipe(folder / "run" / "recipe.yaml"), read_log(folder / "log.jsonl")
    assert end is not None
    row, seed = folder.name.rpartition("-seed-")[0], recipe.training.seed
    line: Line = {"kind": "training", **job.about, "row": row, "seed": seed}
    known = next((old for old in read(job.keep) if identity(old) == identity(line)), {})
    new: Line = {name: known[name] for name in ("each", "addsent", "addonesent", "twins") if name in known}
    for name, path in {"dev": job.dev, **job.attacks}.items() if job.keep else ():
        answered = folder / "predictions" / f"{name}.json"
        if ("each" if name == "dev" else name) not in new and (ask or answered.is_file()):
            dataset = read_squad(path)
            if not answered.is_file():
                device = pick_device(job.device)  # a GPU where there is one; else as `evaluate` reads
                reader = load(folder / "best", str(device) if device.type == "cuda" else job.device)
                write_whole(answered, json.dumps(predictions(reader, dataset)).encode())
            texts = json.loads(answered.read_text(encoding="utf-8"))
            if name == "dev":
                new["each"] = each_question(dataset, texts)
            else:
                new |= {name: scored(dataset, texts, attacked=True)}
                new.setdefault("twins", each_twin(dataset, texts))  # of the first, AddSent
    default, skip = _flat(Recipe()), ("training.seed", "training.init")
    new |= {
        "recipe": {k: value for k, value in _flat(recipe).items() if value != default[k] and k not in skip},
        "steps": end["step"],
        "dev": end["scores"]["dev"],
        "held_out": end["scores"].get("selection"),
        "seconds": round(seconds_of(events, recipe.training.batch_size), 1),
        **({"curve": curve(events)} if job.curve else {}),
    }
    here = {"commit": commit(), "beside": beside, "device": device_name(job.device)}
    return {**line, **new, **{key: known.get(key) or value for key, value in here.items()}}  # as when it was trained
