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
    """tanh x: the hardware's where that is exact enough, else to the last digits."""
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
        # Near 0 the exponential form loses its digits in 1 - 1: there, a series.
        y = x * x
        small = x * (1 + y * (-1 / 3 + y * (2 / 15 + y * (-17 / 315 + y * (62 / 2835)))))
        large = 2 / (1 + tl.exp(-2 * x)) - 1
        return tl.where(y < 0.0625, small, large)


@triton.jit
def _sigmoid(x, FAST: tl.constexpr):
    """1 / (1 + e^−x)."""
    if FAST:
        return 0.5 + 0.5 * _tanh(0.5 * x, FAST)
    else:
        return 1 / (1 + tl.exp(-x))  # where exp overflows this is 0, as it should be


@triton.jit
def _round(x, dtype: tl.constexpr):
    """x in the type of its destination."""
    # The interpreter cuts digits off where the hardware rounds.
    if INTERPRETED and dtype == tl.bfloat16:
        bits = x.to(tl.uint32, bitcast=True)
        bits += 0x7FFF + ((bits >> 16) & 1)
        return (bits >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    else:
        return x.to(dtype)


@triton.jit
def _store(pointer, value, mask):
    """Store in the type of the destination."""
    tl.store(pointer, _round(value, pointer.dtype.element_ty), mask=mask)


@triton.jit
def _read(pointer, mask):
    """Load, 0 where it is masked."""
    return tl.load(pointer, mask=mask, other=0.0)


@triton.jit
def _tile(state, HP: tl.constexpr):
    """A state [4,8,P,2,2] as the tile [HP,8] of a product."""
    ordered = tl.permute(state, (2, 4, 1, 0, 3))
    return tl.reshape(ordered, (HP, 8))


@triton.jit
def _state(tile, HP: tl.constexpr):
    """A tile [HP,8] as the state that it came from."""
    axes = tl.reshape(tile, (HP // 16, 2, 8, 4, 2))
    return tl.permute(axes, (3, 2, 0, 4, 1))


@triton.jit
def _zeros(HP: tl.constexpr):
    """A state of zeros."""
    return tl.zeros((4, 8, HP // 16, 2, 2), tl.float32)


@triton.jit
def _per_gate(state):
    """A state with one more axis, for the gates."""
    return tl.expand_dims(state, 5)


@triton.jit
def _interleave(i, f, g, o):
    """Four gates as one tensor, innermost, in the order i, f, g, o."""
    # The last join is innermost: (i, f), then (g, o).
    pairs = tl.join(tl.join(i, g), tl.join(f, o))
    return tl.reshape(pairs, (i.shape[0], i.shape[1], i.shape[2], 2, 2, 4))


@triton.jit
def _separate(x):
    """The reverse of ``_interleave``."""
    pairs = tl.reshape(x, (x.shape[0], x.shape[1], x.shape[2], 2, 2, 2, 2))
    ig, fo = tl.split(pairs)
    i, g = tl.split(ig)
    f, o = tl.split(fo)
    return i, f, g, o


@triton.jit
def _weights(w, gate: tl.constexpr, H: tl.constexpr, HP: tl.constexpr):
    """One gate's recurrent weights [HP,HP], rows and columns in the tile's order of units.

    Where H is less than HP they are 0.
    """
    row = tl.arange(0, HP)[:, None]
    column = tl.arange(0, HP)[None, :]

    inside = (row < H) & (column < H)
    matrix = _read(w + (gate * H + row) * H + column, inside)

    # Unit 16p+2r+u goes to row (and column) 16p+8u+r: see the layout above.
    matrix = tl.reshape(matrix, (HP // 16, 8, 2, HP // 16, 8, 2))
    matrix = tl.permute(matrix, (0, 2, 1, 3, 5, 4))
    return tl.reshape(matrix, (HP, HP))


@triton.jit
def _kept_weights(w, gate: tl.constexpr, H: tl.constexpr, HP: tl.constexpr):
    """One gate's recurrent weights in bf16, for registers."""
    return _round(_weights(w, gate, H, HP), tl.bfloat16)


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
    """start + weights · v.

    In fp32 mode the weights are too large to keep: read again, from the cache, at every step.
    """
    if not LOW:
        weights = _weights(w, gate, H, HP)
        return tl.dot(weights, v, start, input_precision="tf32x3")
    elif INTERPRETED:  # the interpreter's dot takes bf16 for integers
        return tl.dot(kept.to(tl.float32), v.to(tl.float32), start)
    else:
        return tl.dot(kept, v, start)


@triton.jit
def _gate(
    kept,
    v,
    x,
    w,
    gate: tl.constexpr,
    H: tl.constexpr,
    HP: tl.constexpr,
    LOW: tl.constexpr,
):
    """One gate before its activation: its input x, plus its weights · v."""
    tile = _times(kept, v, _tile(x, HP), w, gate, H, HP, LOW)
    return _state(tile, HP)


@triton.jit
def _places(lengths, B, HP: tl.constexpr):
    """Sequence, hidden unit and length for each element of
    the state; the length of the longest sequence here."""
    q = tl.arange(0, 4)[:, None, None, None, None]
    r = tl.arange(0, 8)[None, :, None, None, None]
    p = tl.arange(0, HP // 16)[None, None, :, None, None]
    s = tl.arange(0, 2)[None, None, None, :, None]
    u = tl.arange(0, 2)[None, None, None, None, :]
    unit = p * 16 + r * 2 + u
    row = tl.program_id(0) * 8 + q * 2 + s
    length = tl.load(lengths + row, mask=row < B, other=0).to(tl.int32)

    # The program walks as many steps as its longest sequence has.
    rows = tl.program_id(0) * 8 + tl.arange(0, 8)
    all_lengths = tl.load(lengths + rows, mask=rows < B, other=0).to(tl.int32)
    longest = tl.max(all_lengths, 0)
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
    # One program moves a tile of ROWS × COLUMNS.
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (row < N) & (column < D)
    value = _read(source + row * S + column, inside).to(tl.float32)

    # Dropout: one mask for all steps of a sequence.
    if MASKED:
        owner = row // T
        if DENSE:
            owner = tl.load(owners + row, mask=row < N, other=0).to(tl.int64)
        value *= _read(mask + owner * M + column, inside).to(tl.float32)

    # The column of ones is what the bias is multiplied by.
    value = tl.where(column == D, 1.0, value)
    _store(target + row * R + column, value, (row < N) & (column < W))


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
    # One program computes a tile of ROWS × COLUMNS, STEP terms of each sum at a time.
    column = (tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    row = (tl.program_id(1) * ROWS + tl.arange(0, ROWS))[:, None]
    rows += row.to(tl.int64) * R
    weights += column * K

    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, K, STEP):
        k = first + tl.arange(0, STEP)
        a = _read(rows + k[None, :], (row < N) & (k[None, :] < K))
        b = _read(weights + k[:, None], (column < G) & (k[:, None] < K))
        # The interpreter's dot takes bf16 for integers.
        if INTERPRETED:
            a = a.to(tl.float32)
            b = b.to(tl.float32)
        total = tl.dot(a, b, total)

    # ±65504 are the largest numbers of fp16.
    total = tl.minimum(tl.maximum(total, -65504.0), 65504.0)
    place = row.to(tl.int64) * G + column
    tl.store(inputs + place, total.to(tl.float16), mask=(row < N) & (column < G))


@triton.jit(do_not_specialize=["B", "T"])
def bilstm_forward(
    # What is read.
    gates,
    bias,
    w,
    lengths,
    starts,
    # What is written.
    output,
    final,
    h_before,
    cells,
    # Sizes.
    B,
    T,
    R,
    H: tl.constexpr,
    HP: tl.constexpr,
    HS: tl.constexpr,
    # Ways.
    SAVE: tl.constexpr,
    DENSE: tl.constexpr,
    LOW: tl.constexpr,
    FAST: tl.constexpr,
):
    """The gates' inputs [B,T,2,H,4] → output [B,T,2,H], 0 at padding, and final [B,2,H].

    If SAVE, for backward: the gates in place of their inputs, cells, and h_before (2·HS columns of
    rows that are R apart).

    If DENSE, sequences have no padding but begin at rows ``starts`` of inputs [N,2,H,4], and there
    is no output.
    """
    # Direction 0 walks forward, direction 1 backward; each has its own weights.
    d = tl.program_id(1)
    step = 1 - 2 * d
    w += d * 4 * H * H

    # In bf16 mode the recurrent weights stay in registers for the whole walk.
    wi = _kept_weights(w, 0, H, HP)
    wf = _kept_weights(w, 1, H, HP)
    wg = _kept_weights(w, 2, H, HP)
    wo = _kept_weights(w, 3, H, HP)

    # Hidden units and sequences are padded to whole tiles; only real ones are read and written.
    row, unit, length, longest = _places(lengths, B, HP)
    real = unit < H
    exists = real & (row < B)
    first = _first(row, starts, B, T, DENSE)

    # Where this program's part of each tensor begins.
    gate = tl.arange(0, 4)[None, None, None, None, None, :]
    b = _read(bias + d * 4 * H + gate * H + _per_gate(unit), _per_gate(real))
    gates += _per_gate(first * (8 * H) + (d * 4 * H + unit * 4)) + gate
    output += first * (2 * H) + d * H + unit
    if SAVE:
        cells += first * (2 * H) + d * H + unit
        h_before += (first + step) * R + d * HS + unit

    # h and c before the first step, and its inputs.
    h = _zeros(HP)
    c = _zeros(HP)
    t = tl.where(d == 0, 0, longest - 1)
    x = _read(gates + t * (8 * H), _per_gate(real & (t < length)))
    done = 0

    # Not `for`: Triton moves a for loop's kept operands back into shared memory
    while done < longest:
        # The next step's inputs are on their way while this one is computed.
        ahead = t + step
        coming = real & _within(ahead, length)
        x_ahead = _read(gates + ahead * (8 * H), _per_gate(coming))

        v = _tile(_round(h, tl.bfloat16 if LOW else tl.float32), HP)
        xi, xf, xg, xo = _separate(x.to(tl.float32) + b)
        i = _sigmoid(_gate(wi, v, xi, w, 0, H, HP, LOW), FAST)
        f = _sigmoid(_gate(wf, v, xf, w, 1, H, HP, LOW), FAST)
        g = _tanh(_gate(wg, v, xg, w, 2, H, HP, LOW), FAST)
        o = _sigmoid(_gate(wo, v, xo, w, 3, H, HP, LOW), FAST)

        # A sequence that has ended, or has not begun, keeps its state.
        live = real & (t < length)
        c = tl.where(live, f * c + i * g, c)
        h = tl.where(live, o * _tanh(c, FAST), h)

        if not DENSE:
            seen = tl.where(live, h, 0.0)
            _store(output + t * (2 * H), seen, exists)
        if SAVE:
            _store(gates + t * (8 * H), _interleave(i, f, g, o), _per_gate(live))
            _store(cells + t * (2 * H), c, live)
            _store(h_before + t * R, h, coming)

        x = x_ahead
        t = ahead
        done += 1

    tl.store(final + row * (2 * H) + d * H + unit, h, mask=exists)
    # Padding that is longer than the longest sequence of this program.
    if not DENSE:
        while done < T:
            _store(output + done * (2 * H), _zeros(HP), exists)
            done += 1


@triton.jit(do_not_specialize=["B", "T", "N"])
def bilstm_backward(
    # What is read.
    d_output,
    d_final,
    w,
    lengths,
    starts,
    gates,
    cells,
    # What is written.
    d_inputs,
    # Sizes.
    B,
    T,
    N,
    H: tl.constexpr,
    HP: tl.constexpr,
    # Ways.
    OUTPUT: tl.constexpr,
    FINAL: tl.constexpr,
    DENSE: tl.constexpr,
    LOW: tl.constexpr,
    FAST: tl.constexpr,
):
    """Gradients of output [B,T,2,H] and final [B,2,H] → d_inputs [B,T,2,H,4], the gradient before
    the activations, 0 at padding.

    If DENSE, d_inputs [N,2,H,4], 0 behind the last sequence.

    w [2,4,H,H] is transposed within each gate, and all but the first gate's
    are negated, for their products are subtracted: a sum of products Triton
    would fold into one chain of dependent multiplications, four times as long.
    """
    # The way back: direction 0 walks backward, direction 1 forward.
    d = tl.program_id(1)
    step = 2 * d - 1
    w += d * 4 * H * H

    # In bf16 mode the recurrent weights stay in registers for the whole walk.
    wi = _kept_weights(w, 0, H, HP)
    wf = _kept_weights(w, 1, H, HP)
    wg = _kept_weights(w, 2, H, HP)
    wo = _kept_weights(w, 3, H, HP)

    # Hidden units and sequences are padded to whole tiles; only real ones are read and written.
    row, unit, length, longest = _places(lengths, B, HP)
    real = unit < H
    exists = real & (row < B)
    first = _first(row, starts, B, T, DENSE)

    # Where this program's part of each tensor begins.
    gate = tl.arange(0, 4)[None, None, None, None, None, :]
    wide = _per_gate(first * (8 * H) + (d * 4 * H + unit * 4)) + gate
    gates += wide
    behind = d_inputs + d * 4 * H
    d_inputs += wide
    d_output += first * (2 * H) + d * H + unit
    cells += first * (2 * H) + d * H + unit

    # What the first step needs: its gates, its cell and the cell before it.
    t = tl.where(d == 0, longest - 1, 0)
    live = real & (t < length)
    y = _read(gates + t * (8 * H), _per_gate(live))
    c = _read(cells + t * (2 * H), live)
    coming = real & _within(t + step, length)
    c_before = _read(cells + (t + step) * (2 * H), coming)

    # A shorter sequence keeps the gradient of its final state until its own last step comes.
    dh = _zeros(HP)
    dc = _zeros(HP)
    if FINAL:
        dh = _read(d_final + row * (2 * H) + d * H + unit, exists)
    dy = _zeros(HP)
    if OUTPUT:
        dy = _read(d_output + t * (2 * H), live)

    done = 0
    while done < longest:
        # What the next step needs is on its way while this one is computed.
        ahead = t + step
        after = ahead + step
        coming = real & _within(ahead, length)
        y_ahead = _read(gates + ahead * (8 * H), _per_gate(coming))
        dy_ahead = dy
        if OUTPUT:
            dy_ahead = _read(d_output + ahead * (2 * H), coming)
        c_after = _read(cells + after * (2 * H), real & _within(after, length))

        # Where a sequence is not live its gates read 0, and so do all its gradients.
        i, f, g, o = _separate(y.to(tl.float32))
        live = real & (t < length)

        # Back through h = o·tanh c and c = f·c_before + i·g.
        tc = _tanh(c.to(tl.float32), FAST)

        dhy = dh + dy.to(tl.float32)
        dc += dhy * o * (1 - tc * tc)
        do = dhy * tc * o * (1 - o)
        di = dc * g * i * (1 - i)
        df = dc * c_before.to(tl.float32) * f * (1 - f)
        dg = dc * i * (1 - g * g)
        dc = dc * f

        # Rounded as they are stored, so that the weights meet the same numbers later on.
        di = _round(di, d_inputs.dtype.element_ty)
        df = _round(df, d_inputs.dtype.element_ty)
        dg = _round(dg, d_inputs.dtype.element_ty)
        do = _round(do, d_inputs.dtype.element_ty)

        # The gradient of h one step earlier.
        zero = tl.zeros((HP, 8), tl.float32)
        tile = _times(wi, _tile(di, HP), zero, w, 0, H, HP, LOW)
        tile -= _times(wf, _tile(df, HP), zero, w, 1, H, HP, LOW)
        tile -= _times(wg, _tile(dg, HP), zero, w, 2, H, HP, LOW)
        tile -= _times(wo, _tile(do, HP), zero, w, 3, H, HP, LOW)

        ours = live if DENSE else exists
        d_gates = _interleave(di, df, dg, do)
        tl.store(d_inputs + t * (8 * H), d_gates, mask=_per_gate(ours))
        dh = tl.where(live, _state(tile, HP), dh)

        y = y_ahead
        dy = dy_ahead
        c = c_before
        c_before = c_after
        t = ahead
        done += 1

    if DENSE:
        # The rows behind the last sequence: each program has a part of them.
        total = (tl.load(starts + B - 1) + tl.load(lengths + B - 1)).to(tl.int64)
        column = tl.arange(0, 4 * HP)
        zeros = tl.zeros((4 * HP,), tl.float32)
        at = total + tl.program_id(0)
        while at < N:
            _store(behind + at * (8 * H) + column, zeros, column < 4 * H)
            at += tl.num_programs(0)
    else:
        nothing = tl.zeros((4, 8, HP // 16, 2, 2, 4), tl.float32)
        while done < T:
            _store(d_inputs + done * (8 * H), nothing, _per_gate(exists))
            done += 1
