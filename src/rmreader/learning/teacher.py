"""The teacher: readers whose mean distributions over the training questions a student learns from beside the references
(Hu et al., EMNLP 2018). They are computed once per training file and kept, in 16 bits per passage word."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rmreader.console import progress
from rmreader.data.batch import Batch
from rmreader.data.batches import windows
from rmreader.data.encoded import Encoded
from rmreader.data.store import Arrays, Damaged, bounds_of, open_arrays, save_arrays
from rmreader.files import cache_folder
from rmreader.learning.evaluate import in_order
from rmreader.learning.feed import Feed
from rmreader.learning.readerfolder import load_network
from rmreader.learning.text_inputs import TextInputs
from rmreader.model.network import Pointers
from rmreader.readers.folder import find, open_folder, reader_names

_LEAST = -1e4  # a log-probability of nothing, in 16 bits


class Teacher:
    """log p1, log p2 and the log-odds of no answer of every question to learn from."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays

    def attach(self, batch: Batch[Any], index: NDArray[Any]) -> Batch[Any]:
        """The batch of some questions with what the teacher says of them, as wide as it is."""
        steps = np.arange(batch.context.shape[1])
        inside = steps < batch.context_lengths[:, None]
        places = (self.arrays["bounds"][index][:, None] + steps)[inside]
        taught: dict[str, Any] = {}
        for name in ("start", "end"):
            taught[f"taught_{name}"] = np.full(inside.shape, _LEAST, np.float16)
            taught[f"taught_{name}"][inside] = self.arrays[name][places]
        if "no_answer" in self.arrays:
            taught["taught_no_answer"] = self.arrays["no_answer"][index]
        return dataclasses.replace(batch, **taught)


def teach(
    names: str, learned: Encoded, max_context: int, device: torch.device, cache_dir: str | Path | None = None
) -> Teacher:
    """The mean of the readers called ``names`` on the questions to learn from, taken from the cache where it is."""
    readers = [find(name) for name in reader_names(names)]
    digests = [open_folder(reader).about["checksums"]["weights.safetensors"] for reader in readers]
    facts = "\n".join([*digests, learned.content, str(max_context), hashlib.sha256(learned.rows.tobytes()).hexdigest()])
    folder = cache_folder("taught", cache_dir) / hashlib.sha256(facts.encode()).hexdigest()[:32]
    try:
        return Teacher(open_arrays(folder)[0])
    except Damaged:
        arrays = distributions(readers, learned, max_context, device)
        save_arrays(folder, arrays, {"readers": [str(reader) for reader in readers]})
        return Teacher(arrays)


def distributions(
    readers: Sequence[Path], learned: Encoded, max_context: int, device: torch.device, batch_size: int = 256
) -> dict[str, NDArray[Any]]:
    """The members' mean p1, p2 and p(none), as logarithms and log-odds, the questions' words end to end."""
    lengths = windows(learned, np.arange(len(learned)), max_context)[1]
    bounds = bounds_of(lengths)
    sums = {name: np.zeros(int(bounds[-1]), np.float32) for name in ("start", "end")}
    none, able = np.zeros(len(learned), np.float64), 0
    batches = in_order(learned, batch_size)
    with progress("teacher", len(readers) * len(batches), "batches") as advance, torch.no_grad():
        for reader in readers:
            network, lexicon, recipe = load_network(reader, device)
            text_inputs = TextInputs(recipe.inputs, device, reader=reader)
            feed = Feed(learned, lexicon, device, max_context=max_context, text_inputs=text_inputs, keep=False)
            able += recipe.network.no_answer
            for index, batch in feed.batches(batches):
                with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                    pointers: Pointers = network(feed.fill(batch))
                mask = np.arange(batch.context.shape[1]) < lengths[index][:, None]
                places = (bounds[index][:, None] + np.arange(mask.shape[1]))[mask]
                for name, log_p in (("start", pointers.log_p1), ("end", pointers.log_p2)):
                    sums[name][places] += _numpy(log_p.exp())[mask]
                if pointers.no_answer is not None:
                    none[index] += _numpy(pointers.no_answer.sigmoid())
                advance()
    with np.errstate(divide="ignore"):
        arrays: dict[str, NDArray[Any]] = {
            name: np.maximum(np.log(total / len(readers)), _LEAST).astype(np.float16) for name, total in sums.items()
        }
    if able:
        chance = np.clip(none / able, 1e-6, 1 - 1e-6)
        arrays["no_answer"] = np.log(chance / (1 - chance)).astype(np.float32)
    return {**arrays, "bounds": bounds}


def _numpy(tensor: Tensor) -> NDArray[np.float32]:
    return np.asarray(tensor.float().cpu().numpy())
