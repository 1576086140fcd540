"""Calls for other programs that search: /v1/search, /v1/highlight and /v1/rerank.

``/v1/rerank`` takes and gives what clients of Cohere and of text-embeddings-inference do, and is at
the addresses that they expect as well.
"""

import secrets
from collections.abc import Sequence
from typing import Any

from rmreader.reading.highlight import Highlights, highlights_of
from rmreader.server.endpoints import Calls
from rmreader.server.openapi import Operation
from rmreader.server.responses import Response, reply
from rmreader.server.schemas import (
    AskHighlight,
    AskRerank,
    AskSearch,
    Highlighted,
    Reranked,
    Searched,
)


class RetrievalCalls:
    """Search, highlight and rerank, with the limits, queue and turns of the other calls."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    def operations(self) -> list[Operation]:
        """List the calls, with the schemas they take and give."""
        call = self.calls.operation
        order = "Put texts in order of how likely they answer"
        return [
            call("/v1/search", "Find passages", self.search, AskSearch, Searched, 404),
            call("/v1/highlight", "Mark answers", self.highlight, AskHighlight, Highlighted),
            call("/v1/rerank", order, self.rerank, AskRerank, Reranked),
            call("/v2/rerank", f"{order} (Cohere)", self.rerank, AskRerank, Reranked),
            call("/rerank", f"{order} (TEI)", self.rerank, AskRerank, Reranked),
        ]

    async def search(self, ask: AskSearch) -> Response:
        """Find the passages that fit a question best."""
        self.calls.check_lengths(ask.question)
        passages = await self.calls.documents.search(ask.question, ask.top)
        return reply({"passages": [passage.to_dict() for passage in passages]})

    async def highlight(self, ask: AskHighlight) -> Response:
        """Mark the words of each text that answer a question."""
        answers = await self._read(ask.question, ask.texts, ask.top)
        highlights = highlights_of(
            ask.texts,
            answers,
            ask.top,
            ask.min_confidence,
            ask.always,
        )
        return reply(highlights.to_dict())

    async def rerank(self, ask: AskRerank) -> Response:
        """Put texts in order."""
        texts = ask.plain_texts()
        answers = await self._read(ask.query, texts, top=1)
        highlights = highlights_of(texts, answers)
        if ask.texts:
            return reply(tei_tree(highlights, ask))
        return reply(cohere_tree(highlights, ask))

    async def _read(self, question: str, texts: Sequence[str], top: int) -> list[Any]:
        """Read every text, taking it for granted that it has an answer."""
        for number, text in enumerate(texts):
            place = f"text {number}: "
            self.calls.check_lengths(question, text, place)
        questions = [(question, text, top, True) for text in texts]
        return await self.calls.batcher.ask(questions)


def cohere_tree(highlights: Highlights, ask: AskRerank) -> dict[str, Any]:
    """Write an order as Cohere's clients read it."""
    results = []
    for one in highlights.ranked()[: ask.top_n]:
        result: dict[str, Any] = {"index": one.index, "relevance_score": one.relevance}
        if ask.return_documents:
            result["document"] = {"text": one.text}
        results.append(result)
    tree: dict[str, Any] = {"id": secrets.token_hex(8), "results": results}
    if highlights.no_answer is not None:
        tree["no_answer"] = highlights.no_answer
    return tree


def tei_tree(highlights: Highlights, ask: AskRerank) -> list[dict[str, Any]]:
    """Write an order as clients of text-embeddings-inference read it."""
    results = []
    for one in highlights.ranked()[: ask.top_n]:
        result: dict[str, Any] = {"index": one.index, "score": one.relevance}
        if ask.return_text:
            result["text"] = one.text
        results.append(result)
    return results
