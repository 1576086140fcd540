"""What a search found for a question: what of it is read, and what becomes of the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rmreader.documents.citations import Citation, Citations
from rmreader.documents.index import Passage
from rmreader.documents.passages import Passages
from rmreader.documents.rank import choose
from rmreader.reading.answers import Answers

JOINED = 5  # passages that are read as one text


@dataclass(frozen=True)
class Candidates:
    """Passages that may answer a question, best first.

    A reader that can tell whether a passage holds an answer reads them one by one. Another reads
    the best few as one text, since its scores are only comparable within one.
    """

    passages: Sequence[Passage]
    joined: bool

    @classmethod
    def of(cls, passages: Sequence[Passage], can_tell: bool) -> Candidates:
        """``can_tell``: whether the reader knows that a passage holds no answer."""
        if can_tell:
            return cls(passages, joined=False)
        return cls(passages[:JOINED], joined=True)

    @property
    def texts(self) -> list[str]:
        """What the reader reads."""
        if not self.joined:
            return [passage.text for passage in self.passages]
        return [self._together().text] if self.passages else []

    def rank(
        self,
        answers: Sequence[Answers],
        top: int,
        min_confidence: float = 0.0,
        always: bool = False,
    ) -> Citations:
        """The best of the answers that the reader gave to ``texts`` with ``always``."""
        if self.joined:
            return self._locate(answers).at_least(min_confidence)
        return choose(self.passages, answers, top, min_confidence, always)

    def _together(self) -> Passages:
        names = [str(number) for number in range(len(self.passages))]
        return Passages(names, [passage.text for passage in self.passages])

    def _locate(self, answers: Sequence[Answers]) -> Citations:
        """Answers out of passages that were read as one; not those that reach into the next."""
        together = self._together()
        citations: list[Citation] = []
        for text in answers:
            for answer in text:
                number, local = together.locate(answer)
                passage = self.passages[int(number)]
                if local.end <= len(passage.text):
                    citations.append(Citation.of(local, passage))
        guess = citations[0] if citations else None
        return Citations(tuple(citations), guess=guess)
