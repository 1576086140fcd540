"""Training steps as captured graphs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rmreader.data.batch import Batch
from rmreader.kernels.graphs import Graphed, flatten
from rmreader.text.words import Words

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def batch(rows: int, seed: int = 0, device: str = "cpu") -> Batch[Tensor]:
    draw = torch.Generator().manual_seed(seed)

    def ids(*shape: int) -> Tensor:
        return torch.randint(1, 9, shape, generator=draw).to(device)

    words = Words(torch.randn(9, 4, generator=draw).to(device), ids(9, 3), ids(9), ids(9), ids(9))
    return Batch(ids(rows, 3), ids(rows, 5), ids(rows), ids(rows), words)


class Model:
    """A weight, its momentum and a count, all changed by a step with randomness in it."""

    def __init__(self, device: str) -> None:
        self.weight = torch.ones(4, device=device)
        self.momentum: list[Tensor] = []  # made at the first step, as an optimizer's are

    def state(self) -> list[Tensor]:
        return [self.weight, *self.momentum]

    def step(self, batch: Batch[Tensor]) -> dict[str, Tensor]:
        if not self.momentum:
            self.momentum.append(torch.zeros_like(self.weight))
        vectors = batch.words.vectors[batch.context].sum((0, 1))
        self.momentum[0].mul_(0.9).add_(torch.dropout(vectors, 0.5, True))
        self.weight.sub_(0.01 * self.momentum[0])
        return {"sum": self.weight.sum()}


def test_on_the_cpu_it_simply_steps() -> None:
    model, plain = Model("cpu"), Model("cpu")
    graphed = Graphed(model.step, model.state)
    for seed in range(3):
        torch.manual_seed(seed)
        got = graphed(batch(2, seed))["sum"].clone()
        torch.manual_seed(seed)
        assert torch.equal(got, plain.step(batch(2, seed))["sum"])


def test_flatten_lists_every_tensor_there_is() -> None:
    assert len(flatten(batch(2))) == 9


@CUDA
def test_replayed_steps_equal_plain_ones_and_warming_up_is_not_training() -> None:
    model, plain = Model("cuda"), Model("cuda")
    graphed = Graphed(model.step, model.state, limit=2)
    for place, rows in enumerate([2, 3, 2, 4, 3, 2, 2]):  # three shapes, two kept: some are captured twice
        torch.manual_seed(place)
        got = graphed(batch(rows, place, "cuda"))["sum"].clone()
        torch.manual_seed(place)
        torch.testing.assert_close(got, plain.step(batch(rows, place, "cuda"))["sum"])
    torch.testing.assert_close(model.momentum, plain.momentum)
    assert not graphed.failed


@CUDA
def test_a_shape_that_is_captured_ahead_is_not_stepped_on() -> None:
    model = Model("cuda")
    plain = Model("cuda")
    graphed = Graphed(model.step, model.state)
    graphed.capture(batch(9, 0, "cuda"))
    assert torch.equal(model.weight, plain.weight)
    for place, rows in enumerate([2, 9, 3]):
        torch.manual_seed(place)
        got = graphed(batch(rows, place, "cuda"))["sum"].clone()
        torch.manual_seed(place)
        torch.testing.assert_close(got, plain.step(batch(rows, place, "cuda"))["sum"])


def test_on_the_cpu_nothing_is_captured_ahead() -> None:
    model = Model("cpu")
    Graphed(model.step, model.state).capture(batch(2))
    assert not model.momentum


@CUDA
def test_a_step_that_cannot_be_captured_still_runs(capsys: pytest.CaptureFixture[str]) -> None:
    model = Model("cuda")

    def waits(batch: Batch[Tensor]) -> dict[str, Tensor]:
        model.step(batch)["sum"].item()
        return {"sum": model.weight.sum()}

    graphed, plain = Graphed(waits, model.state), Model("cuda")
    for place in range(3):
        torch.manual_seed(place)
        got = graphed(batch(2, place, "cuda"))["sum"]
        torch.manual_seed(place)
        torch.testing.assert_close(got, plain.step(batch(2, place, "cuda"))["sum"])
    assert graphed.failed
    assert capsys.readouterr().err.count("cannot be captured") == 1
