"""The fused BiLSTM as a differentiable function: large matrix products around the two kernels of ``triton_lstm``.

The input's share of the gates is one product for both directions before the walk; after the backward walk the gradients
of input and weights are one product each. Nothing here waits for the device, so all of it can be captured in a graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from rmreader.kernels import triton_lstm

_WIDE = hasattr(torch.ops.aten.mm, "dtype")  # from torch 2.8 on, a product of bf16 can be had in fp32


@dataclass(frozen=True)
class Variant:
    """Choices that change speed, not meaning; the benchmark sweeps them."""

    fast: bool = True  # in bf16 mode: the hardware's tanh, whose error (5e-4) is a quarter of bf16's own rounding
    warps: int = 0  # warps a program; 0 is one for every 16 hidden units
    registers: int = 0  # most registers a thread; 0 leaves it to the compiler


def fused_bilstm(
    x: Tensor,
    lengths: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor,
    precision: str = "fp32",
    mask: Tensor | None = None,
    variant: Variant = Variant(),  # noqa: B008
) -> tuple[Tensor, Tensor]:
    """``lstm.bilstm`` by the fused kernels; in bf16 mode the output is bfloat16. Padding may hold any finite number."""
    with torch.autocast(x.device.type, enabled=False):
        how = precision == "bf16", variant
        output, final = _FusedBiLSTM.apply(x, lengths, weight_ih, weight_hh, bias, mask, *how)  # type: ignore[no-untyped-call]
    return output, final


def _product(a: Tensor, b: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """a·b, accumulated in fp32 and returned in ``dtype`` without rounding to bf16 on the way."""
    if a.dtype == torch.float32 or not a.is_cuda:
        return (a.float() @ b.float()).to(dtype)
    if a.dtype == dtype:
        return a @ b
    return torch.mm(a, b, out_dtype=torch.float32).to(dtype) if _WIDE else (a @ b).to(dtype)


def _interleaved(weight: Tensor, columns: int, dtype: torch.dtype) -> Tensor:
    """[2,4H,D] with the gates outermost → [2·H·4,columns] with the gates innermost, as the kernels keep them."""
    size = weight.shape[-1]
    rows = torch.zeros(2, weight.shape[1] // 4, 4, columns, dtype=dtype, device=weight.device)
    rows[..., :size] = weight.reshape(2, 4, -1, size).transpose(1, 2)
    return rows.flatten(0, 2)


def _deinterleaved(gradient: Tensor) -> Tensor:
    """[2,H·4,D] with the gates innermost → [2,4H,D]."""
    return gradient.reshape(2, -1, 4, gradient.shape[-1]).transpose(1, 2).flatten(1, 2)


def _reversed(weight: Tensor) -> Tensor:
    """Recurrent weights as the backward kernel wants them: [2,4,H,H], transposed, all but the first gate's negated."""
    hidden = weight.shape[-1]
    weight = weight.reshape(2, 4, hidden, hidden).transpose(2, 3).clone(memory_format=torch.contiguous_format)
    weight[:, 1:].neg_()
    return weight


def _launch(kernel: Any, batch: int, hidden: int, low: bool, variant: Variant, *tensors: Tensor, **sizes: Any) -> None:
    padded = max(16, triton.next_power_of_2(hidden))
    interpreted = not tensors[0].is_cuda
    with torch.cuda.device_of(tensors[0]):  # type: ignore[no-untyped-call]
        kernel[(triton.cdiv(batch, triton_lstm.SLICE), 2)](
            *tensors,
            B=batch,
            H=hidden,
            HP=padded,
            LOW=low,
            FAST=low and variant.fast and not interpreted,
            num_warps=variant.warps or padded // 16,
            num_stages=1,
            maxnreg=variant.registers or None,
            **sizes,
        )


def _move(source: Tensor, mask: Tensor | None, target: Tensor, steps: int) -> None:
    """Rows of steps times their mask from one width to another: a wider target gets a 1 behind them, then zeros."""
    (rows, wide), width = source.shape, target.shape[1]
    sizes, tile = (rows, steps, min(wide, width), wide, width), {"ROWS": 16, "COLUMNS": 128}
    grid = triton.cdiv(rows, tile["ROWS"]), triton.cdiv(width, tile["COLUMNS"])
    drop = source if mask is None else mask.contiguous()
    with torch.cuda.device_of(source):  # type: ignore[no-untyped-call]
        triton_lstm.move_rows[grid](source, drop, target, *sizes, MASKED=mask is not None, **tile)


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


class _FusedBiLSTM(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        lengths: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        bias: Tensor,
        mask: Tensor | None,
        low: bool,
        variant: Variant,
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        (batch, steps, size), hidden = x.shape, w_hh.shape[-1]
        operand = torch.bfloat16 if low else torch.float32
        lengths, w_hh, bias = lengths.contiguous(), w_hh.contiguous(), bias.contiguous()
        # One row for each step: [x, 1, 0…; the h it starts from, forward; the same, backward]. All that the weights
        # meet, so that one product gives all their gradients (the bias's by the 1); widths as cuBLAS likes them.
        begin, stride = _up(size + 1, 8), _up(hidden, 8)
        rows = x.new_empty(batch * steps, _up(begin + 2 * stride, 16), dtype=operand)
        _move(x.contiguous().view(-1, size), mask, rows, steps)
        w_rows = _interleaved(w_ih, begin, operand)
        inputs = _product(rows[:, :begin], w_rows.t())
        output, final = rows.new_empty(batch, steps, 2 * hidden), inputs.new_empty(batch, 2 * hidden)
        save = any(ctx.needs_input_grad)
        # Gates lie within ±1, cells within ±T: there fp16 keeps eight times the digits of bf16, and 1 - gate matters.
        saved = torch.float16 if low else torch.float32
        gates, cells = (torch.empty_like(like, dtype=saved) if save else like for like in (inputs, output))
        tensors = (inputs, bias, w_hh, lengths, output, final, rows[:, begin:], gates, cells)
        sizes = {"T": steps, "R": rows.shape[1], "HS": stride, "SAVE": save}
        _launch(triton_lstm.bilstm_forward, batch, hidden, low, variant, *tensors, **sizes)
        if save:
            ctx.save_for_backward(rows, w_rows, w_hh, lengths, gates, cells, mask)
            ctx.low, ctx.variant, ctx.x_shape, ctx.x_dtype = low, variant, x.shape, x.dtype
        return output, final

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_output: Tensor | None, d_final: Tensor | None) -> tuple[Tensor | None, ...]:
        rows, w_rows, w_hh, lengths, gates, cells, mask = ctx.saved_tensors
        (batch, steps, size), hidden = ctx.x_shape, w_hh.shape[-1]
        d_inputs = torch.empty_like(gates, dtype=rows.dtype)
        gradients = [cells if g is None else g.contiguous() for g in (d_output, d_final)]  # cells: then never read
        tensors = (*gradients, _reversed(w_hh), lengths, gates, cells, d_inputs)
        sizes = {"T": steps, "OUTPUT": d_output is not None, "FINAL": d_final is not None}
        _launch(triton_lstm.bilstm_backward, batch, hidden, ctx.low, ctx.variant, *tensors, **sizes)

        d_x = d_ih = d_hh = d_bias = None
        with torch.autocast(gates.device.type, enabled=False):
            if ctx.needs_input_grad[0]:
                d_rows = _product(d_inputs, w_rows, ctx.x_dtype)
                d_x = d_rows.new_empty(ctx.x_shape)
                _move(d_rows, mask, d_x.view(-1, size), steps)
            if any(ctx.needs_input_grad[2:5]):
                d_w = _product(d_inputs.t(), rows).reshape(2, 4 * hidden, -1)
                begin, stride = _up(size + 1, 8), _up(hidden, 8)
                d_ih = _deinterleaved(d_w[..., :size])
                d_bias = _deinterleaved(d_w[..., size : size + 1])[..., 0]
                d_hh = _deinterleaved(torch.stack([d_w[d, :, begin + d * stride :][:, :hidden] for d in (0, 1)]))
        return d_x, None, d_ih, d_hh, d_bias, None, None, None
