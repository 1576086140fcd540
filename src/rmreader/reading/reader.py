"""The Reader: a question and a passage of any length in, answers with places, confidence and
sentence out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rmreader.core.checks import check_count, check_question, check_share, check_text
from rmreader.core.console import progress
from rmreader.core.errors import UserError
from rmreader.data.squad import Dataset
from rmreader.readers.folder import SHIPPED, Folder, open_folder, reader_names
from rmreader.reading.answers import Answers
from rmreader.reading.decision import Decision
from rmreader.reading.engine.engines import Engine, make_engine
from rmreader.reading.explanation import Attention, Explanation
from rmreader.reading.question import PendingQuestion, read_all
from rmreader.reading.rows import QuestionRow, row_of_pair, rows_of
from rmreader.scoring.attention import attention

# Tokens in an answer: the smallest window is four times as long; its cost grows with the square.
MOST_LENGTH = 500


class Reader:
    """A trained reader.

    >>> reader = Reader.load("small")
    >>> reader.ask("Who wrote it?", "The letter was written by Ada Lovelace.")[0].text
    'Ada Lovelace'
    """

    loaded: tuple[Any, ...] | None = None
    """What loads it again, in another process too: names and options."""

    def __init__(
        self,
        folder: Folder,
        engine: Engine,
        window: int | None = None,
        max_length: int | None = None,
    ) -> None:
        self.folder = folder
        self.engine = engine
        self.window = window or folder.recipe.training.max_context
        self.max_length = max_length or folder.recipe.decoding.max_length
        self.temperature = folder.temperature
        self.decision = Decision.of(folder)

    @classmethod
    def load(
        cls,
        name_or_path: str | Path = "small",
        *,
        engine: Literal["onnx", "torch"] | None = None,
        precision: Literal["float", "int8"] | None = None,
        threads: int | None = None,
        window: int | None = None,
        max_length: int | None = None,
    ) -> Reader:
        """Load a shipped reader by name, or any by its folder; several with commas between them as
        an ensemble.

        A reader may also be an archive of its folder (``.zip``, ``.tar.gz``), the https address
        of one, or ``hf://ORGANISATION/NAME``, with ``@REVISION`` if need be, on the Hugging Face
        hub. It is kept in the cache and compared with its checksums.

        Left alone, ``engine`` and ``precision`` are what the reader was made for, ``threads`` the
        processors there are, ``window`` (passages of more tokens are read in overlapping portions)
        what it was trained on at most (``training.max_context``), and ``max_length``, of an answer
        in tokens, its recipe's (``decoding.max_length``).

        >>> Reader.load("small", max_length=30).max_length
        30
        """
        names = reader_names(name_or_path)
        _one_of("engine", engine, ("onnx", "torch"))
        _one_of("precision", precision, ("float", "int8"))
        for name, number in (("threads", threads), ("window", window), ("max_length", max_length)):
            if number is not None:
                check_count(name, number)
        if max_length is not None and max_length > MOST_LENGTH:
            raise UserError(f"max_length is at most {MOST_LENGTH} tokens, not {max_length:,}.")
        options: dict[str, Any] = {
            "engine": engine,
            "precision": precision,
            "threads": threads,
            "window": window,
            "max_length": max_length,
        }
        if len(names) > 1:
            from rmreader.reading.ensemble import Ensemble

            return Ensemble.of(names, **options)
        folder = open_folder(names[0])
        running = make_engine(folder, engine, precision, threads)
        reader = cls(folder, running, window, max_length)
        shipped = folder.path.resolve().parent == SHIPPED  # which another machine has elsewhere
        reader.loaded = (folder.path.name if shipped else folder.path.resolve(), options)
        return reader

    def __repr__(self) -> str:
        decides = "" if self.decision is None else ", can say that there is no answer"
        kind = type(self).__name__
        return (
            f"<{kind} {self.folder.path.name}: answers of up to {self.max_length} tokens{decides}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as the name or folder it was loaded from, with the options: its weights never
        travel."""
        if self.loaded is None:
            raise TypeError("only a reader that Reader.load or Ensemble.of gave can be pickled.")
        source, options = self.loaded
        one = isinstance(source, str | Path)
        load = self.load if one else self.of  # type: ignore[attr-defined]
        return partial(load, source, **options), ()

    def ask(
        self,
        question: str,
        passage: str,
        *,
        top: int = 1,
        min_confidence: float = 0.0,
        always: bool = False,
        breaks: Sequence[int] = (),
    ) -> Answers:
        """The ``top`` best answers, best first; those less sure than ``min_confidence`` are left
        out.

        They are different answers, none part of another, and fewer where the passage has no more.
        An empty sequence says that there is no answer: the passage does not say, by the reader's
        own decision (``always`` switches it off and takes an answer for granted), or none is sure
        enough, or there is no word to read. Its ``no_answer`` is the chance of the first, its
        ``guess`` the best answer all the same. No answer reaches across a blank line, a tab, or the
        end of a line before an item or a field. ``breaks`` has no effect any more. A question
        without a word is a ``UserError``.

        >>> answers = Reader.load().ask("Who wrote it?", "Ada Lovelace wrote the letter.")
        >>> answers.best.text, answers.best.start, answers.best.end
        ('Ada Lovelace', 0, 12)
        """
        _check(top, min_confidence)
        check_question(question)
        check_text("passage", passage)
        if len(breaks):
            warnings.warn(
                "breaks has no effect: put a blank line between texts.",
                DeprecationWarning,
                stacklevel=2,
            )
        row = QuestionRow("", question, passage)
        return self._read(self._question(row)).answers(top, min_confidence, always)

    def ask_many(
        self,
        pairs: Iterable[tuple[str, str] | Mapping[str, str]],
        *,
        top: int = 1,
        min_confidence: float = 0.0,
        always: bool = False,
        batch_size: int = 32,
    ) -> Iterator[Answers]:
        """``ask`` for each (question, passage), in order, several at a time; reads only a little
        ahead of its pairs.

        A pair may be a mapping too, with the keys ``question`` and ``passage`` or ``context``. One
        whose question is empty has no answer, so that it does not end the reading of the others.

        >>> pairs = [("Who wrote it?", "Ada wrote the letter."), ("Who paid?", "Ben paid it.")]
        >>> [answers.best.text for answers in Reader.load().ask_many(pairs, always=True)]
        ['Ada', 'Ben']
        """
        _check(top, min_confidence, batch_size)
        questions = (self._question(row_of_pair(pair)) for pair in pairs)
        read = read_all(self.engine, questions, batch_size)
        return (question.answers(top, min_confidence, always) for question in read)

    def ask_in_parts(
        self, question: str, passage: str, *, top: int = 1, always: bool = False, portions: int = 8
    ) -> Iterator[Answers | None]:
        """``ask``, so many portions at a time: None after each part but the last, so that it can be
        left in between.

        >>> for answers in Reader.load().ask_in_parts("Who wrote it?", "Ada wrote the letter."):
        ...     print("not yet" if answers is None else answers.best.text)
        Ada
        """
        check_count("top", top)
        check_count("portions", portions)
        check_question(question)
        check_text("passage", passage)
        reading = self._question(QuestionRow("", question, passage))
        while not reading.complete:
            pairs = islice(reading.pairs(), portions)
            for logits in self.engine.read_many(pairs, portions):
                reading.add(logits)
            if not reading.complete:
                yield None
        yield reading.answers(top, always=always)

    def predict(
        self,
        dataset: Dataset | Iterable[QuestionRow],
        *,
        top: int = 1,
        min_confidence: float = 0.0,
        always: bool = False,
        batch_size: int = 32,
        total: int | None = None,
    ) -> Iterator[tuple[QuestionRow, Answers]]:
        """Every question of a data set with its answers, in order, as ``ask`` gives them; ``total``
        as in ``read``.

        >>> from rmreader.data.examples import read_data
        >>> rows = list(Reader.load().predict(read_data("examples/mine.csv"), always=True))
        >>> len(rows), rows[0][0].question
        (40, 'Which part number does the bracket have?')
        """
        _check(top, min_confidence, batch_size)
        read = self.read(dataset, batch_size, total)
        return ((question.row, question.answers(top, min_confidence, always)) for question in read)

    def read(
        self,
        dataset: Dataset | Iterable[QuestionRow],
        batch_size: int = 32,
        total: int | None = None,
    ) -> Iterator[PendingQuestion]:
        """Every question of a data set with all that is known once it was read, in order.

        A terminal shows how far it is; ``total`` says of how many where the data set itself does
        not.

        >>> from rmreader.data.examples import read_data
        >>> first = next(Reader.load().read(read_data("examples/mine.csv")))
        >>> len(first.answers(top=3, always=True)) > 1
        True
        """
        rows = rows_of(dataset) if isinstance(dataset, Dataset) else dataset
        total = len(rows) if isinstance(rows, list) else total
        with progress("reading", total=total, unit="questions") as advance:
            for question in read_all(self.engine, map(self._question, rows), batch_size):
                advance(1)
                yield question

    def explain(self, question: str, passage: str) -> Explanation:
        """E and B of every round as the attentions they give, by token.

        >>> why = Reader.load().explain("Who wrote it?", "Ada wrote the letter.")
        >>> why.question.words, len(why.rounds)
        (['Who', 'wrote', 'it', '?'], 3)
        """
        check_question(question)
        check_text("passage", passage)
        reading = self._question(QuestionRow("", question, passage))
        if len(reading.portions) > 1:
            self._read(reading)
        if not reading.portions:
            return Explanation(reading.question_tokens, reading.passage_tokens, [])
        last = reading.portions[0]
        own = reading.own(last)
        rounds = []
        for E, B in self.engine.attend(reading.pair(last)):
            E = E[:, own]
            B = B[np.ix_(own, own)]
            rounds.append(
                Attention(
                    interactive=np.asarray(attention(E), np.float32),
                    self=np.asarray(attention(B), np.float32),
                    context=np.asarray(attention(E, 1), np.float32),
                )
            )
        return Explanation(reading.question_tokens, reading.part(last), rounds)

    def _question(self, row: QuestionRow) -> PendingQuestion:
        return PendingQuestion(row, self.max_length, self.window, self.temperature, self.decision)

    def _read(self, question: PendingQuestion) -> PendingQuestion:
        """Read one question: alone as fast as can be, its portions side by side."""
        return next(read_all(self.engine, [question], 32))


def _check(top: int, min_confidence: float, batch_size: int = 1) -> None:
    check_count("top", top)
    check_count("batch_size", batch_size)
    check_share("min_confidence", min_confidence)


def _one_of(name: str, value: str | None, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        raise UserError(f"{name} is {' or '.join(map(repr, known))}, not {value!r}.")
