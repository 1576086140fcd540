"""Data with answers from any kind of file, as one data set.

SQuAD's JSON is read as it is; JSON Lines, CSV, TSV and Parquet become the same. Where an answer has
no offset it is looked for in its passage. One that is there several times is taken where its
sentence shares most words with the question; which those are is reported.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rmreader.core.console import progress
from rmreader.core.errors import UserError, quoted
from rmreader.data.squad import (
    Article,
    Dataset,
    Paragraph,
    Problem,
    Question,
    Reference,
    read_squad,
    tree_of,
)
from rmreader.data.tables import Source, is_table, no_column, trees
from rmreader.text.tokens import tokenize

_NAMES = {
    "id": ("id",),
    "question": ("question",),
    "passage": ("passage", "context"),
    "answer": ("answer", "answers"),
    "start": ("answer_start", "start"),
    "title": ("title", "article"),
    "impossible": ("is_impossible",),
}

# With fewer passages or articles, every single question is held out or learned from by itself.
_FEWEST_GROUPS = 5

# In words. Memory and time grow with a question's length, and a batch is as long as its longest.
_LONGEST_QUESTION = 500


@dataclass
class Examples:
    """Good rows as questions, with article and passage, and what is to be said of the others."""

    rows: list[tuple[str, str, Question]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)  # rows that were left out, and why
    ambiguous: list[Problem] = field(default_factory=list)  # answer several times in the passage

    def articles(self) -> tuple[Article, ...]:
        """Return the rows as the articles of a data set.

        Whole articles are held out, so a passage of no article is its own article. Where there are
        too few of either, each question is.
        """
        few = len({article or passage for article, passage, _ in self.rows}) < _FEWEST_GROUPS
        groups: dict[str, dict[str, list[Question]]] = {}
        for article, passage, question in self.rows:
            name = question.id if few else article or passage
            groups.setdefault(name, {}).setdefault(passage, []).append(question)
        articles = []
        for group in groups.values():
            paragraphs = [Paragraph(text, tuple(questions)) for text, questions in group.items()]
            articles.append(Article("", tuple(paragraphs)))
        return tuple(articles)

    def tree(self) -> dict[str, Any]:
        """Return the same as plain data, in SQuAD's layout 1.1."""
        return {"version": "1.1", "data": [tree_of(article) for article in self.articles()]}


def read_data(path: str | Path) -> Dataset:
    """Read any file with answers.

    Bad rows are named in ``problems``, uncertain ones in ``ambiguous``.
    """
    if not is_table(Path(path)):
        return read_squad(path)
    table = _read_table(Source.of(Path(path)))
    return Dataset(
        articles=table.articles(),
        problems=tuple(table.problems),
        file=str(path),
        ambiguous=tuple(table.ambiguous),
    )


def read_examples(path: Path, unanswered: bool = False) -> Examples:
    """Read every example of a file to learn from: a question with its answers.

    With ``unanswered``, questions that their passages do not answer are kept too. What is left out
    is in ``problems``.
    """
    source = Source.of(path)
    examples = _read_squad_rows(path) if source.kind == "squad" else _read_table(source)
    rows = []
    for row in examples.rows:
        question = row[2]
        what = _unfit(question, unanswered)
        if what is None:
            rows.append(row)
        else:
            problem = Problem(str(path), "", None, None, what, f"id {question.id}")
            examples.problems.append(problem)
    examples.rows = rows
    if not any(question.answers for _, _, question in rows):
        why = f"; the first: {examples.problems[0]}" if examples.problems else ""
        raise UserError(
            f"{path}: it has no example to learn from, a question with its passage and answer{why}."
        )
    return examples


def _unfit(question: Question, unanswered: bool) -> str | None:
    """Return why a question cannot be learned from, None if it can."""
    if not question.answers and not unanswered:
        return "it has no answer to learn from"
    if len(question.text) > _LONGEST_QUESTION:  # else it has fewer words
        words = len(tokenize(question.text))
        if words > _LONGEST_QUESTION:
            return (
                f"its question has {words:,} words, at most {_LONGEST_QUESTION} can be learned from"
            )
    return None


def _read_squad_rows(path: Path) -> Examples:
    dataset = read_squad(path)
    rows = []
    for article in dataset.articles:
        for paragraph in article.paragraphs:
            for question in paragraph.questions:
                rows.append((article.title, paragraph.context, question))
    return Examples(rows, list(dataset.problems))


@dataclass
class Checked:
    """Counts over the good rows, and the bad rows by name."""

    file: str
    articles: int
    paragraphs: int = 0
    questions: int = 0
    impossible: int = 0
    answers: int = 0
    on_boundaries: int = 0  # answers that start and end where a token does
    problems: tuple[Problem, ...] = ()
    ambiguous: tuple[Problem, ...] = ()  # of a table: answer several times in the passage

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain data, with the share of answers on token boundaries."""
        share = self.on_boundaries / self.answers if self.answers else None
        return asdict(self) | {"on_boundaries_share": share}

    def count(self, paragraph: Paragraph) -> None:
        """Add the questions and answers of one paragraph."""
        tokens = tokenize(paragraph.context)
        starts = set(tokens.starts.tolist())
        ends = set(tokens.ends.tolist())
        self.paragraphs += 1
        for question in paragraph.questions:
            self.questions += 1
            self.impossible += question.impossible
            for answer in question.answers:
                end = answer.start + len(answer.text)
                self.answers += 1
                self.on_boundaries += answer.start in starts and end in ends


def check_file(path: str | Path) -> Checked:
    """Validate a file with answers, SQuAD or a table, and count what it holds."""
    dataset = read_data(path)
    report = Checked(
        file=str(path),
        articles=len(dataset.articles),
        problems=dataset.problems,
        ambiguous=dataset.ambiguous,
    )
    paragraphs = [paragraph for article in dataset.articles for paragraph in article.paragraphs]
    with progress("checking", total=len(paragraphs), unit="paragraphs") as advance:
        for paragraph in paragraphs:
            report.count(paragraph)
            advance(1)
    return report


def _read_table(source: Source) -> Examples:
    """Read every good row; one whose passage does not answer it comes without answers."""
    examples = Examples()
    seen: set[str] = set()
    unit = "line" if source.kind == "jsonl" else "row"
    for number, tree in trees(source, lambda columns: _columns(source, columns)):
        place = f"{unit} {number}"
        try:
            # A text says what is wrong with the row.
            if isinstance(tree, str):
                raise ValueError(tree)
            passage, question, several = _read_row(tree, number)
            if question.id in seen:
                raise ValueError(f"its id, {quoted(question.id)}, is that of an earlier row")
        except ValueError as error:
            examples.problems.append(Problem(str(source), "", None, None, str(error), place))
            continue
        seen.add(question.id)
        if several:
            why = f"{quoted(question.answers[0].text)} is in its passage several times"
            examples.ambiguous.append(Problem(str(source), "", None, None, why, place))
        examples.rows.append((str(_get(tree, "title") or ""), passage, question))
    return examples


def _read_row(tree: Mapping[str, Any], number: int) -> tuple[str, Question, bool]:
    """Return a row's passage, its question, and whether an answer is there several times."""
    text = _text(tree, "question")
    passage = _text(tree, "passage")
    id = _get(tree, "id")
    references = []
    ambiguous = False
    for answer, start in _answers(tree):
        reference, several = _place(text, passage, answer, start)
        references.append(reference)
        ambiguous = ambiguous or several
    question = Question(
        id=str(number if id is None else id),
        text=text,
        answers=tuple(references),
        impossible=not references,
    )
    return passage, question, ambiguous


def _columns(source: Source, columns: Sequence[str]) -> list[str]:
    """Choose the columns to read, of all those there are."""
    chosen = []
    for part, names in _NAMES.items():
        name = next((name for name in names if name in columns), None)
        if name is not None:
            chosen.append(name)
        elif part in ("question", "passage", "answer"):
            raise UserError(f"{no_column(source, names, columns)}; rename the one that holds it.")
    return chosen


def _get(tree: Mapping[str, Any], part: str) -> Any:
    """Return the value of a part under any of its names; None where it is absent or blank."""
    for name in _NAMES[part]:
        value = tree.get(name)
        if value is not None and str(value).strip():
            return value
    return None


def _text(tree: Mapping[str, Any], part: str) -> str:
    value = _get(tree, part)
    if value is None:
        raise ValueError(f"{' or '.join(map(repr, _NAMES[part]))} is missing")
    if not isinstance(value, str):
        raise ValueError(f"{part!r} is not text but {type(value).__name__}")
    return value


def _answers(tree: Mapping[str, Any]) -> Iterator[tuple[str, int | None]]:
    """Yield each answer of a row with its offset, None where it has none.

    ``answer`` is a text, a list of texts or of SQuAD's answers, or the two lists that data sets on
    the Hugging Face hub have.
    """
    value = _get(tree, "answer")
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        value = _hub_answers(value)
        if not value:  # an unanswerable question, as SQuAD 2.0 is on the hub
            return
    answers = value if isinstance(value, list) else [value]
    is_empty = answers in ([], [None])
    if str(_get(tree, "impossible")).lower() in ("true", "1", "yes"):
        if not is_empty:
            raise ValueError("'is_impossible' is true, yet there is an answer")
        return
    if is_empty:
        raise ValueError("there is no answer")
    for answer in answers:
        start = None
        if isinstance(answer, dict):
            start = answer.get("answer_start")
            answer = answer.get("text")
        # A column of its own has the offset of the one answer.
        if start is None and len(answers) == 1:
            start = _get(tree, "start")
        yield _checked_answer(answer, start)


def _hub_answers(value: dict[str, Any]) -> list[dict[str, Any]]:
    """Turn a list of texts and a list of offsets into a list of answers."""
    texts = value["text"]
    starts = value.get("answer_start") or [None] * len(texts)
    pairs = zip(texts, starts, strict=True)
    return [{"text": text, "answer_start": start} for text, start in pairs]


def _checked_answer(text: Any, start: Any) -> tuple[str, int | None]:
    is_text = isinstance(text, str | int | float) and not isinstance(text, bool)
    if not is_text or not str(text).strip():
        raise ValueError(f"the answer {quoted(str(text))} is not text")
    if start is None:
        return str(text).strip(), None
    if not str(start).strip().removesuffix(".0").isdecimal():
        raise ValueError(f"the answer's offset {quoted(str(start))} is not a whole number")
    return str(text), int(float(start))


def _place(question: str, passage: str, text: str, start: int | None) -> tuple[Reference, bool]:
    """Return the answer at its offset, and whether it could be elsewhere.

    An answer without an offset is looked for.
    """
    if start is not None:
        if not passage.startswith(text, start):
            raise ValueError(
                f"the answer {quoted(text)} is not at its offset {start}; "
                "leave the offset out to find it"
            )
        return Reference(text, start), False
    pattern = re.escape(text)
    places = [match.start() for match in re.finditer(pattern, passage)]
    if not places:
        places = [match.start() for match in re.finditer(pattern, passage, re.IGNORECASE)]
    if not places:
        raise ValueError(f"the answer {quoted(text)} is not in its passage")
    # Whole words, where it is any.
    places = [at for at in places if _is_word(passage, at, at + len(text))] or places
    words = set(re.findall(r"\w+", question.lower()))

    def shared(at: int) -> int:
        return len(words & _words_around(passage, at, at + len(text)))

    best = max(places, key=shared)  # the first of those that share as many
    return Reference(passage[best : best + len(text)], best), len(places) > 1


def _words_around(passage: str, begin: int, end: int) -> set[str]:
    """Return the words of the sentence around a place."""
    stops = [stop.end() for stop in re.finditer(r"[.!?]\s", passage[:begin])]
    stop = re.compile(r"[.!?](\s|$)").search(passage, end)
    sentence = passage[max(stops, default=0) : stop.end() if stop else None]
    return set(re.findall(r"\w+", sentence.lower()))


def _is_word(passage: str, begin: int, end: int) -> bool:
    """Whether a stretch is cut out between words, not within one."""
    before = passage[begin - 1 : begin]
    after = passage[end : end + 1]
    inside_before = before.isalnum() and passage[begin].isalnum()
    inside_after = after.isalnum() and passage[end - 1].isalnum()
    return not inside_before and not inside_after
