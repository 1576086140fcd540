"""The BiLSTM's plain path, and how a kernel is chosen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rmreader.core.errors import UserError
from rmreader.kernels.lstm import bilstm


def problem(seed: int, batch: int, steps: int, size: int, hidden: int) -> list[Tensor]:
    """x, lengths, weight_ih, weight_hh, bias in float64."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    lengths = torch.randint(1, steps + 1, (batch,), generator=draw)
    scale = hidden**-0.5
    weights = [normal(2, 4 * hidden, size) * scale, normal(2, 4 * hidden, hidden) * scale, normal(2, 4 * hidden)]
    return [normal(batch, steps, size), lengths, *weights]


def by_hand(x: Tensor, lengths: Tensor, w: Tensor, u: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The LSTM's equations, one sequence and one step at a time."""
    hidden = u.shape[-1]
    output = x.new_zeros(*x.shape[:2], 2 * hidden)
    final = x.new_zeros(len(x), 2 * hidden)
    for row, length in enumerate(lengths.tolist()):
        for d, order in enumerate((range(length), range(length - 1, -1, -1))):
            h = c = x.new_zeros(hidden)
            for t in order:
                i, f, g, o = (w[d] @ x[row, t] + u[d] @ h + b[d]).chunk(4)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
                output[row, t, d * hidden : (d + 1) * hidden] = h
            final[row, d * hidden : (d + 1) * hidden] = h
    return output, final


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 9999), st.integers(1, 4), st.integers(1, 5), st.integers(1, 4), st.integers(1, 4))
def test_the_plain_path_computes_the_lstm_equations(seed: int, batch: int, steps: int, size: int, hidden: int) -> None:
    arguments = problem(seed, batch, steps, size, hidden)
    for got, expected in zip(bilstm(*arguments), by_hand(*arguments), strict=True):
        torch.testing.assert_close(got, expected)


def test_it_equals_torchs_module_with_its_two_biases_added() -> None:
    x, lengths, *_ = problem(3, 5, 7, 3, 4)
    module = torch.nn.LSTM(3, 4, batch_first=True, bidirectional=True).double()
    p = dict(module.named_parameters())
    w = torch.stack([p["weight_ih_l0"], p["weight_ih_l0_reverse"]])
    u = torch.stack([p["weight_hh_l0"], p["weight_hh_l0_reverse"]])
    b = torch.stack([p["bias_ih_l0"] + p["bias_hh_l0"], p["bias_ih_l0_reverse"] + p["bias_hh_l0_reverse"]])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    expected, (last, _) = module(packed)
    output, final = bilstm(x, lengths, w, u, b)
    expected = torch.nn.utils.rnn.pad_packed_sequence(expected, batch_first=True, total_length=7)[0]
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(final, torch.cat([last[0], last[1]], dim=1))


def test_padding_is_neither_read_nor_written() -> None:
    x, _, *weights = problem(1, 3, 6, 2, 3)
    lengths = torch.tensor([2, 6, 1])
    output, final = bilstm(x, lengths, *weights)
    outside = torch.arange(6) >= lengths[:, None]
    assert (output[outside] == 0).all()
    spoiled = x.masked_fill(outside[..., None], torch.nan)
    again, final_again = bilstm(spoiled, lengths, *weights)
    assert torch.equal(output, again)
    assert torch.equal(final, final_again)


def test_steps_beyond_the_longest_sequence_stay_zero() -> None:
    x, _, *weights = problem(2, 2, 9, 2, 3)
    output, _ = bilstm(x, torch.tensor([3, 4]), *weights)
    assert output.shape == (2, 9, 6)
    assert (output[:, 4:] == 0).all()


def test_a_sequence_alone_equals_itself_in_a_batch() -> None:
    x, lengths, *weights = problem(4, 6, 8, 3, 4)
    output, final = bilstm(x, lengths, *weights)
    for row, length in enumerate(lengths.tolist()):
        alone, last = bilstm(x[row : row + 1, :length], lengths[row : row + 1], *weights)
        torch.testing.assert_close(alone[0], output[row, :length])
        torch.testing.assert_close(last[0], final[row])


def test_gradients_are_those_of_finite_differences() -> None:
    x, lengths, *weights = problem(5, 3, 4, 2, 2)
    tensors = [tensor.requires_grad_() for tensor in (x, *weights)]
    assert torch.autograd.gradcheck(lambda x, *w: bilstm(x, lengths, *w), tensors)


def test_the_output_has_the_weights_type_whatever_the_inputs() -> None:
    x, lengths, *weights = problem(6, 2, 3, 2, 2)
    weights = [w.float() for w in weights]
    output, final = bilstm(x.bfloat16(), lengths, *weights)
    assert output.dtype == final.dtype == torch.float32


def test_asking_for_the_fused_kernel_without_a_gpu_says_why() -> None:
    with pytest.raises(UserError, match="need an NVIDIA GPU"):
        bilstm(*problem(0, 1, 1, 1, 1), kernel="fused")


@pytest.mark.parametrize("missing", ["triton", "torch"])
def test_the_benchmark_has_its_help_without_what_it_measures(missing: str) -> None:
    script = str(Path(__file__).resolve().parents[2] / "benchmarks" / "lstm.py")
    code = f"import runpy, sys; sys.modules[{missing!r}] = None; runpy.run_path({script!r}, run_name='__main__')"
    shown, refused = (
        subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=600, check=False)
        for words in (["--help"], [])
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "--quick" in shown.stdout
    assert (refused.returncode, refused.stderr) == (1, f"benchmarks/lstm.py: {missing} is not installed here.\n")
