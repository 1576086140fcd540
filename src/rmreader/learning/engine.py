"""Reading in torch: for readers with a contextual encoder that is not BERT's, and while a run is being trained."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rmreader.data.encode import encode_pairs
from rmreader.learning.feed import Feed
from rmreader.learning.readerfolder import load_network
from rmreader.learning.text_inputs import TextInputs
from rmreader.model.network import Pointers
from rmreader.readers.folder import Folder
from rmreader.reading.running.engines import Logits, Pair, Rounds

Floats = NDArray[np.float32]
_AHEAD = 8  # batches that are sorted by length before they are read


class TorchEngine:
    """The network itself, on batches of questions of about the same length."""

    def __init__(self, folder: Folder, device: str | None = None) -> None:
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.network, self.lexicon, recipe = load_network(folder, self.device)
        self.text_inputs = TextInputs(recipe.inputs, self.device, reader=folder.path)

    def read(self, pair: Pair) -> Logits:
        """Read one question."""
        return self._run([pair])[0]

    def read_many(self, pairs: Iterable[Pair], batch_size: int) -> Iterator[Logits]:
        """Read many, sorted by length a few batches at a time."""
        pairs = iter(pairs)
        while ahead := list(islice(pairs, _AHEAD * batch_size)):
            order = sorted(range(len(ahead)), key=lambda k: len(ahead[k].context_words))
            found: dict[int, Logits] = {}
            for begin in range(0, len(order), batch_size):
                chosen = order[begin : begin + batch_size]
                found.update(zip(chosen, self._run([ahead[k] for k in chosen]), strict=True))
            for k in range(len(ahead)):
                yield found.pop(k)

    def attend(self, pair: Pair) -> Rounds:
        """The attentions of one question."""
        return self.attend_many([pair])[0]

    def attend_many(self, pairs: Sequence[Pair]) -> list[Rounds]:
        """The attentions of several questions, read as one batch, each without its padding."""
        made = self._forward(pairs, keep_attention=True)[0].rounds
        both = [[X.float().cpu().numpy() for X in (one.E, one.B)] for one in made]
        sizes = [(len(pair.question_words), len(pair.context_words)) for pair in pairs]
        return [[(E[k, :n, :m], B[k, :m, :m]) for E, B in both] for k, (n, m) in enumerate(sizes)]

    def _run(self, pairs: Sequence[Pair]) -> list[Logits]:
        pointers, logits = self._forward(pairs)
        start, end = (part.float().cpu().numpy() for part in logits)
        odds = None if pointers.no_answer is None else pointers.no_answer.double().cpu().numpy()
        return [_scores(k, len(pair.context_words), start, end, odds) for k, pair in enumerate(pairs)]

    def _forward(self, pairs: Sequence[Pair], keep_attention: bool = False) -> tuple[Pointers, list[Tensor]]:
        """The network's pointers, and the logits behind them, which windows are compared by."""
        encoded = encode_pairs([(pair.question, pair.context) for pair in pairs])
        feed = Feed(encoded, self.lexicon, self.device, text_inputs=self.text_inputs, keep=False)
        logits: list[Tensor] = []
        scorers = (self.network.pointer.start, self.network.pointer.end)
        hooks = [scorer.register_forward_hook(lambda *given: logits.append(given[2])) for scorer in scorers]
        try:
            with torch.inference_mode():
                ((_, batch),) = feed.batches([np.arange(len(pairs))])
                return self.network(feed.fill(batch), keep_attention=keep_attention), logits
        finally:
            for hook in hooks:
                hook.remove()


def _scores(k: int, m: int, start: Floats, end: Floats, odds: NDArray[np.float64] | None) -> Logits:
    """What one question of a batch was told; its log-odds of no answer as a logit again."""
    own = start[k, :m], end[k, :m]
    none = None if odds is None else np.array([odds[k] + sum(np.logaddexp.reduce(x, dtype=float) for x in own)], "f4")
    return Logits(*own, none)
