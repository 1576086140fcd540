"""The operators in C: the library found, weights packed, made known to ONNX Runtime.

``c/`` says how they work. They give the same bits on every processor and from every compiler. Without the library, or
with ``RMREADER_NATIVE=0``, readers made for 8 bits are read in float: slower than with AVX2, and not to the same bits.
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
    import onnxruntime as ort

DOMAIN = "rmreader"
LIBRARY = "_native.so"  # of this name on every system: only ctypes and ONNX Runtime load it, by its path
KINDS = ("plain", "AVX2", "AVX-512 VNNI")  # as in c/native.h
LANES, GROUPS = 16, 4


class Packed(NamedTuple):
    """Recurrent weights of both directions as ``c/native.h`` describes them."""

    weights: NDArray[np.int8]
    scales: NDArray[np.float32]
    starts: NDArray[np.int32]


def why_not() -> str | None:
    """What keeps the operators in C from being used, or None."""
    if os.environ.get("RMREADER_NATIVE") == "0":
        return "RMREADER_NATIVE is 0"
    if library() is None:
        return "this installation has no compiled library: install a wheel, or reinstall where there is gcc or clang"
    return None


def best() -> int:
    """The best of ``KINDS`` that this processor can do."""
    return int(_loaded().lstm_best())


def best_products() -> int:
    """The same for products and attentions, of which the last kind needs bfloat16 as well."""
    return int(_loaded().products_best())


def limit(kind: int | None = None) -> None:
    """Do as if the processor had no better than this one of ``KINDS``, in sessions made from now on."""
    _loaded().native_limit(len(KINDS) if kind is None else kind)


def register(options: ort.SessionOptions) -> None:
    """Make the operators known to a session."""
    if why_not() is None:
        options.register_custom_ops_library(str(library()))


def order(hidden: int) -> NDArray[np.int64]:
    """Rows of W [4H, …], gates i, f, g, o, in the order of ``c/lstm.h``: all gates of 16 units, then of the next 16."""
    rows = np.arange(4 * hidden).reshape(4, hidden)
    return np.concatenate([rows[:, unit : unit + LANES].ravel() for unit in range(0, hidden, LANES)])


def pack(weight: NDArray[Any]) -> Packed:
    """W_hh [2, 4H, H] in 8 bits with a scale per row: sum · scale + x = W_hh·h + x for states stored as 128 + 127·h."""
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


class PackedLinear(NamedTuple):
    """The weights of x·W + b as ``c/native.h`` describes them."""

    weights: NDArray[np.int8]
    scales: NDArray[np.float32]
    bias: NDArray[np.float32]
    starts: NDArray[np.int32]


def pack_linear(weight: NDArray[np.int8], scale: NDArray[np.float32], bias: NDArray[Any] | None) -> PackedLinear:
    """W [in, out] in 8 bits, with a scale per column."""
    inner, columns = weight.shape
    groups, fours = -(-columns // LANES), -(-inner // 4)
    integers = np.zeros((fours * 4, groups * LANES), np.int8)
    integers[:inner, :columns] = weight
    scales, biases = np.zeros((2, groups * LANES), np.float32)
    scales[:columns], biases[:columns] = scale, 0 if bias is None else bias
    tiles = integers.reshape(fours, 4, groups, LANES).transpose(0, 2, 3, 1)  # [fours, groups, 16, 4]
    panels = [tiles[:, group : group + GROUPS].ravel() for group in range(0, groups, GROUPS)]
    return PackedLinear(np.concatenate(panels), scales, biases, -128 * integers.sum(axis=0, dtype=np.int32))


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
