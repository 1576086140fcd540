"""The LSTM and the highway in C, where they were compiled: found, weights packed, made known to ONNX Runtime.

``lstm.c`` says how it works; without it ONNX Runtime's own 8-bit LSTM reads, more slowly. ``RMREADER_NATIVE=0`` leaves
it out.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import onnxruntime as ort

DOMAIN = "rmreader"
KINDS = ("plain C", "AVX2", "AVX-512 VNNI")  # as in lstm.h
LANES = 16


class Packed(NamedTuple):
    """Recurrent weights of both directions as ``lstm.h`` describes them."""

    weights: NDArray[np.int8]
    scales: NDArray[np.float32]
    starts: NDArray[np.int32]


def why_not() -> str | None:
    """What keeps the LSTM in C from being used, or None."""
    if os.environ.get("RMREADER_NATIVE") == "0":
        return "RMREADER_NATIVE is 0"
    if library() is None:
        return "it was not compiled when rmreader was installed (no C compiler?)"
    if best() == 0:
        return "this processor has neither AVX2 nor AVX-512, and plain C is no faster"
    return None


def best() -> int:
    """The best of ``KINDS`` that this processor can do."""
    return int(_loaded().lstm_best())


def register(options: ort.SessionOptions) -> None:
    """Make the operators ``BiLSTM`` and ``Highway`` known to a session."""
    if why_not() is None:
        options.register_custom_ops_library(str(library()))


def order(hidden: int) -> NDArray[np.int64]:
    """Rows of W [4H, …], gates i, f, g, o, in the order of ``lstm.c``: all gates of 16 units, then of the next 16."""
    rows = np.arange(4 * hidden).reshape(4, hidden)
    return np.concatenate([rows[:, unit : unit + LANES].ravel() for unit in range(0, hidden, LANES)])


def pack(weight: NDArray[Any]) -> Packed:
    """W_hh [2, 4H, H] in 8 bits with a scale a row: sum · scale + x = W_hh·h + x for states stored as 128 + 127·h."""
    hidden = weight.shape[2]
    rows = weight[:, order(hidden)]
    scale = np.maximum(np.abs(rows).max(axis=2), 1e-12) / 127
    groups, fours = -(-4 * hidden // LANES), -(-hidden // 4)
    integers = np.zeros((2, groups * LANES, fours * 4), np.int8)
    integers[:, : 4 * hidden, :hidden] = np.rint(rows / scale[..., None])
    scales = np.zeros((2, groups * LANES), np.float32)
    scales[:, : 4 * hidden] = scale / 127
    tiles = integers.reshape(2, groups, LANES, fours, 4).transpose(0, 3, 1, 2, 4)  # [2, fours, groups, 16, 4]
    blocks = [tiles[:, :, group : group + 4].reshape(2, -1) for group in range(0, groups, 4)]
    return Packed(np.concatenate(blocks, axis=1), scales, -128 * integers.sum(axis=2, dtype=np.int32))


def bilstm(gates: NDArray[np.float32], packed: Packed, kind: int | None = None) -> NDArray[np.float32]:
    """Gates' inputs [T, 2, 4H] in ``order`` -> states [T, 2H], without ONNX Runtime; ``kind`` is one of ``KINDS``."""
    steps, hidden = len(gates), gates.shape[2] // 4
    states = np.empty((steps, 2 * hidden), np.float32)
    arrays: list[NDArray[Any]] = [np.ascontiguousarray(gates, np.float32), *packed, states]
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
    sizes = ctypes.c_size_t(steps), ctypes.c_size_t(hidden)
    if _loaded().lstm_both(*pointers, *sizes, best() if kind is None else kind):
        raise ValueError(f"this processor cannot do kind {kind} of {KINDS}")
    return states


def highway(both: NDArray[np.float32], x: NDArray[np.float32], kind: int) -> NDArray[np.float32]:
    """[r, g] [m, 2d] and x [m, d] -> x + σ(g)∘(relu(r) - x), without ONNX Runtime."""
    made = np.empty_like(x)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (both, x, made)]
    _loaded().lstm_highway(*pointers, ctypes.c_size_t(x.shape[0]), ctypes.c_size_t(x.shape[1]), kind)
    return made


@cache
def library() -> Path | None:
    """The compiled file, where there is one that can be loaded."""
    places = (Path(__file__).with_name(f"_lstm{suffix}") for suffix in EXTENSION_SUFFIXES)
    for place in places:
        try:
            ctypes.CDLL(str(place))
        except OSError:  # not there, or for another machine
            continue
        return place
    return None


@cache
def _loaded() -> ctypes.CDLL:
    return ctypes.CDLL(str(library()))
