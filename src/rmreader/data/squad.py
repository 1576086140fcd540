"""SQuAD files in, row by row, and out: layouts 1.1 and 2.0 and the adversarial sets, plain or gzip-compressed."""

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rmreader.core.console import say
from rmreader.core.errors import UserError, quoted, user_error_on
from rmreader.core.files.atomic import write_whole
from rmreader.core.files.reading import read_json


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
    row: str = ""  # where it is in a table, which has rows or lines instead

    def __str__(self) -> str:
        place = [self.row or f"article {self.article}"]
        place += [f"paragraph {self.paragraph}"] if self.paragraph is not None else []
        place += [f"id {self.id}"] if self.id is not None else []
        return f"{self.file}: {', '.join(place)}: {self.what}"

    def error(self) -> UserError:
        """The same as an error, for those who want every row or none."""
        return UserError(f"{self}; fix the row, or read without strict to leave it out.")


@dataclass(frozen=True)
class Dataset:
    """The good rows of a file, and what was wrong with the others."""

    articles: tuple[Article, ...]
    problems: tuple[Problem, ...] = ()
    file: str = field(default="", compare=False)
    ambiguous: tuple[Problem, ...] = ()
    """Rows of a table whose answer is in its passage several times: which one is meant was guessed."""

    def questions(self) -> Iterator[tuple[Paragraph, Question]]:
        """Every question with its paragraph, in file order."""
        for article in self.articles:
            for paragraph in article.paragraphs:
                for question in paragraph.questions:
                    yield paragraph, question


def read_squad(path: str | Path, strict: bool = False, answers_needed: bool = True) -> Dataset:
    """Read a file; a bad row is left out and named in ``problems``, or with ``strict`` is an error.

    Without ``answers_needed`` (prediction) a question may come without answers, or with bad ones, which are left aside.
    So are the ``plausible_answers`` of layout 2.0: they are no answers. Ids may be whole numbers, titles may be absent.
    """
    with (
        user_error_on(f"{path}: cannot be read ({{why}}); check the path.", OSError),
        user_error_on(f"{path}: no such file; `rmreader data download squad` fetches SQuAD.", FileNotFoundError),
    ):
        tree = read_json(Path(path), "fix it, or download it again: is it a SQuAD file?")
    if not isinstance(tree, dict) or not isinstance(tree.get("data"), list):
        raise UserError(f'{path}: not in the SQuAD layout; expected {{"data": [articles]}} at the top.')
    check = _Check(str(path), strict, answers_needed)
    articles = [check.article(number, row) for number, row in enumerate(tree["data"])]
    return Dataset(tuple(article for article in articles if article is not None), tuple(check.problems), str(path))


def write_squad(articles: Iterable[Article], path: Path) -> None:
    """Write articles in layout 2.0, as JSON, compressed where the name ends in ``.gz``."""
    tree = {"version": "v2.0", "data": [tree_of(article, impossible=True) for article in articles]}
    content = json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass")
    write_whole(path, gzip.compress(content, 6, mtime=0) if path.suffix == ".gz" else content)


def tree_of(article: Article, impossible: bool = False) -> dict[str, Any]:
    """An article as plain data, in layout 1.1; with ``impossible`` in 2.0, which says so of a question."""
    paragraphs = []
    for paragraph in article.paragraphs:
        rows = []
        for q in paragraph.questions:
            answers = [{"text": answer.text, "answer_start": answer.start} for answer in q.answers]
            said = {"is_impossible": q.impossible} if impossible else {}
            rows.append({"id": q.id, "question": q.text, "answers": answers, **said})
        paragraphs.append({"context": paragraph.context, "qas": rows})
    return {"title": article.title, "paragraphs": paragraphs}


def skipped(problems: Sequence[object], total: int | None = None, kind: str = "skipped") -> Iterator[str]:
    """What to say of the rows that were left out: the first of them, and how many they are (``total``, if more)."""
    for problem in problems[:3]:
        yield f"{kind}: {problem}"
    if (total := total or len(problems)) > 3:
        yield f"{kind}: {total:,} rows in all; `rmreader data check` lists those of a file with answers."


def why_none(problems: Sequence[object]) -> str:
    """For the sentence that says that nothing is there to read: what became of the rows that were."""
    return f" (all {len(problems):,} rows were skipped, the first: {problems[0]})" if problems else ""


class _Remarkable(Protocol):
    """A data set, encoded or not."""

    @property
    def problems(self) -> Sequence[Problem]: ...
    @property
    def ambiguous(self) -> Sequence[Problem]: ...


R = TypeVar("R", bound=_Remarkable)


def report_problems(data: R) -> R:
    """The same data, after telling the person which rows were left out, and which are uncertain."""
    for sentence in (*skipped(data.problems), *skipped(data.ambiguous, kind="ambiguous")):
        say(sentence)
    return data


class _Bad(Exception):
    """What is wrong with a row."""


class _Check:
    """Walks the tree, keeping the good rows and naming the bad ones."""

    def __init__(self, file: str, strict: bool, answers_needed: bool) -> None:
        self.file, self.strict, self.answers_needed = file, strict, answers_needed
        self.problems: list[Problem] = []
        self.seen: set[str] = set()

    def report(self, article: str, paragraph: int | None, id: str | None, what: object) -> None:
        self.problems.append(Problem(self.file, article, paragraph, id, str(what)))
        if self.strict:
            raise self.problems[-1].error()

    def article(self, number: int, tree: Any) -> Article | None:
        name = f"#{number}"
        try:
            title = _get(tree, "title", str, default="")
            name += f" {title!r}" if title else ""
            rows = _get(tree, "paragraphs", list)
        except _Bad as bad:
            self.report(name, None, None, bad)
            return None
        paragraphs = [self.paragraph(name, k, row) for k, row in enumerate(rows)]
        return Article(title, tuple(p for p in paragraphs if p is not None))

    def paragraph(self, article: str, number: int, tree: Any) -> Paragraph | None:
        try:
            context, rows = _text(tree, "context"), _get(tree, "qas", list)
        except _Bad as bad:
            self.report(article, number, None, bad)
            return None
        questions: list[Question] = []
        for row in rows:
            id = _id(row)
            try:
                questions.append(self.question(id, context, row))
            except _Bad as bad:
                self.report(article, number, id, bad)
        return Paragraph(context, tuple(questions))

    def question(self, id: str | None, context: str, tree: Any) -> Question:
        id = id if id and id.strip() else _text(tree, "id")
        text = _text(tree, "question")
        impossible = _get(tree, "is_impossible", bool, default=False)
        answers = tuple(self.references(context, tree, impossible))
        if impossible and answers and self.answers_needed:
            raise _Bad("'is_impossible' is true, yet there are answers")
        if not answers and not impossible and self.answers_needed:
            raise _Bad("no answers")
        if id in self.seen:
            raise _Bad("a row before it has the same id")
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


def _id(tree: Any) -> str | None:
    """The id of a row, None where it has none; a number, as in COVID-QA, becomes a text."""
    value = tree.get("id") if isinstance(tree, dict) else None
    return str(value) if type(value) in (str, int) else None


def _reference(context: str, tree: Any) -> Reference:
    text, start = _text(tree, "text", "answer"), _get(tree, "answer_start", int)
    if not 0 <= start <= len(context) - len(text):
        raise _Bad(f"answer {quoted(text)} at {start} lies outside the passage of {len(context)} characters")
    if not context.startswith(text, start):
        found = quoted(context[start : start + len(text)])
        raise _Bad(f"answer {quoted(text)} is not at its offset {start}, where the passage has {found}")
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
