"""Mixed precision where autocast would do too much: logits are products of bfloat16 but are never rounded to it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_WIDE = hasattr(torch.ops.aten.bmm, "dtype")  # from torch 2.8 on, a product of bfloat16 can be had in float32


def product_type(like: Tensor) -> torch.dtype:
    """The type that factors of matrix products have: autocast's where that is on, else that of ``like``."""
    kind = like.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else like.dtype


def wide_matmul(a: Tensor, b: Tensor) -> Tensor:
    """a [B, s, D] @ b [B, D, t] for logits: under autocast in float32, where its own product would be bfloat16."""
    if not torch.is_autocast_enabled(a.device.type):
        return a @ b
    kind = product_type(a)
    with torch.autocast(a.device.type, enabled=False):
        return _WideProduct.apply(a.to(kind), b.to(kind))  # type: ignore[no-any-return, no-untyped-call]


class _WideProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return torch.bmm(a, b, out_dtype=torch.float32) if _WIDE and a.is_cuda else a.float() @ b.float()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        gradient = gradient.to(a.dtype)
        return gradient @ b.mT, a.mT @ gradient
