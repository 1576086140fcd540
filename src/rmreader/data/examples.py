"""Data with answers from any kind of file: SQuAD JSON as it is; JSON Lines, CSV, TSV and Parquet as the same data set.

Where an answer has no offset it is looked for in its passage. One that is there several times is taken where its
sentence shares most words with the question; which those are is reported.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import starmap
from pathlib import Path
from typing import Any

from rmreader.core.console import progress
from rmreader.core.errors import UserError, quoted
from rmreader.data.squad import Article, Dataset, Paragraph, Problem, Question, Reference, read_squad, tree_of
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
_GROUPS = 5  # so many passages or articles at least, else every question is held out or learned from alone


@dataclass
class Examples:
    """Good rows as questions, with their article and passage, and what is to be said of the others."""

    rows: list[tuple[str, str, Question]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)  # rows that were left out, and why
    ambiguous: list[Problem] = field(default_factory=list)  # rows whose answer is in the passage several times

    def articles(self) -> tuple[Article, ...]:
        """The rows as a data set has them. Whole articles are held out, so a passage that is of no article is its own,
        and where there are too few of either, a question."""
        groups: dict[str, dict[str, list[Question]]] = {}
        few = len({article or passage for article, passage, _ in self.rows}) < _GROUPS
        for article, passage, question in self.rows:
            name = question.id if few else article or passage
            groups.setdefault(name, {}).setdefault(passage, []).append(question)
        every = (starmap(Paragraph, ((text, tuple(rows)) for text, rows in group.items())) for group in groups.values())
        return tuple(Article("", tuple(paragraphs)) for paragraphs in every)

    def tree(self) -> dict[str, Any]:
        """The same as plain data, in SQuAD's layout 1.1."""
        return {"version": "1.1", "data": [tree_of(article) for article in self.articles()]}


def read_data(path: str | Path) -> Dataset:
    """The data set of any file with answers; bad rows are named in ``problems``, uncertain ones in ``ambiguous``."""
    if not is_table(Path(path)):
        return read_squad(path)
    found = _read_table(Source.of(Path(path)))
    return Dataset(found.articles(), tuple(found.problems), str(path), tuple(found.ambiguous))


def read_examples(path: Path) -> Examples:
    """Every example of a file to learn from, a question with its answers; what is left out is in ``problems``."""
    source = Source.of(path)
    if source.kind == "squad":
        dataset = read_squad(path)
        every = [(article, paragraph) for article in dataset.articles for paragraph in article.paragraphs]
        rows = [(article.title, paragraph.context, q) for article, paragraph in every for q in paragraph.questions]
        found = Examples(rows, list(dataset.problems))
    else:
        found = _read_table(source)
    for *_, question in found.rows:
        if not question.answers:
            what = "it has no answer to learn from"
            found.problems.append(Problem(str(path), "", None, None, what, f"id {question.id}"))
    found.rows = [row for row in found.rows if row[2].answers]
    if not found.rows:
        why = f"; the first: {found.problems[0]}" if found.problems else ""
        raise UserError(f"{path}: it has no example to learn from, a question with its passage and answer{why}.")
    return found


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
    ambiguous: tuple[Problem, ...] = ()  # rows of a table whose answer is in its passage several times

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data, with the share of answers on token boundaries."""
        return asdict(self) | {"on_boundaries_share": self.on_boundaries / self.answers if self.answers else None}


def check_file(path: str | Path) -> Checked:
    """Validate a file with answers, SQuAD or a table, and count what it holds."""
    dataset = read_data(path)
    report = Checked(str(path), len(dataset.articles), problems=dataset.problems, ambiguous=dataset.ambiguous)
    paragraphs = [paragraph for article in dataset.articles for paragraph in article.paragraphs]
    with progress("checking", total=len(paragraphs), unit="paragraphs") as advance:
        for paragraph in paragraphs:
            tokens = tokenize(paragraph.context)
            starts, ends = set(tokens.starts.tolist()), set(tokens.ends.tolist())
            spans = [(a.start, a.start + len(a.text)) for question in paragraph.questions for a in question.answers]
            report.paragraphs += 1
            report.questions += len(paragraph.questions)
            report.impossible += sum(question.impossible for question in paragraph.questions)
            report.answers += len(spans)
            report.on_boundaries += sum(start in starts and end in ends for start, end in spans)
            advance(1)
    return report


def _read_table(source: Source) -> Examples:
    """Every good row; one that says that its passage does not answer it comes without answers."""
    found, seen = Examples(), set()
    for number, tree in trees(source, lambda there: _columns(source, there)):
        place = f"{'line' if source.kind == 'jsonl' else 'row'} {number}"
        try:
            if isinstance(tree, str):  # what is wrong with it
                raise ValueError(tree)
            question, passage = _text(tree, "question"), _text(tree, "passage")
            id = str(number if _get(tree, "id") is None else _get(tree, "id"))
            if id in seen:
                raise ValueError(f"its id, {quoted(id)}, is that of an earlier row")
            answers = [_place(question, passage, *answer) for answer in _given(tree)]
        except ValueError as error:
            found.problems.append(Problem(str(source), "", None, None, str(error), place))
            continue
        seen.add(id)
        if any(several for _, several in answers):
            why = f"{quoted(answers[0][0].text)} is in its passage several times"
            found.ambiguous.append(Problem(str(source), "", None, None, why, place))
        references = tuple(answer for answer, _ in answers)
        row = Question(id, question, references, impossible=not references)
        found.rows.append((str(_get(tree, "title") or ""), passage, row))
    return found


def _columns(source: Source, there: Sequence[str]) -> list[str]:
    picked = {part: next((name for name in names if name in there), None) for part, names in _NAMES.items()}
    for part in ("question", "passage", "answer"):
        if picked[part] is None:
            raise UserError(f"{no_column(source, _NAMES[part], there)}; rename the one that it is.")
    return [name for name in picked.values() if name is not None]


def _get(tree: Mapping[str, Any], part: str) -> Any:
    there = (tree[name] for name in _NAMES[part] if tree.get(name) is not None)
    return next((value for value in there if str(value).strip()), None)


def _text(tree: Mapping[str, Any], part: str) -> str:
    value = _get(tree, part)
    if value is None:
        raise ValueError(f"{' or '.join(map(repr, _NAMES[part]))} is missing")
    if not isinstance(value, str):
        raise ValueError(f"{part!r} is no text but {type(value).__name__}")
    return value


def _given(tree: Mapping[str, Any]) -> Iterator[tuple[str, int | None]]:
    """Each answer of a row with its offset, None where it has none: a text, a list of texts or of SQuAD's answers, or
    the two lists that data sets on the Hugging Face hub have."""
    value, start = _get(tree, "answer"), _get(tree, "start")
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        starts = value.get("answer_start") or [None] * len(value["text"])
        value = [{"text": text, "answer_start": begin} for text, begin in zip(value["text"], starts, strict=True)]
        if not value:  # as SQuAD 2.0 is on the hub
            return
    listed = value if isinstance(value, list) else [value]
    if str(_get(tree, "impossible")).lower() in ("true", "1", "yes"):
        if listed not in ([], [None]):
            raise ValueError("'is_impossible' is true, yet there is an answer")
        return
    if not listed or listed == [None]:
        raise ValueError("there is no answer")
    for one in listed:
        text, begin = (one.get("text"), one.get("answer_start")) if isinstance(one, dict) else (one, None)
        begin = start if begin is None and len(listed) == 1 else begin
        if isinstance(text, bool) or not isinstance(text, str | int | float) or not str(text).strip():
            raise ValueError(f"the answer {quoted(str(text))} is no text")
        if begin is not None and not str(begin).strip().removesuffix(".0").isdecimal():
            raise ValueError(f"the answer's offset {quoted(str(begin))} is no whole number")
        yield str(text).strip() if begin is None else str(text), None if begin is None else int(float(begin))


def _place(question: str, passage: str, text: str, start: int | None) -> tuple[Reference, bool]:
    """The answer at its offset, which is looked for where it has none, and whether it could be elsewhere."""
    if start is not None:
        if not passage.startswith(text, start):
            raise ValueError(f"the answer {quoted(text)} is not at its offset {start}; leave the offset out to find it")
        return Reference(text, start), False
    places = [match.start() for match in re.finditer(re.escape(text), passage)]
    places = places or [match.start() for match in re.finditer(re.escape(text), passage, re.IGNORECASE)]
    if not places:
        raise ValueError(f"the answer {quoted(text)} is not in its passage")
    whole = [at for at in places if _is_word(passage, at, at + len(text))] or places
    wanted = set(re.findall(r"\w+", question.lower()))

    def shared(at: int) -> int:
        """Words of the question in the sentence around."""
        begin = max((stop.end() for stop in re.finditer(r"[.!?]\s", passage[:at])), default=0)
        stop = re.compile(r"[.!?](\s|$)").search(passage, at + len(text))
        return len(wanted.intersection(re.findall(r"\w+", passage[begin : stop.end() if stop else None].lower())))

    at = max(whole, key=shared)  # the first of those that share as many
    return Reference(passage[at : at + len(text)], at), len(whole) > 1


def _is_word(passage: str, begin: int, end: int) -> bool:
    """Whether a stretch is cut out between words, not within one."""
    before, after = passage[begin - 1 : begin], passage[end : end + 1]
    return not (before.isalnum() and passage[begin].isalnum()) and not (after.isalnum() and passage[end - 1].isalnum())
