"""The gradient of every module, and of the whole network's loss, by finite differences in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from support.small import (
    CONFIG,
    FULL_INPUTS,
    FULL_SIZES,
    INPUTS,
    SIZES,
    make_batch,
    make_examples,
    make_network,
    randomise,
)
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.func import functional_call

from rmreader.model.aligner import Aligner
from rmreader.model.attention import Similarity, column_attention, overlap, without_diagonal
from rmreader.model.encoder import CharacterEncoder
from rmreader.model.fusion import Fusion
from rmreader.model.lstm import BiLSTM
from rmreader.model.masking import VariationalDropout, masked_log_softmax, masked_softmax, true_steps
from rmreader.model.pointer import Pointer

M = torch.tensor([4, 1, 3])
CONTEXT = true_steps(M, 5)
QUESTION = true_steps(torch.tensor([2, 3, 1]), 3)


def states(seed: int, steps: int, size: int = 2) -> Tensor:
    torch.manual_seed(seed)
    return torch.randn(3, steps, size, dtype=torch.float64, requires_grad=True)


def check(module: nn.Module, call: Callable[..., Tensor], *inputs: Tensor, fast: bool = False) -> None:
    """Gradients of ``call(run, *inputs)`` to the inputs and to every parameter of the module."""
    module.double()
    randomise(module, 0.5)
    names = [name for name, _ in module.named_parameters()]
    parameters = [p.detach().clone().requires_grad_() for p in module.parameters()]

    def function(*values: Tensor) -> Tensor:
        weights = dict(zip(names, values[: len(names)], strict=True))
        return call(lambda *a: functional_call(module, weights, a), *values[len(names) :])

    assert gradcheck(function, (*parameters, *inputs), fast_mode=fast)


def test_masked_softmaxes() -> None:
    x = states(1, 5, 5)
    assert gradcheck(lambda x: masked_softmax(x, CONTEXT[:, None, :], 2), (x,))
    assert gradcheck(lambda x: masked_log_softmax(x, CONTEXT[:, None, :], 2)[..., :1], (x,))


def test_lstm() -> None:
    check(BiLSTM(2, 2, "plain"), lambda run, x: torch.cat([t.flatten() for t in run(x, M)]), states(2, 5))


def test_characters() -> None:
    letters = torch.tensor([[1, 2, 0], [3, 0, 0], [4, 4, 1]])
    check(CharacterEncoder(5, 2, 0.0, "plain"), lambda run: run(letters, torch.tensor([2, 1, 3])))


def test_similarity_and_reattention() -> None:
    check(Similarity(2), lambda run, a, b: run(a, b), states(3, 3), states(4, 5))
    check(Similarity(2), lambda run, a: run(a, a), states(5, 4))
    check(Similarity(2, "dot"), lambda run, a: run(a, a), states(6, 4))
    reattend = lambda E, B: overlap(E, column_attention(B, CONTEXT), CONTEXT)  # noqa: E731
    assert gradcheck(reattend, (states(7, 3, 5), states(8, 5, 5)))
    for how in ("zero", "mask", "none"):
        attend = lambda B, how=how: column_attention(without_diagonal(B, how), CONTEXT)  # noqa: E731
        assert gradcheck(attend, (states(9, 5, 5),))


@pytest.mark.parametrize("form", ["highway", "gate", "mlp"])
@pytest.mark.parametrize(("mul", "sub"), [(True, True), (False, True), (True, False)])
def test_fusion(form: str, mul: bool, sub: bool) -> None:
    check(Fusion(2, form, mul, sub), lambda run, x, y: run(x, y), states(10, 3), states(11, 3))  # type: ignore[arg-type]


def test_dropout() -> None:
    def drop(x: Tensor) -> Tensor:
        torch.manual_seed(5)
        result: Tensor = VariationalDropout(0.5).train()(x)
        return result

    assert gradcheck(drop, (states(12, 4),))


def test_encoder_with_every_input() -> None:
    encoder = make_network(6, replace(CONFIG, hidden=1), FULL_INPUTS, FULL_SIZES).encoder
    batch = make_batch(make_examples(6, [(2, 3), (1, 1)], FULL_SIZES), more=1)
    masks = true_steps(batch.question_lengths, 3), true_steps(batch.context_lengths, 4)
    assert encoder.words is not None
    encoder.words.padding_idx = None  # row 0 has no gradient by design
    check(encoder, lambda run: torch.cat([t.flatten() for t in run(batch, *masks)]))


@pytest.mark.parametrize("diagonal", ["zero", "mask"])
def test_aligner(diagonal: str) -> None:
    """Every number of two blocks, the first and the last; three, with one that is neither, along random directions."""
    fast = diagonal == "mask"
    config = replace(CONFIG, hidden=1, blocks=3 if fast else 2, diagonal=diagonal)  # type: ignore[arg-type]

    def call(run: Callable[..., tuple[Tensor, list]], U: Tensor, V: Tensor) -> Tensor:  # type: ignore[type-arg]
        R, rounds = run(U, V, CONTEXT, QUESTION)
        return torch.cat([R.flatten(), rounds[-1].E.flatten(), rounds[-1].B.flatten()])

    check(Aligner(config).eval(), call, states(13, 5), states(14, 3), fast=fast)


def test_pointer() -> None:
    pointer = Pointer(replace(CONFIG, hidden=1)).eval()

    def call(run: Callable[..., tuple[Tensor, Tensor]], R: Tensor, V: Tensor) -> Tensor:
        return torch.cat([p.masked_select(CONTEXT) for p in run(R, V, CONTEXT, QUESTION)[:2]])

    check(pointer, call, states(15, 5), states(16, 3))


@pytest.mark.parametrize(("hidden", "everything", "fast"), [(1, False, False), (3, True, True)])
def test_the_whole_networks_loss(hidden: int, everything: bool, fast: bool) -> None:
    """As the aligner's: every number of two blocks, or three along random directions."""
    inputs, sizes = (FULL_INPUTS, FULL_SIZES) if everything else (replace(INPUTS, character_size=1), SIZES)
    sizes = sizes if everything else replace(sizes, vectors=2, characters=9)
    network = make_network(7, replace(CONFIG, hidden=hidden, blocks=3 if fast else 2), inputs, sizes)
    batch = make_batch(make_examples(7, [(2, 4), (3, 2), (1, 1)], sizes), more=1)
    start, end = torch.tensor([[1], [0], [0]]), torch.tensor([[2], [1], [0]])

    def loss(run: Callable[..., object]) -> Tensor:
        pointers = run(batch)
        return -(pointers.log_p1.gather(1, start) + pointers.log_p2.gather(1, end)).sum()  # type: ignore[attr-defined]

    if network.encoder.words is not None:  # row 0 has no gradient by design
        network.encoder.words.padding_idx = None
    check(network, loss, fast=fast)
