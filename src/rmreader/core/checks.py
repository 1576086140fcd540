"""What every door checks before it reads: each mistake gets the same sentence everywhere."""

from __future__ import annotations

from numbers import Integral, Real

from rmreader.core.errors import UserError, quoted

NO_QUESTION = "the question is empty; ask something."
NO_PASSAGE = "the passage is empty; give a text to read."


def check_text(name: str, text: object) -> None:
    """Refuse what is not text."""
    if not isinstance(text, str):
        raise UserError(f"the {name} is a text, not {type(text).__name__}.")


def check_question(question: object) -> None:
    """Refuse a question that is not text, or has nothing in it but blanks."""
    check_text("question", question)
    if not str(question).strip():
        raise UserError(NO_QUESTION)


def check_count(name: str, value: object) -> None:
    """Refuse what is not a whole number of at least 1."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise UserError(f"{name} is a whole number of at least 1, not {quoted(value)}.")


def check_share(name: str, value: object) -> None:
    """Refuse what is no number between 0 and 1."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= float(value) <= 1:
        raise UserError(f"{name} is a number between 0 and 1, not {quoted(value)}.")
