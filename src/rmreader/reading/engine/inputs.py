"""Words to input vectors, without torch: what the network is told about a word that does not depend on where it
is, is computed once and kept, the character BiLSTM's states above all."""

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.core.recipe import Inputs
from rmreader.readers.weights import Weights
from rmreader.reading.engine import native
from rmreader.reading.engine.graph import Layers
from rmreader.reading.engine.onnxfile import Graph
from rmreader.reading.engine.runtime import ort
from rmreader.text.lexicon import Lexicon

CAPACITY = 16_384  # words kept (28 MB at 421 numbers per word); when they are more, all are forgotten

Floats = NDArray[np.float32]


class WordInputs:
    """The table of recent words: [vector; character states; exact match], the last one filled in at their places."""

    def __init__(self, lexicon: Lexicon, weights: Weights, inputs: Inputs, capacity: int = CAPACITY) -> None:
        self.lexicon, self.inputs, self.capacity = lexicon, inputs, capacity
        self._trained = weights.get("encoder.words.weight")
        self._characters = session(character_graph(weights)) if inputs.characters else None
        self._known = lexicon.dim + (2 * inputs.character_size if inputs.characters else 0)
        self._lock = Lock()
        self._forget(0)

    def __call__(self, question: Sequence[str], context: Sequence[str]) -> tuple[Floats, Floats]:
        """Input vectors of both texts, [n, width] and [m, width]."""
        n = len(question)
        with self._lock:
            index = self._find([*question, *context])
            x, keys = self._table.take(index, axis=0), self._keys.take(index)
        if self.inputs.exact_match:
            same = keys[:n, None] == keys[n:]
            x[:n, -1], x[n:, -1] = same.any(axis=1), same.any(axis=0)
        return x[:n], x[n:]

    def _forget(self, wanted: int) -> None:
        """Begin anew, with room for so many words or more; what is not yet used of it takes no memory."""
        self._rows: dict[str, int] = {}
        self._keys_by_word: dict[str, int] = {}
        self._keys = np.empty(max(self.capacity, wanted), np.int32)
        self._table = np.empty((len(self._keys), self._known + self.inputs.exact_match), np.float32)

    def _find(self, words: list[str]) -> NDArray[np.int64]:
        """The words' rows; those that have none yet get one."""
        rows: list[Any] = list(map(self._rows.get, words))
        if None in rows:
            new = list(dict.fromkeys(word for word, row in zip(words, rows, strict=True) if row is None))
            if len(self._rows) + len(new) > len(self._table):
                new = list(dict.fromkeys(words))
                self._forget(len(new))
            self._learn(new)
            rows = [self._rows[word] for word in words]
        return np.fromiter(rows, np.int64, len(rows))

    def _learn(self, words: list[str]) -> None:
        begin, end = len(self._rows), len(self._rows) + len(words)
        found = self.lexicon.look_up(words)
        dim = self.lexicon.dim
        self._table[begin:end, :dim] = found.vectors[1:]
        if self._trained is not None:
            self._table[begin:end, :dim] += self._trained[found.trainable[1:]]
        if self._characters is not None:
            feeds = {"characters": found.characters[1:], "lengths": found.lengths[1:]}
            self._table[begin:end, dim : self._known] = self._characters.run(None, feeds)[0]
        by_word = self._keys_by_word
        self._keys[begin:end] = [by_word.setdefault(word.casefold(), len(by_word)) for word in words]
        self._rows.update(zip(words, range(begin, end), strict=True))


def character_graph(weights: Weights) -> bytes:
    """Words as characters [W, c] and lengths [W] -> the two last states of the character BiLSTM [W, 2·size]."""
    g = Graph()
    characters, lengths = g.input("characters", "int32", ("W", "c")), g.input("lengths", "int32", ("W",))
    states = character_states(Layers(g, weights, int8=False), characters, lengths)
    g.output("states", states, ("W", "s"))
    return g.to_bytes()


def character_states(layers: Layers, characters: str, lengths: str) -> str:
    """The same as part of a larger graph."""
    letters = layers.g.op("Gather", layers.w["encoder.characters.embedding.weight"], characters)
    _, last = layers.lstm("encoder.characters.lstm", layers.g.op("Transpose", letters, perm=[1, 0, 2]), lengths)
    states = layers.g.op("Transpose", last, perm=[1, 0, 2])  # from [2, W, size]
    return layers.g.op("Reshape", states, np.array([0, -1]))


def session(model: bytes, threads: int = 1) -> ort.InferenceSession:
    """A session on the CPU, silent. While it runs its threads wait spinning, because a product is over before a sleeper
    is awake; when it is done they sleep, instead of burning a core for 20 ms more."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.force_spinning_stop", "1")
    native.register(options)
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
