"""One bidirectional LSTM layer over sequences of their own true lengths: a plain path
that runs anywhere, and a fused one (Triton) for GPUs behind the same function."""

import importlib.util
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from rmreader.core.errors import UserError
from rmreader.kernels.beyond import packed_lstm

Kernel = Literal["auto", "plain", "fused"]
Precision = Literal["fp32", "bf16"]

# four [128, 128] bf16 matrices are 128 KB: what one multiprocessor holds beside its state
MAX_FUSED_HIDDEN = 128


def bilstm(
    x: Tensor | Sequence[Tensor],
    lengths: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor,
    kernel: Kernel = "auto",
    precision: Precision = "fp32",
    mask: Tensor | None = None,
    owners: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Run x [B,T,D] through both directions; returns
    (output [B,T,2H], final [B,2H]) in the weights' type.

    x may be given in parts, as they lie side by side: the fused kernel makes neither the whole nor
    a gradient that no part needs. ``lengths`` [B] are at least 1 and at most T. Weights are
    [2,4H,D], [2,4H,H], [2,4H], gates in the order i, f, g, o. Direction 1 starts at each sequence's
    true last step. Outputs at padded steps are exactly 0; ``final`` is the forward state at the
    true last step beside the backward state at step 0. ``precision`` is that of the fused kernel's
    matrix products and of its ``output``; the plain path always computes in the weights' type.
    ``mask`` [B,1,D], without gradient of its own, is what every step of x is multiplied by:
    dropout.

    With ``owners`` [N], the sequence of each row, x is the rows [N,D] of sequences
    without padding, one after the other; N may be more than the sum of the lengths,
    and after it there may be any finite numbers. Then only ``final`` has a meaning.
    """
    # A part without numbers (a reader without word vectors has one) is none.
    parts = [x] if isinstance(x, Tensor) else [part for part in x if part.shape[-1] > 0]
    obstacle = why_not_fused(parts[0], weight_hh)
    if obstacle is None and kernel != "plain":
        from rmreader.kernels.fused import fused_bilstm

        return fused_bilstm(
            parts, lengths, weight_ih, weight_hh, bias, precision, mask, owners=owners
        )
    if kernel == "fused":
        raise UserError(f"network.lstm=fused: {obstacle}; use network.lstm=auto.")
    x = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
    if owners is not None:
        place = (lengths.cumsum(0) - lengths)[:, None] + torch.arange(
            int(lengths.max()), device=x.device
        )
        x = x[place.clamp(max=len(x) - 1)]
    return _plain(x if mask is None else x * mask, lengths, weight_ih, weight_hh, bias)


def why_not_fused(x: Tensor, weight_hh: Tensor) -> str | None:
    """What keeps the fused kernel from running on this input, or None where nothing does."""
    if (obstacle := why_no_triton(x)) is not None:
        return obstacle
    if weight_hh.shape[-1] > MAX_FUSED_HIDDEN:
        hidden = weight_hh.shape[-1]
        return f"the fused LSTM holds at most {MAX_FUSED_HIDDEN} hidden units, not {hidden}"
    if weight_hh.dtype != torch.float32:
        return f"the fused LSTM has float32 weights, not {weight_hh.dtype}"
    return None


def why_no_triton(x: Tensor) -> str | None:
    """What keeps Triton's kernels from running where this tensor is, or None where nothing does."""
    if not x.is_cuda or torch.version.hip or torch.cuda.get_device_capability(x.device) < (8, 0):
        return "the fused kernels need an NVIDIA GPU of compute capability 8.0 or later"
    if importlib.util.find_spec("triton") is None:
        return "the fused kernels need the package triton, which is not installed"
    return None


def _plain(
    x: Tensor, lengths: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """Packed sequences through PyTorch's own LSTM. It waits
    for the device, because packing needs the lengths."""
    batch, steps = x.shape[:2]
    hidden = weight_hh.shape[-1]
    with torch.autocast(x.device.type, enabled=False):
        x = x.to(weight_hh.dtype)
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        zero = x.new_zeros(2, batch, hidden)
        matrices = [w for d in (0, 1) for w in (weight_ih[d], weight_hh[d])]
        # torch keeps two biases that are only ever added; ours is one
        none = torch.zeros_like(bias[0])
        biases = [bias[0], none, bias[1], none]
        if x.is_cuda:
            matrices, biases = _in_one_piece(matrices, biases)
        weights = [*matrices[:2], *biases[:2], *matrices[2:], *biases[2:]]
        data, last = packed_lstm(packed.data, packed.batch_sizes, zero, weights)
    output, _ = pad_packed_sequence(
        PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices),
        batch_first=True,
        total_length=steps,
    )
    return output, last[:, packed.unsorted_indices].transpose(0, 1).reshape(batch, 2 * hidden)


def _in_one_piece(
    matrices: list[Tensor], biases: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """The same weights one after the other in memory, which
    cuDNN asks for and else does itself, with a warning."""
    parts = [*matrices, *biases]
    pieces = torch.split(
        torch.cat([part.flatten() for part in parts]), [part.numel() for part in parts]
    )
    parts = [piece.view_as(part) for piece, part in zip(pieces, parts, strict=True)]
    return parts[: len(matrices)], parts[len(matrices) :]
