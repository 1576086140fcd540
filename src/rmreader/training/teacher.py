"""The teacher: readers whose mean distributions over the training questions a student learns from
beside the references (Hu et al., EMNLP 2018).

They are computed once per training file and cached, in 16 bits per passage word.
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rmreader.core.console import progress
from rmreader.core.files.cache import cache_folder
from rmreader.data.batch import Batch, Taught
from rmreader.data.batches import crop
from rmreader.data.encoded import Encoded
from rmreader.data.store import Arrays, bounds_of, cached
from rmreader.model.network import Pointers
from rmreader.readers.folder import find, open_folder, reader_names
from rmreader.training.contextual import ContextualInputs
from rmreader.training.evaluate import in_order
from rmreader.training.feed import Feed
from rmreader.training.reader_folder import load_network
from rmreader.training.states import StatesWriter
from rmreader.training.words import load_words

_LEAST = -1e4  # a log-probability of nothing, in 16 bits


def attach(distributions: Arrays, batch: Batch[Any], index: NDArray[Any]) -> Batch[Any]:
    """The batch of some questions with what the teacher says of them, as wide as it is."""
    # The questions' words are end to end in the arrays; here each has a row of its own.
    steps = np.arange(batch.context.shape[1])
    inside = steps < batch.context_lengths[:, None]
    places = (distributions["bounds"][index][:, None] + steps)[inside]

    start = np.full(inside.shape, _LEAST, np.float16)
    end = np.full(inside.shape, _LEAST, np.float16)
    start[inside] = distributions["start"][places]
    end[inside] = distributions["end"][places]

    no_answer = None
    if "no_answer" in distributions:
        no_answer = distributions["no_answer"][index]

    return dataclasses.replace(batch, taught=Taught(start, end, no_answer))


def teach(
    names: str,
    learned: Encoded,
    max_context: int,
    device: torch.device,
    cache_dir: str | Path | None = None,
) -> Arrays:
    """log p1, log p2 and the log-odds of no answer of every question to learn from, the mean of the
    readers called ``names``.

    Each reader's are cached, so that another list of readers costs only those that are new in it.
    """
    if names.endswith(".safetensors"):
        return load_words(Path(names), learned, max_context)

    every = []
    for name in reader_names(names):
        arrays = _cached_distributions(find(name), learned, max_context, device, cache_dir)
        every.append(arrays)

    # The mean is taken of probabilities, not of their logarithms.
    mean: dict[str, NDArray[Any]] = {"bounds": every[0]["bounds"]}
    for name in ("start", "end"):
        total = sum(np.exp(np.asarray(arrays[name], np.float32)) for arrays in every)
        with np.errstate(divide="ignore"):
            log_p = np.log(total / len(every))

        mean[name] = np.maximum(log_p, _LEAST).astype(np.float16)

    # Of those readers that can tell that there is no answer.
    log_odds = [arrays["no_answer"] for arrays in every if "no_answer" in arrays]
    if log_odds:
        mean["no_answer"] = _mean_log_odds(log_odds)

    return mean


def _mean_log_odds(every: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    """The log-odds of the mean chance."""
    total = sum(1 / (1 + np.exp(-odds.astype(np.float64))) for odds in every)
    chance = np.clip(total / len(every), 1e-6, 1 - 1e-6)  # so that it is finite
    mean: NDArray[np.float32] = np.log(chance / (1 - chance)).astype(np.float32)
    return mean


def _cached_distributions(
    reader: Path,
    learned: Encoded,
    max_context: int,
    device: torch.device,
    cache_dir: str | Path | None,
) -> Arrays:
    """One reader's distributions, from the cache where they are there."""
    # Whatever these depend on is in the name of their folder.
    weights = open_folder(reader).about["checksums"]["weights.safetensors"]
    rows = hashlib.sha256(learned.rows.tobytes()).hexdigest()

    facts = "\n".join([weights, learned.content, str(max_context), rows])
    name = hashlib.sha256(facts.encode()).hexdigest()[:32]

    folder = cache_folder("taught", cache_dir) / name

    def make() -> tuple[Arrays, dict[str, Any]]:
        arrays = distributions(reader, learned, max_context, device)
        return arrays, {"reader": str(reader)}

    return cached(folder, make, "teacher's distributions")[0]


def distributions(
    reader: Path,
    learned: Encoded,
    max_context: int,
    device: torch.device,
    batch_size: int = 256,
    states: StatesWriter | None = None,
) -> dict[str, NDArray[Any]]:
    """A reader's log p1 and log p2, the questions' words end to end, and its log-odds of no answer
    if it has them.

    ``states``: where its states of every word go, if they are wanted.
    """
    # As many words of each passage as the student will read.
    _, lengths = crop(learned, np.arange(len(learned)), max_context)
    bounds = bounds_of(lengths)
    total = int(bounds[-1])
    start = np.full(total, _LEAST, np.float16)
    end = np.full(total, _LEAST, np.float16)
    arrays: dict[str, NDArray[Any]] = {"start": start, "end": end}

    network, lexicon, recipe = load_network(reader, device)
    if recipe.network.no_answer:
        arrays["no_answer"] = np.zeros(len(learned), np.float32)

    contextual = ContextualInputs(recipe.inputs, device, reader=reader)
    feed = Feed(
        learned,
        lexicon,
        device,
        max_context=max_context,
        contextual=contextual,
        keep=False,
    )

    batches = in_order(learned, batch_size)
    is_gpu = device.type == "cuda"
    with progress(f"teacher {reader.name}", len(batches), "batches") as advance, torch.no_grad():
        for index, batch in feed.batches(batches):
            with torch.autocast(device.type, torch.bfloat16, enabled=is_gpu):
                pointers: Pointers = network(feed.fill(batch))

            # Only true words: padding has no place in the arrays.
            steps = np.arange(batch.context.shape[1])
            inside = steps < lengths[index][:, None]
            places = (bounds[index][:, None] + steps)[inside]

            start[places] = np.maximum(_numpy(pointers.log_p1)[inside], _LEAST)
            end[places] = np.maximum(_numpy(pointers.log_p2)[inside], _LEAST)
            if pointers.no_answer is not None:
                arrays["no_answer"][index] = _numpy(pointers.no_answer)
            if states is not None:
                states.add(index, pointers.reading)

            advance()

    return {**arrays, "bounds": bounds}


def _numpy(tensor: Tensor) -> NDArray[np.float32]:
    """On the host, in 32 bits."""
    return np.asarray(tensor.float().cpu().numpy())
