"""Batches for the device: made ahead by a thread, copied without waiting, their words looked up in
the step itself."""

import dataclasses
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rmreader.data.batch import Batch, WordRows
from rmreader.data.batches import Padding, assemble_rows, list_letters, look_up
from rmreader.data.encoded import Encoded
from rmreader.text.lexicon import Lexicon
from rmreader.text.words import Words
from rmreader.training.contextual import Attachment, ContextualInputs

Attach = Callable[
    [Batch[Any], NDArray[Any]], Batch[Any]
]  # puts more beside a batch of these questions
_AHEAD = 4  # batches in the making


class Feed:
    """A data set on a device. The table of its vocabulary is there once; batches carry rows of
    it."""

    def __init__(
        self,
        encoded: Encoded,
        lexicon: Lexicon,
        device: torch.device,
        pad: Padding | None = None,
        max_context: int | None = None,
        contextual: ContextualInputs | None = None,
        keep: bool = True,
        teacher: Attach | None = None,
    ) -> None:
        """``keep``: tags and contextual vectors that are computed for these data go to disk."""
        self.encoded = encoded
        self.device = device
        self.pad = pad
        self.max_context = max_context
        self.teacher = teacher
        self._more: Attachment | None = None
        if contextual is not None:
            self._more = contextual.of(encoded, keep, repeat_shapes=pad is not None)

        table = lexicon.look_up(encoded.vocabulary)
        self._table: Words[Tensor] = table.map(self._to_device)
        self._lengths = table.lengths  # decide how wide a batch's characters are

    def _to_device(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def lengths(self, max_context: int) -> NDArray[np.int64]:
        """How much is read of each question: a batch is best made of questions that are alike in
        it. Pieces where an encoder is tuned, else words of the passage."""
        pieces = None if self._more is None else self._more.lengths(max_context)
        if pieces is not None:
            return pieces
        return np.minimum(self.encoded.context_lengths, max_context).astype(np.int64)

    def batches(
        self, indices: Iterable[NDArray[Any]]
    ) -> Generator[tuple[NDArray[Any], Batch[Tensor]]]:
        """Each of the given lists of questions with its batch, which ``fill`` completes."""
        with ThreadPoolExecutor(1, "batches") as pool:
            waiting: deque[tuple[NDArray[Any], Future[Batch[Tensor]]]] = deque()
            try:
                for index in indices:
                    waiting.append((index, pool.submit(self._make, index)))
                    if len(waiting) > _AHEAD:
                        yield self._ready(*waiting.popleft())

                while waiting:
                    yield self._ready(*waiting.popleft())
            finally:
                pool.shutdown(cancel_futures=True)

    def fill(self, batch: Batch[Tensor]) -> Batch[Tensor]:
        """The batch with all that it has by rows looked up; part of the step, so that it is
        captured with it."""
        batch = look_up(batch, self._table)
        return batch if self._more is None else self._more.fill(batch)

    def _make(self, index: NDArray[Any]) -> Batch[Tensor]:
        batch = assemble_rows(self.encoded, self._lengths, index, self.pad, self.max_context)
        if self._more is not None:
            batch = self._more.attach(batch)

        if self.pad is not None and isinstance(batch.words, WordRows):
            letters = list_letters(self._lengths[batch.words.rows])
            batch = dataclasses.replace(batch, letters=letters)

        if self.teacher is not None:
            batch = self.teacher(batch, index)

        made: Batch[Tensor] = batch.map(torch.from_numpy)
        if self.device.type == "cuda":  # pinned memory is copied without waiting
            made = made.map(torch.Tensor.pin_memory)

        return made

    def _ready(
        self,
        index: NDArray[Any],
        made: Future[Batch[Tensor]],
    ) -> tuple[NDArray[Any], Batch[Tensor]]:
        batch = made.result().map(lambda tensor: tensor.to(self.device, non_blocking=True))
        return index, batch
