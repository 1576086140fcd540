"""Training steps captured as CUDA graphs: one for each shape
of batch, replayed without the host's launch latency."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from rmreader.core.console import say
from rmreader.data.batch import Batch
from rmreader.kernels.beyond import copy_all

Step = Callable[[Batch[Tensor]], dict[str, Tensor]]
Shapes = tuple[tuple[torch.Size, torch.dtype], ...]

# runs before a capture: libraries choose their
# algorithms, kernels are compiled, gradients allocated
_WARM_UP = 2


class Graphed:
    """A step that is captured when a shape is first seen and replayed from then on.

    ``state`` is every tensor that a step changes (a function, since an optimizer makes its own at
    the first step): warming up runs the step, so what it changed is put back. The results of a call
    are overwritten by the next one of the same shape; clone them to keep them. On the CPU, and once
    a capture has failed, the step is simply called.
    """

    def __init__(self, step: Step, state: Callable[[], Sequence[Tensor]], limit: int = 96) -> None:
        self.step = step
        self.state = state
        self.limit = limit
        self.failed = False
        self._graphs: OrderedDict[Shapes, _Captured] = OrderedDict()
        self._pool: Any = None  # memory that all graphs share, since only one runs at a time

    def __call__(self, batch: Batch[Tensor]) -> dict[str, Tensor]:
        """The step on this batch."""
        tensors = flatten(batch)
        if self.failed or not tensors[0].is_cuda:
            return self.step(batch)
        shapes = _shapes_of(tensors)
        captured = self._graphs.pop(shapes, None) or self._capture(batch)
        if captured is None:
            # A step without a graph needs the memory that the graphs hold.
            self._graphs.clear()
            torch.cuda.empty_cache()
            return self.step(batch)
        self._graphs[shapes] = captured  # the most recently used is last
        if len(self._graphs) > self.limit:
            self._graphs.popitem(last=False)
        return captured.replay(tensors)

    def capture(self, batch: Batch[Tensor]) -> None:
        """Capture the step for batches of this shape without taking it.

        Graphs share their memory, and what the largest shape holds has room for all others: it
        should be the first. The other way round each larger shape would take memory of its own.
        """
        tensors = flatten(batch)
        if self.failed or not tensors[0].is_cuda:
            return
        captured = self._capture(batch)
        if captured is not None:
            self._graphs[_shapes_of(tensors)] = captured

    def _capture(self, batch: Batch[Tensor]) -> _Captured | None:
        """The step on batches of this shape as a graph,
        with everything it changes as it was before."""
        before = [tensor.detach().clone() for tensor in self.state()]
        random = torch.cuda.default_generators[torch.cuda.current_device()]
        numbers = random.get_state()
        whole = random.clone_state()
        try:
            captured = _Captured(self.step, batch, self._pool)
        except RuntimeError as error:
            self.failed = True
            random.graphsafe_set_state(whole)  # it still waits for the graph that did not come
            reason = str(error).partition("\n")[0]
            say(
                "this step cannot be captured as a graph and runs without one, more slowly: "
                f"{reason}"
            )
            return None
        finally:
            torch.cuda.synchronize()
            random.set_state(numbers)
            with torch.no_grad():
                now = self.state()
                copy_all(now[: len(before)], before)
                for tensor in now[len(before) :]:  # made while warming up, so nothing yet
                    tensor.zero_()
        self._pool = captured.graph.pool()
        return captured


class _Captured:
    """One graph, the tensors it reads and the tensors it writes."""

    def __init__(self, step: Step, batch: Batch[Tensor], pool: Any) -> None:
        self.batch = batch.map(torch.clone)
        self.tensors = flatten(self.batch)
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                step(self.batch)
        torch.cuda.current_stream().wait_stream(side)
        # A capture allocates in a pool of its own: what warming up leaves is in its way.
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        self.graph = torch.cuda.CUDAGraph()
        # thread_local: the thread that makes batches may pin memory
        # meanwhile, which a global capture would not survive
        with torch.cuda.graph(self.graph, pool=pool, capture_error_mode="thread_local"):
            self.results = step(self.batch)

    def replay(self, tensors: list[Tensor]) -> dict[str, Tensor]:
        copy_all(self.tensors, tensors)
        self.graph.replay()
        return self.results


def _shapes_of(tensors: Sequence[Tensor]) -> Shapes:
    """By what a graph is found again."""
    return tuple((tensor.shape, tensor.dtype) for tensor in tensors)


def flatten(batch: Batch[Tensor]) -> list[Tensor]:
    """Every tensor of a batch, in an order of its own."""
    tensors: list[Tensor] = []

    def collect(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    batch.map(collect)
    return tensors
