"""Whether the engine without torch computes what the network in torch computes.

A reader is compared where it is written: at the end of a training run, and when it is exported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from rmreader.core.errors import UserError
from rmreader.readers.folder import Folder
from rmreader.reading.engine.contextual import why_torch
from rmreader.reading.engine.engines import EncoderInput, Logits, OnnxEngine, Rounds, torch_engine
from rmreader.reading.spans import log_softmax
from rmreader.text.tokens import tokenize

# Of log-probabilities, in float. Rounding makes 2e-5.
TOLERANCE = 1e-4
# Frozen vectors are rounded to 16 bits on the way, now and then to different sides.
HALF_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Agreement:
    """How far apart the two engines are."""

    difference: float
    """The largest of a log-probability, or of an attention's logit beside its largest one."""
    questions: int


def compare_with_torch(folder: Folder, questions: Iterable[tuple[str, str]]) -> Agreement | None:
    """Read some (question, passage) with and without torch; refused where the results differ.

    None where there is nothing to compare: the reader runs in torch alone.
    """
    if why_torch(folder) is not None:
        return None
    inputs = folder.recipe.inputs
    is_half = inputs.contextual and inputs.contextual_mode == "frozen"
    tolerance = HALF_TOLERANCE if is_half else TOLERANCE
    ours = OnnxEngine(folder, "float", threads=1)
    theirs = torch_engine(folder, device="cpu")
    differences = [0.0]
    count = 0
    for question, passage in questions:
        pair = EncoderInput(question, passage, tokenize(question).words, tokenize(passage).words)
        if not pair.question_words or not pair.context_words:
            continue
        differences += _pointer_differences(ours.read(pair), theirs.read(pair))
        differences += _attention_differences(ours.attend(pair), theirs.attend(pair))
        count += 1
    largest = float(np.max(differences))
    # "not … <=": a difference that is not a number is refused too
    if not largest <= tolerance:
        raise UserError(
            f"{folder.path}: the engine without torch differs from the network in torch by "
            f"{largest:.1e} on {count} questions; load it with engine='torch', and report this."
        )
    return Agreement(largest, count)


def _pointer_differences(ours: Logits, theirs: Logits) -> Iterator[float]:
    for own, other in ((ours.start, theirs.start), (ours.end, theirs.end)):
        yield float(np.abs(log_softmax(own) - log_softmax(other)).max())
    if ours.none is not None and theirs.none is not None:
        yield float(np.abs(ours.none - theirs.none).max())


def _attention_differences(ours: Rounds, theirs: Rounds) -> Iterator[float]:
    """Each beside the largest logit: rounding grows with it."""
    for own_round, other_round in zip(ours, theirs, strict=True):
        for own, other in zip(own_round, other_round, strict=True):
            scale = max(1.0, float(np.abs(other).max()))
            yield float(np.abs(own - other).max()) / scale
