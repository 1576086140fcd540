"""The operators in C compute what the equations say, in every kind that this processor can, and read as well."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rmreader.readers.folder import open_folder
from rmreader.reading.engine import native
from rmreader.reading.engine.engines import EncoderInput, Logits, OnnxEngine
from rmreader.reading.engine.onnxfile import Graph
from rmreader.reading.engine.runtime import ort

Array = NDArray[Any]
Floats = NDArray[np.floating[Any]]

compiled = pytest.mark.skipif(native.library() is None, reason="the operators in C were not compiled here")
kinds = [kind for kind in range(len(native.KINDS)) if native.library() is not None and kind <= native.best()]
many = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
sizes = st.integers(1, 40)


@pytest.fixture(autouse=True)
def whatever_the_processor_can() -> Iterator[None]:
    yield
    if native.library() is not None:
        native.limit()


def run(kind: int, name: str, *inputs: Array, made: tuple[str, ...] = ("float32",)) -> list[Array]:
    """An operator alone in ONNX Runtime; every array has memory of its own, so that AddressSanitizer may look on."""
    native.limit(kind)
    g, feeds = Graph(), {f"x{k}": np.ascontiguousarray(array) for k, array in enumerate(inputs)}
    given = [g.input(key, array.dtype.name, array.shape) for key, array in feeds.items()]
    for k, (value, dtype) in enumerate(zip(g.ops(name, len(made), *given, domain=native.DOMAIN), made, strict=True)):
        g.output(f"y{k}", value, ("rows", "columns"), dtype)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.enable_cpu_mem_arena = 1, False
    options.register_custom_ops_library(str(native.library()))
    return list(ort.InferenceSession(g.to_bytes(), options, providers=["CPUExecutionProvider"]).run(None, feeds))


# --- the LSTM and the highway ---


def slow(gates: Floats, weight: Floats, rounded: bool = False) -> Floats:
    """The equations, step by step in 64 bits: gates' inputs [T, 2, 4H] -> [T, 2H]; ``rounded``: states to 1/127."""
    steps, _, rows = gates.shape
    states = np.empty((steps, 2, rows // 4))
    for direction in (0, 1):
        h = c = np.zeros(rows // 4)
        for t in range(steps) if direction == 0 else reversed(range(steps)):
            kept = np.floor(h * 127 + 0.5) / 127 if rounded else h
            i, f, g, o = np.split(gates[t, direction].astype(np.float64) + weight[direction] @ kept, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            states[t, direction] = h
    return states.reshape(steps, -1)


def sigmoid(x: Floats) -> Floats:
    return np.asarray(0.5 + 0.5 * np.tanh(x / 2))


def case(steps: int, hidden: int, size: float, seed: int) -> tuple[Floats, Floats]:
    """Gates' inputs, and weights that 8 bits hold exactly."""
    rng = np.random.default_rng(seed)
    weight = rng.integers(-127, 128, (2, 4 * hidden, hidden)).astype(np.float32)
    weight[..., 0] = 127  # so that the scale of a row is what it was made with
    return rng.normal(0, size, (steps, 2, 4 * hidden)).astype(np.float32), weight / 127 / np.float32(np.sqrt(hidden))


def bilstm(gates: Floats, weight: Floats, kind: int) -> Floats:
    ordered = gates[:, :, native.order(weight.shape[2])].astype(np.float32)
    return run(kind, "BiLSTM", ordered.reshape(len(gates), -1), *native.pack_lstm(weight))[0]


@compiled
@pytest.mark.parametrize("kind", kinds)
@given(st.integers(1, 30), st.integers(1, 130), st.floats(0.01, 30), st.integers(0, 99))
@many
def test_every_kind_computes_the_equations(kind: int, steps: int, hidden: int, size: float, seed: int) -> None:
    gates, weight = case(steps, hidden, size, seed)
    states = bilstm(gates, weight, kind)
    # a state may be rounded the other way where it lies in the middle, which moves what follows by up to a step
    np.testing.assert_allclose(states, slow(gates, weight, rounded=True), atol=1e-2)
    np.testing.assert_allclose(states[0, :hidden], slow(gates[:1], weight)[0, :hidden], atol=1e-6)  # no state before
    np.testing.assert_allclose(states, bilstm(gates, weight, 0), atol=1e-2)


@compiled
@pytest.mark.parametrize("kind", kinds)
def test_rounding_costs_little(kind: int) -> None:
    rng = np.random.default_rng(3)
    gates, weight = rng.normal(0, 2, (60, 2, 400)), rng.uniform(-0.1, 0.1, (2, 400, 100))
    difference = np.abs(bilstm(gates, weight, kind) - slow(gates, weight))
    assert difference.max() < 0.01
    assert difference.mean() < 0.001


@compiled
@pytest.mark.parametrize("kind", kinds)
@pytest.mark.parametrize("value", [0.0, 1e-30, 50.0, -50.0, 1e30, -1e30, np.inf, -np.inf])
@pytest.mark.parametrize("hidden", [1, 16, 19])
def test_extreme_inputs_give_finite_states(kind: int, value: float, hidden: int) -> None:
    gates = np.full((300, 2, 4 * hidden), value, np.float32)
    gates[::2] *= -1
    states = bilstm(gates, np.full((2, 4 * hidden, hidden), 3.0, np.float32), kind)
    assert np.isfinite(states).all()
    assert np.abs(states).max() <= 1
    np.testing.assert_allclose(states[0, 0], slow(gates[:1, :, :], np.zeros((2, 4 * hidden, hidden)))[0, 0], atol=1e-6)


@compiled
@pytest.mark.parametrize("kind", kinds)
def test_directions_do_not_touch_each_other(kind: int) -> None:
    for hidden in (1, 5, 16, 17, 31):
        gates, weight = case(3, hidden, 1.0, hidden)
        whole = bilstm(gates, weight, kind)
        alone = [bilstm(gates[:, [k, k]], weight[[k, k]], kind) for k in (0, 1)]  # each beside another neighbour
        np.testing.assert_array_equal(whole[:, :hidden], alone[0][:, :hidden])
        np.testing.assert_array_equal(whole[:, hidden:], alone[1][:, hidden:])


@compiled
@pytest.mark.parametrize("kind", kinds)
@given(st.integers(1, 5), st.integers(1, 50), st.floats(0.01, 100), st.integers(0, 99))
@many
def test_the_highway_computes_the_equation(kind: int, rows: int, width: int, size: float, seed: int) -> None:
    both, x = (size * part for part in normal(seed, (rows, 2 * width), (rows, width)))
    np.testing.assert_allclose(run(kind, "Highway", both, x)[0], highway(both, x), atol=2e-6 * max(1, size))


def highway(both: Floats, x: Floats) -> Floats:
    """x + σ(g)∘(relu(r) - x)"""
    r, g = np.split(both.astype(np.float64), 2, axis=1)
    return np.asarray(x + sigmoid(g) * (np.maximum(r, 0) - x))


# --- the products and what is made of them ---


def normal(seed: int, *shapes: tuple[int, ...]) -> list[Floats]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def product8(x: Floats, weight: Floats, bias: Floats) -> Floats:
    """x·W + b with rows of x and columns of W rounded to 127 steps either way, in 64 bits."""
    step, scale = (
        np.maximum(np.abs(part).max(axis=axis, keepdims=True), 1e-30) / 127 for part, axis in ((x, 1), (weight, 0))
    )
    return np.asarray((np.floor(x / step + 0.5) @ np.rint(weight / scale)) * step * scale + bias)


def half(x: Floats) -> Floats:
    """The nearest numbers with eight bits, as in bfloat16."""
    fraction, exponent = np.frexp(np.asarray(x, np.float64))
    return np.asarray(np.ldexp(np.rint(fraction * 256) / 256, exponent))


def softmax(x: Floats, axis: int) -> Floats:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(e / e.sum(axis=axis, keepdims=True))


@compiled
@pytest.mark.parametrize("kind", kinds)
@given(sizes, st.integers(1, 150), st.integers(1, 150), st.floats(1e-3, 1e3), st.integers(0, 99))
@many
def test_a_product_is_that_of_rounded_rows_and_columns(
    kind: int, rows: int, inner: int, columns: int, size: float, seed: int
) -> None:
    x, weight, bias = normal(seed, (rows, inner), (inner, columns), (columns,))
    x[rows // 2] = 0  # which has no largest number to be divided by
    (y,) = run(kind, "Linear", size * x, *native.pack(weight, bias), np.array([columns], np.int32))
    assert y.shape == (rows, columns)
    error = np.abs(y - product8(size * x, weight, bias))
    step = size * 4 * 4 / 127  # of x, times a large weight: a number in the middle may be rounded either way
    assert np.quantile(error, 0.9) < 1e-5 * size * inner + 1e-5
    assert error.max() < 4 * step
    np.testing.assert_allclose(y[rows // 2], bias, rtol=1e-6)
    assert np.abs(y - (size * x @ weight + bias)).max() < 0.1 * size * np.sqrt(inner) + 1e-5


class Alignment:
    """Two rounds of an alignment: what the operators say, and what the equations do."""

    def __init__(self, m: int, p: int, w: int, width: int, own: bool, seed: int) -> None:
        self.m, self.p, self.w, self.width, self.own = m, m if own else p, w, width, own
        shapes = [(m, width + 2 * w + width), (self.p, width), (m, w), (self.p, w), (2 * w, 2 * w), (2 * w,)]
        self.joined, self.keys, self.x, self.values, self.weight, self.bias = normal(seed, *shapes)
        self.joined, self.weight = self.joined / np.float32(np.sqrt(width)), self.weight / np.float32(np.sqrt(2 * w))
        if own:
            self.keys, self.values = self.joined[:, -width:], self.x
        self.gamma = np.float32(1.5)

    def run(self, kind: int) -> tuple[list[Array], list[Array]]:
        keys, at = (self.joined, self.width + 2 * self.w) if self.own else (self.keys, 0)
        places = np.array([0, at, self.width, self.width, self.own], np.int32)
        given = [self.joined, keys, self.values, self.x, places, self.gamma.reshape(1)]
        given += native.pack(self.weight, self.bias)
        made = ("float32", "uint16", "uint8")
        first = run(kind, "Align", *given, made=made)
        S = first[1] if self.own else np.zeros((-(-self.m // 6) * 6, -(-self.m // 2) * 2), np.uint16)
        if not self.own:  # any will do that rows of m words can have
            S[: self.m, : self.m] = bits(np.eye(self.m))
        return first, run(kind, "Realign", *given, S, first[2], made=made)

    def slow(self, S: Floats | None = None, down: Floats | None = None) -> tuple[Floats, Floats, Floats]:
        """o, attention and the softmax down columns, in 64 bits but for what the operators round."""
        queries = self.joined[:, : self.width]
        logits = half(np.maximum(queries, 0)) @ half(np.maximum(self.keys, 0)).T
        if S is not None and down is not None:
            logits = logits + half(S) @ half(self.gamma * down)
        if self.own:
            np.fill_diagonal(logits, 0)
        attention = softmax(logits, 1)
        y = half(attention) @ half(self.values)
        more = self.joined[:, self.width : self.width + 2 * self.w]
        both = product8(np.concatenate([y, self.x * y], axis=1), self.weight, self.bias) + more
        return highway(both, self.x), attention, softmax(logits, 0)


def bits(x: Floats) -> Array:
    return np.asarray(half(x).astype(np.float32).view(np.uint32) >> 16, np.uint16)


def from_bits(x: Array) -> Floats:
    return (x.astype(np.uint32) << 16).view(np.float32)


@compiled
@pytest.mark.parametrize("kind", kinds)
@given(sizes, sizes, sizes, sizes, st.booleans(), st.integers(0, 99))
@many
def test_an_alignment_computes_the_equations_in_both_rounds(
    kind: int, m: int, p: int, w: int, width: int, own: bool, seed: int
) -> None:
    case = Alignment(m, p, w, width, own, seed)
    first, second = case.run(kind)
    o, attention, down = case.slow()
    compare(first, o, attention, case)
    S = attention if own else np.eye(m)
    o, attention, _ = case.slow(S, down)
    compare(second, o, attention, case)


def compare(made: list[Array], o: Floats, attention: Floats, case: Alignment) -> None:
    assert made[0].shape == (case.m, case.w)
    # y is rounded to 127 steps, and one in the middle may go either way
    np.testing.assert_allclose(made[0], o, atol=0.15)
    assert np.abs(made[0] - o).mean() < 0.01
    np.testing.assert_allclose(from_bits(made[1])[: case.m, : case.p], attention, atol=6e-3)


@compiled
@pytest.mark.parametrize("kind", kinds)
@given(sizes, sizes, st.integers(1, 70), st.integers(0, 99))
@many
def test_the_pointer_computes_the_equation(kind: int, m: int, w: int, columns: int, seed: int) -> None:
    R, s, of_s, weight, W = normal(seed, (m, w), (1, w), (1, columns), (columns, 1), (2 * w, columns))
    W /= np.float32(np.sqrt(w))
    (logits,) = run(kind, "Point", R, s, of_s, weight, *native.pack(W))
    inner = product8(np.concatenate([R, R * s], axis=1), W, np.zeros(columns)) + of_s
    wanted = (np.tanh(inner) @ weight).T
    np.testing.assert_allclose(logits, wanted, atol=0.3)
    assert np.abs(logits - wanted).mean() < 0.02


@compiled
@pytest.mark.skipif(len(kinds) < 2, reason="this processor has neither AVX2 nor AVX-512 VNNI")
@given(sizes, sizes, sizes, st.integers(1, 130), st.booleans(), st.integers(0, 99))
@many
def test_processors_agree_to_the_last_bit(m: int, p: int, w: int, width: int, own: bool, seed: int) -> None:
    """Rounding makes much of little: one last bit may turn a state, and a state turns an answer in 300."""
    gates, weight = case(m, width, 2.0, seed)
    R, s, of_s, last, W = normal(seed, (m, w), (1, w), (1, width), (width, 1), (2 * w, width))
    both = Alignment(m, p, w, width, own, seed)
    made = [
        [
            bilstm(gates, weight, kind),
            *run(kind, "Highway", np.concatenate([R, R], axis=1), R),
            *run(kind, "Linear", R, *native.pack(W[:w], last[:, 0]), np.array([width], np.int32)),
            *run(kind, "Point", R, s, of_s, last, *native.pack(W)),
            *(part for parts in both.run(kind) for part in parts),
        ]
        for kind in kinds
    ]
    for first, *others in zip(*made, strict=True):
        for other in others:
            np.testing.assert_array_equal(first, other)


# --- readers with it ---


def engine(folder: Any, threads: int = 1) -> OnnxEngine:
    return OnnxEngine(open_folder(folder), "int8", threads)


def pairs() -> list[EncoderInput]:
    words = ["game", "team", "the", "Denver", "2016", "defeated", "a", "b", "c"]
    return [
        EncoderInput("", "", (words * 9)[:n], (words[::-1] * 9)[:m]) for n, m in [(1, 1), (7, 40), (30, 1), (9, 77)]
    ]


@compiled
@pytest.mark.parametrize("kind", kinds)
def test_readers_say_nearly_the_same_with_and_without_it(
    make_reader: Any, monkeypatch: pytest.MonkeyPatch, kind: int
) -> None:
    folder = make_reader(hidden=20, blocks=3)
    monkeypatch.setenv("RMREADER_NATIVE", "1")
    native.limit(kind)
    in_c = [engine(folder).read(pair) for pair in pairs()]
    monkeypatch.setenv("RMREADER_NATIVE", "0")
    without = [engine(folder).read(pair) for pair in pairs()]
    for ours, theirs in zip(in_c, without, strict=True):
        np.testing.assert_allclose(ours.start, theirs.start, atol=0.15)
        np.testing.assert_allclose(ours.end, theirs.end, atol=0.15)
    if os.environ.get("RMREADER_NATIVE") != "0" and native.why_not() is None:
        assert not np.array_equal(in_c[1].start, without[1].start)  # it was in use


@compiled
@pytest.mark.parametrize(
    "network",
    [
        {"reattention": False},
        {"fusion": "gate"},
        {"fusion_mul": False},
        {"fusion_sub": False},
        {"diagonal": "mask"},
        {"diagonal": "none"},
        {"blocks": 1},
    ],
)
def test_variants_of_the_network_read_with_it_too(
    make_reader: Any, monkeypatch: pytest.MonkeyPatch, network: dict[str, Any]
) -> None:
    folder = make_reader(**({"hidden": 20, "blocks": 2} | network))
    monkeypatch.setenv("RMREADER_NATIVE", "1")
    in_c = [engine(folder).read(pair) for pair in pairs()]
    monkeypatch.setenv("RMREADER_NATIVE", "0")
    for ours, theirs in zip(in_c, (engine(folder).read(pair) for pair in pairs()), strict=True):
        np.testing.assert_allclose(ours.start, theirs.start, atol=0.15)
        np.testing.assert_allclose(ours.end, theirs.end, atol=0.15)


def test_answers_do_not_depend_on_threads_or_company(make_reader: Any) -> None:
    folder = make_reader(hidden=20, blocks=3)
    alone, together = engine(folder), engine(folder, threads=2)
    for _ in range(4):  # both numbers of threads are tried
        for one, two, three in zip(
            map(alone.read, pairs()), map(together.read, pairs()), together.read_many(pairs(), 32), strict=True
        ):
            same(one, two)
            same(one, three)


def same(one: Logits, other: Logits) -> None:
    np.testing.assert_array_equal(one.start, other.start)
    np.testing.assert_array_equal(one.end, other.end)


def test_it_is_left_out_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMREADER_NATIVE", "0")
    assert "RMREADER_NATIVE" in (native.why_not() or "")


@pytest.mark.slow
def test_every_compiler_and_processor_gives_the_same_bits(tmp_path: Path) -> None:
    """Of what is here: gcc and clang for this processor, in every kind; and ARM's, emulated."""
    sources, driver = Path(native.__file__).parent / "c", Path(__file__).with_name("same_bits.c")
    machines = [("gcc", ""), ("clang", ""), ("aarch64-linux-gnu-gcc", "qemu-aarch64")]
    installed, digests = native.library(), set()
    for number, (compiler, emulator) in enumerate(machines):
        if not shutil.which(compiler) or (emulator and not shutil.which(emulator)):
            continue
        code: list[str | Path] = [sources / "native.c", "-static"]
        if compiler == "gcc" and installed and b"GCC: (" in installed.read_bytes():  # it has compiled what is used here
            code = [installed, f"-Wl,-rpath,{installed.parent}"]
        program, flags = tmp_path / str(number), ["-O2", "-std=gnu11", "-ffp-contract=off", "-Wno-psabi"]
        subprocess.run([compiler, *flags, f"-I{sources}", driver, *code, "-o", program], check=True)
        run_it = [emulator, program] if emulator else [program]
        for kind in [0] if emulator else range(len(native.KINDS)):
            digests.add(subprocess.run([*run_it, str(kind)], check=True, capture_output=True, text=True).stdout)
    if not digests:
        pytest.skip("no C compiler")
    assert digests == {"04ce8cda1376f663\n"}
