"""Training: one path for both stages, on CPU and GPU, that a kill at any moment cannot harm.

The state of a run is the learner's tensors and ``State``. Batches and random numbers are functions
of the seed and the step, so the step is all there is to remember of them.
"""

import contextlib
import dataclasses
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from rmreader.core.console import Advance, progress, say
from rmreader.core.errors import UserError
from rmreader.core.files.atomic import write_whole
from rmreader.core.files.manifest import read_manifest
from rmreader.core.recipe import Recipe
from rmreader.core.version import provenance
from rmreader.data.batch import Batch
from rmreader.data.batches import Buckets
from rmreader.readers.folder import MANIFEST
from rmreader.readers.write import update
from rmreader.training import reader_folder, run_folder
from rmreader.training.evaluate import Scores, criterion, evaluate
from rmreader.training.feed import Feed
from rmreader.training.finish import answer_file, calibrate_best, compare_best
from rmreader.training.log import Log, read_log, rewind
from rmreader.training.parts import WHOLE, Part
from rmreader.training.prepare import Setup, prepare
from rmreader.training.run_folder import Stop, alone, stop_on_signals
from rmreader.training.schedule import judge, rate_at
from rmreader.training.state import State
from rmreader.training.step import Learner

_LOG_EVERY = 50  # steps


@dataclass(frozen=True)
class TrainResult:
    """What came of a run."""

    best: Path
    """The reader folder."""
    finished: bool
    """False where the run was asked to stop; it can be resumed."""
    steps: int
    selection: float | None
    """Best F1 on the held-out articles; None without them."""
    dev: Scores | None
    """Scores of ``best`` on the dev file, if one was given."""


def train(
    recipe: Recipe,
    train_path: str | Path,
    dev_path: str | Path | None,
    out: str | Path,
    resume: bool = False,
    device: str | None = None,
    *,
    tensorboard: bool = False,
    curve: bool = False,
    cache_dir: str | Path | None = None,
    predict: Mapping[str, Path] | None = None,
) -> TrainResult:
    """Train a reader by a recipe into the folder ``out``; see docs/training.md.

    Everything that is chosen is chosen on held-out articles of the training file. The dev file is
    only reported on: at the end, and with ``curve`` at every evaluation too. The reader's answers
    to the ``predict`` files, by name, are written to ``predictions/NAME.json``. At the end the
    reader is compared with and without torch, and refused where the two differ. Under torchrun its
    processes train one reader together.
    """
    job = Job(
        recipe=recipe,
        train_path=Path(train_path),
        dev_path=Path(dev_path) if dev_path else None,
        out=Path(out),
        resume=resume,
        device=reader_folder.pick_device(device),
        tensorboard=tensorboard,
        curve=curve,
        cache_dir=cache_dir,
        predict=predict or {},
    )
    if dist.is_torchelastic_launched() and os.environ["WORLD_SIZE"] != "1":
        from rmreader.training.parallel import train_together

        return train_together(job)
    with job.folder():
        setup = job.prepare(job.device, job.resume)
        result = job.go(Run(setup, job.tensorboard, job.curve))
        job.finish(setup, result)
        return result


@dataclass(frozen=True)
class Job:
    """What ``train`` was asked for, and its four steps."""

    recipe: Recipe
    train_path: Path
    dev_path: Path | None
    out: Path
    resume: bool
    device: torch.device
    tensorboard: bool
    curve: bool
    cache_dir: str | Path | None
    predict: Mapping[str, Path]

    def folder(self) -> contextlib.AbstractContextManager[None]:
        """Within, no other process trains into the folder."""
        return alone(self.out)

    def prepare(self, device: torch.device, resume: bool) -> Setup:
        """All that a run needs."""
        return prepare(
            self.recipe,
            self.train_path,
            self.dev_path,
            self.out,
            resume,
            str(device),
            self.cache_dir,
        )

    def go(self, run: "Run") -> TrainResult:
        """Learn to the end, or until a signal asks to stop."""
        with stop_on_signals() as stop:
            return run.go(stop)

    def finish(self, setup: Setup, result: TrainResult) -> None:
        """Fit the trained reader's confidences, answer the given files, compare its engines."""
        if not result.finished:
            return
        calibrate_best(setup)
        for name, path in self.predict.items():
            out = self.out / "predictions" / f"{name}.json"
            answer_file(result.best, path, out, str(setup.device), self.cache_dir)
        compare_best(setup)


class Run:
    """One run from where it is to its end."""

    writes = True
    """Whether this process writes the run's files."""

    def __init__(self, setup: Setup, tensorboard: bool = False, curve: bool = False) -> None:
        self.setup = setup
        self.recipe = setup.recipe
        self.out = setup.out
        self.curve = curve
        training = setup.recipe.training
        self.parts = self.own_parts(training.parts)
        groups = None
        if setup.groups is not None:
            groups = torch.from_numpy(setup.groups).to(setup.device)
        self.learner = Learner(setup.network, setup.recipe, setup.rewards, groups)
        self.buckets = self._make_buckets()
        self.per_epoch = len(self.buckets.epoch(0))
        self.total = max(1, round(training.epochs * self.per_epoch))
        self.evaluate_every = max(1, round(training.evaluate_every * self.per_epoch))
        if training.warmup >= self.total:
            say(
                f"training.warmup={training.warmup}: the run has {self.total} steps, too few to "
                "reach training.rate; lower it."
            )
        self.state = State()
        self.saved = -1  # step of the checkpoint on disk
        if (self.out / "last").exists():
            tensors, tree = run_folder.load_checkpoint(self.out / "last")
            self.learner.load(tensors)
            self.state = State.from_tree(tree)
            self.saved = self.state.step
        self._restore_best()
        log = Path(os.devnull)
        if self.writes:
            log = self.out / "log.jsonl"
            rewind(log, self.state.logged())
        self.log = Log(log, tensorboard)
        # measures not yet read from the device: step, questions, vector
        self.waiting: list[tuple[int, NDArray[Any], Tensor]] = []

    def own_parts(self, count: int) -> list[Part]:
        """The parts of a batch that this process reads, of so many."""
        return [Part(number, count) for number in range(count)]

    def add_up(self, vector: Tensor) -> Tensor:
        """The sum of the gradients that other processes have."""
        return vector

    def is_stopped(self, stop: Stop) -> bool:
        """Whether somebody asked the run to stop."""
        return bool(stop)

    def agree(self, f1: float) -> float:
        """The F1 that this process and all others decide by."""
        return f1

    def go(self, stop: Stop) -> TrainResult:
        """Learn until the end or until asked to stop, then report."""
        training = self.recipe.training
        before = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(training.deterministic or before)
        if training.precision == "bf16":
            torch.set_float32_matmul_precision("high")  # tf32 keeps three bits more than bf16
        try:
            with progress("training", self.total, transient=False, lines=True) as advance:
                self._learn(stop, advance)
            if self.state.ended:
                return self._finish()
        finally:
            torch.use_deterministic_algorithms(before)
            self.log.close()
        step = self.state.step
        say(f"{self.out}: stopped after step {step} of {self.total}; add --resume to go on.")
        return self._result(finished=False)

    def _make_buckets(self) -> Buckets:
        training = self.recipe.training
        lengths = self.setup.train.lengths(training.max_context)
        return Buckets(
            lengths,
            training.batch_size,
            training.seed,
            drop_last=len(lengths) >= training.batch_size,
            groups=self.setup.groups,
        )

    def _learn(self, stop: Stop, advance: Advance) -> None:
        """Step after step, with evaluations and checkpoints between them."""
        state = self.state
        upcoming, ahead = itertools.tee(self._upcoming())
        parts = itertools.chain.from_iterable(map(self._own_rows, ahead))
        batches = self.setup.train.batches(parts)
        step = self._make_step(batch for _, batch in batches)
        clock = time.monotonic()
        since = state.step
        shown = ""
        advance(since)
        while not state.ended:
            is_stopped = self.is_stopped(stop)
            if self._evaluation_due() and not is_stopped:
                self._evaluate()
            if state.step >= self.total and state.evaluated == state.step:
                state.ended = True
            if is_stopped or state.ended or self._checkpoint_due():
                self._save()
            if is_stopped or state.ended:
                break
            index = next(upcoming)
            self.waiting.append((state.step, index, step(index)))
            state.step += 1
            if state.step % self.setup.read_every:
                continue
            self._read()
            if state.step % _LOG_EVERY == 0:
                seconds = time.monotonic() - clock
                done = state.step - since
                clock = time.monotonic()
                since = state.step
                shown = self._log_steps(done * self.recipe.training.batch_size / seconds)
                advance(done, shown)
        batches.close()
        advance(state.step - since, shown)

    def _make_step(self, batches: Iterator[Batch[Tensor]]) -> Callable[[NDArray[Any]], Tensor]:
        """The step as it runs on this device, from questions to measures: replayed as captured
        graphs where it can be. Of a step in parts that is each of them, up to their sum."""
        learner = self.learner
        state = self.state
        is_whole = self.parts == [WHOLE]
        act = learner.step if is_whole else learner.gradients

        def read(batch: Batch[Tensor]) -> dict[str, Tensor]:
            return act(self.setup.train.fill(batch))

        captured: Callable[[Batch[Tensor]], dict[str, Tensor]] = read
        if self.setup.device.type == "cuda" and self.recipe.training.graphs:
            from rmreader.kernels.graphs import Graphed

            graphed = Graphed(read, lambda: list(learner.tensors().values()))
            graphed.capture(self._largest_batch())
            captured = graphed

        def step(index: NDArray[Any]) -> Tensor:
            vector = torch.zeros((), device=self.setup.device)
            for part in self.parts:
                share = len(part.rows(index, self.setup.groups)) / len(index)
                halvings = state.selection.halvings
                learner.set_place(state.step, self.total, halvings, share, part.number)
                results = captured(next(batches))
                if is_whole:
                    return results["measures"].clone()
                vector = vector + results["vector"]
            return learner.update(self.add_up(vector))["measures"]

        return step

    def _largest_batch(self) -> Batch[Tensor]:
        """A batch with the longest texts there are, of this process's first part."""
        lengths = self.buckets.lengths
        index = max(self.buckets.epoch(0), key=lambda index: int(lengths[index].max()))
        rows = next(self._own_rows(index))
        with contextlib.closing(self.setup.train.batches([rows])) as batches:
            return next(batches)[1]

    def _own_rows(self, index: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """This process's parts of a batch; for an empty one any question, which counts nothing."""
        for part in self.parts:
            rows = part.rows(index, self.setup.groups)
            yield rows if len(rows) else index[:1]

    def _upcoming(self) -> Iterator[NDArray[Any]]:
        """The batches from the present step on."""
        epoch, place = divmod(self.state.step, self.per_epoch)
        for k in itertools.count(epoch):
            yield from self.buckets.epoch(k)[place:]
            place = 0

    def _evaluation_due(self) -> bool:
        state = self.state
        if state.step == state.evaluated:
            return False
        return state.step >= self.total or state.step % self.evaluate_every == 0

    def _checkpoint_due(self) -> bool:
        state = self.state
        if state.step == self.saved:
            return False
        every = self.recipe.training.checkpoint_every
        return state.step == state.evaluated or state.step % every == 0

    def _read(self) -> None:
        """Fetch the measures that wait on the device; count and save bad steps, and end the run
        where they are too many."""
        if not self.waiting:
            return
        vectors = torch.stack([measures for _, _, measures in self.waiting])
        rows = vectors.double().cpu().tolist()
        state = self.state
        for (step, index, _), row in zip(self.waiting, rows, strict=True):
            measures = dict(zip(self.learner.measures, row, strict=True))
            if measures["bad"]:
                state.bad += 1
                self._save_bad(step, index)
            else:
                state.count(measures)
        self.waiting.clear()
        if state.bad >= self.recipe.training.max_bad_steps:
            self._save()
            raise UserError(
                f"{self.out}: {state.bad} steps had a loss or gradient that is not finite; the "
                "weights are as before them and their questions in bad/; begin another run with "
                f"training.init={self.out / 'last'} and training.precision=fp32, or a lower "
                "training.rate."
            )

    def _save_bad(self, step: int, index: NDArray[Any]) -> None:
        if not self.writes:
            return
        questions = [self.setup.train.encoded.ids[i] for i in index.tolist()]
        content = json.dumps({"step": step, "questions": questions})
        write_whole(self.out / "bad" / f"step-{step}.json", content.encode())
        self.log.write("bad", step, questions=questions)

    def _log_steps(self, speed: float) -> str:
        """Write a line on the steps since the last one; returns what a person watching sees."""
        state = self.state
        measures = {}
        for name in self.learner.measures:
            total = state.unlogged_sums[name] if state.unlogged else float("nan")
            measures[name] = total / max(1, state.unlogged)
        state.unlogged = 0
        state.unlogged_sums = {}
        place = self._place()
        self.log.write("train", state.step, **place, questions_per_second=speed, **measures)
        shown = f"loss {measures['loss']:.3f} · {speed:.0f} questions/s"
        for name, score in state.selected.items():
            shown += f" · {name} F1 {score['f1']:.2f}"
        return shown

    def _place(self) -> dict[str, float]:
        """Where the run is, for its log."""
        training = self.recipe.training
        state = self.state
        halvings = state.selection.halvings
        rate = rate_at(training, training.rate, state.step - 1, self.total, halvings)
        return {"epoch": state.step / self.per_epoch, "rate": rate}

    def _evaluate(self) -> None:
        """Score the averaged weights on the held-out articles, decide by it, and log what was
        learned since last time."""
        self._read()
        state = self.state
        scores: dict[str, dict[str, Any]] = {}
        improved = True  # without held-out articles the last weights are the ones to keep
        if self.setup.selection is not None:
            f1 = 0.0
            if self.writes:
                scores["selection"] = self._score(self.setup.selection)
                f1 = criterion(scores["selection"])
            verdict = judge(state.selection, self.agree(f1), state.step, self.recipe.training)
            state.selection, improved, state.ended = verdict
        if self.curve and self.setup.dev is not None and self.writes:
            scores["dev"] = self._score(self.setup.dev)
        state.evaluated = state.step
        self._log_evaluation(scores)
        state.counted = 0
        state.sums = {}
        if improved:
            state.selected = scores
            self._write_best(self.learner.averaged.state_dict(), scores)

    def _log_evaluation(self, scores: dict[str, dict[str, Any]]) -> None:
        state = self.state
        means = {}
        for name, total in state.sums.items():
            if name != "bad":
                means[name] = total / max(1, state.counted)
        about = {
            **self._place(),
            "halvings": state.selection.halvings,
            "bad_steps": state.bad,
            **means,
            **self.learner.facts(),
        }
        self.log.write("evaluation", state.step, **about, scores=scores)

    def _score(self, feed: Feed) -> dict[str, Any]:
        return evaluate(self.learner.averaged, feed, self.recipe.decoding.max_length).tree()

    def _write_best(self, weights: dict[str, Tensor], scores: dict[str, dict[str, float]]) -> None:
        if not self.writes:
            return
        state = self.state
        origin = {
            **provenance(),
            "objective": self.recipe.training.objective,
            "step": state.step if self.setup.selection is None else state.selection.best_step,
            "trained_on": self.setup.train_name,
            "trained_on_sha256": self.setup.train_sha256,
        }
        reader_folder.write_reader(
            self.out / "best",
            weights,
            self.setup.lexicon,
            self.recipe,
            scores,
            origin,
            self.setup.contextual,
            self.setup.temperature,
        )

    def _save(self) -> None:
        """Write a checkpoint, unless it is there."""
        self._read()
        if self.state.step == self.saved and not self.state.ended:
            return
        if self.writes:
            tree = dataclasses.asdict(self.state)
            run_folder.save_checkpoint(self.out / "last", self.learner.tensors(), tree)
        self.saved = self.state.step

    def _restore_best(self) -> None:
        """Make the reader again from the checkpoint, where its folder was lost and the checkpoint
        has its weights."""
        state = self.state
        best = self.out / "best"
        is_chosen = self.setup.selection is not None
        wanted = state.selection.best_step if is_chosen else state.evaluated
        if best.exists() or not state.evaluated:
            return
        if wanted == state.step:
            self._write_best(self.learner.averaged.state_dict(), state.selected)
            say(f"{best}: was lost, and is made again from last/.")
        elif is_chosen or state.ended:
            raise UserError(
                f"{best}: is lost, and last/ has the weights of step {state.step}, not of step "
                f"{wanted}, the best; restore the folder, or train again."
            )

    def _finish(self) -> TrainResult:
        """Report the reader that was written, from the files themselves, on dev."""
        if not self.writes:
            return self._result()
        dev = None
        scores = self.state.selected
        best = self.out / "best"
        if self.setup.dev is not None:
            network, _, _ = reader_folder.load_network(best, self.setup.device)
            dev = evaluate(network, self.setup.dev, self.recipe.decoding.max_length)
            scores = {**scores, "dev": dev.tree()}
            # else it ended before, and its reader stays as it is
            if read_manifest(best / MANIFEST)["scores"] != scores:
                update(best, scores=scores)
            say(
                f"{best}: EM {dev.exact_match:.2f}, F1 {dev.f1:.2f} on {dev.total} questions of "
                "dev."
            )
        events = read_log(self.out / "log.jsonl")
        ends = [event["scores"] for event in events if event["event"] == "end"]
        if scores not in ends[-1:]:
            self.log.write("end", self.state.step, scores=scores)
        return self._result(dev)

    def _result(self, dev: Scores | None = None, finished: bool = True) -> TrainResult:
        best = self.state.selection.best
        return TrainResult(
            best=self.out / "best",
            finished=finished,
            steps=self.state.step,
            selection=best if best >= 0 else None,
            dev=dev,
        )
