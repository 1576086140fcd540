"""What runs the network: ONNX Runtime, without torch; or torch, plugged in where it is needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import chain, islice
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from rmreader.core.cores import MOST_THREADS, cores
from rmreader.core.errors import UserError, user_error_on
from rmreader.readers.folder import Folder

if TYPE_CHECKING:
    from rmreader.reading.engine.contextual import ContextualColumns
    from rmreader.reading.engine.inputs import WordInputs
    from rmreader.reading.engine.runtime import ort


@dataclass(frozen=True)
class EncoderInput:
    """A question and a passage (or a window of one), at least one token each."""

    question: str
    context: str
    question_words: Sequence[str]
    context_words: Sequence[str]


@dataclass(frozen=True)
class Logits:
    """Logits of where the answer starts and ends, [m] each."""

    start: NDArray[np.float32]
    end: NDArray[np.float32]
    none: NDArray[np.float32] | None = None
    """[1]: of there being no answer, on the scale of a start's plus an end's."""


Vectors = tuple[NDArray[np.float32], NDArray[np.float32]]  # of a question and a passage
# E [n, m] and B [m, m] of each round, unnormalised
Rounds = list[tuple[NDArray[np.float32], NDArray[np.float32]]]


class Engine(Protocol):
    """What a Reader asks of the thing that runs its network."""

    def read(self, pair: EncoderInput) -> Logits:
        """Read one question, as fast as can be."""

    def read_many(self, pairs: Iterable[EncoderInput], batch_size: int) -> Iterator[Logits]:
        """Read many, in order, never far ahead of what was asked for."""

    def attend(self, pair: EncoderInput) -> Rounds:
        """The attentions of one question."""


class Pace:
    """Chooses one or two threads by recent latency.

    A second thread gains a fifth on an idle machine and costs half as much again on a busy one. So
    mostly the faster way is taken, and now and then the other is tried, three times in a row: the
    first call after a change is often slow, and alone would say little. The answer is the same.
    """

    def __init__(self, retry: int = 64) -> None:
        self.retry = retry
        self._calls = 0
        self._costs: list[list[float]] = [[], []]  # the latest three of each way

    def choose(self) -> int:
        """0 or 1."""
        self._calls += 1
        for way, costs in enumerate(self._costs):
            if len(costs) < 3:
                return way
        faster = int(min(self._costs[1]) < min(self._costs[0]))
        return 1 - faster if self._calls % self.retry < 3 else faster

    def note(self, way: int, cost: float) -> None:
        """What a call cost."""
        self._costs[way] = [*self._costs[way][-2:], cost]


class OnnxEngine:
    """One question at a time in the graph of ``graph.py``; many of them side by side in threads."""

    def __init__(self, folder: Folder, precision: str, threads: int) -> None:
        self.folder = folder
        self.precision = precision
        self.threads = threads
        self._pace = Pace()
        from rmreader.reading.engine import native
        from rmreader.reading.engine.graph import reader_graph
        from rmreader.reading.engine.inputs import WordInputs, session

        weights = folder.weights()
        recipe = folder.recipe
        in_c = precision == "int8" and native.why_not() is None
        self.contextual: ContextualColumns | None = None
        misfit = KeyError, ValueError, TypeError, ArithmeticError
        remedy = "the weights do not fit recipe.yaml ({why}); restore the folder."
        with user_error_on(f"{folder.path}: {remedy}", *misfit):
            if recipe.inputs.tags or recipe.inputs.contextual:
                from rmreader.reading.engine.contextual import ContextualColumns

                # An encoder is mostly products: without a processor's own 8-bit ones ONNX Runtime
                # is several times as fast in float.
                products = in_c and native.best() > 0
                self.contextual = ContextualColumns(folder, weights, products)
            self.words: WordInputs = WordInputs(folder.lexicon, weights, recipe.inputs)
            model = reader_graph(weights, recipe.network, in_c=in_c)
            self._session = cache(partial(session, model))  # by the number of threads

    @cached_property
    def _explaining(self) -> ort.InferenceSession:
        from rmreader.reading.engine.graph import reader_graph
        from rmreader.reading.engine.inputs import session

        network = self.folder.recipe.network
        return session(reader_graph(self.folder.weights(), network, attention=True))

    def read(self, pair: EncoderInput) -> Logits:
        """Read one question: a second thread takes half of the large products if faster."""
        threads = 1 + self._pace.choose() if self.threads > 1 else 1
        session = self._session(threads)
        began = perf_counter()
        known = self.words(pair.question_words, pair.context_words)
        scores = self._run(session, pair, known, threads)
        self._pace.note(threads - 1, (perf_counter() - began) / len(pair.context_words))
        return scores

    def read_many(self, pairs: Iterable[EncoderInput], batch_size: int) -> Iterator[Logits]:
        """Read many, a few ahead of what is asked for."""
        pairs = iter(pairs)
        first = list(islice(pairs, 2))
        if len(first) < 2 or self.threads == 1:
            yield from map(self.read, first)
            yield from map(self.read, pairs)
            return
        session = self._session(1)  # each has a thread to itself
        with ThreadPoolExecutor(self.threads, "reading") as pool:
            ahead: deque[Future[Logits]] = deque()
            try:
                for pair in chain(first, pairs):
                    # looked up here: in its own thread it would wait for the interpreter, and
                    # keep a processor waiting
                    known = self.words(pair.question_words, pair.context_words)
                    ahead.append(pool.submit(self._run, session, pair, known))
                    if len(ahead) > 4 * self.threads:
                        yield ahead.popleft().result()
                while ahead:
                    yield ahead.popleft().result()
            finally:
                for future in ahead:
                    future.cancel()

    def attend(self, pair: EncoderInput) -> Rounds:
        """The attentions of one question, in float whatever the precision."""
        known = self.words(pair.question_words, pair.context_words)
        outputs = self._explaining.run(None, self._inputs(pair, known))
        # after the logits of start, end and perhaps no answer come E and B of every round
        logits = 3 if self.folder.recipe.network.no_answer else 2
        rounds = outputs[logits:]
        return list(zip(rounds[::2], rounds[1::2], strict=True))

    def _run(
        self, session: ort.InferenceSession, pair: EncoderInput, known: Vectors, threads: int = 1
    ) -> Logits:
        return Logits(*session.run(None, self._inputs(pair, known, threads)))

    def _inputs(
        self, pair: EncoderInput, known: Vectors, threads: int = 1
    ) -> dict[str, NDArray[np.float32]]:
        if self.contextual is not None:
            texts = (pair.question_words, pair.context_words)
            known = self.contextual.join(texts, known, threads)
        return {"question": known[0], "context": known[1]}


def make_engine(
    folder: Folder,
    engine: str | None = None,
    precision: str | None = None,
    threads: int | None = None,
) -> Engine:
    """The engine a reader needs: ONNX Runtime, but torch for what that cannot run."""
    obstacle = None
    if folder.recipe.inputs.contextual:
        from rmreader.reading.engine.contextual import why_torch

        obstacle = why_torch(folder)
    if engine == "torch" or (engine is None and obstacle is not None):
        return torch_engine(folder, obstacle)
    if obstacle is not None:
        raise UserError(f"{folder.path}: a reader with {obstacle} runs in torch alone.")
    threads = threads or min(cores(), MOST_THREADS)
    return OnnxEngine(folder, precision or folder.precision, threads)


def torch_engine(folder: Folder, obstacle: str | None = None, device: str | None = None) -> Engine:
    """The engine called ``torch`` among the entry points ``rmreader.engines``: it belongs to a room
    after this one. ``obstacle`` says why no other will do."""
    from importlib.metadata import entry_points

    what = f"a reader with {obstacle}" if obstacle else "the engine 'torch'"
    none = ImportError, StopIteration  # no torch, or rmreader itself is not installed
    with user_error_on(f"{folder.path}: {what} needs torch; pip install 'rmreader[train]'.", *none):
        make = next(iter(entry_points(group="rmreader.engines", name="torch"))).load()
        engine: Engine = make(folder, device)
    return engine
