"""A component for Haystack's pipelines, in the place of the ``ExtractiveReader`` that Haystack 3 no longer has."""

from __future__ import annotations

from math import prod
from typing import Any

from haystack import Document, component, default_to_dict
from haystack.dataclasses import ExtractedAnswer

from rmreader.reading.answers import Answer, Answers
from rmreader.reading.reader import Reader


@component
class ExtractiveReader:
    """Finds the answers to a query in documents, with a reader of rmreader.

    >>> from haystack import Document, Pipeline
    >>> pipeline = Pipeline()
    >>> pipeline.add_component("reader", ExtractiveReader(model="small"))
    >>> documents = [Document(content="The letter was written by Ada Lovelace.")]
    >>> found = pipeline.run({"reader": {"query": "Who wrote it?", "documents": documents}})
    >>> found["reader"]["answers"][0].data
    'Ada Lovelace'
    """

    def __init__(
        self,
        model: str = "small",
        top_k: int = 20,
        score_threshold: float = 0.0,
        answers_per_document: int = 5,
        no_answer: bool = True,
        threads: int | None = None,
    ) -> None:
        """``model`` is what ``Reader.load`` takes; the others are as Haystack's reader had them.

        With ``no_answer`` there is one more answer, ``data`` None, whose score is the chance that no document says.
        """
        self.model, self.top_k, self.score_threshold = model, top_k, score_threshold
        self.answers_per_document, self.no_answer, self.threads = answers_per_document, no_answer, threads
        self.reader: Reader | None = None

    def to_dict(self) -> dict[str, Any]:
        """What ``Pipeline.dumps`` writes."""
        names = ("model", "top_k", "score_threshold", "answers_per_document", "no_answer", "threads")
        return dict(default_to_dict(self, **{name: getattr(self, name) for name in names}))

    def warm_up(self) -> None:
        """Load the reader."""
        self.reader = self.reader or Reader.load(self.model, threads=self.threads)

    @component.output_types(answers=list[ExtractedAnswer])  # type: ignore[untyped-decorator]
    def run(
        self, query: str, documents: list[Document], top_k: int | None = None, score_threshold: float | None = None
    ) -> dict[str, list[ExtractedAnswer]]:
        """The best answers of all documents, best first.

        ``document_offset`` counts in the document's content; ``context`` is the sentence around an answer. Scores are
        calibrated confidences, so those of different documents can be compared.
        """
        self.warm_up()
        assert self.reader is not None
        texts = [document for document in documents if document.content and document.content.strip()]
        pairs = [(query, str(document.content)) for document in texts]
        found = list(self.reader.ask_many(pairs, top=self.answers_per_document)) if query.strip() else []
        least = self.score_threshold if score_threshold is None else score_threshold
        answers = [
            _extracted(query, document, answer)
            for document, some in zip(texts, found, strict=bool(found))
            for answer in some
            if answer.confidence >= least
        ]
        answers = sorted(answers, key=lambda answer: -answer.score)[: self.top_k if top_k is None else top_k]
        if self.no_answer:
            # nothing is in any of them: each document's own chance, or what its best answer leaves
            left = [_chance_of_none(some) for some in found]
            surer = sum(answer.score >= prod(left) for answer in answers)
            place = max(1, surer) if answers else 0  # where the reader decides that a document says, that is first
            answers.insert(place, ExtractedAnswer(query=query, score=prod(left)))
        return {"answers": answers}


def _chance_of_none(answers: Answers) -> float:
    if answers.no_answer is not None:
        return answers.no_answer
    return 1.0 - answers[0].confidence if answers else 1.0


def _extracted(query: str, document: Document, answer: Answer) -> ExtractedAnswer:
    span = ExtractedAnswer.Span
    begin = answer.sentence_start
    return ExtractedAnswer(
        query=query,
        score=answer.confidence,
        data=answer.text,
        document=document,
        context=answer.sentence,
        document_offset=span(answer.start, answer.end),
        context_offset=span(answer.start - begin, answer.end - begin),
        meta=dict(document.meta),
    )
