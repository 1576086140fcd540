"""Embedding lookup where a few rows get most hits
(letters): with Triton, no sorting for the gradient."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from rmreader.kernels.lstm import why_no_triton

# the first rows of the table; index entries at a time, and times per program
_COMMON = 128
_ROWS = 64
_LOOPS = 8


def embedding(table: Tensor, index: Tensor, dtype: torch.dtype) -> Tensor:
    """table [V,D] at index [...] → [...,D] in ``dtype``;
    fastest where the frequent rows are among the first 128."""
    if why_no_triton(table) is not None or table.dtype != torch.float32:
        return F.embedding(index, table).to(dtype)
    return FusedEmbedding.apply(table, index, dtype)  # type: ignore[no-any-return, no-untyped-call]


class FusedEmbedding(torch.autograd.Function):
    """The gradient of common rows as products with one-hot tiles, of rare ones added one by one."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor, dtype: torch.dtype) -> Tensor:
        """table[index] in ``dtype``."""
        ctx.save_for_backward(index)
        ctx.shape = table.shape
        return F.embedding(index, table.to(dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """The gradient of the table, added up in float32."""
        import triton

        from rmreader.kernels.triton_embedding import embedding_backward

        (index,) = ctx.saved_tensors
        total = gradient.new_zeros(ctx.shape, dtype=torch.float32)
        sizes = {"N": index.numel(), "D": ctx.shape[1]}
        tiles = {
            "DP": max(16, triton.next_power_of_2(ctx.shape[1])),
            "COMMON": _COMMON,
            "ROWS": _ROWS,
            "LOOPS": _LOOPS,
        }
        with torch.cuda.device_of(gradient):  # type: ignore[no-untyped-call]
            grid = (triton.cdiv(index.numel(), _ROWS * _LOOPS),)
            embedding_backward[grid](
                index.contiguous(), gradient.contiguous(), total, **sizes, **tiles, num_warps=8
            )
        return total, None, None
