"""The Triton kernel of the embedding's gradient."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["N"])
def embedding_backward(index, gradient, total, N, V, D, DP: tl.constexpr, COMMON: tl.constexpr, ROWS: tl.constexpr,
                       LOOPS: tl.constexpr):  # fmt: skip
    """total [V,D] += gradient [N,D] at rows index [N]."""
    common, column = tl.arange(0, COMMON)[:, None], tl.arange(0, DP)[None, :]
    sums = tl.zeros((COMMON, DP), tl.float32)
    for loop in range(LOOPS):
        place = (tl.program_id(0) * LOOPS + loop) * ROWS + tl.arange(0, ROWS)
        row = tl.load(index + place, mask=place < N, other=-1)
        inside = (place[:, None] < N) & (column < D)
        g = tl.load(gradient + place[:, None].to(tl.int64) * D + column, mask=inside, other=0.0).to(tl.float32)
        same = (common == row[None, :]).to(tl.float32)
        sums = tl.dot(same, g, sums, input_precision="tf32x3")
        tl.atomic_add(total + row[:, None] * D + column, g, mask=inside & (row[:, None] >= COMMON))
    tl.atomic_add(total + common * D + column, sums, mask=(common < V) & (column < D))
