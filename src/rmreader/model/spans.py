"""Answers off the pointers: the best spans i ≤ j < i + L by p₁(i)·p₂(j), Eq. 6."""

import torch
import torch.nn.functional as F
from torch import Tensor

from rmreader.model.masking import MASKED


def top_spans(
    log_p1: Tensor, log_p2: Tensor, lengths: Tensor, max_length: int, k: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The k best spans of each example, best first: starts,
    ends (inclusive) and log p₁(i) + log p₂(j), each [B, k].

    Of two equal scores the earlier span comes first. Where an example has fewer
    than k spans the list is filled up with start 0, end 0 and the score ``MASKED``.
    """
    m = log_p1.shape[1]
    width = min(max_length, m)
    step = torch.arange(m, device=log_p1.device)
    # [B, m, L]: the span ends in padding
    beyond = step[:, None] + step[:width] >= lengths[:, None, None]
    # [B, m, L]: log p₂(i), …, log p₂(i+L−1)
    ends = F.pad(log_p2, (0, width - 1), value=MASKED).unfold(1, width, 1)
    scores = (log_p1[:, :, None] + ends).masked_fill(beyond, MASKED).flatten(1)
    scores, order = scores.sort(dim=1, descending=True, stable=True)
    short = max(0, k - scores.shape[1])
    scores = F.pad(scores[:, :k], (0, short), value=MASKED)
    order = F.pad(order[:, :k], (0, short))
    order = order.masked_fill(scores < MASKED / 2, 0)
    starts = order // width
    return starts, starts + order % width, scores
