"""Readers as networks on a device: where they point, alone and as an ensemble, and what they answer.

An ensemble is the arithmetic mean of its members' probabilities, of p₁ and of p₂ each; the answer is then decoded as
from one reader. The paper says no more than that its ensemble has 12 members which differ in their initial parameters.
Members read the same tokens but may have learned other words, so each has its own feed, and they take turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from rmreader.config import Recipe
from rmreader.console import progress
from rmreader.data.encoded import Encoded
from rmreader.errors import UserError
from rmreader.learning.evaluate import in_order
from rmreader.learning.feed import Feed
from rmreader.learning.readerfolder import load_network
from rmreader.learning.text_inputs import TextInputs
from rmreader.model.network import Network
from rmreader.model.spans import top_spans
from rmreader.studies.folders import reader_folder

Floats = NDArray[np.float32]
_MASKED = -1e30


@dataclass(frozen=True)
class Pointed:
    """log p₁ and log p₂ of every question over its whole passage; empty where question or passage has no token."""

    log_p1: list[Floats]
    log_p2: list[Floats]


@dataclass(frozen=True)
class Found:
    """An answer and where it stands in the passage."""

    text: str
    start: int
    end: int


NOTHING = Found("", 0, 0)


def open_reader(
    name_or_path: str | Path, encoded: Encoded, device: torch.device, keep: bool = True
) -> tuple[Network, Feed, Recipe]:
    """A reader's network, the data as it reads them, and its recipe; ``keep`` as in ``Feed``."""
    folder = reader_folder(name_or_path)
    network, lexicon, recipe = load_network(folder, device)
    text_inputs = TextInputs(recipe.inputs, device, reader=folder)
    return network, Feed(encoded, lexicon, device, text_inputs=text_inputs, keep=keep), recipe


@torch.no_grad()
def point(network: Network, feed: Feed, batch_size: int = 64, what: str = "reading") -> Pointed:
    """Where a network points in every passage."""
    encoded = feed.encoded
    pointed = Pointed([np.empty(0, np.float32)] * len(encoded), [np.empty(0, np.float32)] * len(encoded))
    network.eval()
    with progress(what, total=len(encoded), unit="questions") as advance:
        for index, batch in feed.batches(in_order(encoded, batch_size)):
            pointers = network(feed.fill(batch))
            both = torch.stack([pointers.log_p1, pointers.log_p2]).float().cpu().numpy()
            for row, i in enumerate(index.tolist()):
                pointed.log_p1[i], pointed.log_p2[i] = both[:, row, : encoded.context_lengths[i]]
            advance(len(index))
    return pointed


def average(members: Sequence[Pointed]) -> Pointed:
    """The ensemble: the arithmetic mean of the members' probabilities."""
    if len(members) == 1:
        return members[0]

    def mean(logs: tuple[Floats, ...]) -> Floats:
        summed = np.logaddexp.reduce(np.stack(logs).astype(np.float64), axis=0)
        return np.asarray(summed - np.log(len(logs)), np.float32)

    starts, ends = ([getattr(member, name) for member in members] for name in ("log_p1", "log_p2"))
    return Pointed([mean(logs) for logs in zip(*starts, strict=True)], [mean(logs) for logs in zip(*ends, strict=True)])


def decode(pointed: Pointed, encoded: Encoded, max_length: int, batch_size: int = 256) -> list[Found]:
    """The best answer to every question; ``NOTHING`` where there is nothing to read."""
    answers = [NOTHING] * len(encoded)
    for index in in_order(encoded, batch_size):
        lengths = torch.from_numpy(encoded.context_lengths[index].astype(np.int64))
        starts, ends, _ = top_spans(
            _padded(pointed.log_p1, index), _padded(pointed.log_p2, index), lengths, max_length, 1
        )
        for i, start, end in zip(index.tolist(), starts[:, 0].tolist(), ends[:, 0].tolist(), strict=True):
            begins, stops = encoded.spans(i)
            place = slice(int(begins[start]), int(stops[end]))
            answers[i] = Found(encoded.passage(i)[place], place.start, place.stop)
    return answers


def _padded(logs: Sequence[Floats], index: NDArray[np.intp]) -> torch.Tensor:
    rows = [torch.from_numpy(logs[i]) for i in index.tolist()]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=_MASKED)


@dataclass(frozen=True)
class Answers:
    """What several readers answer to the questions of a file, each alone and all together."""

    singles: dict[str, list[Found]]
    together: list[Found] | None
    """None of a single reader."""


def answer(names: Sequence[str | Path], encoded: Encoded, device: torch.device) -> Answers:
    """Let readers answer, one after the other, and as an ensemble (with the first one's longest answer)."""
    if len({reader_folder(name).resolve() for name in names}) < len(names):
        raise UserError("a reader is given twice, which would count it twice in the ensemble; name each once.")
    singles: dict[str, list[Found]] = {}
    members, longest = [], 0
    for name in names:
        network, feed, recipe = open_reader(name, encoded, device)
        members.append(point(network, feed, what=Path(name).name))
        longest = longest or recipe.decoding.max_length
        label = "./ensemble" if str(name) == "ensemble" else str(name)  # that row is all of them together
        singles[label] = decode(members[-1], encoded, recipe.decoding.max_length)
    together = decode(average(members), encoded, longest) if len(members) > 1 else None
    return Answers(singles, together)
