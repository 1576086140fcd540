"""Words to input vectors, without torch.

What the network knows about a word wherever it is, above all its character BiLSTM's states, is
computed once and kept.
"""

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.core.recipe import Inputs
from rmreader.readers.weights import Weights
from rmreader.reading.engine import native
from rmreader.reading.engine.layers import Layers
from rmreader.reading.engine.onnxfile import Graph
from rmreader.reading.engine.runtime import ort
from rmreader.text.lexicon import Lexicon

CAPACITY = 16_384  # words kept (28 MB at 421 numbers per word); when they are more, all are dropped

Floats = NDArray[np.float32]


class WordInputs:
    """The table of recent words: [vector; character states; exact match], the last one filled in
    at their places."""

    def __init__(
        self,
        lexicon: Lexicon,
        weights: Weights,
        inputs: Inputs,
        capacity: int = CAPACITY,
    ) -> None:
        self.lexicon = lexicon
        self.inputs = inputs
        self.capacity = capacity
        self._trained = weights.get("encoder.words.weight")
        self._known = lexicon.dim  # width without the exact match
        self._characters: ort.InferenceSession | None = None
        if inputs.characters:
            self._characters = session(character_graph(weights))
            self._known += 2 * inputs.character_size

        self._lock = Lock()
        self._forget(0)

    def __call__(self, question: Sequence[str], context: Sequence[str]) -> tuple[Floats, Floats]:
        """Input vectors of both texts, [n, width] and [m, width]."""
        n = len(question)
        with self._lock:
            rows = self._find([*question, *context])
            x = self._table.take(rows, axis=0)
            keys = self._keys.take(rows)

        # Exact match: words that are equal but for their case have the same key.
        if self.inputs.exact_match:
            same = keys[:n, None] == keys[n:]
            x[:n, -1] = same.any(axis=1)
            x[n:, -1] = same.any(axis=0)

        return x[:n], x[n:]

    def _forget(self, wanted: int) -> None:
        """Begin anew, with room for so many words or more; unused room takes no memory."""
        self._rows: dict[str, int] = {}
        self._keys_by_word: dict[str, int] = {}
        capacity = max(self.capacity, wanted)
        width = self._known + self.inputs.exact_match
        self._keys = np.empty(capacity, np.int32)
        self._table = np.empty((capacity, width), np.float32)

    def _find(self, words: list[str]) -> NDArray[np.int64]:
        """The words' rows; those that have none yet get one."""
        rows: list[Any] = list(map(self._rows.get, words))
        if None in rows:
            missing = [word for word in words if word not in self._rows]
            new = list(dict.fromkeys(missing))
            if len(self._rows) + len(new) > len(self._table):
                new = list(dict.fromkeys(words))
                self._forget(len(new))

            self._learn(new)
            rows = [self._rows[word] for word in words]

        return np.fromiter(rows, np.int64, len(rows))

    def _learn(self, words: list[str]) -> None:
        """Give these new words rows in the table."""
        begin = len(self._rows)
        end = begin + len(words)
        dim = self.lexicon.dim

        # Row 0 of what the lexicon gives is padding.
        known = self.lexicon.look_up(words)
        self._table[begin:end, :dim] = known.vectors[1:]
        if self._trained is not None:
            self._table[begin:end, :dim] += self._trained[known.trainable[1:]]

        if self._characters is not None:
            feeds = {"characters": known.characters[1:], "lengths": known.lengths[1:]}
            self._table[begin:end, dim : self._known] = self._characters.run(None, feeds)[0]

        for row, word in enumerate(words, start=begin):
            folded = word.casefold()
            self._keys[row] = self._keys_by_word.setdefault(folded, len(self._keys_by_word))
            self._rows[word] = row


def character_graph(weights: Weights) -> bytes:
    """Words as characters [W, c] and lengths [W] -> the two last states of the character BiLSTM
    [W, 2·size]."""
    g = Graph()
    layers = Layers(g, weights)
    characters = g.input("characters", "int32", ("W", "c"))
    lengths = g.input("lengths", "int32", ("W",))

    # An LSTM wants its steps first: [c, W, size].
    letters = g.op("Gather", weights["encoder.characters.embedding.weight"], characters)
    by_step = g.transpose(letters, 1, 0, 2)
    _, last = layers.lstm("encoder.characters.lstm", by_step, lengths)

    # From [2, W, size], one for each direction, to [W, 2·size].
    by_word = g.transpose(last, 1, 0, 2)
    states = g.op("Reshape", by_word, np.array([0, -1]))
    g.output("states", states, ("W", "s"))

    return g.to_bytes()


def session(model: bytes, threads: int = 1) -> ort.InferenceSession:
    """A session on the CPU, silent.

    While it runs its threads wait spinning, because a product is over before a sleeper is awake;
    when it is done they sleep, instead of burning a core for 20 ms more.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.force_spinning_stop", "1")
    native.register(options)

    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
