"""Many trainings as one job: side by side, continued where they stopped, never done twice, each
kept as a line."""

import dataclasses
import hashlib
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.members import Member, Outcome, train_members
from lab.results import Line, identity, keep, read
from lab.studies.groups import each_question, each_twin, groups_of
from rmreader.core.console import say
from rmreader.core.errors import UserError
from rmreader.core.files.atomic import write_whole
from rmreader.core.files.manifest import file_sha256
from rmreader.core.recipe import Recipe, load_recipe, recipe_from, save_recipe, to_tree
from rmreader.core.version import commit
from rmreader.data.encode import encode_file
from rmreader.data.squad import read_squad
from rmreader.readers.folder import RECIPE, open_folder
from rmreader.scoring.squad import read_predictions, score_adversarial
from rmreader.training.evaluate import evaluate
from rmreader.training.finish import answer_file
from rmreader.training.log import finished, read_log
from rmreader.training.prepare import device_name, prepare
from rmreader.training.run_folder import flat

_MEASURES = (
    "reward_sample",
    "reward_greedy",
    "suppressed",
    "sample_better",
    "sigma_a",
    "sigma_b",
    "loss",
)


@dataclass(frozen=True)
class Job:
    """What all trainings of a study share, and where they go."""

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
    """Make the study's folder ours: new, or with the same study of the same files and recipes in
    it."""
    about = {"study": study, "train": file_sha256(job.train), "dev": file_sha256(job.dev), **more}
    recipes = {job.out / stage / "recipe.yaml": recipe for stage, recipe in stages.items()}
    began = [
        (path.parent, flat(load_recipe(path)), flat(one))
        for path, one in recipes.items()
        if path.is_file()
    ]
    if (path := job.out / "study.json").is_file():
        began.append((job.out, json.loads(path.read_text(encoding="utf-8")), about))
    for folder, before, now in began:
        for key in (key for key in now if before.get(key) != now[key]):
            was = f"{key} was {before.get(key)}, is {now[key]}"
            remedy = "give another folder, or start as before."
            raise UserError(f"{folder}: holds trainings that began otherwise: {was}; {remedy}")
    write_whole(path, (json.dumps(about, indent=1) + "\n").encode())
    for path, recipe in recipes.items():
        path.parent.mkdir(exist_ok=True)
        save_recipe(recipe, path)
    usual, own = flat(Recipe()), [flat(one) | {"training.init": ""} for one in stages.values()]
    # a setting that the project gets later is at its default in all that is kept: defaults are not
    # part of the hash
    chosen = [{key: value for key, value in one.items() if value != usual[key]} for one in own]
    shared = json.dumps([about, *chosen], sort_keys=True)
    data = {
        name: f"{one.name} {about[name][:10]}"
        for name, one in (("train", job.train), ("dev", job.dev))
    }
    if job.keep is not None:
        line = {
            "kind": "questions",
            "study": "questions",
            "row": data["dev"],
            **groups_of(read_squad(job.dev)),
        }
        keep(job.keep.with_name("questions.jsonl"), [line])
    setting = hashlib.sha256(shared.encode()).hexdigest()[:10]
    return dataclasses.replace(job, about={"study": study, "setting": setting, "data": data})


def start_scores(job: Job, recipe: Recipe) -> dict[str, Any]:
    """The scores of what trainings of a recipe start from, on dev and on what is held out."""
    recipe = recipe_from(to_tree(recipe), ["training.objective=ml"])
    with tempfile.TemporaryDirectory() as folder:
        setup = prepare(recipe, job.train, job.dev, Path(folder), False, job.device, None)
    feeds, longest = {"dev": setup.dev, "held_out": setup.selection}, recipe.decoding.max_length
    return {
        name: evaluate(setup.network, feed, longest).tree() for name, feed in feeds.items() if feed
    }


def train_all(
    job: Job, recipe: Recipe, members: Sequence[Member]
) -> tuple[dict[str, Line], list[str]]:
    """Train the members that are not finished into ``out/NAME``: a line for each that is, and why
    others are not.

    A name is STAGE/ROW-seed-SEED, as ``second/dcrl-full-seed-1``. A training of another machine,
    whose line is kept and whose folder is not here, is done again only where another one starts
    from it.
    """
    for member in members:  # a mistake in any of them is told before the first one starts
        recipe_from(to_tree(recipe), member.overrides)
    ours = [("kind", "training"), *((key, job.about.get(key)) for key in ("study", "setting"))]
    found = [line for line in read(job.keep) if all(line.get(key) == value for key, value in ours)]
    kept = {f"{line['row']}-seed-{line['seed']}": line for line in found}
    lines = {one.name: kept[key] for one in members if (key := one.name.partition("/")[2]) in kept}
    done = {one.name for one in members if complete(job.out / one.name)}
    starts = {one.after for one in members if one.name not in done | lines.keys()}
    waiting = [
        one
        for one in members
        if one.name not in done and (one.name not in lines or one.name in starts)
    ]
    if len(waiting) < len(members):
        say(
            f"{job.out}: {len(members) - len(waiting)} of {len(members)} trainings are finished already."
        )
    wide = max(sum(bool(one.after) == later for one in members) for later in (False, True))
    beside, problems = min(job.at_once or wide, wide), dict[str, str]()

    def ended(outcome: Outcome) -> None:
        """Keep a training when it ends, whatever becomes of the others."""
        problems[outcome.name] = outcome.problem
        if complete(job.out / outcome.name):
            done.add(outcome.name)
            line = line_of(job, job.out / outcome.name, beside, ask=False)
            keep(job.keep, [line])
            left, scores = (
                len(members) - len(done),
                f"EM {line['dev']['exact_match']:.2f}, F1 {line['dev']['f1']:.2f}",
            )
            say(
                f"{outcome.name}: {scores} on dev after {outcome.seconds:.0f} s; {left} of {len(members)} are left."
            )

    if waiting:
        asked = {"dev": job.dev, **job.attacks} if job.keep else {}
        for data in {job.train, job.dev, *asked.values()}:
            encode_file(data)  # once, instead of in every training
        options = [
            "--train",
            str(job.train),
            "--dev",
            str(job.dev),
            *(["--curve"] if job.curve else []),
        ]
        options += [
            word for name, path in asked.items() for word in ("--predict", f"{name}={path}")
        ]
        options += ["--device", job.device] if job.device else []
        words = (
            job.out / members[0].name.partition("/")[0] / "recipe.yaml",
            recipe,
            waiting,
            options,
            job.out,
        )
        train_members(*words, job.at_once, resume=True, ended=ended, until=job.until)
        done.update(one.name for one in waiting if complete(job.out / one.name))
    lines |= {
        one.name: line_of(job, job.out / one.name, beside) for one in members if one.name in done
    }
    keep(job.keep, [lines[one.name] for one in members if one.name in done])
    again = "it stopped before its end; give the command again"
    return lines, [
        f"{one.name}: {problems.get(one.name) or again}" for one in members if one.name not in lines
    ]


def line_of(job: Job, folder: Path, beside: int, ask: bool = True) -> Line:
    """All that a table needs of a finished training; what was measured before is not measured
    again.

    What the training did not answer at its end, the reader is asked here, if it may be.
    """
    line: Line = {
        "kind": "training",
        **job.about,
        "row": folder.name.rpartition("-seed-")[0],
        **facts(folder, job.curve),
    }
    known = next((old for old in read(job.keep) if identity(old) == identity(line)), {})
    line |= {
        name: known[name] for name in ("each", "addsent", "addonesent", "twins") if name in known
    }
    for name, path in {"dev": job.dev, **job.attacks}.items() if job.keep else ():
        answered = folder / "predictions" / f"{name}.json"
        if ("each" if name == "dev" else name) in line or not (ask or answered.is_file()):
            continue
        dataset = read_squad(path)
        answer_file(folder / "best", path, answered, job.device)
        texts = read_predictions(answered)
        if name == "dev":
            line["each"] = each_question(dataset, texts)
        else:
            line[name] = score_adversarial(dataset, texts).tree()
            line.setdefault("twins", each_twin(dataset, texts))  # of the first, AddSent
    here = {"commit": commit(), "beside": beside, "device": device_name(job.device)}
    return line | {
        key: known.get(key) or value for key, value in here.items()
    }  # as when it was trained


def complete(run: Path) -> bool:
    """Whether a run came to its end and was not killed after it, before its confidences were
    calibrated."""
    if finished(run) is None:
        return False
    reader = open_folder(run / "best")
    return "calibration" in reader.about or reader.recipe.training.holdout == 0


def facts(run: Path, with_curve: bool = False) -> dict[str, Any]:
    """What is known of a complete run: settings that are not the default, steps, scores, and
    seconds of its steps."""
    end, recipe, events = (
        finished(run),
        load_recipe(run / "run" / RECIPE),
        read_log(run / "log.jsonl"),
    )
    assert end is not None
    default, apart = flat(Recipe()), ("training.seed", "training.init")
    return {
        "recipe": {
            key: value
            for key, value in flat(recipe).items()
            if value != default[key] and key not in apart
        },
        "seed": recipe.training.seed,
        "steps": end["step"],
        "dev": end["scores"]["dev"],
        "held_out": end["scores"].get("selection"),
        "seconds": round(seconds_of(events, recipe.training.batch_size), 1),
        **({"curve": curve(events)} if with_curve else {}),
    }


def seconds_of(events: Sequence[Mapping[str, Any]], batch_size: int) -> float:
    """How long the steps of a run took, by its speed on the way."""
    told = [event for event in events if event["event"] == "train"]
    spans = zip(told, [0, *(event["step"] for event in told)], strict=False)
    return float(
        sum((e["step"] - before) * batch_size / e["questions_per_second"] for e, before in spans)
    )


def curve(events: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    """What a run's evaluations measured, by name: (step, value)."""
    found: dict[str, list[tuple[int, float]]] = {}
    for event in (event for event in events if event["event"] == "evaluation"):
        values = {name: event[name] for name in _MEASURES if name in event}
        for data, score in event.get("scores", {}).items():
            values |= {f"{data} F1": score["f1"], f"{data} EM": score["exact_match"]}
        for name, value in values.items():
            found.setdefault(name, []).append((int(event["step"]), float(value)))
    return found
