"""Questions as rows: of a data set, of a file, of a caller's pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rmreader.core.errors import UserError
from rmreader.data.squad import Dataset


@dataclass(frozen=True)
class QuestionRow:
    """One question to answer, as a row of a data set or a file."""

    id: str
    question: str
    passage: str
    references: tuple[str, ...] = ()
    """The answers people gave."""


def rows_of(dataset: Dataset) -> list[QuestionRow]:
    """Every question of a data set; an impossible one has no references."""
    rows = []
    for paragraph, question in dataset.questions():
        references = tuple(answer.text for answer in question.answers)
        if question.impossible:
            references = ()
        rows.append(QuestionRow(question.id, question.text, paragraph.context, references))
    return rows


def row_of_pair(pair: Any) -> QuestionRow:
    """The question in a pair or a mapping, as ``Reader.ask_many`` takes them."""
    question = passage = None
    if isinstance(pair, Mapping):
        question = pair.get("question")
        passage = pair.get("passage", pair.get("context"))
    elif isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2:
        question, passage = pair
    if not isinstance(question, str) or not isinstance(passage, str):
        raise UserError(
            "a question for ask_many is (question, passage), or a mapping with 'question' and "
            "'passage' or 'context', each of them text."
        )
    return QuestionRow("", question, passage)
