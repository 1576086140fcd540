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
from collections.abc import Callable, Iterator, Mapping, Sequence
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
_MANY, _SHARE = (
    8,
    12,
)  # so many members at once have each at most so much of the GPU, in %; log/2026-11-15-gpu.md


@dataclass(frozen=True)
class Member:
    """One training among several."""

    name: str  # name of its folder
    overrides: tuple[str, ...]  # what distinguishes it, as ``training.seed=2``
    # The member that must have come to its end before this one begins, which starts from its
    # reader.
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
    """Members count their seeds themselves, so that one that is given would be lost."""
    if any(override.replace(" ", "").startswith("training.seed=") for override in overrides):
        raise UserError(
            "training.seed: members have the seeds 1, 2, 3, …, as many as --seeds says; leave it out."
        )


def variants(descriptions: Sequence[str], count: int) -> list[Member]:
    """Members from ``NAME:KEY=VALUE,KEY=VALUE`` descriptions, each with ``count`` seeds; seeds
    alone without any."""
    if not descriptions:
        return seeds(count)
    members = []
    for description in descriptions:
        name, colon, settings = description.partition(":")
        if not colon or not re.fullmatch(r"\w[\w.+-]*", name.strip()):
            raise UserError(
                f"--vary {description!r}: write it as NAME:KEY=VALUE, for example dot:network.attention=dot; a name is "
                "made of letters, digits and . + - _."
            )
        parts = re.split(r",(?![^\[]*\])", settings)  # not at the commas of a list
        changes = tuple(part.strip() for part in parts if part.strip())
        refuse_seed(changes)
        for member in seeds(count):
            members.append(Member(f"{name.strip()}-{member.name}", (*changes, *member.overrides)))
    return members


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
    """Train every member into ``out/NAME``, at most ``at_once`` side by side (0: all), and say how
    each ended.

    Each has at most ``share`` % of the GPU (0: as suits their number); one that finds its share
    faulty begins again on the whole. ``options`` are the words of ``rmreader train`` that all
    members share: overrides, --train, --dev. ``ended`` is called with each outcome as soon as it is
    known. At ``until``, by the monotonic clock, all that run stop with a checkpoint and no other
    begins. ``on`` names a Ray cluster (``ray``, ``ray://HOST``) whose machines see the same
    folders; there each has ``share`` % of a GPU, a whole one by default.
    """
    if len({member.name for member in members}) < len(members):
        raise UserError("two members have the same name; give each its own.")
    waiting, running, done = list(members), dict[str, Work](), list[Outcome]()
    words, stop = [str(recipe_name), *options], threading.Event()
    many = min(at_once or len(members), len(members)) >= _MANY
    place = (
        _cluster(on, "cpu" in options, share or 100)
        if on
        else _here(share or (_SHARE if many else 100))
    )
    with (
        place as train,
        on_signals(_interrupt, "SIGTERM", "SIGHUP"),
        _view(recipe, members, out) as show,
    ):
        try:
            while True:
                while (not at_once or len(running) < at_once) and (
                    member := _ready(waiting, running, done)
                ):
                    waiting.remove(member)
                    running[member.name] = train(stop, member, words, out / member.name, resume)
                if not running or time.monotonic() > until:
                    break
                outcomes = [
                    outcome for work in running.values() if (outcome := next(work)) is not None
                ]
                for outcome in outcomes:
                    del running[outcome.name]
                    done.append(outcome)
                    ended(outcome)
                show(running, done)
                if not outcomes:
                    time.sleep(0.5)
        finally:
            stop.set()
            while None in [next(work, True) for work in running.values()]:
                time.sleep(0.1)
    order = {member.name: place for place, member in enumerate(members)}
    return sorted(done, key=lambda outcome: order[outcome.name])


def _ready(
    waiting: Sequence[Member], running: Mapping[str, Any], done: Sequence[Outcome]
) -> Member | None:
    """The first member that waits for no other; one whose start failed never begins."""
    missing = (
        {member.name for member in waiting}
        | running.keys()
        | {one.name for one in done if one.status}
    )
    return next((member for member in waiting if member.after not in missing), None)


def train_one(
    share: int,
    stop: threading.Event,
    member: Member,
    words: Sequence[str],
    out: Path,
    resume: bool,
    folder: str | None = None,
) -> Work:
    """A member as a process of its own, on at most ``share`` % of the GPU, or all of it where that
    is faulty.

    Once ``stop`` is set it finishes its step, writes a checkpoint and leaves. ``folder`` is what
    the words' paths are meant from, if not the present one.
    """
    begun = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    # A member that was never reached before the whole was stopped has nothing to resume.
    again = ["--resume"] if resume and (out / "run").exists() else []
    # Should this process be killed, the kernel asks the member to stop: once for each thread of
    # ours as it dies, and a second time would stop it at once. So one thread starts and watches
    # them all.
    words = [*words, *member.overrides, "--out", str(out), *again, "--parent", str(os.getpid())]
    status = 0
    for most in sorted({share, 100}):
        with (out / _CONSOLE).open("ab") as console:
            process = subprocess.Popen(
                [sys.executable, "-m", "rmreader", "train", *words],
                env={**os.environ, SHARE: str(most)} if most < 100 else None,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                # Ctrl-C reaches this process alone, which passes it on as a request to stop.
                start_new_session=True,
            )
        while process.poll() is None and not stop.is_set():
            yield None
        process.terminate()  # nothing where it has ended
        while process.poll() is None:
            yield None
        if (status := process.returncode) != ShareError.status:
            break
    lines = (
        (out / _CONSOLE).read_text(encoding="utf-8", errors="replace").split("\n") if status else []
    )
    problem = next((line for line in reversed(lines) if line.strip()), "")
    yield Outcome(member.name, status, time.monotonic() - begun, last_scores(out), problem)


def train_in_task(*given: Any) -> Outcome:
    """One member, as a task of a cluster runs it: the same process as here, so the same result."""
    stop = threading.Event()
    work = train_one(100, stop, *given)
    try:
        while (outcome := next(work)) is None:
            time.sleep(0.2)  # where a task that is cancelled is interrupted
        return outcome
    finally:
        stop.set()
        while next(work, True) is None:
            time.sleep(0.2)


@contextlib.contextmanager
def _here(share: int) -> Iterator[Callable[..., Work]]:
    with _mps():
        yield partial(train_one, share)


@contextlib.contextmanager
def _cluster(where: str, cpu: bool, share: int) -> Iterator[Callable[..., Work]]:
    """Members as tasks of a Ray cluster; begun again where its machine is lost."""
    with ray_at(where) as ray:
        gpus = 0.0 if cpu or not ray.cluster_resources().get("GPU") else share / 100
        task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(train_in_task)

        def train(
            stop: threading.Event, member: Member, words: Sequence[str], out: Path, resume: bool
        ) -> Work:
            begun, why = time.monotonic(), ""
            for tries in range(1 + _RETRIES):
                result = task.remote(member, words, out.resolve(), resume or tries > 0, os.getcwd())
                while not ray.wait([result], timeout=0)[0] and not stop.is_set():
                    yield None
                if stop.is_set():
                    ray.cancel(result)
                    until = time.monotonic() + 60
                    while not ray.wait([result], timeout=0)[0] and time.monotonic() < until:
                        yield None
                    return
                try:
                    yield ray.get(result)
                    return
                except ray.exceptions.RayError as error:
                    why = str(error).strip().splitlines()[-1]
                    if isinstance(error, ray.exceptions.RayTaskError):
                        break
            yield Outcome(member.name, 1, time.monotonic() - begun, last_scores(out), why)

        yield train


def last_scores(out: Path) -> dict[str, dict[str, float]]:
    """The newest scores in a run's log."""
    for event in reversed(read_log(out / "log.jsonl")):
        if event.get("scores"):
            return dict(event["scores"])
    return {}


def _interrupt(number: int, frame: Any) -> None:
    """SIGTERM and a terminal that closes do what Ctrl-C does: stop the members too, each in its
    own session."""
    raise KeyboardInterrupt


@contextlib.contextmanager
def _mps() -> Iterator[None]:
    """NVIDIA's multi-process service, for as long as members run; nothing where it is absent or
    runs already."""
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
        started = (
            subprocess.run(
                [control, "-d"], env=environment, capture_output=True, check=False
            ).returncode
            == 0
        )
        os.environ.update(places if started else {})
        try:
            yield
        finally:
            if started:
                subprocess.run([control], input=b"quit\n", capture_output=True, check=False)
                for name in places:
                    os.environ.pop(name, None)


@contextlib.contextmanager
def _view(recipe: Recipe, members: Sequence[Member], out: Path) -> Iterator[Callable[..., None]]:
    """A live line for each member: state, loss, speed and newest scores; silent where stderr is
    no terminal."""
    from rich import progress as bars
    from rich.console import Console

    console = Console(stderr=True)
    name, bar = bars.TextColumn("{task.description}", markup=False), bars.BarColumn(20)
    columns = name, "{task.fields[state]}", bar, "{task.fields[text]}"
    with bars.Progress(*columns, console=console, disable=not console.is_terminal) as view:
        total = recipe.training.epochs
        lines = {
            one.name: view.add_task(one.name, total=total, state="waiting", text="")
            for one in members
        }

        def show(running: Mapping[str, Any], done: Sequence[Outcome]) -> None:
            states = {one.name: "failed" if one.status else "done" for one in done} | dict.fromkeys(
                running, "starting"
            )
            for name in states if console.is_terminal else ():
                events = read_log(out / name / "log.jsonl")
                last: dict[str, Any] = next(
                    (e for e in reversed(events) if e["event"] == "train"), {"loss": None}
                )
                parts = [
                    f"{key} EM {s['exact_match']:.2f}, F1 {s['f1']:.2f}"
                    for key, s in last_scores(out / name).items()
                ]
                if last["loss"] is not None:
                    speed = f"{last['questions_per_second']:.0f} questions/s"
                    parts = [
                        f"epoch {last['epoch']:.1f}",
                        f"loss {last['loss']:.3f}",
                        speed,
                        *parts,
                    ]
                state = "training" if name in running and events else states[name]
                view.update(
                    lines[name], completed=last.get("epoch", 0), state=state, text=" · ".join(parts)
                )

        yield show
