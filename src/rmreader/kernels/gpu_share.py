"""Whether a GPU's library multiplies rightly on the part of the GPU that this process may use.

Under NVIDIA's MPS a process can be kept to a share of the multiprocessors. On
an H200 with cuBLAS 13 many products of bfloat16 are then wrong, silently and
by far, on some shares and on others not: log/2026-11-15-gpu.md has which.
"""

import itertools
import os
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from rmreader.core.errors import UserError

SHARE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
_STEPS = (1, 16, *range(32, 416, 32))  # of a sequence, as batches are padded


class ShareError(UserError):
    """This share of the GPU cannot be trusted; another, or the whole of it, can."""

    status = 3


def check_share(batch: int, size: int, device: torch.device) -> None:
    """Raise where this process is kept to a share of the
    GPU on which products of these sizes are wrong."""
    if device.type == "cuda" and os.environ.get(SHARE, "100") != "100":
        wrong = wrong_product(batch, size, device)
        if wrong is not None:
            raise ShareError(
                f"{SHARE}={os.environ[SHARE]}: on this share of the GPU its library multiplies "
                f"{wrong} wrongly; take another share, or none."
            )


def wrong_product(
    batch: int,
    size: int,
    device: torch.device,
    multiply: Callable[[Tensor, Tensor], Tensor] = torch.matmul,
) -> str | None:
    """A product of bfloat16 that is not what float64 says it
    is, if any is; as in a network with states of ``size``."""
    names = []
    errors = []
    for a, b in _factors(batch, size, device):
        exact = a.double() @ b.double()
        names.append(f"{list(a.shape)} by {list(b.shape)}")
        errors.append((multiply(a, b).double() - exact).abs().max() / exact.abs().max())
    # rounding alone makes 0.004; not a number is not close
    close = (torch.stack(errors) < 0.02).tolist()
    return next((name for name, right in zip(names, close, strict=True) if not right), None)


def _factors(batch: int, size: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, device=device, dtype=torch.bfloat16)

    for steps in _STEPS:
        for wide, high in itertools.product((size, 2 * size, 4 * size), repeat=2):
            x = normal(batch * steps, wide)
            weight = normal(high, wide)
            gradient = normal(batch * steps, high)
            yield from ((x, weight.T), (gradient, weight), (gradient.T, x))
        attention = normal(batch, steps, steps)
        x = normal(batch, steps, size)
        yield from ((attention, x), (attention.mT, x), (x, x.mT))
