"""Compiled functions: the same numbers, one compilation for all lengths, and lengths known to be multiples."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from support.small import CONFIG
from torch import Tensor, nn

from rmreader.model import aligner as aligner_module
from rmreader.model.aligner import Aligner
from rmreader.model.compiled import UNITS, compile_for_lengths
from rmreader.model.encoder import ScalarMix
from rmreader.model.pointer import Pointer

pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute")  # of the compiler's own
LENGTHS = [(16, 96), (32, 64), (64, 256), (16, 32), (48, 160), (32, 384)]  # of questions and passages; 64 is 2 · 32


class Graphs:
    """A compiler that remembers what it was given and runs it as it is."""

    def __init__(self) -> None:
        self.seen: list[torch.fx.GraphModule] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: Any) -> Any:
        self.seen.append(graph)
        return graph.forward

    def shapes(self) -> list[torch.Size]:
        """Of all tensors that the last graph makes."""
        values = [node.meta.get("example_value") for node in self.seen[-1].graph.nodes if node.op != "placeholder"]
        return [value.shape for value in values if isinstance(value, Tensor)]


@pytest.fixture(autouse=True)
def afresh() -> None:
    torch.compiler.reset()


def texts(n: int, m: int, size: int) -> list[Tensor]:
    """U, V and their true words."""
    draw = torch.Generator().manual_seed(n + m)
    U, V = (torch.randn(3, steps, size, generator=draw, dtype=torch.float64) for steps in (m, n))
    return [U, V, torch.arange(m).expand(3, m) < m - 2, torch.arange(n).expand(3, n) < n - 1]


def test_the_pointer_is_compiled_once_and_points_as_before() -> None:
    torch.manual_seed(1)
    pointer, graphs = Pointer(CONFIG).double().eval(), Graphs()
    compiled = compile_for_lengths(pointer.forward, "bmd", "bnd", "bm", "bn", backend=graphs)
    for n, m in LENGTHS:
        given = texts(n, m, 2 * CONFIG.hidden)
        for got, expected in zip(compiled(*given), pointer(*given), strict=True):
            torch.testing.assert_close(got, expected)
    assert len(graphs.seen) == 1


def test_blocks_are_compiled_once_and_align_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    aligner, graphs = Aligner(CONFIG).double().eval(), Graphs()
    given = [texts(n, m, 2 * CONFIG.hidden) for n, m in LENGTHS]
    expected = [aligner(*tensors)[0] for tensors in given]
    monkeypatch.setattr(aligner_module, "compile_for_lengths", functools.partial(compile_for_lengths, backend=graphs))
    aligner.compile_blocks()
    for tensors, states in zip(given, expected, strict=True):
        torch.testing.assert_close(aligner(*tensors)[0], states)
    assert len(graphs.seen) == 2  # the first, and those that reattend


def test_every_length_is_known_to_be_a_multiple() -> None:
    from torch.fx.experimental.symbolic_shapes import statically_known_true  # loads sympy

    graphs = Graphs()
    compiled = compile_for_lengths(lambda logits: logits.relu() + logits.mT, "bmm", backend=graphs)
    compiled(torch.randn(2, 160, 160))
    steps = [size for shape in graphs.shapes() if len(shape) == 3 for size in shape[1:]]
    assert len(steps) > 3
    assert all(statically_known_true(size % UNITS["m"] == 0) for size in steps)
    assert not any(isinstance(size, int) for size in steps)


def test_other_lengths_are_compiled_as_they_are() -> None:
    graphs = Graphs()
    compiled = compile_for_lengths(nn.functional.relu, "bm", backend=graphs)
    for steps in (7, 16, 33, 48, 50, 64):
        x = torch.randn(2, steps)
        torch.testing.assert_close(compiled(x), x.relu())
    assert len(graphs.seen) <= 3  # units (one alone, then any number) and others


def test_layers_mixed_in_one_kernel_give_the_same_sum_and_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(3)
    mix = ScalarMix(4)
    with torch.no_grad():
        mix.weights.normal_()
    layers = tuple(torch.randn(2, 5, 8, requires_grad=True) for _ in range(4))
    plain = mix.of_layers(layers)
    expected = torch.autograd.grad(plain.square().sum(), [mix.weights, mix.gamma, *layers])
    # Traced as ever, but without a compiler of C++.
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    mix.compile_mix()
    fused = mix.of_layers(layers)
    found = torch.autograd.grad(fused.square().sum(), [mix.weights, mix.gamma, *layers])
    torch.testing.assert_close(fused, plain)
    torch.testing.assert_close(found, expected)
