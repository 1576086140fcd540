"""SQuAD files in, row by row, and out.

Layouts 1.1 and 2.0 and the adversarial sets, plain or gzip-compressed.
"""

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
        if self.paragraph is not None:
            place.append(f"paragraph {self.paragraph}")
        if self.id is not None:
            place.append(f"id {self.id}")
        return f"{self.file}: {', '.join(place)}: {self.what}"


@dataclass(frozen=True)
class Dataset:
    """The good rows of a file, and what was wrong with the others."""

    articles: tuple[Article, ...]
    problems: tuple[Problem, ...] = ()
    file: str = field(default="", compare=False)
    ambiguous: tuple[Problem, ...] = ()
    """Rows of a table whose answer is in its passage several times: which is meant was guessed."""

    def questions(self) -> Iterator[tuple[Paragraph, Question]]:
        """Yield every question with its paragraph, in file order."""
        for article in self.articles:
            for paragraph in article.paragraphs:
                for question in paragraph.questions:
                    yield paragraph, question


def read_squad(path: str | Path, answers_needed: bool = True) -> Dataset:
    """Read a file; a bad row is left out and named in ``problems``.

    Without ``answers_needed`` (prediction) a question may come without answers, or with bad ones,
    which are ignored. So are the ``plausible_answers`` of layout 2.0: they are no answers. Ids may
    be whole numbers, titles may be absent.
    """
    missing = f"{path}: no such file; `rmreader data download squad` fetches SQuAD."
    with (
        user_error_on(f"{path}: cannot be read ({{why}}); check the path.", OSError),
        user_error_on(missing, FileNotFoundError),
    ):
        tree = read_json(Path(path), "fix it, download it again, or give a SQuAD file")
    if not isinstance(tree, dict) or not isinstance(tree.get("data"), list):
        raise UserError(
            f'{path}: not in the SQuAD layout; expected {{"data": [articles]}} at the top.'
        )
    check = _Check(str(path), answers_needed)
    articles = []
    for number, row in enumerate(tree["data"]):
        article = check.article(number, row)
        if article is not None:
            articles.append(article)
    return Dataset(tuple(articles), tuple(check.problems), str(path))


def write_squad(articles: Iterable[Article], path: Path) -> None:
    """Write articles in layout 2.0, as JSON, compressed where the name ends in ``.gz``."""
    tree = {"version": "v2.0", "data": [tree_of(article, impossible=True) for article in articles]}
    content = json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass")
    if path.suffix == ".gz":
        content = gzip.compress(content, 6, mtime=0)
    write_whole(path, content)


def tree_of(article: Article, impossible: bool = False) -> dict[str, Any]:
    """Return an article as plain data, in layout 1.1, or with ``impossible`` in layout 2.0."""
    paragraphs = []
    for paragraph in article.paragraphs:
        rows = []
        for question in paragraph.questions:
            row: dict[str, Any] = {"id": question.id, "question": question.text}
            row["answers"] = [
                {"text": answer.text, "answer_start": answer.start} for answer in question.answers
            ]
            if impossible:
                row["is_impossible"] = question.impossible
            rows.append(row)
        paragraphs.append({"context": paragraph.context, "qas": rows})
    return {"title": article.title, "paragraphs": paragraphs}


def skipped(
    problems: Sequence[object],
    total: int | None = None,
    kind: str = "skipped",
) -> Iterator[str]:
    """Yield what to say of the rows that were left out.

    The first of them, and how many they are: ``total``, if more than those given.
    """
    for problem in problems[:3]:
        yield f"{kind}: {problem}"
    total = total or len(problems)
    if total > 3:
        yield (
            f"{kind}: {total:,} rows in all; "
            "`rmreader data check` lists those of a file with answers."
        )


def why_none(problems: Sequence[object]) -> str:
    """Return what to add to a sentence that says there is nothing to read."""
    if not problems:
        return ""
    return f" (all {len(problems):,} rows were skipped, the first: {problems[0]})"


class _HasProblems(Protocol):
    """A data set, encoded or not."""

    @property
    def problems(self) -> Sequence[Problem]: ...
    @property
    def ambiguous(self) -> Sequence[Problem]: ...


R = TypeVar("R", bound=_HasProblems)


def report_problems(data: R) -> R:
    """Tell the person which rows were left out and which are uncertain; return the data."""
    for sentence in (*skipped(data.problems), *skipped(data.ambiguous, kind="ambiguous")):
        say(sentence)
    return data


class _Bad(Exception):
    """What is wrong with a row."""


class _Check:
    """Walks the tree, keeping the good rows and naming the bad ones."""

    def __init__(self, file: str, answers_needed: bool) -> None:
        self.file = file
        self.answers_needed = answers_needed
        self.problems: list[Problem] = []
        self.seen: set[str] = set()

    def report(self, article: str, paragraph: int | None, id: str | None, what: object) -> None:
        self.problems.append(Problem(self.file, article, paragraph, id, str(what)))

    def article(self, number: int, tree: Any) -> Article | None:
        name = f"#{number}"
        try:
            title = _get(tree, "title", str, default="")
            if title:
                name += f" {title!r}"
            rows = _get(tree, "paragraphs", list)
        except _Bad as bad:
            self.report(name, None, None, bad)
            return None
        paragraphs = []
        for place, row in enumerate(rows):
            paragraph = self.paragraph(name, place, row)
            if paragraph is not None:
                paragraphs.append(paragraph)
        return Article(title, tuple(paragraphs))

    def paragraph(self, article: str, number: int, tree: Any) -> Paragraph | None:
        try:
            context = _text(tree, "context")
            rows = _get(tree, "qas", list)
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
        if not self.answers_needed and not isinstance(tree.get("answers"), list):
            return
        for row in _get(tree, "answers", list, default=[] if impossible else None):
            try:
                yield _reference(context, row)
            except _Bad:
                if self.answers_needed:
                    raise


def _id(tree: Any) -> str | None:
    """Return the id of a row, None where it has none; a number, as in COVID-QA, becomes a text."""
    value = tree.get("id") if isinstance(tree, dict) else None
    return str(value) if type(value) in (str, int) else None


def _reference(context: str, tree: Any) -> Reference:
    text = _text(tree, "text", "answer")
    start = _get(tree, "answer_start", int)
    if not 0 <= start <= len(context) - len(text):
        raise _Bad(
            f"answer {quoted(text)} at {start} lies outside the passage of {len(context)} "
            "characters"
        )
    if not context.startswith(text, start):
        there = quoted(context[start : start + len(text)])
        raise _Bad(
            f"answer {quoted(text)} is not at its offset {start}, where the passage has {there}"
        )
    return Reference(text, start)


def _get(tree: Any, key: str, kind: type, default: Any = None) -> Any:
    if not isinstance(tree, dict):
        raise _Bad(f"expected an object with {key!r}, found {_kind(tree)}")
    value = tree.get(key)
    if value is None:
        value = default
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


_KINDS: dict[type, str] = {
    str: "a text",
    list: "a list",
    bool: "true or false",
    int: "a whole number",
}


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "nothing" if value is None else f"a {type(value).__name__}")
