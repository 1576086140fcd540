"""The Triton kernel of the embedding's gradient."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

from rmreader.kernels.triton_lstm import INTERPRETED


@triton.jit(do_not_specialize=["N"])
def embedding_backward(
    index,
    gradient,
    total,
    N,
    D: tl.constexpr,
    DP: tl.constexpr,
    COMMON: tl.constexpr,
    ROWS: tl.constexpr,
    LOOPS: tl.constexpr,
):
    """total [V,D] += gradient [N,D] at rows index [N]."""
    common = tl.arange(0, COMMON)[:, None]
    column = tl.arange(0, DP)[None, :]
    sums = tl.zeros((COMMON, DP), tl.float32)
    used = tl.zeros((COMMON,), tl.int32)
    for loop in range(LOOPS):
        place = (tl.program_id(0) * LOOPS + loop) * ROWS + tl.arange(0, ROWS)
        row = tl.load(index + place, mask=place < N, other=-1)
        inside = (place[:, None] < N) & (column < D)
        g = tl.load(gradient + place[:, None].to(tl.int64) * D + column, mask=inside, other=0.0)
        same = common == row[None, :]
        used = tl.maximum(used, tl.max(same.to(tl.int32), 1))
        if g.dtype == tl.bfloat16 and not INTERPRETED:
            sums = tl.dot(same.to(tl.bfloat16), g, sums)
        else:
            sums = tl.dot(same.to(tl.float32), g.to(tl.float32), sums, input_precision="tf32x3")

        rare = inside & (row[:, None] >= COMMON)
        tl.atomic_add(total + row[:, None] * D + column, g.to(tl.float32), mask=rare)

    tl.atomic_add(total + common * D + column, sums, mask=(used[:, None] > 0) & (column < D))
