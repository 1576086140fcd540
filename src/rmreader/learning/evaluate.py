"""EM and F1 of a network on a data set, by the official rule, on whole passages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from rmreader.data.encoded import Encoded
from rmreader.learning.feed import Feed
from rmreader.model.network import Network
from rmreader.model.spans import top_spans
from rmreader.scoring.squad import exact_match, f1

_MOST_CELLS = 64 * 1024**2  # of B [B, m, m] in a batch: 256 MB in float32, and there are a few of them


@dataclass(frozen=True)
class Scores:
    """Averages in percent."""

    exact_match: float
    f1: float
    total: int


def evaluate(network: Network, feed: Feed, max_length: int, batch_size: int = 64) -> Scores:
    """Answer every question of the feed and score the answers' text."""
    answers = predict(network, feed, max_length, batch_size)
    encoded = feed.encoded
    pairs = [(answer, encoded.references(i)) for i, answer in enumerate(answers)]
    return Scores(
        exact_match=100 * float(np.mean([exact_match(answer, references) for answer, references in pairs])),
        f1=100 * float(np.mean([f1(answer, references) for answer, references in pairs])),
        total=len(pairs),
    )


def in_order(encoded: Encoded, batch_size: int) -> list[NDArray[np.intp]]:
    """Batches of all questions that have something to read, shortest passages first; of very long ones fewer."""
    readable = np.flatnonzero((encoded.question_lengths > 0) & (encoded.context_lengths > 0))
    order = readable[np.argsort(encoded.context_lengths[readable], kind="stable")]
    batches, begin = [], 0
    while begin < len(order):
        longest = encoded.context_lengths[order[begin : begin + batch_size]].astype(np.int64)
        fit = int((np.arange(1, len(longest) + 1) * longest**2 <= _MOST_CELLS).sum())
        batches.append(order[begin : begin + max(1, fit)])
        begin += max(1, fit)
    return batches


@torch.no_grad()
def predict(network: Network, feed: Feed, max_length: int, batch_size: int = 64) -> list[str]:
    """The best answer to every question, as text; empty where question or passage has no token."""
    encoded = feed.encoded
    batches = in_order(encoded, batch_size)
    training = network.training
    network.eval()
    spans = []
    for _, batch in feed.batches(batches):
        pointers = network(feed.fill(batch))
        start, end, _ = top_spans(pointers.log_p1, pointers.log_p2, batch.context_lengths, max_length, 1)
        spans.append(torch.cat([start, end], 1))
    network.train(training)
    answers = [""] * len(encoded)
    if spans:
        for i, (start, end) in zip(np.concatenate(batches).tolist(), torch.cat(spans).tolist(), strict=True):
            starts, ends = encoded.spans(i)
            answers[i] = encoded.passage(i)[starts[start] : ends[end]]
    return answers
