"""What the fused BiLSTM promises, on a GPU or under Triton's interpreter. ``test_fused.py`` runs this in a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rmreader.data.batches import list_letters
from rmreader.kernels.fused import fused_bilstm
from rmreader.kernels.lstm import bilstm

pytestmark = pytest.mark.filterwarnings("ignore:RNN module weights")  # from the reference, on a GPU
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {"fp32": 1e-5, "bf16": 2e-2}  # a lone number may be off by a few roundings, of 0.4 % each
FEW = settings(max_examples=40 if DEVICE == "cuda" else 8, deadline=None, derandomize=True)


def problem(seed: int, batch: int, steps: int, size: int, hidden: int, scale: float = 1.0) -> list[Tensor]:
    """x, weight_ih, weight_hh, bias, as float32."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw).to(DEVICE)

    weights = [normal(2, 4 * hidden, size) * size**-0.5, normal(2, 4 * hidden, hidden) * hidden**-0.5]
    return [scale * normal(batch, steps, size), *weights, normal(2, 4 * hidden)]


def results(
    run: object, tensors: list[Tensor], lengths: Tensor, seed: int, *more: object, rounded: torch.dtype = torch.float32
) -> list[Tensor]:
    """Outputs, final states and all gradients, for random gradients of the two; the output's is ``rounded``."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    output, final = run(leaves[0], lengths, *leaves[1:], *more)  # type: ignore[operator]
    draw = torch.Generator().manual_seed(seed)
    gradients = [torch.randn(tensor.shape, generator=draw) for tensor in (output, final)]
    gradients = [gradients[0].to(rounded).to(output), gradients[1].to(final)]
    torch.autograd.backward([output, final], gradients)
    return [output.detach(), final.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def error(got: Tensor, expected: Tensor) -> float:
    return ((got.double() - expected).norm() / expected.norm().clamp_min(1e-30)).item()


def check(tensors: list[Tensor], lengths: Tensor, precision: str, seed: int = 0) -> None:
    rounded = torch.bfloat16 if precision == "bf16" else torch.float32
    got = results(fused_bilstm, tensors, lengths, seed, precision)
    expected = results(bilstm, [tensor.double() for tensor in tensors], lengths, seed, "plain", rounded=rounded)
    outside = torch.arange(tensors[0].shape[1], device=DEVICE) >= lengths[:, None]
    assert (got[0][outside] == 0).all()
    assert (got[2][outside] == 0).all()
    for name, a, b in zip(("output", "final", "x", "weight_ih", "weight_hh", "bias"), got, expected, strict=True):
        assert error(a, b) < TOLERANCE[precision], name


sizes = st.tuples(st.integers(1, 11), st.integers(1, 5), st.integers(1, 9), st.sampled_from([1, 5, 16, 20, 33]))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@FEW
@given(st.integers(0, 2**31), sizes)
def test_it_equals_the_plain_lstm_in_float64(precision: str, seed: int, shape: tuple[int, int, int, int]) -> None:
    lengths = torch.randint(1, shape[1] + 1, shape[:1], generator=torch.Generator().manual_seed(seed)).to(DEVICE)
    check(problem(seed, *shape), lengths, precision, seed)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_it_equals_the_plain_lstm_at_the_papers_size(precision: str) -> None:
    check(problem(1, 10, 7, 13, 100), torch.tensor([7, 1, 3, 7, 2, 5, 6, 1, 4, 2], device=DEVICE), precision)


def test_a_whole_slice_may_be_shorter_than_the_others() -> None:
    lengths = torch.tensor([2] * 8 + [6, 1, 6], device=DEVICE)
    check(problem(2, 11, 9, 4, 7), lengths, "fp32")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the interpreter tells of overflows; they are meant to happen
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_extreme_inputs_give_no_nan(precision: str) -> None:
    x, *weights = problem(3, 3, 4, 3, 5, scale=1e4)
    for number in results(
        fused_bilstm, [x, *(w * 100 for w in weights)], torch.tensor([4, 2, 1], device=DEVICE), 0, precision
    ):
        assert number.isfinite().all()


def test_tiny_inputs_keep_their_digits() -> None:
    x, w, u, b = problem(4, 4, 5, 3, 6, scale=1e-3)
    check([x, w, u, b * 1e-3], torch.tensor([5, 2, 4, 1], device=DEVICE), "fp32")


def test_used_twice_in_one_graph_both_uses_count() -> None:
    tensors, lengths = problem(5, 3, 4, 6, 3), torch.tensor([4, 1, 3], device=DEVICE)

    def twice(run: object, more: tuple[object, ...]) -> object:
        def both(x: Tensor, lengths: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
            first, _ = run(x, lengths, *weights, *more)  # type: ignore[operator]
            second: tuple[Tensor, Tensor] = run(first, lengths, *weights, *more)  # type: ignore[operator]
            return second

        return both

    got = results(twice(fused_bilstm, ()), tensors, lengths, 0)
    expected = results(twice(bilstm, ("plain",)), [t.double() for t in tensors], lengths, 0)
    for a, b in zip(got, expected, strict=True):
        assert error(a, b) < 1e-5


def test_inputs_may_be_strided_half_precise_and_only_partly_trained() -> None:
    x, w, u, b = problem(6, 3, 4, 6, 5)
    lengths = torch.tensor([4, 1, 3], device=DEVICE)
    base = fused_bilstm(x, lengths, w, u, b)[0]
    strided = x.transpose(0, 2).contiguous().transpose(0, 2)
    wide = torch.stack([u, u], dim=-1)[..., 0]
    torch.testing.assert_close(fused_bilstm(strided, lengths.repeat(2)[:3], w, wide, b)[0], base, rtol=0, atol=0)
    half = x.bfloat16().requires_grad_()
    output, final = fused_bilstm(half, lengths, w, u, b, "bf16")
    assert output.dtype == torch.bfloat16
    assert final.dtype == torch.float32
    final.sum().backward()  # the gradient of the output is absent
    assert half.grad is not None
    assert half.grad.dtype == torch.bfloat16
    expected = x.bfloat16().double().requires_grad_()
    bilstm(expected, lengths, *(t.double() for t in (w, u, b)), "plain")[1].sum().backward()
    assert expected.grad is not None
    assert error(half.grad, expected.grad) < 1e-2


def test_autocast_around_it_changes_nothing() -> None:
    tensors, lengths = problem(7, 3, 4, 6, 5), torch.tensor([4, 1, 3], device=DEVICE)
    plain = results(fused_bilstm, tensors, lengths, 0, "fp32")
    with torch.autocast(DEVICE, torch.bfloat16):
        under = results(fused_bilstm, tensors, lengths, 0, "fp32")
    for a, b in zip(plain, under, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@FEW
@given(st.integers(0, 2**31), sizes)
def test_a_mask_is_as_good_as_a_multiplication_before(
    precision: str, seed: int, shape: tuple[int, int, int, int]
) -> None:
    (x, *weights), draw = problem(seed, *shape), torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, shape[1] + 1, (shape[0],), generator=draw).to(DEVICE)
    mask = (torch.rand(shape[0], 1, shape[2], generator=draw) < 0.7).float().to(DEVICE) / 0.7
    for run, *how in ((fused_bilstm, precision), (bilstm, "plain", "fp32")):
        got = results(run, [x, *weights], lengths, 0, *how, mask)
        before = results(lambda x, *more, run=run: run(x * mask, *more), [x, *weights], lengths, 0, *how)
        for a, b in zip(got, before, strict=True):
            torch.testing.assert_close(a, b)


@pytest.fixture
def nothing_is_zero_by_chance() -> Iterator[None]:
    """Memory that nobody has written holds NaN."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.empty(1, device=DEVICE).isnan()
    yield
    torch.use_deterministic_algorithms(False)


def fused_final(x: Tensor, owners: Tensor, *more: object) -> Tensor:
    return fused_bilstm(x, *more, owners=owners)[1]  # type: ignore[arg-type]


def plain_final(x: Tensor, owners: Tensor, *more: object) -> Tensor:
    return bilstm(x, *more, owners=owners)[1]  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:.*deterministic")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("masked", [False, True])
def test_it_reads_no_memory_that_was_not_written(precision: str, masked: bool, nothing_is_zero_by_chance: None) -> None:
    tensors = problem(8, 19, 5, 7, 12)
    mask = torch.ones(19, 1, 7, device=DEVICE) if masked else None
    lengths = torch.tensor([5] * 3 + [2] * 5 + [1] * 8 + [3, 5, 1], device=DEVICE)
    for number in results(fused_bilstm, tensors, lengths, 0, precision, mask):
        assert number.isfinite().all()
    letters = torch.from_numpy(list_letters(lengths.cpu().numpy())).to(DEVICE)
    leaves = [tensor.detach().clone().requires_grad_() for tensor in (tensors[0][letters[0], letters[1]], *tensors[1:])]
    fused_final(leaves[0], letters[0], lengths, *leaves[1:], precision, mask).sum().backward()
    assert all(leaf.grad is not None and leaf.grad.isfinite().all() for leaf in leaves)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@FEW
@given(st.integers(0, 2**31), st.lists(st.integers(1, 20), min_size=1, max_size=4), st.booleans())
def test_parts_are_as_good_as_the_whole(precision: str, seed: int, widths: list[int], masked: bool) -> None:
    (x, *weights), draw = problem(seed, 3, 4, sum(widths), 5), torch.Generator().manual_seed(seed)
    lengths = torch.tensor([4, 1, 3], device=DEVICE)
    mask = (torch.rand(3, 1, sum(widths), generator=draw) < 0.7).float().to(DEVICE) / 0.7 if masked else None
    trained = [bool(torch.rand((), generator=draw) < 0.7) for _ in widths]
    parts = [p.detach().clone().requires_grad_(t) for p, t in zip(x.split(widths, -1), trained, strict=True)]
    whole = x.clone().requires_grad_()
    got, _ = fused_bilstm(parts, lengths, *weights, precision, mask)
    expected, _ = fused_bilstm(whole, lengths, *weights, precision, mask)
    assert torch.equal(got, expected)
    expected.float().square().sum().backward()
    if any(trained):
        got.float().square().sum().backward()
    assert whole.grad is not None
    for part, gradient, t in zip(parts, whole.grad.split(widths, -1), trained, strict=True):
        assert (part.grad is None) != t
        assert part.grad is None or error(part.grad, gradient.double()) < 1e-5


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@FEW
@given(st.integers(0, 2**31), st.integers(1, 20), st.integers(1, 20), st.sampled_from([5, 16, 33]), st.booleans())
def test_sequences_without_padding_end_in_the_same_states(
    precision: str, seed: int, batch: int, size: int, hidden: int, masked: bool
) -> None:
    (x, *weights), draw = problem(seed, batch, 6, size, hidden), torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 7, (batch,), generator=draw)
    letters = torch.from_numpy(list_letters(lengths.numpy())).to(DEVICE)
    mask = (torch.rand(batch, 1, size, generator=draw) < 0.7).float().to(DEVICE) / 0.7 if masked else None
    lengths = lengths.to(DEVICE)
    dense = x[letters[0], letters[1]]

    def last(run: object) -> object:
        def both(x: Tensor, lengths: Tensor, *more: object) -> tuple[Tensor, Tensor]:
            final = run(x, letters[0], lengths, *more)  # type: ignore[operator]
            return final.new_zeros(1, requires_grad=True), final

        return both

    got = results(last(fused_final), [dense, *weights], lengths, 0, precision, mask)[1:]
    wide = [tensor.double() for tensor in (dense, *weights)]
    drop = None if mask is None else mask.double()
    expected = results(last(plain_final), wide, lengths, 0, "plain", "fp32", drop)[1:]
    for name, a, b in zip(("final", "x", "weight_ih", "weight_hh", "bias"), got, expected, strict=True):
        assert error(a, b) < TOLERANCE[precision], name
    assert (got[1][int(lengths.sum()) :] == 0).all()


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_captured_graph_replays_it_on_new_inputs(precision: str) -> None:
    tensors, lengths = problem(8, 20, 30, 16, 100), torch.randint(1, 31, (20,), device=DEVICE)
    static = [tensor.clone() for tensor in tensors]
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        results(fused_bilstm, static, lengths, 0, precision)
    torch.cuda.synchronize()
    x = static[0].requires_grad_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output, final = fused_bilstm(x, lengths, *static[1:], precision)
        (gradient,) = torch.autograd.grad(output.sum() + final.sum(), x)
    for seed in (1, 2):
        fresh = problem(seed, 20, 30, 16, 100)[0]
        with torch.no_grad():
            x.copy_(fresh)
        graph.replay()
        leaf = fresh.double().requires_grad_()
        expected = bilstm(leaf, lengths, *(w.double() for w in tensors[1:]), "plain")
        (expected_gradient,) = torch.autograd.grad(expected[0].sum() + expected[1].sum(), leaf)
        assert error(output, expected[0]) < TOLERANCE[precision]
        assert error(gradient, expected_gradient) < TOLERANCE[precision]
