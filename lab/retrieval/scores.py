"""How questions and passages are scored: BM25, cosines, their mix, and recall by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from lab.retrieval.data import K1, TrainingData, gather
from lab.retrieval.model import Model

IN_PART = 0.6  # what the best part counts in the cosine, against the whole passage
CAP = 0.6  # BM25 counts in full from this share of what the question's words could have
MIXES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


def bm25(
    data: TrainingData,
    questions: Any,
    passages: Any,
) -> Any:
    """BM25 of every question with every passage, over word pieces.

    Questions are rows of the scores, passages columns.
    """
    places, _, owner = gather(data.questions, questions)
    wanted, pieces = torch.unique(
        data.questions.pieces[places],
        return_inverse=True,
    )
    row_of = torch.full(
        (data.size,),
        -1,
        dtype=torch.long,
        device=data.device,
    )
    row_of[wanted] = torch.arange(len(wanted), device=data.device)

    # What each piece of the questions (rows) is worth in each passage (columns).
    matrix = torch.zeros(len(wanted), len(passages), device=data.device)
    flat, _, column = gather(data.passages, passages)
    row = row_of[data.passages.pieces[flat]]
    shared = row >= 0
    worth = data.weights[flat[shared]]
    matrix[row[shared], column[shared]] = worth

    # A question's score is the sum over its pieces.
    scores = torch.zeros(len(questions), len(passages), device=data.device)
    for begin in range(0, len(pieces), 8192):
        part = slice(begin, begin + 8192)
        rows = matrix[pieces[part]]
        scores.index_add_(0, owner[part], rows)
    return scores


def most_words(data: TrainingData, questions: Any) -> Any:
    """BM25 that a passage with all words of the question could have, about."""
    places, _, owner = gather(data.questions, questions)
    pieces = data.questions.pieces[places]
    worth = data.idf[pieces] * (K1 + 1)
    sums = torch.zeros(len(questions), device=data.device)
    return sums.index_add_(0, owner, worth)


def mix(cosine: Any, words: Any, most: Any, share: float) -> Any:
    """The score that the search sorts by.

    ``words`` is BM25, ``most`` what it could be, and ``share`` what the cosine counts.
    """
    best = words.max(dim=1).values
    # Words count in full where a passage has most of what the question asks for.
    full = torch.maximum(best, CAP * most).clamp(min=1e-6)
    of_words = (1 - share) * words / full[:, None]
    return share * cosine + of_words


def best_part(questions: Any, parts: Any) -> Any:
    """The cosine of each question with the best part of each passage."""
    count, most, dim = parts.shape
    cosines = questions @ parts.view(-1, dim).T
    return cosines.view(-1, count, most).amax(2)


def mixed_cosine(whole: Any, parts: Any) -> Any:
    """The cosine that counts: of the whole passage, and of its best part."""
    return IN_PART * parts + (1 - IN_PART) * whole


def mine(
    data: TrainingData,
    model: Model,
    questions: Any,
    candidates: Any,
    count: int,
) -> Any:
    """For each question the passages that the mix likes best and that are not its own."""
    encoded = [model.encode_passages(data, part) for part in candidates.split(8192)]
    vectors = torch.cat(encoded)

    lists = []
    for rows in questions.split(1024):
        question_vectors = model.encode_questions(data, rows)
        cosine = question_vectors @ vectors.T
        words = [bm25(data, rows, part) for part in candidates.split(16384)]
        scores = mix(
            cosine,
            torch.cat(words, dim=1),
            most_words(data, rows),
            0.6,
        )
        is_own = data.gold[rows][:, None] == candidates[None, :]
        scores[is_own] = -2.0
        best = scores.topk(count, dim=1).indices
        lists.append(candidates[best])

    return torch.cat(lists)


def measure(
    data: TrainingData,
    model: Model,
    source: str,
    distractors: Any,
) -> dict[str, list[float]]:
    """Recall at 1, 5 and 10 of a held-out set, for each mix."""
    held = np.flatnonzero(data.source == source)
    rows = torch.from_numpy(held).to(data.device)
    gold = data.gold[rows]
    candidates = torch.unique(torch.cat([gold, distractors]))
    model.train(False)
    with torch.no_grad():
        questions = model.encode_questions(data, rows)
        wholes = []
        parts = []
        words = []
        for some in candidates.split(1024):
            passages = model.encode_passages(data, some)
            wholes.append(questions @ passages.T)
            parts.append(best_part(questions, model.encode_parts(data, some)))
            words.append(bm25(data, rows, some))
        cosine = mixed_cosine(torch.cat(wholes, dim=1), torch.cat(parts, dim=1))
        all_words = torch.cat(words, dim=1)
        most = most_words(data, rows)
        right = torch.searchsorted(candidates, gold)

        recalls = {}
        for share in (0.0, *MIXES, 1.0):
            scores = mix(cosine, all_words, most, share)
            own_score = scores.gather(1, right[:, None])
            rank = (scores > own_score).sum(1)
            recalls[f"{share:.1f}"] = [_recall(rank, k) for k in (1, 5, 10)]
    model.train(True)
    return recalls


def _recall(rank: Any, k: int) -> float:
    """The percentage of questions whose passage is among the first k."""
    share = (rank < k).float().mean()
    return round(100 * float(share), 2)
