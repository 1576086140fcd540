"""The shelf: ask folders of documents, not one passage."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from rmreader.core.errors import UserError
from rmreader.documents.citations import Citation, Citations
from rmreader.documents.index import Index, Passage
from rmreader.documents.indexing import Added, add
from rmreader.documents.passages import Passages
from rmreader.documents.rank import choose
from rmreader.documents.sqlite_index import SqliteIndex
from rmreader.reading.answers import Answer
from rmreader.reading.explanation import Explanation
from rmreader.reading.reader import Reader

READ = 10  # passages of a search that are read
JOINED = 5  # of them, where they are read as one text
_COPIES = 3  # of a document that a search can leave out and still find enough


class Shelf:
    """Documents that can be asked: an index, and a reader for what a search finds in it.

    >>> shelf = Shelf.open("docs.rmindex")  # doctest: +SKIP
    >>> shelf.add("docs")  # doctest: +SKIP
    >>> shelf.ask("Who wrote it?")[0].file  # doctest: +SKIP
    'letters/1843.txt'
    """

    def __init__(self, index: Index, reader: str | Path | Reader = "small", place: str | Path = "") -> None:
        self.index, self.place, self._reader = index, place, reader

    @classmethod
    def open(cls, place: str | PathLike[str], reader: str | Path | Reader = "small") -> Shelf:
        """The index in a file, or at an address of OpenSearch, which the first ``add`` makes.

        ``reader`` is a name, a folder, or one that is loaded.
        """
        if str(place).startswith(("http://", "https://")):
            from rmreader.documents.opensearch import OpenSearchIndex

            return cls(OpenSearchIndex(str(place)), reader, str(place))
        return cls(SqliteIndex(Path(place)), reader, Path(place))

    @property
    def reader(self) -> Reader:
        """What reads; loaded when it is first needed."""
        if not isinstance(self._reader, Reader):
            self._reader = Reader.load(self._reader)
        return self._reader

    def add(self, *folders: str | PathLike[str], workers: int | None = None) -> Added:
        """Take in folders (or files) as they are now: what is new or changed is read, what is gone is left out."""
        return add(self.index, [Path(folder) for folder in folders], workers=workers, apart=Path(self.place))

    def search(self, question: str, count: int = 10) -> list[Passage]:
        """The passages that fit a question best, best first; of those with the same text, as in copies of a document,
        one, since two would halve the chance of either."""
        different = dict[str, Passage]()
        for passage in self.index.search(question, _COPIES * count):
            different.setdefault(passage.text, passage)
        return list(different.values())[:count]

    def ask(
        self, question: str, *, top: int = 3, min_confidence: float = 0.0, always: bool = False, read: int = READ
    ) -> Citations:
        """The ``top`` best answers, different ones, each with its place; none where the documents do not say.

        ``read`` passages of the search are read. ``always`` takes it for granted that there is an answer, and gives it.
        """
        if top < 1 or read < 1:
            raise UserError("top and read are at least 1.")
        if not 0 <= min_confidence <= 1:
            raise UserError(f"min_confidence is between 0 and 1, not {min_confidence}.")
        passages = self.search(question, read)
        if self.reader.decision is None:
            return self._joined(question, passages[:JOINED], top, min_confidence)
        pairs = [(question, passage.text) for passage in passages]
        return choose(passages, list(self.reader.ask_many(pairs, top=top, always=True)), top, min_confidence, always)

    def _joined(self, question: str, passages: list[Passage], top: int, min_confidence: float) -> Citations:
        """The answers of a reader that cannot tell whether a passage has one: to compare passages, it reads them as
        one text."""
        texts = side_by_side(passages)
        found = self.reader.ask(question, texts.text, top=top)
        return cite(passages, texts, found, min_confidence)

    def explain(self, question: str, passage: Passage) -> Explanation:
        """The attention that leads to an answer in a passage, as ``Reader.explain`` gives it."""
        return self.reader.explain(question, passage.text)


def side_by_side(passages: Sequence[Passage]) -> Passages:
    """Passages as one text, by their numbers."""
    return Passages([str(k) for k in range(len(passages))], [passage.text for passage in passages])


def cite(passages: Sequence[Passage], texts: Passages, found: Sequence[Answer], min_confidence: float) -> Citations:
    """Answers out of passages that were read as one text, less those that reach from one into another."""
    cited = []
    for number, answer in map(texts.locate, found):
        passage = passages[int(number)]
        if answer.end <= len(passage.text):
            cited.append(Citation.of(answer, passage))
    guess = cited[0] if cited else None
    return Citations(tuple(cited), guess=guess).at_least(min_confidence)
