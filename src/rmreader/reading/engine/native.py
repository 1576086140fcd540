"""The operators in C: the library found, weights packed, made known to ONNX Runtime.

``c/`` says how they work. They give the same bits on every processor and from every compiler.
Without the library, or with ``RMREADER_NATIVE=0``, readers made for 8 bits are read in float:
slower than with AVX2, and not to the same bits.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rmreader.reading.engine.runtime import ort

DOMAIN = "rmreader"
# of this name on every system: only ctypes and ONNX Runtime load it, by its path
LIBRARY = "_native.so"
KINDS = ("plain", "AVX2", "AVX-512 VNNI", "AVX-512 VNNI and bfloat16")  # as in c/native.h
LANES = 16
GROUPS = 4


class Packed(NamedTuple):
    """Weights in 8 bits as ``c/native.h`` describes them."""

    weights: NDArray[np.int8]
    scales: NDArray[np.float32]
    bias: NDArray[np.float32]
    starts: NDArray[np.int32]


def why_not() -> str | None:
    """What keeps the operators in C from being used, or None."""
    if os.environ.get("RMREADER_NATIVE") == "0":
        return "RMREADER_NATIVE is 0"
    if library() is None:
        return (
            "this installation has no compiled library: install a wheel, or reinstall where there "
            "is gcc or clang"
        )
    return None


def best() -> int:
    """The best of ``KINDS`` that this processor can do."""
    return int(_loaded().lstm_best())


def limit(kind: int | None = None) -> None:
    """Pretend that the processor has no better one of ``KINDS``, in sessions made from now on."""
    _loaded().native_limit(len(KINDS) if kind is None else kind)


def register(options: ort.SessionOptions) -> None:
    """Make the operators known to a session."""
    if why_not() is None:
        options.register_custom_ops_library(str(library()))


def order(hidden: int) -> NDArray[np.int64]:
    """Rows of W [4H, …], gates i, f, g, o, in the order of ``c/lstm.h``: all gates of 16 units,
    then of the next 16."""
    rows = np.arange(4 * hidden).reshape(4, hidden)
    units = range(0, hidden, LANES)
    return np.concatenate([rows[:, unit : unit + LANES].ravel() for unit in units])


def quantise(weight: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """8-bit integers and a scale for each column: weight ≈ integers · scale."""
    scale = np.maximum(np.abs(weight).max(axis=-2, keepdims=True), 1e-12) / 127
    return np.rint(weight / scale).astype(np.int8), scale.squeeze(-2).astype(np.float32)


def pack(weight: NDArray[Any], bias: NDArray[Any] | None = None) -> Packed:
    """The weights of x·W + b, for W [in, out]."""
    inner, columns = weight.shape
    fours = -(-inner // 4)
    groups = -(-columns // LANES)
    integers = np.zeros((fours * 4, groups * LANES), np.int8)
    scales = np.zeros(groups * LANES, np.float32)
    biases = np.zeros(groups * LANES, np.float32)
    integers[:inner, :columns], scales[:columns] = quantise(weight)
    biases[:columns] = 0 if bias is None else bias
    starts = -128 * integers.sum(axis=0, dtype=np.int32)
    tiles = integers.reshape(fours, 4, groups, LANES)
    tiles = tiles.transpose(0, 2, 3, 1)  # [fours, groups, 16, 4]
    panels = [tiles[:, group : group + GROUPS].ravel() for group in range(0, groups, GROUPS)]
    return Packed(np.concatenate(panels), scales, biases, starts)


def pack_lstm(weight: NDArray[Any]) -> list[NDArray[Any]]:
    """W_hh [2, 4H, H] as weights, scales and starts.

    sum · scale + x = W_hh·h + x for states stored as 128 + 127·h.
    """
    both = [pack(rows.T) for rows in weight[:, order(weight.shape[2])]]
    return [
        np.stack([packed.weights for packed in both]),
        np.stack([packed.scales / 127 for packed in both]),
        np.stack([packed.starts for packed in both]),
    ]


@cache
def library() -> Path | None:
    """The compiled file, where there is one that can be loaded."""
    place = Path(__file__).with_name(LIBRARY)
    try:
        ctypes.CDLL(str(place))
    except OSError:  # not there, or for another machine
        return None
    return place


@cache
def _loaded() -> ctypes.CDLL:
    return ctypes.CDLL(str(library()))
