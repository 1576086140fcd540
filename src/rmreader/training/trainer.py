"""Training: one path for both stages, on CPU and GPU, that a kill at any moment cannot harm.

The state of a run is the learner's tensors and ``State``; batches and random numbers are functions of the seed and the
step, so the step is all there is to remember of them.
"""

import contextlib
import dataclasses
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
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
from rmreader.training.finish import answer_file, calibrate_best, compare_best
from rmreader.training.log import Log, read_log, rewind
from rmreader.training.parallel import ALONE, join
from rmreader.training.prepare import Setup, prepare
from rmreader.training.run_folder import Stop, alone, stop_on_signals
from rmreader.training.schedule import Selection, judge, rate_at
from rmreader.training.step import Learner

_LOG_EVERY = 50  # steps


@dataclass
class State:
    """How far a run has come; with the learner's tensors, all that a checkpoint holds."""

    step: int = 0
    """Steps done."""
    evaluated: int = 0
    """The step of the last evaluation."""
    selection: Selection = field(default_factory=Selection)
    selected: dict[str, dict[str, float]] = field(default_factory=dict)
    """Scores of the reader in ``best``."""
    bad: int = 0
    """Steps skipped because loss or gradient was not finite."""
    counted: int = 0
    """Good steps since the last evaluation."""
    sums: dict[str, float] = field(default_factory=dict)
    """Of every measure over those steps: rewards, entropies, losses."""
    unlogged: int = 0
    """Good steps since the last line of the log, and below the sums over them."""
    unlogged_sums: dict[str, float] = field(default_factory=dict)
    ended: bool = False
    """Nothing is left to learn: all steps done, or stopped early."""

    def logged(self) -> dict[str, int]:
        """By event, the last step whose event is past; a resumed run lives through later ones again."""
        end = self.step if self.ended else -1
        return {"train": self.step, "evaluation": self.evaluated, "bad": self.step - 1, "end": end}


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

    Everything that is chosen is chosen on held-out articles of the training file. The dev file is only reported on: at
    the end, and with ``curve`` at every evaluation too. What the reader answers to the questions of the ``predict``
    files, by name, is written to ``predictions/NAME.json``. Under torchrun its processes train one reader together.
    """
    data, out = (Path(train_path), Path(dev_path) if dev_path else None), Path(out)
    chosen = reader_folder.pick_device(device)
    with join(chosen) as (world, own), alone(out) if world.leads else contextlib.nullcontext():
        again = resume or not world.leads  # the others go on from what the first has begun
        setup = world.in_turn(lambda: prepare(recipe, *data, out, again, str(own), cache_dir, world), own)
        with stop_on_signals() as stop:
            result = Run(setup, tensorboard, curve).go(stop)
        if result.finished and world.leads:
            calibrate_best(setup)
            for name, path in (predict or {}).items():
                answer_file(result.best, path, out / "predictions" / f"{name}.json", str(own), cache_dir)
            compare_best(setup)
        world.told(0.0, own)  # the reader is whole when any of them returns
        return result


class Run:
    """One run from where it is to its end."""

    def __init__(self, setup: Setup, tensorboard: bool = False, curve: bool = False) -> None:
        self.setup, self.recipe, self.out, self.curve = setup, setup.recipe, setup.out, curve
        self.world = setup.world
        training = setup.recipe.training
        self.parts = self.world.parts(training.parts)
        groups = None if setup.groups is None else torch.from_numpy(setup.groups).to(setup.device)
        self.learner = Learner(setup.network, setup.recipe, setup.rewards, groups)
        lengths = np.minimum(setup.train.encoded.context_lengths, training.max_context)
        full = len(lengths) >= training.batch_size
        self.buckets = Buckets(lengths, training.batch_size, training.seed, drop_last=full, groups=setup.groups)
        self.per_epoch = len(self.buckets.epoch(0))
        self.total = max(1, round(training.epochs * self.per_epoch))
        self.evaluate_every = max(1, round(training.evaluate_every * self.per_epoch))
        if training.warmup >= self.total:
            say(
                f"training.warmup={training.warmup}: the run has {self.total} steps, too few to reach training.rate; "
                "lower it."
            )
        self.state = State()
        self.saved = -1  # step of the checkpoint on disk
        if (self.out / "last").exists():
            tensors, tree = run_folder.load_checkpoint(self.out / "last")
            self.learner.load(tensors)
            self.state = State(**{**tree, "selection": Selection(**tree["selection"])})
            self.saved = self.state.step
        self._restore_best()
        if self.world.leads:
            rewind(self.out / "log.jsonl", self.state.logged())
        self.log = Log(self.out / "log.jsonl" if self.world.leads else Path(os.devnull), tensorboard)
        self.waiting: list[tuple[int, NDArray[Any], Tensor]] = []  # measures not yet read from the device

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
        say(f"{self.out}: stopped after step {self.state.step} of {self.total}; add --resume to go on.")
        return self._result(finished=False)

    def _learn(self, stop: Stop, advance: Advance) -> None:
        state, world = self.state, self.world
        asked: Stop | bool = stop
        upcoming, ahead = itertools.tee(self._upcoming())
        batches = self.setup.train.batches(itertools.chain.from_iterable(map(self._own, ahead)))
        step = self._step(batch for _, batch in batches)
        clock, since, shown = time.monotonic(), state.step, ""
        advance(since)
        while not state.ended:
            if world.size > 1:  # all stop after the same step
                asked = state.step % self.setup.read_every == 0 and world.any(bool(stop), self.setup.device)
            at_end = state.step >= self.total
            if state.step != state.evaluated and (at_end or state.step % self.evaluate_every == 0) and not asked:
                self._evaluate()
            state.ended = state.ended or (at_end and state.evaluated == state.step)
            if asked or state.ended or self._checkpoint_due():
                self._save()
            if asked or state.ended:
                break
            index = next(upcoming)
            self.waiting.append((state.step, index, step(index)))
            state.step += 1
            if state.step % self.setup.read_every == 0:
                self._read()
                if state.step % _LOG_EVERY == 0:
                    seconds, done = time.monotonic() - clock, state.step - since
                    clock, since = time.monotonic(), state.step
                    shown = self._tell(done * self.recipe.training.batch_size / seconds)
                    advance(done, shown)
        batches.close()
        advance(state.step - since, shown)

    def _step(self, batches: Iterator[Batch[Tensor]]) -> Callable[[NDArray[Any]], Tensor]:
        """The step as it runs on this device, from questions to measures: replayed as captured graphs where it can be.
        Of a step in parts that is each of them, up to their sum."""
        learner, state, whole = self.learner, self.state, self.parts == [ALONE]
        act = learner.step if whole else learner.gradients

        def read(batch: Batch[Tensor]) -> dict[str, Tensor]:
            return act(self.setup.train.fill(batch))

        captured: Callable[[Batch[Tensor]], dict[str, Tensor]] = read
        if self.setup.device.type == "cuda" and self.recipe.training.graphs:
            from rmreader.kernels.graphs import Graphed

            captured = Graphed(read, lambda: list(learner.tensors().values()))

        def step(index: NDArray[Any]) -> Tensor:
            vector = torch.zeros((), device=self.setup.device)
            for part in self.parts:
                share = len(part.rows(index, self.setup.groups)) / len(index)
                learner.set_place(state.step, self.total, state.selection.halvings, share, part.rank)
                found = captured(next(batches))
                if whole:
                    return found["measures"].clone()
                vector = vector + found["vector"]
            return learner.update(self.world.sum(vector))["measures"]

        return step

    def _own(self, index: NDArray[Any]) -> list[NDArray[Any]]:
        """This process's parts of a batch; where one has no rows, any row, which counts for nothing."""
        return [
            rows if len(rows) else index[:1] for rows in (part.rows(index, self.setup.groups) for part in self.parts)
        ]

    def _upcoming(self) -> Iterator[NDArray[Any]]:
        """The batches from the present step on."""
        epoch, place = divmod(self.state.step, self.per_epoch)
        for k in itertools.count(epoch):
            yield from self.buckets.epoch(k)[place:]
            place = 0

    def _checkpoint_due(self) -> bool:
        state = self.state
        return state.step != self.saved and (
            state.step == state.evaluated or state.step % self.recipe.training.checkpoint_every == 0
        )

    def _read(self) -> None:
        """Fetch the measures that wait on the device; count, save and punish bad steps."""
        if not self.waiting:
            return
        rows = torch.stack([measures for _, _, measures in self.waiting]).double().cpu().numpy()
        names, state = self.learner.measures, self.state
        for (step, index, _), row in zip(self.waiting, rows, strict=True):
            if row[0]:  # bad
                state.bad += 1
                self._save_bad(step, index)
                continue
            state.counted += 1
            state.unlogged += 1
            for name, value in zip(names, row.tolist(), strict=True):
                for sums in (state.sums, state.unlogged_sums):
                    sums[name] = sums.get(name, 0.0) + value
        self.waiting.clear()
        if state.bad >= self.recipe.training.max_bad_steps:
            self._save()
            raise UserError(
                f"{self.out}: {state.bad} steps had a loss or gradient that is not finite; the weights are as before "
                f"them and their questions in bad/; begin another run with training.init={self.out / 'last'} and "
                "training.precision=fp32, or a lower training.rate."
            )

    def _save_bad(self, step: int, index: NDArray[Any]) -> None:
        if not self.world.leads:
            return
        questions = [self.setup.train.encoded.ids[i] for i in index.tolist()]
        content = json.dumps({"step": step, "questions": questions})
        write_whole(self.out / "bad" / f"step-{step}.json", content.encode())
        self.log.write("bad", step, questions=questions)

    def _tell(self, speed: float) -> str:
        """A line for the log on the steps since the last one; what of it is for the person watching."""
        state = self.state
        count, sums = state.unlogged, state.unlogged_sums
        measures = {name: sums[name] / count if count else float("nan") for name in self.learner.measures}
        state.unlogged, state.unlogged_sums = 0, {}
        self.log.write("train", state.step, **self._place(), questions_per_second=speed, **measures)
        scores = "".join(f" · {name} F1 {score['f1']:.2f}" for name, score in state.selected.items())
        return f"loss {measures['loss']:.3f} · {speed:.0f} questions/s{scores}"

    def _place(self) -> dict[str, float]:
        """Where the run is, for its log."""
        training, state = self.recipe.training, self.state
        rate = rate_at(training, training.rate, state.step - 1, self.total, state.selection.halvings)
        return {"epoch": state.step / self.per_epoch, "rate": rate}

    def _evaluate(self) -> None:
        """Score the kept weights on the held-out articles, decide by it, and log what was learned since last time."""
        self._read()
        state, training = self.state, self.recipe.training
        scores: dict[str, dict[str, Any]] = {}
        improved = True  # without held-out articles the last weights are the ones to keep
        if self.setup.selection is not None:
            f1 = 0.0
            if self.world.leads:
                scores["selection"] = self._score(self.setup.selection)
                f1 = criterion(scores["selection"])
            f1 = self.world.told(f1, self.setup.device)
            state.selection, improved, state.ended = judge(state.selection, f1, state.step, training)
        if self.curve and self.setup.dev is not None and self.world.leads:
            scores["dev"] = self._score(self.setup.dev)
        state.evaluated = state.step
        means = {name: total / max(1, state.counted) for name, total in state.sums.items() if name != "bad"}
        about = {**self._place(), "halvings": state.selection.halvings, "bad_steps": state.bad}
        self.log.write("evaluation", state.step, **about, **means, **self.learner.facts(), scores=scores)
        state.counted, state.sums = 0, {}
        if improved:
            state.selected = scores
            self._keep(self.learner.kept.state_dict(), scores)

    def _score(self, feed: Any) -> dict[str, Any]:
        return evaluate(self.learner.kept, feed, self.recipe.decoding.max_length).tree()

    def _keep(self, weights: dict[str, Tensor], scores: dict[str, dict[str, float]]) -> None:
        if not self.world.leads:
            return
        origin = {
            **provenance(),
            "objective": self.recipe.training.objective,
            "step": self.state.selection.best_step if self.setup.selection is not None else self.state.step,
            "trained_on": self.setup.train_name,
            "trained_on_sha256": self.setup.train_sha256,
        }
        parts = weights, self.setup.lexicon, self.recipe, scores, origin
        reader_folder.write_reader(self.out / "best", *parts, self.setup.text_inputs, self.setup.temperature)

    def _save(self) -> None:
        self._read()
        if self.state.step == self.saved and not self.state.ended:
            return
        if self.world.leads:
            run_folder.save_checkpoint(self.out / "last", self.learner.tensors(), dataclasses.asdict(self.state))
        self.saved = self.state.step

    def _restore_best(self) -> None:
        """Make the reader again from the checkpoint, where its folder was lost and the checkpoint has its weights."""
        state = self.state
        wanted = state.selection.best_step if self.setup.selection is not None else state.evaluated
        if (self.out / "best").exists() or not state.evaluated:
            return
        if wanted == state.step:
            self._keep(self.learner.kept.state_dict(), state.selected)
            say(f"{self.out / 'best'}: was lost, and is made again from last/.")
        elif self.setup.selection is not None or state.ended:
            raise UserError(
                f"{self.out / 'best'}: is lost, and last/ has the weights of step {state.step}, not of step {wanted}, "
                "the best; restore the folder, or train again."
            )

    def _finish(self) -> TrainResult:
        """Report what was kept, from the files themselves, on dev."""
        dev, scores = None, self.state.selected
        if not self.world.leads:
            return self._result()
        if self.setup.dev is not None:
            network, _, _ = reader_folder.load_network(self.out / "best", self.setup.device)
            about = read_manifest(self.out / "best" / MANIFEST)
            dev = evaluate(network, self.setup.dev, self.recipe.decoding.max_length)
            scores = {**self.state.selected, "dev": dev.tree()}
            if about["scores"] != scores:  # else it ended before, and its reader stays as it is
                update(self.out / "best", scores=scores)
            say(f"{self.out / 'best'}: EM {dev.exact_match:.2f}, F1 {dev.f1:.2f} on {dev.total} questions of dev.")
        ends = [event["scores"] for event in read_log(self.out / "log.jsonl") if event["event"] == "end"]
        if scores not in ends[-1:]:
            self.log.write("end", self.state.step, scores=scores)
        return self._result(dev)

    def _result(self, dev: Scores | None = None, finished: bool = True) -> TrainResult:
        best = self.state.selection.best
        return TrainResult(self.out / "best", finished, self.state.step, best if best >= 0 else None, dev)
