"""A component for Haystack's pipelines, in place of the ``ExtractiveReader`` that it removed."""

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

        With ``no_answer`` there is one more answer, ``data`` None, whose score is the chance that
        no document says.
        """
        self.model = model
        self.top_k = top_k
        self.score_threshold = score_threshold
        self.answers_per_document = answers_per_document
        self.no_answer = no_answer
        self.threads = threads
        self.reader: Reader | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what ``Pipeline.dumps`` writes."""
        tree = default_to_dict(
            self,
            model=self.model,
            top_k=self.top_k,
            score_threshold=self.score_threshold,
            answers_per_document=self.answers_per_document,
            no_answer=self.no_answer,
            threads=self.threads,
        )
        return dict(tree)

    def warm_up(self) -> None:
        """Load the reader."""
        self.reader = self.reader or Reader.load(self.model, threads=self.threads)

    @component.output_types(answers=list[ExtractedAnswer])  # type: ignore[untyped-decorator]
    def run(
        self,
        query: str,
        documents: list[Document],
        top_k: int | None = None,
        score_threshold: float | None = None,
    ) -> dict[str, list[ExtractedAnswer]]:
        """Return the best answers of all documents, best first.

        ``document_offset`` counts in the document's content; ``context`` is the sentence around an
        answer. Scores are calibrated confidences, so those of different documents can be compared.
        """
        most = self.top_k if top_k is None else top_k
        least = self.score_threshold if score_threshold is None else score_threshold
        results = self._read(query, documents)
        answers = []
        for document, found in results:
            for answer in found:
                if answer.confidence >= least:
                    answers.append(_extracted(query, document, answer))
        answers.sort(key=lambda answer: -answer.score)
        answers = answers[:most]
        if self.no_answer:
            # Nothing is in any of them: each document's own chance, or what its best answer leaves.
            none = prod(_chance_of_none(found) for _, found in results)
            surer = sum(answer.score >= none for answer in answers)
            # Where the reader decides that a document says, that answer is first.
            place = max(1, surer) if answers else 0
            answers.insert(place, ExtractedAnswer(query=query, score=none))
        return {"answers": answers}

    def _read(self, query: str, documents: list[Document]) -> list[tuple[Document, Answers]]:
        """Ask the query of every document that has a text."""
        self.warm_up()
        assert self.reader is not None
        if not query.strip():
            return []
        texts = []
        for document in documents:
            if document.content and document.content.strip():
                texts.append(document)
        pairs = [(query, str(document.content)) for document in texts]
        answers = self.reader.ask_many(pairs, top=self.answers_per_document)
        return list(zip(texts, answers, strict=True))


def _chance_of_none(answers: Answers) -> float:
    if answers.no_answer is not None:
        return answers.no_answer
    if not answers:
        return 1.0
    return 1.0 - answers[0].confidence


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
