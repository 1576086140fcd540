"""SQuAD files in, validated row by row: layouts 1.1 and 2.0 and the adversarial sets, plain or gzip-compressed."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rmreader.errors import UserError


@dataclass(frozen=True)
class Reference:
    """An answer somebody gave: ``context[start:start + len(text)] == text``."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """A question with the answers people gave; none where the passage does not hold one."""

    id: str
    text: str
    answers: tuple[Reference, ...]
    impossible: bool = False


@dataclass(frozen=True)
class Paragraph:
    """A passage and the questions about it."""

    context: str
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Article:
    """Paragraphs of one article."""

    title: str
    paragraphs: tuple[Paragraph, ...]


@dataclass(frozen=True)
class Problem:
    """A row that was left out, and why."""

    file: str
    article: str
    paragraph: int | None
    id: str | None
    what: str

    def __str__(self) -> str:
        place = [f"article {self.article}"]
        place += [f"paragraph {self.paragraph}"] if self.paragraph is not None else []
        place += [f"id {self.id}"] if self.id is not None else []
        return f"{self.file}: {', '.join(place)}: {self.what}"


@dataclass(frozen=True)
class Dataset:
    """The good rows of a file, and what was wrong with the others."""

    articles: tuple[Article, ...]
    problems: tuple[Problem, ...] = ()
    file: str = field(default="", compare=False)

    def questions(self) -> Iterator[tuple[Paragraph, Question]]:
        """Every question with its paragraph, in file order."""
        for article in self.articles:
            for paragraph in article.paragraphs:
                for question in paragraph.questions:
                    yield paragraph, question


def read_squad(path: str | Path, strict: bool = False, answers_needed: bool = True) -> Dataset:
    """Read a file; a bad row is left out and named in ``problems``, or with ``strict`` is an error.

    Without ``answers_needed`` (prediction) a question may come without answers, or with bad ones, which are left aside.
    So are the ``plausible_answers`` of layout 2.0: they are no answers.
    """
    check = _Check(str(path), strict, answers_needed)
    articles = [check.article(number, tree) for number, tree in enumerate(_load(Path(path)))]
    return Dataset(tuple(article for article in articles if article is not None), tuple(check.problems), str(path))


def skipped(problems: Sequence[Problem]) -> Iterator[str]:
    """What to say of the rows that were left out: the first of them, and how many they are."""
    for problem in problems[:3]:
        yield f"skipped: {problem}"
    if len(problems) > 3:
        yield f"skipped: {len(problems):,} rows in all; `rmreader data check` lists them."


def _load(path: Path) -> list[Any]:
    """The list of articles, or one sentence saying why there is none."""
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        tree = json.loads(content.decode("utf-8-sig"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; `rmreader data download squad` fetches SQuAD.") from None
    except OSError as error:
        reason = error.strerror or "damaged gzip data"
        raise UserError(f"{path}: cannot be read ({reason}); check the path or download the file again.") from None
    except (EOFError, zlib.error):
        raise UserError(f"{path}: the gzip data is cut short or damaged; download the file again.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (at byte {error.start}); save it as UTF-8 JSON.") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise UserError(f"{path}: {place}: not valid JSON ({error.msg}); mend or download the file again.") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not readable JSON ({type(error).__name__}); is it a SQuAD file?") from None
    if not isinstance(tree, dict) or not isinstance(tree.get("data"), list):
        raise UserError(f'{path}: not in the SQuAD layout; expected {{"data": [articles]}} at the top.')
    data: list[Any] = tree["data"]
    return data


class _Bad(Exception):
    """What is wrong with a row."""


class _Check:
    """Walks the tree, keeping the good rows and naming the bad ones."""

    def __init__(self, file: str, strict: bool, answers_needed: bool) -> None:
        self.file, self.strict, self.answers_needed = file, strict, answers_needed
        self.problems: list[Problem] = []
        self.seen: set[str] = set()

    def report(self, article: str, paragraph: int | None, id: str | None, what: str) -> None:
        problem = Problem(self.file, article, paragraph, id, what)
        if self.strict:
            raise UserError(f"{problem}; mend the row, or read without strict to leave it out.")
        self.problems.append(problem)

    def article(self, number: int, tree: Any) -> Article | None:
        name = f"#{number}"
        try:
            title = _get(tree, "title", str, default="")
            name = f"#{number} {title!r}" if title else name
            rows = _get(tree, "paragraphs", list)
        except _Bad as bad:
            self.report(name, None, None, str(bad))
            return None
        paragraphs = [self.paragraph(name, k, row) for k, row in enumerate(rows)]
        return Article(title, tuple(p for p in paragraphs if p is not None))

    def paragraph(self, article: str, number: int, tree: Any) -> Paragraph | None:
        try:
            context = _text(tree, "context")
            rows = _get(tree, "qas", list)
        except _Bad as bad:
            self.report(article, number, None, str(bad))
            return None
        questions: list[Question] = []
        for row in rows:
            id = row.get("id") if isinstance(row, dict) else None
            try:
                questions.append(self.question(context, row))
            except _Bad as bad:
                self.report(article, number, id if isinstance(id, str) else None, str(bad))
        return Paragraph(context, tuple(questions))

    def question(self, context: str, tree: Any) -> Question:
        id = _text(tree, "id")
        text = _text(tree, "question")
        impossible = _get(tree, "is_impossible", bool, default=False)
        answers = tuple(self.references(context, tree, impossible))
        if impossible and answers and self.answers_needed:
            raise _Bad("'is_impossible' is true, yet there are answers")
        if not answers and not impossible and self.answers_needed:
            raise _Bad("no answers")
        if id in self.seen:
            raise _Bad("this id has stood in the file before")
        self.seen.add(id)
        return Question(id, text, answers, impossible)

    def references(self, context: str, tree: Any, impossible: bool) -> Iterator[Reference]:
        rows = tree.get("answers")
        if self.answers_needed or isinstance(rows, list):
            for row in _get(tree, "answers", list, default=[] if impossible else None):
                try:
                    yield _reference(context, row)
                except _Bad:
                    if self.answers_needed:
                        raise


def _reference(context: str, tree: Any) -> Reference:
    text, start = _text(tree, "text", "answer"), _get(tree, "answer_start", int)
    if not 0 <= start <= len(context) - len(text):
        raise _Bad(f"answer {_short(text)} at {start} lies outside the passage of {len(context)} characters")
    if not context.startswith(text, start):
        found = _short(context[start : start + len(text)])
        raise _Bad(f"answer {_short(text)} is not at its offset {start}, where the passage has {found}")
    return Reference(text, start)


def _get(tree: Any, key: str, kind: type, default: Any = None) -> Any:
    if not isinstance(tree, dict):
        raise _Bad(f"expected an object with {key!r}, found {_kind(tree)}")
    value = tree.get(key)
    value = default if value is None else value
    if value is None:
        raise _Bad(f"{key!r} is missing")
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _Bad(f"{key!r} must be {_KINDS[kind]}, it is {_kind(value)}")
    return value


def _text(tree: Any, key: str, name: str | None = None) -> str:
    value: str = _get(tree, key, str)
    if not value.strip():
        raise _Bad(f"the {name or key} is empty")
    return value


_KINDS: dict[type, str] = {str: "a text", list: "a list", bool: "true or false", int: "a whole number"}


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "nothing" if value is None else f"a {type(value).__name__}")


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")
