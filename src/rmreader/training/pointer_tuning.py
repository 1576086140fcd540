"""Tuning on few examples: the pointer alone learns, from what all else has read once.

Everything below the pointer stays as it is, so its output for a question never changes: it is
computed once, and a step costs what the pointer costs. Few examples cannot teach the rest of the
network anything, they can only spoil it.

On ordinary questions the pointer learns from the reader as it was before, not from their labels, so
that it changes as little there as the examples allow. What is left of a change in how sure it is
that there is no answer is taken back at the end.
"""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from rmreader.core.console import progress
from rmreader.data.batch import Batch, required
from rmreader.data.batches import crop
from rmreader.data.store import Arrays, bounds_of
from rmreader.model.network import Network, Pointers, Reading
from rmreader.readers.folder import open_folder
from rmreader.readers.write import update
from rmreader.reading.decision import Decision, fit_decision
from rmreader.training.evaluate import in_order
from rmreader.training.feed import Attach, Feed
from rmreader.training.prepare import Setup
from rmreader.training.reader_folder import load_network
from rmreader.training.teacher import attach
from rmreader.training.tuning_data import is_ordinary

_BATCH = 16  # questions that are read together; few, so that little of a batch is padding
_TAUGHT = 0.9  # share of the teacher in the loss; the rest is the labels'
_NOTHING = -1e4  # a log-probability of nothing, or log-odds of never, in 16 bits


@dataclasses.dataclass(frozen=True)
class ReadBatch(Batch[Tensor]):
    """A batch with what all of the network but the pointer makes of it."""

    R: Tensor | None = None  # [B, m, 2d]
    V: Tensor | None = None  # [B, n, 2d]

    def reading(self) -> Reading:
        """What the pointer needs."""
        R = required(self.R, "R")
        V = required(self.V, "V")
        return Reading(R, V, U=None)


class PointerOnly(Network):
    """A network of which the pointer alone learns; its weights have the same names."""

    def __init__(self, whole: Network) -> None:
        nn.Module.__init__(self)
        self.contextual = whole.contextual
        self.encoder = whole.encoder
        self.aligner = whole.aligner
        self.pointer = whole.pointer
        for part in (self.contextual, self.encoder, self.aligner):
            if part is not None:
                part.requires_grad_(False)

    def read(self, batch: Batch[Tensor]) -> Reading:
        """Return what was read before, where the batch has it."""
        if isinstance(batch, ReadBatch):
            return batch.reading()
        return super().read(batch)


class ReadFeed(Feed):
    """Questions that were read once: batches carry what the pointer needs of them."""

    def __init__(self, feed: Feed, setup: Setup, teacher: Attach | None = None) -> None:
        super().__init__(
            feed.encoded,
            setup.lexicon,
            setup.device,
            feed.pad,
            feed.max_context,
            setup.contextual,
            teacher=teacher,
        )
        self._R: list[Tensor] = [torch.zeros(0)] * len(feed.encoded)
        self._V: list[Tensor] = [torch.zeros(0)] * len(feed.encoded)

    @torch.no_grad()
    def read(self, network: Network) -> None:
        """Read all questions."""
        network.eval()
        batches = in_order(self.encoded, _BATCH)
        with progress("reading", len(batches), "batches") as advance:
            for index, batch in self.batches(batches):
                reading = network.read(super().fill(batch))
                self._keep(index, batch, reading)
                advance()

    def _keep(self, index: NDArray[np.intp], batch: Batch[Tensor], reading: Reading) -> None:
        """Keep what was read of each question of a batch."""
        asked = batch.question_lengths.tolist()
        read = batch.context_lengths.tolist()
        for row, number in enumerate(index.tolist()):
            # A copy of its own: a view would keep the padding of the whole batch.
            R = reading.R[row, : read[row]]
            V = reading.V[row, : asked[row]]
            self._R[number] = R.clone()
            self._V[number] = V.clone()

    def fill(self, batch: Batch[Tensor]) -> ReadBatch:
        """The batch with what was read beside its words."""
        source = required(batch.source, "numbers of questions")
        numbers = source.index.tolist()
        R = [self._R[number] for number in numbers]
        V = [self._V[number] for number in numbers]

        fields = {}
        for field in dataclasses.fields(Batch):
            fields[field.name] = getattr(batch, field.name)

        return ReadBatch(
            **fields,
            R=pad_sequence(R, batch_first=True),
            V=pad_sequence(V, batch_first=True),
        )

    @torch.no_grad()
    def pointers(self, network: Network) -> list[tuple[NDArray[np.intp], Pointers]]:
        """Where a network's pointer points, by batch."""
        network.eval()
        every = []
        for index, batch in self.batches(in_order(self.encoded, _BATCH)):
            pointers = network.point(batch, self.fill(batch).reading())
            every.append((index, pointers))

        return every


def only_pointer(setup: Setup, reader: str) -> Setup:
    """Return the run as one in which the pointer alone learns, from what is read here once.

    ``reader`` is what the run starts from: it teaches how to read ordinary questions.
    """
    # Not the run's own network: where the run goes on from a checkpoint, that has no weights yet.
    before = load_network(open_folder(reader), setup.device)[0]
    network = PointerOnly(setup.network)
    train = ReadFeed(setup.train, setup)
    train.read(before)
    train.teacher = partial(attach, _taught(train, before))

    selection = None
    if setup.selection is not None:
        selection = ReadFeed(setup.selection, setup)
        selection.read(before)

    training = dataclasses.replace(
        setup.recipe.training,
        teacher=reader,
        teacher_weight=_TAUGHT,
        teacher_temperature=1.0,
    )
    recipe = dataclasses.replace(setup.recipe, training=training)
    return dataclasses.replace(
        setup,
        network=network,
        recipe=recipe,
        train=train,
        selection=selection,
    )


def _taught(feed: ReadFeed, network: Network) -> Arrays:
    """What each question is to be answered with, as a teacher's distributions: an ordinary one as
    the network answers it now, one of the examples as its label says."""
    encoded = feed.encoded
    _, lengths = crop(encoded, np.arange(len(encoded)), feed.max_context)
    bounds = bounds_of(lengths)
    words = int(bounds[-1])
    start = np.full(words, _NOTHING, np.float16)
    end = np.full(words, _NOTHING, np.float16)
    odds = np.where(encoded.start < 0, -_NOTHING, _NOTHING).astype(np.float32)

    # All of them as their labels say.
    for index, batch in feed.batches(in_order(encoded, _BATCH)):
        target = required(batch.target, "answers")
        starts = target.start.tolist()
        ends = target.end.tolist()
        for row, number in enumerate(index.tolist()):
            if starts[row] < 0:
                continue
            first = bounds[number]
            start[first + starts[row]] = 0.0
            end[first + ends[row]] = 0.0

    # Then the ordinary ones as the network answers them.
    for index, pointers in feed.pointers(network):
        for row, number in enumerate(index.tolist()):
            if not is_ordinary(encoded.ids[number]):
                continue
            place = slice(bounds[number], bounds[number + 1])
            length = int(lengths[number])
            start[place] = _log_p(pointers.log_p1[row], length)
            end[place] = _log_p(pointers.log_p2[row], length)
            if pointers.no_answer is not None:
                odds[number] = float(pointers.no_answer[row])

    arrays: dict[str, NDArray[Any]] = {
        "bounds": bounds,
        "start": start,
        "end": end,
    }
    if network.pointer.no_answer is not None:
        arrays["no_answer"] = odds

    return arrays


def _log_p(log_p: Tensor, length: int) -> NDArray[np.float32]:
    words = log_p[:length].float()
    values: NDArray[np.float32] = words.cpu().numpy()
    return np.maximum(values, np.float32(_NOTHING))


def keep_refusals(setup: Setup, reader: str, best: Path) -> None:
    """Refit what the tuned reader decides by, so that on ordinary questions its chances of no
    answer are what they were before, as nearly as a scale and a shift can make them."""
    before = Decision.of(open_folder(reader))
    feed = setup.train
    if before is None or not isinstance(feed, ReadFeed):
        return

    numbers = []
    for number, name in enumerate(feed.encoded.ids):
        if is_ordinary(name):
            numbers.append(number)
    if not numbers:
        return

    old_network, *_ = load_network(open_folder(reader), setup.device)
    new_network, *_ = load_network(best, setup.device)
    old = _odds(feed, old_network)
    new = _odds(feed, new_network)

    chances = [before.chance(odds) for odds in old[numbers].tolist()]
    scale, shift = fit_decision(new[numbers], chances)
    # A scale below 0 would turn every decision round.
    if scale > 0:
        decision = Decision(scale, shift, before.threshold)
        update(best, no_answer=dataclasses.asdict(decision))


def _odds(feed: ReadFeed, network: Network) -> NDArray[np.float64]:
    """The log-odds of no answer of every question."""
    odds = np.zeros(len(feed.encoded))
    for index, pointers in feed.pointers(network):
        own = required(pointers.no_answer, "log-odds")
        odds[index] = own.double().cpu().numpy()
    return odds
