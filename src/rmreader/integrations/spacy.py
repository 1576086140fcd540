"""A pipe for spaCy.

Import this module, then ``nlp.add_pipe("rmreader", config={"questions": ["Who wrote it?"]})``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spacy.language import Language

from rmreader.reading.reader import Reader


@Language.factory(  # type: ignore[untyped-decorator]
    "rmreader", default_config={"model": "small", "questions": []}
)
def make_pipe(nlp: Any, name: str, model: str, questions: list[str]) -> Callable[[Any], Any]:
    """Make the pipe, which puts each question's answer into ``doc.spans["answers"]``.

    The question is the span's label. A question that the text does not answer gets no span.
    """
    reader = Reader.load(model)

    def answer(doc: Any) -> Any:
        spans = []
        for question in questions:
            for answer in reader.ask(question, doc.text):
                span = doc.char_span(
                    answer.start, answer.end, label=question, alignment_mode="expand"
                )
                spans.append(span)
        doc.spans["answers"] = spans
        return doc

    return answer
