"""The two Triton kernels of the fused BiLSTM: one program
walks a whole sequence for one direction and eight sequences.

Inside the walk nothing but the gates' inputs and the saved activations
touches memory: the recurrent weights stay in registers (bf16 mode),
the state passes between warps through 2 KB of shared memory.

Layout. The recurrent product is W [HP,HP] · h [HP,8]: hidden units are the rows of a tensor-core
tile, sequences its eight columns. In such a tile (m16n8 of ``mma.sync``) a thread holds rows r and
r+8 of columns 2q and 2q+1. So the state is indexed [q 4, r 8, p HP/16, s 2, u 2], where the
sequence is 2q+s and the unit 16p+2r+u: row 16p+8u+r of the tile holds unit 16p+2r+u, which makes a
thread's two units neighbours in memory. Gates lie innermost in memory, [B,T,2,H,4]. Every load and
store is then wide and coalesced as the tile already lies in registers; only h moves between
threads.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import os

import triton
import triton.language as tl

SLICE = 8  # sequences a program walks: the columns of one tensor-core tile
INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")  # on the CPU, for tests


@triton.jit
def _tanh(x, FAST: tl.constexpr):
    if FAST:
        return tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;",
            "=f,f",
            [x],
            dtype=tl.float32,
            is_pure=True,
            pack=1,
        )
    else:
        y = x * x  # near 0 the exponential form loses its digits in 1 - 1
        small = x * (1 + y * (-1 / 3 + y * (2 / 15 + y * (-17 / 315 + y * (62 / 2835)))))
        return tl.where(y < 0.0625, small, 2 / (1 + tl.exp(-2 * x)) - 1)


@triton.jit
def _sigmoid(x, FAST: tl.constexpr):
    if FAST:
        return 0.5 + 0.5 * _tanh(0.5 * x, FAST)
    else:
        return 1 / (1 + tl.exp(-x))  # where exp overflows this is 0, as it should be


@triton.jit
def _round(x, dtype: tl.constexpr):
    """x in the type of its destination."""
    # the interpreter cuts digits off where the hardware rounds
    if INTERPRETED and dtype == tl.bfloat16:
        bits = x.to(tl.uint32, bitcast=True)
        bits += 0x7FFF + ((bits >> 16) & 1)
        return (bits >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    else:
        return x.to(dtype)


@triton.jit
def _tile(state, HP: tl.constexpr):
    """A state [4,8,P,2,2] as the tile [HP,8] of a product."""
    return tl.reshape(tl.permute(state, (2, 4, 1, 0, 3)), (HP, 8))


@triton.jit
def _state(tile, HP: tl.constexpr):
    return tl.permute(tl.reshape(tile, (HP // 16, 2, 8, 4, 2)), (3, 2, 0, 4, 1))


@triton.jit
def _interleave(i, f, g, o):
    """Four gates as one tensor, innermost, in the order i, f, g, o."""
    return tl.reshape(
        tl.join(tl.join(i, g), tl.join(f, o)), (i.shape[0], i.shape[1], i.shape[2], 2, 2, 4)
    )


@triton.jit
def _separate(x):
    ig, fo = tl.split(tl.reshape(x, (x.shape[0], x.shape[1], x.shape[2], 2, 2, 2, 2)))
    i, g = tl.split(ig)
    f, o = tl.split(fo)
    return i, f, g, o


@triton.jit
def _weights(w, gate: tl.constexpr, H: tl.constexpr, HP: tl.constexpr):
    """One gate's recurrent weights, rows and columns in the tile's order of units."""
    row = tl.arange(0, HP)[:, None]
    column = tl.arange(0, HP)[None, :]
    matrix = tl.load(w + (gate * H + row) * H + column, mask=(row < H) & (column < H), other=0.0)
    matrix = tl.reshape(matrix, (HP // 16, 8, 2, HP // 16, 8, 2))
    return tl.reshape(tl.permute(matrix, (0, 2, 1, 3, 5, 4)), (HP, HP))


@triton.jit
def _times(
    kept,
    v,
    start,
    w,
    gate: tl.constexpr,
    H: tl.constexpr,
    HP: tl.constexpr,
    LOW: tl.constexpr,
):
    """start + weights · v. In fp32 mode they are too large
    to keep: read again, from the cache, at every step."""
    if not LOW:
        return tl.dot(_weights(w, gate, H, HP), v, start, input_precision="tf32x3")
    elif INTERPRETED:  # the interpreter's dot takes bf16 for integers
        return tl.dot(kept.to(tl.float32), v.to(tl.float32), start)
    else:
        return tl.dot(kept, v, start)


@triton.jit
def _places(lengths, B, HP: tl.constexpr):
    """Sequence, hidden unit and length for each element of
    the state; the length of the longest sequence here."""
    two = tl.arange(0, 2)
    unit = (
        tl.arange(0, HP // 16)[None, None, :, None, None] * 16
        + tl.arange(0, 8)[None, :, None, None, None] * 2
    )
    unit += two[None, None, None, None, :]
    row = (
        tl.program_id(0) * 8
        + tl.arange(0, 4)[:, None, None, None, None] * 2
        + two[None, None, None, :, None]
    )
    length = tl.load(lengths + row, mask=row < B, other=0).to(tl.int32)
    rows = tl.program_id(0) * 8 + tl.arange(0, 8)
    longest = tl.max(tl.load(lengths + rows, mask=rows < B, other=0).to(tl.int32), 0)

    return row, unit, length, longest


@triton.jit
def _first(row, starts, B, T, DENSE: tl.constexpr):
    """The row of a sequence's first step."""
    if DENSE:
        return tl.load(starts + row, mask=row < B, other=0).to(tl.int64)
    else:
        return row.to(tl.int64) * T


@triton.jit
def _within(t, length):
    """0 <= t < length; as an unsigned number, -1 is beyond any length."""
    return t.to(tl.uint32) < length.to(tl.uint32)


@triton.jit(do_not_specialize=["N", "T"])
def move_rows(
    source,
    mask,
    owners,
    target,
    N,
    T,
    D: tl.constexpr,
    S: tl.constexpr,
    M: tl.constexpr,
    W: tl.constexpr,
    R: tl.constexpr,
    MASKED: tl.constexpr,
    DENSE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """D columns of source [N,·], times those of mask [N/T,·] if MASKED, then 1, then zeros →
    W columns of target [N,·], in its type; if DENSE the mask's row is the row's owner. Their
    rows are S, M and R apart: constants, so that rows of a good width move in wide pieces."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (row < N) & (column < D)
    value = tl.load(source + row * S + column, mask=inside, other=0.0).to(tl.float32)
    if MASKED:
        owner = row // T
        if DENSE:
            owner = tl.load(owners + row, mask=row < N, other=0).to(tl.int64)

        value *= tl.load(mask + owner * M + column, mask=inside, other=0.0).to(tl.float32)

    value = tl.where(column == D, 1.0, value)
    tl.store(
        target + row * R + column,
        _round(value, target.dtype.element_ty),
        mask=(row < N) & (column < W),
    )


@triton.jit(do_not_specialize=["N"])
def gate_inputs(
    rows,
    weights,
    inputs,
    N,
    G,
    K: tl.constexpr,
    R: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):
    """K columns of rows [N,R] · weights [G,K]ᵀ → inputs [N,G]
    in fp16, cut off where they would become infinite."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    rows += row[:, None].to(tl.int64) * R
    weights += column[None, :] * K
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, K, STEP):
        k = first + tl.arange(0, STEP)
        a = tl.load(rows + k[None, :], mask=(row[:, None] < N) & (k[None, :] < K), other=0.0)
        b = tl.load(weights + k[:, None], mask=(column[None, :] < G) & (k[:, None] < K), other=0.0)
        total = (
            tl.dot(a.to(tl.float32), b.to(tl.float32), total)
            if INTERPRETED
            else tl.dot(a, b, total)
        )

    total = tl.minimum(tl.maximum(total, -65504.0), 65504.0)
    place = row[:, None].to(tl.int64) * G + column[None, :]
    tl.store(inputs + place, total.to(tl.float16), mask=(row[:, None] < N) & (column[None, :] < G))


@triton.jit(do_not_specialize=["B", "T"])
def bilstm_forward(
    gates,
    bias,
    w,
    lengths,
    starts,
    output,
    final,
    h_before,
    cells,
    B,
    T,
    R,
    H: tl.constexpr,
    HP: tl.constexpr,
    HS: tl.constexpr,
    SAVE: tl.constexpr,
    DENSE: tl.constexpr,
    LOW: tl.constexpr,
    FAST: tl.constexpr,
):
    """The gates' inputs [B,T,2,H,4] → output [B,T,2,H], 0 at padding, final [B,2,H]; for backward
    the gates in place of their inputs, cells, and h_before (2·HS of rows of R). If DENSE, sequences
    have no padding but begin at rows ``starts`` of inputs [N,2,H,4], and there is no output."""
    P: tl.constexpr = HP // 16
    d = tl.program_id(1)
    step = 1 - 2 * d
    w += d * 4 * H * H
    wi = _round(_weights(w, 0, H, HP), tl.bfloat16)
    wf = _round(_weights(w, 1, H, HP), tl.bfloat16)
    wg = _round(_weights(w, 2, H, HP), tl.bfloat16)
    wo = _round(_weights(w, 3, H, HP), tl.bfloat16)

    row, unit, length, longest = _places(lengths, B, HP)
    real = unit < H
    exists = real & (row < B)
    first = _first(row, starts, B, T, DENSE)
    gate = tl.arange(0, 4)[None, None, None, None, None, :]
    b = tl.load(
        bias + d * 4 * H + gate * H + unit[:, :, :, :, :, None],
        mask=real[:, :, :, :, :, None],
        other=0.0,
    )
    wide = (first * (8 * H) + (d * 4 * H + unit * 4))[:, :, :, :, :, None] + gate
    gates += wide
    output += first * (2 * H) + d * H + unit
    if SAVE:
        cells += first * (2 * H) + d * H + unit
        h_before += (first + step) * R + d * HS + unit

    h = tl.zeros((4, 8, P, 2, 2), tl.float32)
    c = tl.zeros((4, 8, P, 2, 2), tl.float32)
    t = tl.where(d == 0, 0, longest - 1)
    x = tl.load(gates + t * (8 * H), mask=(real & (t < length))[:, :, :, :, :, None], other=0.0)
    done = 0
    # not `for`: Triton moves a for loop's kept operands back into shared memory
    while done < longest:
        ahead = t + step
        coming = real & _within(ahead, length)
        x_ahead = tl.load(gates + ahead * (8 * H), mask=coming[:, :, :, :, :, None], other=0.0)
        v = _tile(_round(h, tl.bfloat16 if LOW else tl.float32), HP)
        xi, xf, xg, xo = _separate(x.to(tl.float32) + b)
        i = _sigmoid(_state(_times(wi, v, _tile(xi, HP), w, 0, H, HP, LOW), HP), FAST)
        f = _sigmoid(_state(_times(wf, v, _tile(xf, HP), w, 1, H, HP, LOW), HP), FAST)
        g = _tanh(_state(_times(wg, v, _tile(xg, HP), w, 2, H, HP, LOW), HP), FAST)
        o = _sigmoid(_state(_times(wo, v, _tile(xo, HP), w, 3, H, HP, LOW), HP), FAST)
        live = real & (t < length)
        c = tl.where(live, f * c + i * g, c)
        h = tl.where(live, o * _tanh(c, FAST), h)
        if not DENSE:
            seen = tl.where(live, h, 0.0)
            tl.store(output + t * (2 * H), _round(seen, output.dtype.element_ty), mask=exists)

        if SAVE:
            saved = _round(_interleave(i, f, g, o), gates.dtype.element_ty)
            tl.store(gates + t * (8 * H), saved, mask=live[:, :, :, :, :, None])
            tl.store(cells + t * (2 * H), _round(c, cells.dtype.element_ty), mask=live)
            tl.store(h_before + t * R, _round(h, h_before.dtype.element_ty), mask=coming)

        x = x_ahead
        t = ahead
        done += 1

    tl.store(final + row * (2 * H) + d * H + unit, h, mask=exists)
    if not DENSE:
        nothing = _round(tl.zeros((4, 8, P, 2, 2), tl.float32), output.dtype.element_ty)
        while done < T:
            tl.store(output + done * (2 * H), nothing, mask=exists)
            done += 1


@triton.jit(do_not_specialize=["B", "T", "N"])
def bilstm_backward(
    d_output,
    d_final,
    w,
    lengths,
    starts,
    gates,
    cells,
    d_inputs,
    B,
    T,
    N,
    H: tl.constexpr,
    HP: tl.constexpr,
    OUTPUT: tl.constexpr,
    FINAL: tl.constexpr,
    DENSE: tl.constexpr,
    LOW: tl.constexpr,
    FAST: tl.constexpr,
):
    """Gradients of output [B,T,2,H] and final [B,2,H] → d_inputs [B,T,2,H,4], the gradient before
    the activations, 0 at padding; if DENSE d_inputs [N,2,H,4], 0 behind the last sequence.

    w [2,4,H,H] is transposed within each gate, and all but the first gate's
    are negated, for their products are subtracted: a sum of products Triton
    would fold into one chain of dependent multiplications, four times as long.
    """
    P: tl.constexpr = HP // 16
    d = tl.program_id(1)
    step = 2 * d - 1
    w += d * 4 * H * H
    wi = _round(_weights(w, 0, H, HP), tl.bfloat16)
    wf = _round(_weights(w, 1, H, HP), tl.bfloat16)
    wg = _round(_weights(w, 2, H, HP), tl.bfloat16)
    wo = _round(_weights(w, 3, H, HP), tl.bfloat16)

    row, unit, length, longest = _places(lengths, B, HP)
    real = unit < H
    exists = real & (row < B)
    first = _first(row, starts, B, T, DENSE)
    gate = tl.arange(0, 4)[None, None, None, None, None, :]
    wide = (first * (8 * H) + (d * 4 * H + unit * 4))[:, :, :, :, :, None] + gate
    gates += wide
    behind = d_inputs + d * 4 * H
    d_inputs += wide
    d_output += first * (2 * H) + d * H + unit
    cells += first * (2 * H) + d * H + unit

    t = tl.where(d == 0, longest - 1, 0)
    live = real & (t < length)
    y = tl.load(gates + t * (8 * H), mask=live[:, :, :, :, :, None], other=0.0)
    c = tl.load(cells + t * (2 * H), mask=live, other=0.0)
    coming = real & _within(t + step, length)
    c_before = tl.load(cells + (t + step) * (2 * H), mask=coming, other=0.0)
    dh = tl.zeros((4, 8, P, 2, 2), tl.float32)
    dc = tl.zeros((4, 8, P, 2, 2), tl.float32)
    if FINAL:  # a shorter sequence keeps it until its own last step comes
        dh = tl.load(d_final + row * (2 * H) + d * H + unit, mask=exists, other=0.0)

    dy = tl.zeros((4, 8, P, 2, 2), tl.float32)
    if OUTPUT:
        dy = tl.load(d_output + t * (2 * H), mask=live, other=0.0)

    done = 0
    while done < longest:
        ahead = t + step
        after = ahead + step
        coming = real & _within(ahead, length)
        y_ahead = tl.load(gates + ahead * (8 * H), mask=coming[:, :, :, :, :, None], other=0.0)
        dy_ahead = dy
        if OUTPUT:
            dy_ahead = tl.load(d_output + ahead * (2 * H), mask=coming, other=0.0)

        c_after = tl.load(cells + after * (2 * H), mask=real & _within(after, length), other=0.0)
        # Where a sequence is not live its gates read 0, and so do all its gradients.
        i, f, g, o = _separate(y.to(tl.float32))
        live = real & (t < length)
        tc = _tanh(c.to(tl.float32), FAST)
        dhy = dh + dy.to(tl.float32)
        dc += dhy * o * (1 - tc * tc)
        do = dhy * tc * o * (1 - o)
        di = dc * g * i * (1 - i)
        df = dc * c_before.to(tl.float32) * f * (1 - f)
        dg = dc * i * (1 - g * g)
        dc = dc * f
        di = _round(di, d_inputs.dtype.element_ty)
        df = _round(df, d_inputs.dtype.element_ty)
        dg = _round(dg, d_inputs.dtype.element_ty)
        do = _round(do, d_inputs.dtype.element_ty)
        zero = tl.zeros((HP, 8), tl.float32)
        tile = _times(wi, _tile(di, HP), zero, w, 0, H, HP, LOW)
        tile -= _times(wf, _tile(df, HP), zero, w, 1, H, HP, LOW)
        tile -= _times(wg, _tile(dg, HP), zero, w, 2, H, HP, LOW)
        tile -= _times(wo, _tile(do, HP), zero, w, 3, H, HP, LOW)
        ours = live if DENSE else exists
        tl.store(
            d_inputs + t * (8 * H),
            _interleave(di, df, dg, do),
            mask=ours[:, :, :, :, :, None],
        )
        dh = tl.where(live, _state(tile, HP), dh)
        y = y_ahead
        dy = dy_ahead
        c = c_before
        c_before = c_after
        t = ahead
        done += 1

    if DENSE:  # what is behind the last sequence, a part of it for each program
        total = (tl.load(starts + B - 1) + tl.load(lengths + B - 1)).to(tl.int64)
        column = tl.arange(0, 4 * HP)
        zeros = _round(tl.zeros((4 * HP,), tl.float32), behind.dtype.element_ty)
        at = total + tl.program_id(0)
        while at < N:
            tl.store(behind + at * (8 * H) + column, zeros, mask=column < 4 * H)
            at += tl.num_programs(0)
    else:
        nothing = _round(tl.zeros((4, 8, P, 2, 2, 4), tl.float32), d_inputs.dtype.element_ty)
        while done < T:
            tl.store(d_inputs + done * (8 * H), nothing, mask=exists[:, :, :, :, :, None])
            done += 1
