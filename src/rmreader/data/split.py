"""Which articles of a training file are learned from, and which are held out."""

import numpy as np

from rmreader.core.errors import UserError
from rmreader.core.recipe import Training
from rmreader.data.encoded import Encoded
from rmreader.data.squad import why_none

_SEED_OF_SPLIT = 0x5E1EC7


def split_seed(training: Training) -> int:
    """The seed that chooses the held-out articles."""
    return training.seed if training.holdout_seed < 0 else training.holdout_seed


def split(encoded: Encoded, holdout: float, seed: int, no_answer: bool = False) -> tuple[Encoded, Encoded | None]:
    """The questions to learn from, and those of the held-out share of articles, chosen by the seed alone.

    Questions without a token are not learned from, nor without ``no_answer`` those that their passage does not answer.
    """
    usable = (encoded.question_lengths > 0) & (encoded.context_lengths > 0) & ((encoded.start >= 0) | no_answer)
    articles = np.unique(encoded.article)
    held = np.zeros(len(encoded), bool)
    if holdout > 0:
        count = max(1, round(holdout * len(articles)))
        if count >= len(articles):
            raise UserError(
                f"training.holdout={holdout}: the training file has {len(articles)} article(s), which leaves none to "
                "learn from; set training.holdout=0."
            )
        chosen = np.random.default_rng((seed, _SEED_OF_SPLIT)).permutation(articles)[:count]
        held = np.isin(encoded.article, chosen)
    if not (usable & ~held & (encoded.start >= 0)).any():
        raise UserError(
            f"the training file has no question with an answer to learn from{why_none(encoded.problems)}; "
            "check it: rmreader data check."
        )
    return encoded.subset(np.flatnonzero(usable & ~held)), encoded.subset(np.flatnonzero(held)) if held.any() else None
