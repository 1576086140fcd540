"""``torch.compile`` for any lengths, told that they are multiples of something.

Without that, the kernels it makes for unknown lengths move one number
at a time, since no row is known to be aligned; with it, 16 bytes.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from rmreader.kernels.beyond import any_lengths, compiler_options, promise

# words of passages and of questions; batches that are captured are padded to twice as many
UNITS = {"m": 16, "n": 8}
R = TypeVar("R")


def compile_for_lengths(function: Callable[..., R], *axes: str, **how: Any) -> Callable[..., R]:
    """``function`` of tensors, compiled once for all sizes;
    ``axes`` names those of each tensor, such as "bmd".

    Where every m and every n is a multiple of its unit, the compiler sees it as two
    axes: a number of units, and the words of each. (Twice as many, since what has
    one unit alone would be compiled for itself.) ``how`` is for ``torch.compile``.
    """

    def of_units(*tensors: Tensor) -> R:
        return function(
            *[_join(tensor, names) for tensor, names in zip(tensors, axes, strict=False)]
        )

    how = {"dynamic": True, **(how or {"options": compiler_options()})}
    in_units = torch.compile(of_units, **how)
    as_they_are = torch.compile(function, **how)

    def call(*tensors: Tensor) -> R:
        named = list(zip(tensors, axes, strict=False))
        sizes = [pair for tensor, names in named for pair in zip(names, tensor.shape, strict=True)]
        # Sizes that are equal by chance must not be taken for
        # equal always; all functions share the limit of one here.
        with any_lengths():
            if any(size % UNITS.get(name, 1) for name, size in sizes):
                return as_they_are(*tensors)
            return in_units(*[_split(tensor, names) for tensor, names in named])

    return call


def _split(tensor: Tensor, names: str) -> Tensor:
    for axis, name in reversed(list(enumerate(names))):
        if name in UNITS:
            tensor = tensor.unflatten(axis, (-1, UNITS[name]))  # type: ignore[no-untyped-call]
    return tensor


def _join(tensor: Tensor, names: str) -> Tensor:
    for axis, name in enumerate(names):
        if name in UNITS:
            promise(tensor.shape[axis + 1] == UNITS[name])  # a constant from here on
            tensor = tensor.flatten(axis, axis + 1)
    return tensor
