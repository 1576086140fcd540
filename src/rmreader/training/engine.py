"""Reading in torch.

For readers with a contextual encoder that is not BERT's, to compare the engine without torch with,
and for the attentions of many questions.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray

from rmreader.data.encode import encode_pairs
from rmreader.model.network import Pointers
from rmreader.readers.folder import Folder
from rmreader.reading.engine.engines import EncoderInput, Logits, Rounds
from rmreader.training.contextual import TextInputs
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
        self.text_inputs = TextInputs(recipe.inputs, self.device, reader=folder.path)

    def read(self, pair: EncoderInput) -> Logits:
        """Read one question."""
        return next(self.read_many([pair], 1))

    def read_many(self, pairs: Iterable[EncoderInput], batch_size: int) -> Iterator[Logits]:
        """Read many, sorted by length a few batches at a time."""
        pairs = iter(pairs)
        while ahead := list(islice(pairs, _AHEAD * batch_size)):
            read: dict[int, Logits] = {}
            for index, pointers in self._forward(ahead, batch_size):
                start = pointers.start.float().cpu().numpy()
                end = pointers.end.float().cpu().numpy()
                none = None if pointers.none is None else pointers.none.float().cpu().numpy()
                for row, k in enumerate(index.tolist()):
                    m = len(ahead[k].context_words)
                    own = None if none is None else none[row : row + 1]
                    read[k] = Logits(start[row, :m], end[row, :m], own)

            for k in range(len(ahead)):
                yield read.pop(k)

    def attend(self, pair: EncoderInput) -> Rounds:
        """The attentions of one question."""
        return next(self.attend_many([pair], 1))

    def attend_many(self, pairs: Iterable[EncoderInput], batch_size: int) -> Iterator[Rounds]:
        """The attentions of questions that come sorted by their passages' lengths, each without its
        padding."""
        pairs = iter(pairs)
        while ahead := list(islice(pairs, _AHEAD * batch_size)):
            for index, pointers in self._forward(ahead, batch_size, keep_attention=True):
                rounds = []
                for one in pointers.rounds:
                    rounds.append((one.E.float().cpu().numpy(), one.B.float().cpu().numpy()))

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
        feed = Feed(encoded, self.lexicon, self.device, text_inputs=self.text_inputs, keep=False)
        for index, batch in feed.batches(in_order(encoded, batch_size)):
            with torch.inference_mode():
                pointers = self.network(feed.fill(batch), keep_attention=keep_attention)

            yield index, pointers
