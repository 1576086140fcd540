"""Many trainings at once on one GPU: ensemble members, seeds, ablations, as processes side by side.

A training step keeps only a fraction of a large GPU busy, so several share it well. NVIDIA's MPS,
started here where it is installed, lets their kernels run at the same time instead of in turns, and
keeps each of many members to a part of the multiprocessors, so that fewer are in each other's way.
Each member is an ordinary ``rmreader train`` with a folder, log and checkpoints of its own; this
file starts them, here or as tasks of a Ray cluster, watches their logs and shows one view.
"""

import contextlib
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rmreader.core.errors import UserError
from rmreader.core.recipe import Recipe
from rmreader.kernels.gpu_share import SHARE, ShareError
from rmreader.predict.ray import ray_at
from rmreader.training.log import read_log
from rmreader.training.run_folder import on_signals

_CONSOLE = "console.log"
_RETRIES = 5  # of a member whose machine in a cluster is lost

# So many members at once have each at most so much of the GPU, in %; log/2026-11-15-gpu.md.
_MANY = 8
_SHARE = 12


@dataclass(frozen=True)
class Member:
    """One training among several."""

    name: str  # name of its folder
    overrides: tuple[str, ...]  # what distinguishes it, as ``training.seed=2``
    # This member begins after that one has ended, because it starts from its reader.
    after: str = ""


@dataclass(frozen=True)
class Outcome:
    """How a member ended."""

    name: str
    status: int  # exit status of its process
    seconds: float
    scores: dict[str, dict[str, float]]  # by name of the data set, as its log has them last
    problem: str = ""  # its last words, where it failed


Work = Iterator[Outcome | None]
"""A member at work: None whenever it is looked at and has not ended, then its outcome."""


def seeds(count: int) -> list[Member]:
    """Members that differ in the seed alone."""
    return [Member(f"seed-{seed}", (f"training.seed={seed}",)) for seed in range(1, 1 + count)]


def refuse_seed(overrides: Sequence[str]) -> None:
    """Refuse a seed: members count their seeds themselves, so it would be lost."""
    for override in overrides:
        if override.replace(" ", "").startswith("training.seed="):
            raise UserError(
                "training.seed: members have the seeds 1, 2, 3, …, as many as --seeds says; "
                "leave it out."
            )


def variants(descriptions: Sequence[str], count: int) -> list[Member]:
    """Members from ``NAME:KEY=VALUE,KEY=VALUE`` descriptions, each with ``count`` seeds.

    Without any description they differ in the seed alone.
    """
    if not descriptions:
        return seeds(count)
    members = []
    for description in descriptions:
        name, changes = _parse_variant(description)
        for member in seeds(count):
            members.append(Member(f"{name}-{member.name}", (*changes, *member.overrides)))
    return members


def _parse_variant(description: str) -> tuple[str, tuple[str, ...]]:
    """The name of a variant, and the settings that it changes."""
    name, colon, settings = description.partition(":")
    name = name.strip()
    if not colon or not re.fullmatch(r"\w[\w.+-]*", name):
        raise UserError(
            f"--vary {description!r}: write it as NAME:KEY=VALUE, "
            "for example dot:network.attention=dot; a name is made of letters, digits and . + - _."
        )
    parts = re.split(r",(?![^\[]*\])", settings)  # not at the commas of a list
    changes = tuple(part.strip() for part in parts if part.strip())
    refuse_seed(changes)
    return name, changes


def train_members(
    recipe_name: str | Path,
    recipe: Recipe,
    members: Sequence[Member],
    options: Sequence[str],
    out: Path,
    at_once: int = 0,
    resume: bool = False,
    share: int = 0,
    ended: Callable[[Outcome], None] = lambda outcome: None,
    until: float = math.inf,
    on: str = "",
) -> list[Outcome]:
    """Train every member into ``out/NAME``, at most ``at_once`` side by side (0: all).

    Each has at most ``share`` % of the GPU (0: as suits their number); one that finds its share
    faulty begins again on the whole. ``options`` are the words of ``rmreader train`` that all
    members share: overrides, --train, --dev. ``ended`` is called with each outcome as soon as it is
    known. At ``until``, by the monotonic clock, all that run stop with a checkpoint and no other
    begins. ``on`` names a Ray cluster (``ray``, ``ray://HOST``) whose machines see the same
    folders; there each has ``share`` % of a GPU, a whole one by default.
    """
    if len({member.name for member in members}) < len(members):
        raise UserError("two members have the same name; give each its own.")
    at_once = min(at_once or len(members), len(members))
    if on:
        place = _cluster(on, "cpu" in options, share or 100)
    else:
        usual = _SHARE if at_once >= _MANY else 100
        place = _here(share or usual)

    words = [str(recipe_name), *options]
    stop = threading.Event()
    signals = on_signals(_interrupt, "SIGTERM", "SIGHUP")
    with place as train, signals, _view(recipe, members, out) as show:

        def begin(member: Member) -> Work:
            return train(stop, member, words, out / member.name, resume)

        outcomes = _run(members, begin, at_once, stop, until, ended, show)
    order = {member.name: place for place, member in enumerate(members)}
    return sorted(outcomes, key=lambda outcome: order[outcome.name])


def _run(
    members: Sequence[Member],
    begin: Callable[[Member], Work],
    at_once: int,
    stop: threading.Event,
    until: float,
    ended: Callable[[Outcome], None],
    show: Callable[..., None],
) -> list[Outcome]:
    """Begin members as places become free, and look at those that run, until none is left."""
    waiting = list(members)
    running: dict[str, Work] = {}
    done: list[Outcome] = []
    try:
        while True:
            while len(running) < at_once:
                member = _ready(waiting, running, done)
                if member is None:
                    break
                waiting.remove(member)
                running[member.name] = begin(member)
            if not running or time.monotonic() > until:
                return done

            states = [next(work) for work in running.values()]
            outcomes = [outcome for outcome in states if outcome is not None]
            for outcome in outcomes:
                del running[outcome.name]
                done.append(outcome)
                ended(outcome)
            show(running, done)
            if not outcomes:
                time.sleep(0.5)
    finally:
        stop.set()
        _wait_for(list(running.values()), 0.1)


def _ready(
    waiting: Sequence[Member], running: Iterable[str], done: Sequence[Outcome]
) -> Member | None:
    """The first member that waits for no other; one whose start failed never begins."""
    missing = {member.name for member in waiting}
    missing.update(running)
    missing.update(outcome.name for outcome in done if outcome.status)
    for member in waiting:
        if member.after not in missing:
            return member
    return None


def _wait_for(works: Sequence[Work], seconds: float) -> None:
    """Wait until every member has ended, looking at them every so many seconds."""
    while True:
        states = [next(work, True) for work in works]
        if None not in states:
            return
        time.sleep(seconds)


def train_one(
    share: int,
    stop: threading.Event,
    member: Member,
    words: Sequence[str],
    out: Path,
    resume: bool,
    folder: str | None = None,
) -> Work:
    """Train a member in a process of its own, on at most ``share`` % of the GPU.

    It begins again on the whole GPU where its share is faulty. Once ``stop`` is set it finishes its
    step, writes a checkpoint and leaves. Paths in the words are relative to ``folder``, by default
    the present one.
    """
    begun = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    words = [*words, *member.overrides, "--out", str(out)]
    # A member that was never reached before the whole was stopped has nothing to resume.
    if resume and (out / "run").exists():
        words.append("--resume")
    # If this process is killed, the kernel asks the member to stop, once for each of our threads
    # as it dies, and a second time stops it at once. So one thread starts and watches them all.
    words += ["--parent", str(os.getpid())]

    status = 0
    for percent in sorted({share, 100}):
        process = _start(words, out, percent, folder)
        while process.poll() is None and not stop.is_set():
            yield None
        process.terminate()  # does nothing where it has ended
        while process.poll() is None:
            yield None
        status = process.returncode
        if status != ShareError.status:
            break
    problem = _last_line(out / _CONSOLE) if status else ""
    yield Outcome(member.name, status, time.monotonic() - begun, last_scores(out), problem)


def _start(
    words: Sequence[str], out: Path, percent: int, folder: str | None
) -> subprocess.Popen[bytes]:
    """Start a training that writes what it says to a file in its folder."""
    environment = None
    if percent < 100:
        environment = {**os.environ, SHARE: str(percent)}
    with (out / _CONSOLE).open("ab") as console:
        return subprocess.Popen(
            [sys.executable, "-m", "rmreader", "train", *words],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            # Ctrl-C reaches this process alone, which passes it on as a request to stop.
            start_new_session=True,
        )


def _last_line(path: Path) -> str:
    """The last line of a file that is not blank."""
    for line in reversed(path.read_text(encoding="utf-8", errors="replace").split("\n")):
        if line.strip():
            return line
    return ""


def train_in_task(*arguments: Any) -> Outcome:
    """One member, as a task of a cluster runs it: the same process as here, so the same result."""
    stop = threading.Event()
    work = train_one(100, stop, *arguments)
    try:
        while True:
            outcome = next(work)
            if outcome is not None:
                return outcome
            time.sleep(0.2)  # a task that is cancelled is interrupted here
    finally:
        stop.set()
        _wait_for([work], 0.2)


@contextlib.contextmanager
def _here(share: int) -> Iterator[Callable[..., Work]]:
    """Members as processes of this machine."""
    with _mps():
        yield partial(train_one, share)


@contextlib.contextmanager
def _cluster(where: str, cpu: bool, share: int) -> Iterator[Callable[..., Work]]:
    """Members as tasks of a Ray cluster; one begins again where its machine is lost."""
    with ray_at(where) as ray:
        has_gpu = not cpu and ray.cluster_resources().get("GPU")
        gpus = share / 100 if has_gpu else 0.0
        task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(train_in_task)

        def train(
            stop: threading.Event, member: Member, words: Sequence[str], out: Path, resume: bool
        ) -> Work:
            begun = time.monotonic()
            problem = ""
            for attempt in range(1 + _RETRIES):
                again = resume or attempt > 0
                result = task.remote(member, words, out.resolve(), again, os.getcwd())
                while not _is_ready(ray, result) and not stop.is_set():
                    yield None
                if stop.is_set():
                    ray.cancel(result)
                    until = time.monotonic() + 60
                    while not _is_ready(ray, result) and time.monotonic() < until:
                        yield None
                    return
                try:
                    yield ray.get(result)
                    return
                except ray.exceptions.RayTaskError as error:
                    # The task itself failed, and would fail again.
                    problem = _last_words(error)
                    break
                except ray.exceptions.RayError as error:
                    problem = _last_words(error)
            seconds = time.monotonic() - begun
            yield Outcome(member.name, 1, seconds, last_scores(out), problem)

        yield train


def _is_ready(ray: Any, result: Any) -> bool:
    """Whether a task of the cluster has ended, looked at without waiting."""
    return bool(ray.wait([result], timeout=0)[0])


def _last_words(error: Exception) -> str:
    """The last line of an error's text."""
    return str(error).strip().splitlines()[-1]


def last_scores(out: Path) -> dict[str, dict[str, float]]:
    """The newest scores in a run's log."""
    for event in reversed(read_log(out / "log.jsonl")):
        if event.get("scores"):
            return dict(event["scores"])
    return {}


def _interrupt(number: int, frame: Any) -> None:
    """Do at SIGTERM, and when the terminal closes, what Ctrl-C does: stop the members too.

    Each is in a session of its own, which these signals do not reach.
    """
    raise KeyboardInterrupt


@contextlib.contextmanager
def _mps() -> Iterator[None]:
    """Run NVIDIA's multi-process service, unless it is absent or runs already."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None or "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="rmreader-mps-") as folder:
        places = {
            "CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe",
            "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log",
        }
        environment = {**os.environ, **places}
        start = subprocess.run([control, "-d"], env=environment, capture_output=True, check=False)
        if start.returncode:
            yield
            return
        os.environ.update(places)
        try:
            yield
        finally:
            subprocess.run([control], input=b"quit\n", capture_output=True, check=False)
            for name in places:
                os.environ.pop(name, None)


@contextlib.contextmanager
def _view(recipe: Recipe, members: Sequence[Member], out: Path) -> Iterator[Callable[..., None]]:
    """A live line per member with state, loss, speed and newest scores, if stderr is a terminal."""
    from rich import progress as bars
    from rich.console import Console

    console = Console(stderr=True)
    columns = (
        bars.TextColumn("{task.description}", markup=False),
        "{task.fields[state]}",
        bars.BarColumn(20),
        "{task.fields[text]}",
    )
    with bars.Progress(*columns, console=console, disable=not console.is_terminal) as view:
        lines = {}
        for member in members:
            lines[member.name] = view.add_task(
                member.name, total=recipe.training.epochs, state="waiting", text=""
            )

        def show_member(name: str, state: str) -> None:
            epoch, text = _progress(out / name)
            view.update(lines[name], completed=epoch, state=state, text=text)

        def show(running: Mapping[str, Any], done: Sequence[Outcome]) -> None:
            if not console.is_terminal:
                return
            for outcome in done:
                show_member(outcome.name, "failed" if outcome.status else "done")
            for name in running:
                show_member(name, "training" if read_log(out / name / "log.jsonl") else "starting")

        yield show


def _progress(out: Path) -> tuple[float, str]:
    """How many epochs a run has had, and its loss, speed and newest scores in words."""
    epoch = 0.0
    parts = []
    for event in reversed(read_log(out / "log.jsonl")):
        if event["event"] == "train":
            epoch = event.get("epoch", 0)
            if event["loss"] is not None:
                parts.append(f"epoch {event['epoch']:.1f}")
                parts.append(f"loss {event['loss']:.3f}")
                parts.append(f"{event['questions_per_second']:.0f} questions/s")
            break
    for data, score in last_scores(out).items():
        parts.append(f"{data} EM {score['exact_match']:.2f}, F1 {score['f1']:.2f}")
    return epoch, " · ".join(parts)
