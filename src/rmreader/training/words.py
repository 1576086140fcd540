"""What teachers said of every training question, in a file small enough to be carried to another
machine.

Of each question it holds the likeliest starts and ends and the log-odds of "no answer".
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from rmreader.core.errors import UserError
from rmreader.data.batches import crop
from rmreader.data.encoded import Encoded
from rmreader.data.store import Arrays, bounds_of

LIKELIEST = 6  # starts and ends of a question that the file holds
_LEAST = -1e4  # a log-probability of nothing, in 16 bits
_LEFT_OVER = 1e-6  # probability that is always left for the other words


def save_words(path: Path, said: Arrays, questions: Encoded, max_context: int) -> None:
    """Write the file.

    :param said: log-probabilities of all words as starts and ends, the questions end to end
        with their ``bounds``, and the log-odds of ``no_answer`` of each question.
    :param questions: the questions, in the same order.
    :param max_context: the words at which training passages were cut.
    """
    arrays: dict[str, NDArray[Any]] = {}
    arrays["no_answer"] = said["no_answer"].astype(np.float16)
    for name in ("start", "end"):
        places, log_p = _likeliest(said[name], said["bounds"])
        arrays[f"{name}_places"] = places
        arrays[f"{name}_log_p"] = log_p
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(arrays, path, metadata={"questions": fingerprint(questions, max_context)})


def _likeliest(
    every: NDArray[Any],
    bounds: NDArray[np.int64],
) -> tuple[NDArray[np.uint16], NDArray[np.float16]]:
    """The places of the likeliest words of each question, and their log-probabilities."""
    count = len(bounds) - 1
    places = np.zeros((count, LIKELIEST), np.uint16)
    log_p = np.full((count, LIKELIEST), _LEAST, np.float16)
    for row in range(count):
        own = every[bounds[row] : bounds[row + 1]]
        best = np.argsort(-own, kind="stable")[:LIKELIEST]
        # A passage may have fewer words than there is room for.
        places[row, : len(best)] = best
        log_p[row, : len(best)] = own[best]
    return places, log_p


def load_words(path: Path, questions: Encoded, max_context: int) -> Arrays:
    """Read the file; the probability that is left over is shared by all other words of a
    passage."""
    arrays: dict[str, NDArray[Any]] = {}
    with safe_open(path, "numpy") as file:
        about = file.metadata().get("questions")
        if about != fingerprint(questions, max_context):
            raise UserError(
                f"{path}: it is about other questions; make it from this training file."
            )
        for name in list(file.keys()):
            arrays[name] = file.get_tensor(name)

    # A passage counts as many words here as the trainer keeps of it.
    lengths = crop(questions, np.arange(len(questions)), max_context)[1]
    bounds = bounds_of(lengths)
    said: dict[str, NDArray[Any]] = {
        "bounds": bounds,
        "no_answer": arrays["no_answer"].astype(np.float32),
    }
    for name in ("start", "end"):
        log_p = arrays[f"{name}_log_p"].astype(np.float32)
        places = arrays[f"{name}_places"]
        said[name] = _all_words(places, log_p, lengths, bounds)
    return said


def _all_words(
    places: NDArray[np.uint16],
    log_p: NDArray[np.float32],
    lengths: NDArray[Any],
    bounds: NDArray[np.int64],
) -> NDArray[np.float16]:
    """The log-probabilities of all words, from those of the likeliest."""
    known = np.minimum(lengths, LIKELIEST)

    # First every word gets its share of what is left over, ...
    left_over = np.maximum(1 - np.exp(log_p).sum(axis=1), _LEFT_OVER)
    share = left_over / np.maximum(lengths - known, 1)
    every = np.repeat(np.log(share), lengths).astype(np.float16)

    # ... then the likeliest get their own.
    is_known = np.arange(LIKELIEST) < known[:, None]
    rows = bounds[:-1, None] + places
    every[rows[is_known]] = log_p[is_known]
    return every


def fingerprint(questions: Encoded, max_context: int) -> str:
    """Of the questions that were asked, in their order."""
    rows = hashlib.sha256(questions.rows.tobytes()).hexdigest()
    facts = f"{questions.content}\n{max_context}\n{rows}"
    return hashlib.sha256(facts.encode()).hexdigest()[:32]
