"""Many trainings as one job: several at a time, resumed where they stopped, never done twice.

Each finished training becomes a line of JSON in the file that the study keeps.
"""

import dataclasses
import hashlib
import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
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

# What is drawn of a run's evaluations, besides the scores.
MEASURES = (
    "reward_sample",
    "reward_greedy",
    "suppressed",
    "sample_better",
    "sigma_a",
    "sigma_b",
    "loss",
)
# What a reader answered, as a line has it: measured once, then copied from the kept line.
ANSWERED = ("each", "addsent", "addonesent", "twins")
UNFINISHED = "it stopped before its end; give the command again"


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
    """The study, its setting and its data, as ``claim`` writes them into every line."""

    @property
    def questions(self) -> dict[str, Path]:
        """The files that every reader answers, by name; none where no lines are kept."""
        if self.keep is None:
            return {}
        return {"dev": self.dev, **self.attacks}


def claim(job: Job, study: str, stages: Mapping[str, Recipe], **more: str) -> Job:
    """Make the study's folder ours: a new one, or one that holds the same study.

    The same study has the same files and the same recipe in every stage.
    """
    about = {
        "study": study,
        "train": file_sha256(job.train),
        "dev": file_sha256(job.dev),
        **more,
    }
    _refuse_another_study(job, about, stages)
    write_whole(job.out / "study.json", (json.dumps(about, indent=1) + "\n").encode())
    for stage, recipe in stages.items():
        path = job.out / stage / "recipe.yaml"
        path.parent.mkdir(exist_ok=True)
        save_recipe(recipe, path)

    data = {
        "train": f"{job.train.name} {about['train'][:10]}",
        "dev": f"{job.dev.name} {about['dev'][:10]}",
    }
    if job.keep is not None:
        line = {
            "kind": "questions",
            "study": "questions",
            "row": data["dev"],
            **groups_of(read_squad(job.dev)),
        }
        keep(job.keep.with_name("questions.jsonl"), [line])
    setting = _hash_of(about, stages)
    return dataclasses.replace(job, about={"study": study, "setting": setting, "data": data})


def _refuse_another_study(job: Job, about: Mapping[str, str], stages: Mapping[str, Recipe]) -> None:
    """Raise where the folder holds trainings of other recipes or files."""
    for stage, recipe in stages.items():
        path = job.out / stage / "recipe.yaml"
        if path.is_file():
            _refuse_changes(path.parent, flat(load_recipe(path)), flat(recipe))
    path = job.out / "study.json"
    if path.is_file():
        _refuse_changes(job.out, json.loads(path.read_text(encoding="utf-8")), about)


def _refuse_changes(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise at the first value that is no longer what it was."""
    for key, value in now.items():
        if before.get(key) != value:
            raise UserError(
                f"{folder}: holds trainings that began otherwise: "
                f"{key} was {before.get(key)}, is {value}; "
                "give another folder, or start as before."
            )


def _hash_of(about: Mapping[str, str], stages: Mapping[str, Recipe]) -> str:
    """Hash what makes trainings comparable: their files, and the settings that were chosen.

    Defaults are no part of it. A setting that the project gets later is at its default in all the
    lines from before, and they stay comparable.
    """
    chosen = []
    for recipe in stages.values():
        settings = flat(recipe) | {"training.init": ""}
        chosen.append(_not_default(settings))
    shared = json.dumps([about, *chosen], sort_keys=True)
    return hashlib.sha256(shared.encode()).hexdigest()[:10]


def _not_default(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that differ from the default.

    Of a file of word vectors the name says what it is, wherever it was.
    """
    default = flat(Recipe())
    vectors = Path(settings["inputs.vectors"]).name
    settings = {**settings, "inputs.vectors": vectors}
    return {key: value for key, value in settings.items() if value != default[key]}


def start_scores(job: Job, recipe: Recipe) -> dict[str, Any]:
    """Score what trainings of a recipe start from, on dev and on what is held out."""
    recipe = recipe_from(to_tree(recipe), ["training.objective=ml"])
    with tempfile.TemporaryDirectory() as folder:
        setup = prepare(recipe, job.train, job.dev, Path(folder), False, job.device, None)
    scores = {}
    for name, feed in (("dev", setup.dev), ("held_out", setup.selection)):
        if feed:
            scores[name] = evaluate(setup.network, feed, recipe.decoding.max_length).tree()
    return scores


def train_all(
    job: Job, recipe: Recipe, members: Sequence[Member]
) -> tuple[dict[str, Line], list[str]]:
    """Train the members that are not finished into ``out/NAME``.

    Returns a line for each that is finished, and for each other one why it is not. A name is
    STAGE/ROW-seed-SEED, as ``second/dcrl-full-seed-1``. A training of another machine, whose line
    is kept and whose folder is not here, is done again only where another one starts from it.
    """
    # A mistake in any of them is reported before the first one starts.
    for member in members:
        recipe_from(to_tree(recipe), member.overrides)

    kept = _kept_lines(job, members)
    done = {member.name for member in members if complete(job.out / member.name)}
    waiting = _waiting(members, done, kept)
    if len(waiting) < len(members):
        ready = len(members) - len(waiting)
        say(f"{job.out}: {ready} of {len(members)} trainings are finished already.")

    beside = _side_by_side(job, members)
    problems: dict[str, str] = {}

    def ended(outcome: Outcome) -> None:
        """Keep a training when it ends, whatever becomes of the others."""
        problems[outcome.name] = outcome.problem
        folder = job.out / outcome.name
        if not complete(folder):
            return
        done.add(outcome.name)
        line = line_of(job, folder, beside, ask=False)
        keep(job.keep, [line])
        scores = f"EM {line['dev']['exact_match']:.2f}, F1 {line['dev']['f1']:.2f}"
        left = len(members) - len(done)
        say(
            f"{outcome.name}: {scores} on dev after {outcome.seconds:.0f} s; "
            f"{left} of {len(members)} are left."
        )

    if waiting:
        # Every training reads these files: encode them once, before.
        for path in {job.train, job.dev, *job.questions.values()}:
            encode_file(path)
        stage = members[0].name.partition("/")[0]
        train_members(
            job.out / stage / "recipe.yaml",
            recipe,
            waiting,
            _options(job),
            job.out,
            job.at_once,
            resume=True,
            ended=ended,
            until=job.until,
        )
        done.update(member.name for member in waiting if complete(job.out / member.name))

    measured = {}
    for member in members:
        if member.name in done:
            measured[member.name] = line_of(job, job.out / member.name, beside)
    keep(job.keep, list(measured.values()))
    lines = kept | measured
    missing = []
    for member in members:
        if member.name not in lines:
            missing.append(f"{member.name}: {problems.get(member.name) or UNFINISHED}")
    return lines, missing


def _kept_lines(job: Job, members: Sequence[Member]) -> dict[str, Line]:
    """The kept lines of members, which this machine or another one trained."""
    by_training: dict[str, Line] = {}
    for line in read(job.keep):
        is_ours = line.get("kind") == "training" and all(
            line.get(key) == job.about.get(key) for key in ("study", "setting")
        )
        if is_ours:
            by_training[f"{line['row']}-seed-{line['seed']}"] = line

    lines = {}
    for member in members:
        training = member.name.partition("/")[2]
        if training in by_training:
            lines[member.name] = by_training[training]
    return lines


def _waiting(members: Sequence[Member], done: set[str], kept: Mapping[str, Line]) -> list[Member]:
    """The members to train: neither done nor kept, or kept where another one starts from them."""
    starts = {
        member.after for member in members if member.name not in done and member.name not in kept
    }
    waiting = []
    for member in members:
        is_needed = member.name not in kept or member.name in starts
        if is_needed and member.name not in done:
            waiting.append(member)
    return waiting


def _side_by_side(job: Job, members: Sequence[Member]) -> int:
    """How many trainings share the device: at most the larger stage at once."""
    later = sum(bool(member.after) for member in members)
    widest = max(later, len(members) - later)
    return min(job.at_once or widest, widest)


def _options(job: Job) -> list[str]:
    """The words of ``rmreader train`` that all members share."""
    options = ["--train", str(job.train), "--dev", str(job.dev)]
    if job.curve:
        options.append("--curve")
    for name, path in job.questions.items():
        options += ["--predict", f"{name}={path}"]
    if job.device:
        options += ["--device", job.device]
    return options


def line_of(job: Job, folder: Path, beside: int, ask: bool = True) -> Line:
    """All that a table needs of a finished training.

    What the kept line has is not measured again. What the training did not answer at its end, the
    reader is asked here, where ``ask`` allows it.
    """
    line: Line = {
        "kind": "training",
        **job.about,
        "row": folder.name.rpartition("-seed-")[0],
        **facts(folder, job.curve),
    }
    known = next((old for old in read(job.keep) if identity(old) == identity(line)), {})
    for name in ANSWERED:
        if name in known:
            line[name] = known[name]
    for name in job.questions:
        measured = "each" if name == "dev" else name
        answers = folder / "predictions" / f"{name}.json"
        if measured not in line and (ask or answers.is_file()):
            _add_answers(line, job, folder, name)

    # These are as they were when it was trained.
    line["commit"] = known.get("commit") or commit()
    line["beside"] = known.get("beside") or beside
    line["device"] = known.get("device") or device_name(job.device)
    return line


def _add_answers(line: Line, job: Job, folder: Path, name: str) -> None:
    """Add to a line what its reader answered to one of the job's files."""
    path = job.questions[name]
    dataset = read_squad(path)
    answers = folder / "predictions" / f"{name}.json"
    answer_file(folder / "best", path, answers, job.device)
    texts = read_predictions(answers)
    if name == "dev":
        line["each"] = each_question(dataset, texts)
    else:
        line[name] = score_adversarial(dataset, texts).tree()
        line.setdefault("twins", each_twin(dataset, texts))  # of the first file, AddSent


def complete(run: Path) -> bool:
    """Whether a run ended, and was not killed after that and before it was calibrated."""
    if finished(run) is None:
        return False
    reader = open_folder(run / "best")
    return "calibration" in reader.about or reader.recipe.training.holdout == 0


def facts(run: Path, with_curve: bool = False) -> dict[str, Any]:
    """The chosen settings of a complete run, its steps, its scores, and the seconds they took."""
    end = finished(run)
    assert end is not None
    recipe = load_recipe(run / "run" / RECIPE)
    events = read_log(run / "log.jsonl")
    settings = _not_default(flat(recipe))
    # The seed has a place of its own, and the start is a path on this machine.
    for apart in ("training.seed", "training.init"):
        settings.pop(apart, None)
    measured = {
        "recipe": settings,
        "seed": recipe.training.seed,
        "steps": end["step"],
        "dev": end["scores"]["dev"],
        "held_out": end["scores"].get("selection"),
        "seconds": round(seconds_of(events, recipe.training.batch_size), 1),
    }
    if with_curve:
        measured["curve"] = curve(events)
    return measured


def seconds_of(events: Sequence[Mapping[str, Any]], batch_size: int) -> float:
    """How long the steps of a run took, by the speed that it reported."""
    seconds = 0.0
    last_step = 0
    for event in events:
        if event["event"] == "train":
            steps = event["step"] - last_step
            seconds += steps * batch_size / event["questions_per_second"]
            last_step = event["step"]
    return float(seconds)


def curve(events: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    """What a run's evaluations measured, by name: (step, value)."""
    points: dict[str, list[tuple[int, float]]] = {}
    for event in events:
        if event["event"] == "evaluation":
            for name, value in _measured(event):
                points.setdefault(name, []).append((int(event["step"]), float(value)))
    return points


def _measured(evaluation: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """What one evaluation measured, by name."""
    for name in MEASURES:
        if name in evaluation:
            yield name, evaluation[name]
    for data, score in evaluation.get("scores", {}).items():
        yield f"{data} F1", score["f1"]
        yield f"{data} EM", score["exact_match"]
