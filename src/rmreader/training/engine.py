"""Reading in torch: for readers with a contextual encoder that is not BERT's, while a run is being trained, and for the
attentions of many questions."""

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
            found: dict[int, Logits] = {}
            for index, pointers, logits in self._forward(ahead, batch_size):
                start, end = (part.float().cpu().numpy() for part in logits)
                odds = None if pointers.no_answer is None else pointers.no_answer.double().cpu().numpy()
                for row, k in enumerate(index.tolist()):
                    found[k] = _scores(row, len(ahead[k].context_words), start, end, odds)
            for k in range(len(ahead)):
                yield found.pop(k)

    def attend(self, pair: EncoderInput) -> Rounds:
        """The attentions of one question."""
        return next(self.attend_many([pair], 1))

    def attend_many(self, pairs: Iterable[EncoderInput], batch_size: int) -> Iterator[Rounds]:
        """The attentions of questions that come sorted by their passages' lengths, each without its padding."""
        pairs = iter(pairs)
        while ahead := list(islice(pairs, _AHEAD * batch_size)):
            for index, pointers, _ in self._forward(ahead, batch_size, keep_attention=True):
                both = [[X.float().cpu().numpy() for X in (one.E, one.B)] for one in pointers.rounds]
                for row, pair in enumerate(ahead[k] for k in index.tolist()):
                    n, m = len(pair.question_words), len(pair.context_words)
                    yield [(E[row, :n, :m], B[row, :m, :m]) for E, B in both]

    def _forward(
        self, pairs: Sequence[EncoderInput], batch_size: int, keep_attention: bool = False
    ) -> Iterator[tuple[NDArray[np.intp], Pointers, list[Tensor]]]:
        """By batch: which questions, the pointers, and the logits behind them, which windows are compared by."""
        encoded = encode_pairs([(pair.question, pair.context) for pair in pairs])
        feed = Feed(encoded, self.lexicon, self.device, text_inputs=self.text_inputs, keep=False)
        scorers = (self.network.pointer.start, self.network.pointer.end)
        for index, batch in feed.batches(in_order(encoded, batch_size)):
            logits: list[Tensor] = []
            hooks = [one.register_forward_hook(lambda *given, keep=logits.append: keep(given[2])) for one in scorers]
            try:
                with torch.inference_mode():
                    pointers = self.network(feed.fill(batch), keep_attention=keep_attention)
            finally:
                for hook in hooks:
                    hook.remove()
            yield index, pointers, logits


def _scores(k: int, m: int, start: Floats, end: Floats, odds: NDArray[np.float64] | None) -> Logits:
    """What one question of a batch was told; its log-odds of no answer as a logit again."""
    own = start[k, :m], end[k, :m]
    none = None if odds is None else np.array([odds[k] + sum(np.logaddexp.reduce(x, dtype=float) for x in own)], "f4")
    return Logits(*own, none)
