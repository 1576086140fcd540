"""Reading in torch.

For readers with a contextual encoder that is not BERT's, to compare the engine without torch with,
and for the attentions of many questions.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rmreader.data.encode import encode_pairs
from rmreader.model.network import Pointers
from rmreader.readers.folder import Folder
from rmreader.reading.engine.engines import EncoderInput, Logits, Rounds
from rmreader.training.contextual import ContextualInputs
from rmreader.training.evaluate import in_order
from rmreader.training.feed import Feed
from rmreader.training.reader_folder import load_network, pick_device

Floats = NDArray[np.float32]
_AHEAD = 8  # batches that are sorted by length before they are read


class TorchEngine:
    """The network itself, on batches of questions of about the same length."""

    def __init__(self, folder: Folder, device: str | None = None) -> None:
        self.device = pick_device(device)
        self.network, self.lexicon, recipe = load_network(folder, self.device)
        self.contextual = ContextualInputs(recipe.inputs, self.device, reader=folder.path)

    def read(self, pair: EncoderInput) -> Logits:
        """Read one question."""
        return next(self.read_many([pair], 1))

    def read_many(self, pairs: Iterable[EncoderInput], batch_size: int) -> Iterator[Logits]:
        """Read many, sorted by length a few batches at a time."""
        for ahead in _stretches(pairs, batch_size):
            logits: dict[int, Logits] = {}
            for index, pointers in self._forward(ahead, batch_size):
                start = _numpy(pointers.start)
                end = _numpy(pointers.end)
                none = None
                if pointers.none is not None:
                    none = _numpy(pointers.none)

                for row, k in enumerate(index.tolist()):
                    m = len(ahead[k].context_words)
                    own_none = None if none is None else none[row : row + 1]
                    logits[k] = Logits(start[row, :m], end[row, :m], own_none)

            # In the order in which they were asked for.
            for k in range(len(ahead)):
                yield logits.pop(k)

    def attend(self, pair: EncoderInput) -> Rounds:
        """The attentions of one question."""
        return next(self.attend_many([pair], 1))

    def attend_many(self, pairs: Iterable[EncoderInput], batch_size: int) -> Iterator[Rounds]:
        """The attentions of questions that come sorted by their passages' lengths, each without its
        padding."""
        for ahead in _stretches(pairs, batch_size):
            for index, pointers in self._forward(ahead, batch_size, keep_attention=True):
                rounds = []
                for attention in pointers.rounds:
                    E = _numpy(attention.E)
                    B = _numpy(attention.B)
                    rounds.append((E, B))

                for row, k in enumerate(index.tolist()):
                    n = len(ahead[k].question_words)
                    m = len(ahead[k].context_words)
                    yield [(E[row, :n, :m], B[row, :m, :m]) for E, B in rounds]

    def _forward(
        self,
        pairs: Sequence[EncoderInput],
        batch_size: int,
        keep_attention: bool = False,
    ) -> Iterator[tuple[NDArray[np.intp], Pointers]]:
        """By batch: which questions, and where their answers are."""
        encoded = encode_pairs([(pair.question, pair.context) for pair in pairs])
        feed = Feed(
            encoded,
            self.lexicon,
            self.device,
            contextual=self.contextual,
            keep=False,
        )
        for index, batch in feed.batches(in_order(encoded, batch_size)):
            with torch.inference_mode():
                pointers = self.network(feed.fill(batch), keep_attention=keep_attention)

            yield index, pointers


def _stretches(
    pairs: Iterable[EncoderInput],
    batch_size: int,
) -> Iterator[list[EncoderInput]]:
    """Some batches at a time: what is sorted by length together."""
    remaining = iter(pairs)
    while ahead := list(islice(remaining, _AHEAD * batch_size)):
        yield ahead


def _numpy(tensor: Tensor) -> Floats:
    return np.asarray(tensor.float().cpu().numpy())
