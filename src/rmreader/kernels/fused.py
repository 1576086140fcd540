"""The fused BiLSTM as a differentiable function: large
matrix products around the two kernels of ``triton_lstm``.

The input's share of the gates is one product for both directions before the
walk; after the backward walk the gradients of input and weights are one product
each. Nothing here waits for the device, so all of it can be captured in a graph.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from rmreader.kernels import triton_lstm

# from torch 2.8 on, a product of bf16 can be had in fp32
_WIDE = hasattr(torch.ops.aten.mm, "dtype")


@dataclass(frozen=True)
class Variant:
    """Choices that change speed, not meaning; the benchmark sweeps them."""

    # in bf16 mode: the hardware's tanh, whose error (5e-4) is a quarter of bf16's own rounding
    fast: bool = True
    warps: int = 0  # warps per program; 0 is one for every 16 hidden units
    registers: int = 0  # most registers per thread; 0 leaves it to the compiler


def fused_bilstm(
    x: Tensor | Sequence[Tensor],
    lengths: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor,
    precision: str = "fp32",
    mask: Tensor | None = None,
    variant: Variant = Variant(),
    owners: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """``lstm.bilstm`` by the fused kernels.

    In bf16 mode the output is bfloat16. Padding, and rows
    after the last sequence, may hold any finite number.
    """
    parts = [x] if isinstance(x, Tensor) else x
    with torch.autocast(parts[0].device.type, enabled=False):
        how = mask, precision == "bf16", variant
        weights = weight_ih, weight_hh, bias
        output, final = _FusedBiLSTM.apply(lengths, owners, *weights, *how, *parts)  # type: ignore[no-untyped-call]

    return output, final


def _product(a: Tensor, b: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """a·b, accumulated in fp32 and returned in ``dtype`` without rounding to bf16 on the way."""
    if a.dtype == torch.float32 or not a.is_cuda:
        return (a.float() @ b.float()).to(dtype)
    if a.dtype == dtype:
        return a @ b
    return torch.mm(a, b, out_dtype=torch.float32).to(dtype) if _WIDE else (a @ b).to(dtype)


def _interleaved(weight: Tensor, columns: int, dtype: torch.dtype) -> Tensor:
    """[2,4H,D] with the gates outermost → [2·H·4,columns]
    with the gates innermost, as the kernels keep them."""
    size = weight.shape[-1]
    rows = torch.zeros(2, weight.shape[1] // 4, 4, columns, dtype=dtype, device=weight.device)
    rows[..., :size] = weight.reshape(2, 4, -1, size).transpose(1, 2)
    return rows.flatten(0, 2)


def _deinterleaved(gradient: Tensor) -> Tensor:
    """[2,H·4,D] with the gates innermost → [2,4H,D]."""
    return gradient.reshape(2, -1, 4, gradient.shape[-1]).transpose(1, 2).flatten(1, 2)


def _reversed(weight: Tensor) -> Tensor:
    """Recurrent weights as the backward kernel wants them:
    [2,4,H,H], transposed, all but the first gate's negated."""
    hidden = weight.shape[-1]
    weight = (
        weight.reshape(2, 4, hidden, hidden)
        .transpose(2, 3)
        .clone(memory_format=torch.contiguous_format)
    )
    weight[:, 1:].neg_()

    return weight


def _launch(
    kernel: Any,
    batch: int,
    hidden: int,
    low: bool,
    variant: Variant,
    *tensors: Tensor,
    **sizes: Any,
) -> None:
    """Start a walk: one program for each direction and slice of the batch."""
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


def _move(
    source: Tensor,
    mask: Tensor | None,
    target: Tensor,
    steps: int,
    owners: Tensor | None,
) -> None:
    """Rows of steps times their mask from one width to
    another: a wider target gets a 1 after them, then zeros."""
    rows, wide = source.shape
    width = target.shape[1]

    # A kernel takes no None: what is not there is never read.
    drop = source if mask is None else mask
    owner = source if owners is None else owners
    tile = {"ROWS": 16, "COLUMNS": min(128, triton.next_power_of_2(width))}
    apart = {"S": source.stride(0), "M": drop.stride(0), "R": target.stride(0)}
    flags = {"MASKED": mask is not None, "DENSE": owners is not None}
    grid = triton.cdiv(rows, tile["ROWS"]), triton.cdiv(width, tile["COLUMNS"])
    with torch.cuda.device_of(source):  # type: ignore[no-untyped-call]
        triton_lstm.move_rows[grid](
            source,
            drop,
            owner,
            target,
            rows,
            steps,
            D=min(wide, width),
            W=width,
            **apart,
            **flags,
            **tile,
        )


def gate_tile(width: int) -> dict[str, int]:
    """What one program of ``gate_inputs`` multiplies at a time, for rows of so many columns."""
    return {"ROWS": 128, "COLUMNS": 128, "STEP": min(64, max(16, triton.next_power_of_2(width)))}


def _gate_inputs(rows: Tensor, weights: Tensor) -> Tensor:
    """The first columns of rows [N,·] times weights [G,·]ᵀ,
    in fp16, which cuBLAS has no product of bf16 for."""
    inputs = rows.new_empty(len(rows), len(weights), dtype=torch.float16)
    sizes = {"K": weights.shape[1], "R": rows.stride(0)}
    tile = gate_tile(sizes["K"])
    grid = triton.cdiv(len(weights), tile["COLUMNS"]), triton.cdiv(len(rows), tile["ROWS"])
    with torch.cuda.device_of(rows):  # type: ignore[no-untyped-call]
        triton_lstm.gate_inputs[grid](
            rows,
            weights,
            inputs,
            *inputs.shape,
            **sizes,
            **tile,
            num_warps=4,
        )

    return inputs


def _gather(
    parts: Sequence[Tensor],
    mask: Tensor | None,
    owners: Tensor | None,
    width: int,
    dtype: torch.dtype,
) -> Tensor:
    """The parts side by side, with dropout, as the first columns of new rows [N,width].

    After the last part come the 1 and the zeros.
    """
    flat = [_flat(part) for part in parts]
    rows = flat[0].new_empty(len(flat[0]), width, dtype=dtype)
    columns = _columns(parts)
    for part, (first, last) in zip(flat, columns, strict=True):
        drop = None if mask is None else mask[:, first:last]
        is_last = last == columns[-1][1]
        target = rows[:, first:] if is_last else rows[:, first:last]
        _move(part, drop, target, parts[0].shape[1], owners)

    return rows


def _flat(x: Tensor) -> Tensor:
    """[…,D] as rows [N,D]."""
    return x.contiguous().view(-1, x.shape[-1])


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


class _FusedBiLSTM(torch.autograd.Function):
    """Of parts [B,T,·]; with ``owners`` [N], the sequence of
    each row, of rows [N,·] without padding: final alone."""

    @staticmethod
    def forward(
        ctx: Any,
        lengths: Tensor,
        owners: Tensor | None,
        w_ih: Tensor,
        w_hh: Tensor,
        bias: Tensor,
        mask: Tensor | None,
        low: bool,
        variant: Variant,
        *parts: Tensor,
    ) -> tuple[Tensor | None, Tensor]:
        ctx.set_materialize_grads(False)
        hidden = w_hh.shape[-1]
        size = w_ih.shape[-1]
        dense = owners is not None
        batch = len(lengths)
        steps = parts[0].shape[1]
        operand = torch.bfloat16 if low else torch.float32
        lengths = lengths.contiguous()
        w_hh = w_hh.contiguous()
        bias = bias.contiguous()
        starts = lengths.cumsum(0) - lengths if dense else lengths
        mask = None if mask is None else mask[:, 0]

        # One row for each step: [x, 1, 0…; the h it starts from, forward; the same, backward]. All
        # that the weights meet, so that one product gives all their gradients (the bias's by the
        # 1); widths as cuBLAS likes them.
        begin = _up(size + 1, 8)
        stride = _up(hidden, 8)
        rows = _gather(parts, mask, owners, _up(begin + 2 * stride, 16), operand)
        w_rows = _interleaved(w_ih, begin, operand)

        # Gates lie within ±1, cells within ±T, and inputs beyond ±20 are as good as infinite: here
        # fp16 has eight times the digits of bf16, and 1 - gate matters. The gates take the place of
        # their inputs.
        gates = _gate_inputs(rows, w_rows) if low else _product(rows[:, :begin], w_rows.t())
        output = None if dense else rows.new_empty(batch, steps, 2 * hidden)
        final = bias.new_empty(batch, 2 * hidden)
        save = any(ctx.needs_input_grad)
        cells = gates.new_empty(len(rows), 2 * hidden) if save else final

        given = rows if output is None else output  # rows: then never written
        tensors = (gates, bias, w_hh, lengths, starts, given, final, rows[:, begin:], cells)
        sizes = {"T": steps, "R": rows.shape[1], "HS": stride, "SAVE": save, "DENSE": dense}
        _launch(triton_lstm.bilstm_forward, batch, hidden, low, variant, *tensors, **sizes)
        if save:
            ctx.save_for_backward(rows, w_rows, w_hh, lengths, starts, owners, gates, cells, mask)
            ctx.low = low
            ctx.variant = variant
            ctx.columns = _columns(parts)
            ctx.parts = [(part.shape, part.dtype) for part in parts]

        return output, final

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any,
        d_output: Tensor | None,
        d_final: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        rows, w_rows, w_hh, lengths, starts, owners, gates, cells, mask = ctx.saved_tensors
        hidden = w_hh.shape[-1]
        size = ctx.columns[-1][1]
        steps = ctx.parts[0][0][1]
        d_inputs = torch.empty_like(gates, dtype=rows.dtype)

        # The kernel takes no None: in place of a missing gradient, cells, which are never read.
        gradients = [cells if g is None else g.contiguous() for g in (d_output, d_final)]
        tensors = (*gradients, _reversed(w_hh), lengths, starts, gates, cells, d_inputs)
        flags = {
            "OUTPUT": d_output is not None,
            "FINAL": d_final is not None,
            "DENSE": owners is not None,
        }
        sizes = {"T": steps, "N": len(rows)}
        _launch(
            triton_lstm.bilstm_backward,
            len(lengths),
            hidden,
            ctx.low,
            ctx.variant,
            *tensors,
            **sizes,
            **flags,
        )

        d_ih = d_hh = d_bias = None
        d_parts: list[Tensor | None] = [None] * len(ctx.columns)
        asked = [place for place in range(len(d_parts)) if ctx.needs_input_grad[8 + place]]
        with torch.autocast(gates.device.type, enabled=False):
            # One product for all parts that want a gradient, from the first to the last of them.
            if asked:
                left = ctx.columns[asked[0]][0]
                right = w_rows.shape[1]
                if asked[-1] < len(d_parts) - 1:
                    right = ctx.columns[asked[-1]][1]

                wide = torch.float32 in [ctx.parts[place][1] for place in asked]
                d_rows = _product(
                    d_inputs,
                    w_rows[:, left:right],
                    torch.float32 if wide else rows.dtype,
                )
                for place in asked:
                    first, last = ctx.columns[place]
                    shape, dtype = ctx.parts[place]
                    d_part = d_rows.new_empty(shape, dtype=dtype)
                    drop = None if mask is None else mask[:, first:last]
                    _move(
                        d_rows[:, first - left : last - left],
                        drop,
                        d_part.view(-1, last - first),
                        steps,
                        owners,
                    )
                    d_parts[place] = d_part

            # And one for all weights, as the rows hold all that they meet.
            if any(ctx.needs_input_grad[2:5]):
                d_w = _product(d_inputs.t(), rows).reshape(2, 4 * hidden, -1)
                begin = _up(size + 1, 8)
                stride = _up(hidden, 8)
                d_ih = _deinterleaved(d_w[..., :size])
                d_bias = _deinterleaved(d_w[..., size : size + 1])[..., 0]
                before = [d_w[d, :, begin + d * stride :][:, :hidden] for d in (0, 1)]
                d_hh = _deinterleaved(torch.stack(before))

        return None, None, d_ih, d_hh, d_bias, None, None, None, *d_parts


def _columns(parts: Sequence[Tensor]) -> list[tuple[int, int]]:
    """Where each part's columns begin and end in x."""
    ends = list(accumulate(part.shape[-1] for part in parts))
    return list(zip([0, *ends], ends, strict=False))
