"""Training with several processes under ``torchrun``, each with its part of every batch.

A step is one step on the recipe's whole batch: each process computes the gradient of its rows, one sum over all of them
follows, and all take the same step from it. So they stay equal to the last bit without exchanging weights. The first of
them writes whatever is written, and judges; the others are told.
"""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from rmreader.core import console
from rmreader.core.errors import UserError, user_error_on

T = TypeVar("T")
# the others wait while the first reads data; one that is gone is noticed at once
_PATIENCE = datetime.timedelta(days=1)


@dataclass(frozen=True)
class World:
    """The processes of a training, and which of them this is."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def rows(self, index: NDArray[Any], groups: NDArray[Any] | None = None) -> NDArray[Any]:
        """This process's part of a batch; neighbours of one group stay together, so that a part can be empty."""
        bounds = [round(len(index) * k / self.size) for k in (self.rank, self.rank + 1)]
        if groups is not None:
            begins = np.flatnonzero(np.diff(groups[index], prepend=-1, append=-1))  # of groups, and the end
            bounds = [int(begins[np.searchsorted(begins, bound)]) for bound in bounds]
        return index[bounds[0] : bounds[1]]

    def parts(self, count: int) -> list[World]:
        """This process's parts of a batch that has so many, one per process at least; each as the one process of as
        many as there are parts that would have it to itself."""
        count = max(count, self.size)
        if count % self.size:
            raise UserError(f"training.parts={count}: give a multiple of torchrun's {self.size} processes.")
        each = count // self.size
        return [World(self.rank * each + k, count) for k in range(each)]

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, the same to the last bit in each; the tensor itself is changed."""
        if self.size > 1:
            with _together():
                dist.all_reduce(tensor)
        return tensor

    def any(self, asked: bool, device: torch.device) -> bool:
        """Whether any process says so."""
        return self.sum(torch.tensor(float(asked), device=device)).item() > 0 if self.size > 1 else asked

    def told(self, value: float, device: torch.device) -> float:
        """The first process's value; all wait until it is there."""
        if self.size == 1:
            return value
        with _together():
            dist.broadcast(tensor := torch.tensor(value, dtype=torch.float64, device=device), 0)
        return tensor.item()

    def in_turn(self, act: Callable[[], T], device: torch.device) -> T:
        """What ``act`` gives, done by the first process and then by the others, who find what it left on disk; where
        it fails in the first, which says why, it is not done in them."""
        if self.leads:
            try:
                done = act()
            except BaseException:
                self.told(0.0, device)
                raise
            self.told(1.0, device)
            return done
        if not self.told(0.0, device):
            raise SystemExit(1)
        return act()


ALONE = World()


def leads() -> bool:
    """Whether this process is the one of its training that speaks."""
    return not dist.is_torchelastic_launched() or os.environ["RANK"] == "0"


@contextlib.contextmanager
def join(device: torch.device) -> Iterator[tuple[World, torch.device]]:
    """Within, the processes that torchrun started train together, each on a GPU of its own; alone without torchrun."""
    if not dist.is_torchelastic_launched() or os.environ["WORLD_SIZE"] == "1":
        yield World(), device
        return
    world, local = (World(*(int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))), int(os.environ["LOCAL_RANK"]))
    if device.type == "cuda":
        if device.index is not None:
            raise UserError(f"--device {device}: under torchrun each process takes a GPU of its own; give cuda.")
        if local >= torch.cuda.device_count():
            raise UserError(f"torchrun: more processes than the {torch.cuda.device_count()} GPUs here; start fewer.")
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    console.muted = not world.leads
    with _together():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=_PATIENCE)
    try:
        yield world, device
    finally:
        dist.destroy_process_group()
        console.muted = False


def _together() -> contextlib.AbstractContextManager[None]:
    """Within, a process that has gone away is a sentence."""
    gone = "another process of this training has ended or cannot be reached ({why}); see what it said, then start "
    return user_error_on(f"{gone}all of them again with --resume.", RuntimeError)
