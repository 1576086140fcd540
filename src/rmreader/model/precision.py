"""Mixed precision where autocast would do too much: logits
are products of bfloat16 but are never rounded to it."""

from typing import Any

import torch
from torch import Tensor

# from torch 2.8 on, a product of bfloat16 can be had in float32
_WIDE = hasattr(torch.ops.aten.bmm, "dtype")


def product_type(like: Tensor) -> torch.dtype:
    """The type that factors of matrix products have:
    autocast's where that is on, else that of ``like``."""
    kind = like.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else like.dtype


def wide_matmul(a: Tensor, b: Tensor, turned: bool = False) -> Tensor:
    """a [B, s, D] @ b [B, D, t] for logits: under autocast
    in float32, where its own product would be bfloat16.

    If ``turned``, b is [B, t, D]: its gradient then lies in memory as b does.
    """
    if not torch.is_autocast_enabled(a.device.type):
        return a @ (b.mT if turned else b)
    kind = product_type(a)
    with torch.autocast(a.device.type, enabled=False):
        return _WideProduct.apply(a.to(kind), b.to(kind), turned)  # type: ignore[no-any-return, no-untyped-call]


class _WideProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, turned: bool) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.turned = turned
        b = b.mT if turned else b
        return (
            torch.bmm(a, b, out_dtype=torch.float32)
            if _WIDE and a.is_cuda
            else a.float() @ b.float()
        )

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        a, b = ctx.saved_tensors
        gradient = gradient.to(a.dtype)
        if ctx.turned:
            return torch.bmm(gradient, b), torch.bmm(gradient.mT, a), None
        return torch.bmm(gradient, b.mT), torch.bmm(a.mT, gradient), None
