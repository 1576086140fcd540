"""One step: gradients are cut where they are too long and nowhere else, every step has its own random numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rmreader.data.batch import Batch
from rmreader.training.step import Learner
from rmreader.training.trainer import Run

STEPS = 3


def learn(tiny: Any, out: Path, clip: float) -> tuple[Learner, list[float]]:
    """After some steps: the learner, and the norm of every step's gradient before it was cut."""
    run = Run(tiny.setup(out, f"training.clip={clip}"))
    norms = []
    batches = run.setup.train.batches(run._upcoming())
    for step in range(STEPS):
        run.learner.set_place(step, STEPS, 0)
        measures = run.learner.step(run.setup.train.fill(next(batches)[1]))["measures"]
        norms.append(dict(zip(run.learner.measures, measures.tolist(), strict=True))["gradient"])
    batches.close()
    return run.learner, norms


def test_a_gradient_shorter_than_the_limit_is_left_as_it_is(tiny: Any, tmp_path: Path) -> None:
    free, norms = learn(tiny, tmp_path / "free", 0)
    limited, _ = learn(tiny, tmp_path / "limited", 2 * max(norms))
    others = limited.tensors()
    for name, tensor in free.tensors().items():
        assert torch.equal(tensor, others[name]), name


def test_a_gradient_longer_than_the_limit_has_its_length(tiny: Any, tmp_path: Path) -> None:
    """Adam's first moment is a mean of the gradients that it was given: of parallel ones, its length tells theirs."""
    _, norms = learn(tiny, tmp_path / "free", 0)
    limit = min(norms) / 10
    run = Run(tiny.setup(tmp_path / "cut", f"training.clip={limit}"))
    batches = run.setup.train.batches(run._upcoming())
    run.learner.set_place(0, STEPS, 0)
    run.learner.step(run.setup.train.fill(next(batches)[1]))
    batches.close()
    moments = [tensor for name, tensor in run.learner.tensors().items() if name.endswith(".exp_avg")]
    length = torch.cat([moment.flatten() for moment in moments]).norm().item() / (1 - 0.9)
    assert length == pytest.approx(limit, rel=1e-4)


def test_every_step_has_its_own_random_numbers_and_the_same_ones_again(tiny: Any, tmp_path: Path) -> None:
    run = Run(tiny.setup(tmp_path / "run"))
    batches = run.setup.train.batches(run._upcoming())
    batch: Batch[Tensor] = run.setup.train.fill(next(batches)[1])
    batches.close()

    def dropped(step: int) -> Tensor:
        run.learner.set_place(step, STEPS, 0)
        log_p1: Tensor = run.learner.network(batch).log_p1
        return log_p1.detach()

    first, second, again = dropped(0), dropped(1), dropped(0)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    other = Run(tiny.setup(tmp_path / "other", "training.seed=2")).learner
    other.set_place(0, STEPS, 0)
    drawn = torch.rand(8)
    run.learner.set_place(0, STEPS, 0)
    assert not torch.equal(drawn, torch.rand(8))
