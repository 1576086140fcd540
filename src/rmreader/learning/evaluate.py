"""EM and F1 of a network on a data set, by the official rule, on whole passages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from rmreader.learning.feed import Feed
from rmreader.model.network import Network
from rmreader.model.spans import top_spans
from rmreader.scoring.squad import exact_match, f1


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


@torch.no_grad()
def predict(network: Network, feed: Feed, max_length: int, batch_size: int = 64) -> list[str]:
    """The best answer to every question, as text; empty where question or passage has no token."""
    encoded = feed.encoded
    readable = np.flatnonzero((encoded.question_lengths > 0) & (encoded.context_lengths > 0))
    order = readable[np.argsort(encoded.context_lengths[readable], kind="stable")]
    batches = [order[k : k + batch_size] for k in range(0, len(order), batch_size)]
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
        for i, (start, end) in zip(order.tolist(), torch.cat(spans).tolist(), strict=True):
            starts, ends = encoded.spans(i)
            answers[i] = encoded.passage(i)[starts[start] : ends[end]]
    return answers
