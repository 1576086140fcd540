"""The shelf: ask folders of documents, not one passage."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from rmreader.core.checks import check_count, check_question, check_share
from rmreader.documents.candidates import Candidates
from rmreader.documents.citations import Citations
from rmreader.documents.folders import FileSelection
from rmreader.documents.index import Index, Passage
from rmreader.documents.indexing import Added, add
from rmreader.documents.sqlite_index import SqliteIndex
from rmreader.reading.explanation import Explanation
from rmreader.reading.reader import Reader

READ = 10  # passages of a search that are read
_COPIES = 3  # of a document that a search can leave out and still find enough


class Shelf:
    """Documents that can be asked: an index, and a reader for what a search finds in it.

    >>> shelf = Shelf.open("home.rmindex")
    >>> added = shelf.add("examples/home")
    >>> shelf.ask("How much is the deposit?").best.file
    'lease.txt'
    """

    def __init__(
        self, index: Index, reader: str | Path | Reader = "small", place: str | Path = ""
    ) -> None:
        self.index = index
        self.place = place
        self._reader = reader

    @classmethod
    def open(cls, place: str | PathLike[str], reader: str | Path | Reader = "small") -> Shelf:
        """The index in a file, or at an address of OpenSearch, which the first ``add`` makes.

        ``reader`` is a name, a folder, or one that is loaded.

        >>> Shelf.open("home.rmindex", "base").reader
        <Reader base: answers of up to 15 tokens, can say that there is no answer>
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

    def add(
        self,
        *folders: str | PathLike[str],
        workers: int | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        ocr: bool = False,
    ) -> Added:
        """Take in folders (or files) as they are now.

        What is new or changed is read, what is gone comes out. ``include`` and ``exclude`` are
        patterns such as ``*.md`` or ``drafts/*``: see ``FileSelection``. ``ocr`` reads scans, too,
        with the program ``ocrmypdf``.

        >>> Shelf.open("texts.rmindex").add("examples/home", include=["*.txt"]).added
        1
        """
        return add(
            self.index,
            [Path(folder) for folder in folders],
            workers=workers,
            apart=Path(self.place),
            selection=FileSelection(include, exclude),
            ocr=ocr,
        )

    def search(self, question: str, count: int = 10) -> list[Passage]:
        """The passages that fit a question best, best first.

        Of those with the same text, as in copies of a document, one: two would halve the chance
        of either.

        >>> shelf = Shelf.open("home.rmindex")
        >>> added = shelf.add("examples/home")
        >>> shelf.search("Who is the landlord?", count=2)[0].file
        'lease.txt'
        """
        check_question(question)
        check_count("count", count)
        different = dict[str, Passage]()
        for passage in self.index.search(question, _COPIES * count):
            # A copy of another format has other line ends.
            words = " ".join(passage.text.split())
            different.setdefault(words.casefold(), passage)
        return list(different.values())[:count]

    def ask(
        self,
        question: str,
        *,
        top: int = 3,
        min_confidence: float = 0.0,
        always: bool = False,
        read: int = READ,
    ) -> Citations:
        """The ``top`` best answers, different ones, each with its place.

        There are none if the documents do not say. ``always`` takes it for granted that there is an
        answer, and gives it. ``read`` passages of the search are read.

        >>> shelf = Shelf.open("home.rmindex")
        >>> added = shelf.add("examples/home")
        >>> answers = shelf.ask("How long is the tank guaranteed?")
        >>> answers.best.text, answers.best.place
        ('five years', 'warranty.pdf, page 2')
        """
        check_count("top", top)
        check_count("read", read)
        check_share("min_confidence", min_confidence)
        can_tell = self.reader.decision is not None
        candidates = Candidates.of(self.search(question, read), can_tell)
        pairs = [(question, text) for text in candidates.texts]
        answers = list(self.reader.ask_many(pairs, top=top, always=True))
        found = candidates.rank(answers, top, min_confidence, always)
        return found.with_needs(question)

    def explain(self, question: str, passage: Passage) -> Explanation:
        """The attention that leads to an answer in a passage, as ``Reader.explain`` gives it.

        >>> shelf = Shelf.open("home.rmindex")
        >>> added = shelf.add("examples/home")
        >>> passage = shelf.search("Who is the landlord?")[0]
        >>> len(shelf.explain("Who is the landlord?", passage).rounds)
        3
        """
        return self.reader.explain(question, passage.text)
