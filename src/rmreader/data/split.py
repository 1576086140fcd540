"""Which articles of a training file are learned from, and which are held out."""

import numpy as np

from rmreader.core.errors import UserError
from rmreader.core.recipe import Training
from rmreader.data.encoded import Encoded
from rmreader.data.squad import why_none

_SEED_OF_SPLIT = 0x5E1EC7


def split_seed(training: Training) -> int:
    """Return the seed that chooses the held-out articles."""
    return training.seed if training.holdout_seed < 0 else training.holdout_seed


def split(
    encoded: Encoded,
    holdout: float,
    seed: int,
    no_answer: bool = False,
) -> tuple[Encoded, Encoded | None]:
    """Return the questions to learn from, and those of the held-out share of articles.

    Which articles are held out depends on the seed alone. Questions without a token are not learned
    from, nor without ``no_answer`` those that their passage does not answer.
    """
    has_tokens = (encoded.question_lengths > 0) & (encoded.context_lengths > 0)
    has_answer = encoded.start >= 0
    held = np.zeros(len(encoded), bool)
    if holdout > 0:
        articles = np.unique(encoded.article)
        count = max(1, round(holdout * len(articles)))
        if count >= len(articles):
            raise UserError(
                f"training.holdout={holdout}: the training file has {len(articles)} article(s), "
                "which leaves none to learn from; set training.holdout=0."
            )
        draw = np.random.default_rng((seed, _SEED_OF_SPLIT))
        held = np.isin(encoded.article, draw.permutation(articles)[:count])
    if not (has_tokens & has_answer & ~held).any():
        raise UserError(
            "the training file has no question with an answer to learn from"
            f"{why_none(encoded.problems)}; check it: rmreader data check."
        )
    usable = has_tokens & (has_answer | no_answer)
    learned = encoded.subset(np.flatnonzero(usable & ~held))
    selection = encoded.subset(np.flatnonzero(held)) if held.any() else None
    return learned, selection
