"""The fusion function, Eq. 13, and the heuristic features
[x; y; x∘y; x−y] that the pointer shares with it."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmreader.core.errors import UserError


def heuristic_linear(
    x: Tensor,
    y: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    mul: bool = True,
    sub: bool = True,
) -> Tensor:
    """W[x; y; x∘y; x−y] + b for x [B, T, D], y [B, T or 1, D]
    and W [out, parts·D], without building the four parts.

    The difference is linear in x and y, so with W = [Wx Wy Wm Ws] the
    product is (Wx+Ws)x + (Wy−Ws)y + Wm(x∘y): a quarter less arithmetic,
    and a y that is the same at all T steps is multiplied once.
    """
    parts = weight.chunk(2 + mul + sub, dim=1)
    Wx = parts[0]
    Wy = parts[1]
    if sub:
        Wx = Wx + parts[-1]
        Wy = Wy - parts[-1]
    if mul:
        x = torch.cat([x, x * y], dim=-1)
        Wx = torch.cat([Wx, parts[2]], dim=1)
    return F.linear(x, Wx) + F.linear(y, Wy, bias)


class Fusion(nn.Module):
    """o = fusion(x, y), Eq. 13: how much of x is replaced by what x and y say together."""

    def __init__(
        self,
        size: int,
        form: Literal["highway", "gate", "mlp"] = "highway",
        mul: bool = True,
        sub: bool = True,
    ) -> None:
        super().__init__()
        self.form = form
        self.mul = mul
        self.sub = sub
        match form:
            case "highway" | "gate":
                heads = 2
            case "mlp":
                heads = 1
            case other:
                raise UserError(f"network.fusion={other}: the network has no such fusion.")
        # W_r above W_g
        self.weight = nn.Parameter(torch.empty(heads * size, (2 + mul + sub) * size))
        self.bias = nn.Parameter(torch.zeros(heads * size))
        with torch.no_grad():
            for head in self.weight.chunk(heads):
                nn.init.xavier_uniform_(head)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """x, y [B, T, D] -> o [B, T, D]."""
        both = heuristic_linear(x, y, self.weight, self.bias, self.mul, self.sub)
        if self.form == "mlp":
            return torch.relu(both)  # o = x̃
        r, gate = both.chunk(2, dim=-1)
        # x̃ and g
        candidate = torch.relu(r)
        g = torch.sigmoid(gate)
        if self.form == "gate":
            return g * candidate  # o = g∘x̃
        return x + g * (candidate - x)  # o = g∘x̃ + (1−g)∘x
