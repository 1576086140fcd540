"""Training with several processes under ``torchrun``, each with its part of every batch.

A step is one step on the recipe's whole batch: each process computes the gradient of its rows, one
sum over all of them follows, and all take the same step from it. So they stay equal to the last bit
without exchanging weights. The main process writes whatever is written, and judges; the others get
its verdict. Nothing but ``trainer.train`` knows of this file.
"""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from rmreader.core import console
from rmreader.core.errors import UserError, user_error_on
from rmreader.core.recipe import Recipe
from rmreader.training.parts import Part
from rmreader.training.prepare import Setup
from rmreader.training.run_folder import Stop
from rmreader.training.trainer import Job, Run, TrainResult

T = TypeVar("T")
# the others wait while the main process reads data; one that is gone is noticed at once
_PATIENCE = datetime.timedelta(days=1)


@dataclass(frozen=True)
class World:
    """The processes of a training, and which of them this is."""

    rank: int
    size: int
    device: torch.device
    """This process's own."""

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, which writes and prints."""
        return self.rank == 0

    def parts(self, count: int) -> list[Part]:
        """This process's parts of a batch that is read in so many, one per process at least."""
        count = max(count, self.size)
        if count % self.size:
            raise UserError(
                f"training.parts={count}: give a multiple of torchrun's {self.size} processes."
            )
        each = count // self.size
        return [Part(self.rank * each + k, count) for k in range(each)]

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, the same to the last bit in each; changes the tensor."""
        with _together():
            dist.all_reduce(tensor)
        return tensor

    def any(self, value: bool) -> bool:
        """Whether the value is true in any process."""
        return self.sum(torch.tensor(float(value), device=self.device)).item() > 0

    def broadcast(self, value: float) -> float:
        """Rank 0's value, in every process."""
        tensor = torch.tensor(value, dtype=torch.float64, device=self.device)
        with _together():
            dist.broadcast(tensor, 0)
        return tensor.item()

    def in_turn(self, act: Callable[[], T]) -> T:
        """What ``act`` gives, done by rank 0 and then by the others, who find what it left on disk.

        Where it fails in rank 0, which says why, it is not done in them.
        """
        if self.is_main:
            try:
                done = act()
            except BaseException:
                self.broadcast(0.0)
                raise
            self.broadcast(1.0)
            return done
        if not self.broadcast(0.0):
            raise SystemExit(1)
        return act()


class SharedRun(Run):
    """A run that several processes share."""

    def __init__(self, setup: Setup, world: World, **options: Any) -> None:
        self.world = world
        self.writes = world.is_main
        super().__init__(setup, **options)

    def own_parts(self, count: int) -> list[Part]:
        """This process's parts of a batch."""
        return self.world.parts(count)

    def add_up(self, vector: Tensor) -> Tensor:
        """The sum of all processes' gradients."""
        return self.world.sum(vector)

    def is_stopped(self, stop: Stop) -> bool:
        """Whether any process was asked to stop, so that all stop after the same step."""
        if self.state.step % self.setup.read_every:
            return False
        return self.world.any(bool(stop))

    def agree(self, f1: float) -> float:
        """The main process's F1, which all decide by."""
        return self.world.broadcast(f1)


def is_main() -> bool:
    """Whether this process prints the result of its training."""
    return not dist.is_torchelastic_launched() or os.environ["RANK"] == "0"


def train_together(job: Job) -> TrainResult:
    """One process's share of a training under torchrun."""
    with _join(job.device) as world:
        _say_if_slow(job.recipe, world)
        # the others go on from what the main process has begun
        resume = job.resume or not world.is_main
        with job.folder() if world.is_main else contextlib.nullcontext():
            setup = world.in_turn(lambda: job.prepare(world.device, resume))
            run = SharedRun(setup, world, tensorboard=job.tensorboard, curve=job.curve)
            result = job.go(run)
            if world.is_main:
                job.finish(setup, result)
            world.broadcast(0.0)  # the reader is whole when any of them returns
            return result


def _say_if_slow(recipe: Recipe, world: World) -> None:
    if recipe.inputs.contextual and recipe.inputs.contextual_mode == "tuned":
        return
    console.say(
        f"{world.size} processes train together; without a tuned encoder a network is so small "
        "that this seldom pays (an epoch of SQuAD takes 8 s on one GPU)."
    )


@contextlib.contextmanager
def _join(device: torch.device) -> Iterator[World]:
    """Within, the processes that torchrun started are connected, each with a GPU of its own."""
    if device.type == "cuda":
        device = _own_gpu(device)
    world = World(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), device)
    console.muted = not world.is_main
    with _together():
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=_PATIENCE)
    try:
        yield world
    finally:
        dist.destroy_process_group()
        console.muted = False


def _own_gpu(device: torch.device) -> torch.device:
    number = int(os.environ["LOCAL_RANK"])
    if device.index is not None:
        raise UserError(
            f"--device {device}: under torchrun each process takes a GPU of its own; give cuda."
        )
    count = torch.cuda.device_count()
    if number >= count:
        raise UserError(f"torchrun: more processes than the {count} GPUs here; start fewer.")
    device = torch.device("cuda", number)
    torch.cuda.set_device(device)
    return device


def _together() -> contextlib.AbstractContextManager[None]:
    """Within, a process that has gone away is a sentence."""
    return user_error_on(
        "another process of this training has ended or cannot be reached ({why}); see what it "
        "said, then start all of them again with --resume.",
        RuntimeError,
    )
