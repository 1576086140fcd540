"""EM and F1 of a network on a data set, by the official rule, on whole passages."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rmreader.data.encoded import Encoded
from rmreader.model.network import Network
from rmreader.model.spans import top_spans
from rmreader.scoring.squad import NoAnswerScore, exact_match, f1, score_no_answer
from rmreader.training.feed import Feed

# of B [B, m, m] in a batch: 256 MB in float32, and there are a few of them
_MOST_CELLS = 64 * 1024**2


@dataclass(frozen=True)
class Scores:
    """Averages in percent; the first three over the questions that have an answer."""

    exact_match: float
    f1: float
    total: int
    no_answer: NoAnswerScore | None = None
    """Over all questions, where some have no answer and the network can say so."""

    def tree(self) -> dict[str, Any]:
        """As plain data."""
        return {
            name: value for name, value in dataclasses.asdict(self).items() if value is not None
        }


def evaluate(network: Network, feed: Feed, max_length: int, batch_size: int = 64) -> Scores:
    """Answer every question of the feed and score the answers' text."""
    texts, log_odds = predict(network, feed, max_length, batch_size)
    references = [feed.encoded.references(i) for i in range(len(texts))]
    pairs = list(zip(texts, references, strict=True))

    exact = np.array([exact_match(text, known) for text, known in pairs])
    overlap = np.array([f1(text, known) for text, known in pairs])
    has_answer = np.array([len(known) > 0 for known in references], bool)

    no_answer = None
    if network.pointer.no_answer is not None and not has_answer.all():
        is_answered = np.array([bool(text) for text in texts])
        # A question that nothing was said to counts as unanswered whatever the threshold.
        chances = np.where(is_answered, 1 / (1 + np.exp(-log_odds)), 2.0)
        no_answer = score_no_answer(exact, overlap, chances, has_answer)

    # Where no question has an answer, silence is what is scored.
    counted = has_answer if has_answer.any() else ~has_answer
    return Scores(
        exact_match=100 * float(exact[counted].mean()),
        f1=100 * float(overlap[counted].mean()),
        total=int(counted.sum()),
        no_answer=no_answer,
    )


def criterion(scores: Mapping[str, Any]) -> float:
    """What a reader is chosen by: its F1, over all questions where some have no answer."""
    if "no_answer" in scores:
        return float(scores["no_answer"]["best_f1"])
    return float(scores["f1"])


def in_order(encoded: Encoded, batch_size: int) -> list[NDArray[np.intp]]:
    """Batches of all questions that have something to read, shortest passages first; of very long
    ones fewer."""
    is_readable = (encoded.question_lengths > 0) & (encoded.context_lengths > 0)
    readable = np.flatnonzero(is_readable)
    order = readable[np.argsort(encoded.context_lengths[readable], kind="stable")]

    # A batch is as wide as its last passage; so many of its first questions fit.
    batches = []
    begin = 0
    while begin < len(order):
        longest = encoded.context_lengths[order[begin : begin + batch_size]].astype(np.int64)
        cells = np.arange(1, len(longest) + 1) * longest**2
        size = max(1, int((cells <= _MOST_CELLS).sum()))
        batches.append(order[begin : begin + size])
        begin += size

    return batches


@torch.no_grad()
def predict(
    network: Network,
    feed: Feed,
    max_length: int,
    batch_size: int = 64,
) -> tuple[list[str], NDArray[Any]]:
    """The best answer to every question of the feed, empty where question or passage has no token,
    and the log-odds of there being none, 0 where the network has none."""
    encoded = feed.encoded
    batches = in_order(encoded, batch_size)
    was_training = network.training
    network.eval()

    spans = []
    odds = []
    for _, batch in feed.batches(batches):
        pointers = network(feed.fill(batch))
        lengths = batch.context_lengths

        start, end, _ = top_spans(pointers.log_p1, pointers.log_p2, lengths, max_length, 1)
        spans.append(torch.cat([start, end], 1))
        if pointers.no_answer is None:
            odds.append(torch.zeros(len(start)))
        else:
            odds.append(pointers.no_answer.float().cpu())

    network.train(was_training)

    # Back in the order of the data.
    texts = [""] * len(encoded)
    log_odds = np.zeros(len(encoded))
    if spans:
        order = np.concatenate(batches)
        log_odds[order] = torch.cat(odds).double().numpy()
        all_spans = torch.cat(spans).tolist()
        for i, (start, end) in zip(order.tolist(), all_spans, strict=True):
            starts, ends = encoded.spans(i)
            texts[i] = encoded.passage(i)[starts[start] : ends[end]]

    return texts, log_odds
