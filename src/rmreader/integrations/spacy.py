"""A pipe for spaCy: import this module, then ``nlp.add_pipe("rmreader", config={"questions": ["Who wrote it?"]})``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spacy.language import Language

from rmreader.reading.reader import Reader


@Language.factory("rmreader", default_config={"model": "small", "questions": []})  # type: ignore[untyped-decorator]
def make_pipe(nlp: Any, name: str, model: str, questions: list[str]) -> Callable[[Any], Any]:
    """Each question's answer, where a text has one, is in ``doc.spans["answers"]``, with the question as its label."""
    reader = Reader.load(model)

    def answer(doc: Any) -> Any:
        found = [(question, one) for question in questions for one in reader.ask(question, doc.text)]
        doc.spans["answers"] = [doc.char_span(a.start, a.end, label, alignment_mode="expand") for label, a in found]
        return doc

    return answer
