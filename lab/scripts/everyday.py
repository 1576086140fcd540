"""Questions about everyday texts, from the files in `lab/everyday/`, in SQuAD's layout 2.0.

    python -m lab.scripts.everyday learn lab/everyday/learn.txt.gz --out learn.json.gz --copies 4
    python -m lab.scripts.everyday judge lab/everyday/test.txt.gz --out test.json.gz

A file has texts, one after another: a line `## kind of text`, its paragraphs, then questions.

    ? question
    = answer         in the passage's own words; ` || ` between several that are right,
                     ` @@2` for the second place of one
    -                instead of an answer, where the passage does not answer
    + sentence       that would answer, with its [answer] in brackets

Whoever writes questions that a passage does not answer asks for other things than where it does
(sums, names), so that the question alone tells most of them. Here it must not: `learn` takes
sentences with answers out of a passage and puts sentences that answer into it, by chance,
differently in each copy; `judge` asks each question twice, where its passage answers and where it
does not.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lab.scripts.cloze import read_lines
from rmreader.core.errors import UserError
from rmreader.data.negatives import holds, without_answer, words_of
from rmreader.data.squad import Article, Paragraph, Question, Reference, write_squad
from rmreader.text.sentences import sentence_around

CUT = 0.5  # chance that a sentence with an answer goes
PUT = 0.7  # chance that a sentence that answers comes
BARE = 0.25  # chance that a question is asked which nothing would answer
ANYWHERE = 0.3  # chance that a sentence comes anywhere, and not beside one with the same words
MOST = 0.45  # of a passage may go
TEXTS_PER_ARTICLE = 12
_LAST_BRACKETS = re.compile(r"(.*)\[([^\[\]]*)\]([^\[\]]*)")


@dataclass
class Asked:
    """A question as it was written, and the sentence that would answer it."""

    text: str
    answers: tuple[Reference, ...] = ()
    sentence: str = ""
    answer: Reference | None = None  # in the sentence


@dataclass
class Text:
    """A text and its questions."""

    kind: str
    context: str = ""
    asked: list[Asked] = field(default_factory=list)


def read(path: Path) -> list[Text]:
    """The texts of a file."""
    texts: list[Text] = []
    for number, line in enumerate(read_lines(path), 1):
        try:
            _read_line(texts, line.rstrip())
        except (IndexError, ValueError) as error:
            raise UserError(
                f"{path}, line {number}: {error}; "
                "the top of lab/scripts/everyday.py says how to write."
            ) from None
    return texts


def _read_line(texts: list[Text], line: str) -> None:
    """Add what a line says to the last text, or begin the next one."""
    mark, _, rest = line.partition(" ")
    if mark == "##":
        texts.append(Text(rest))
        return
    if line in ("", "-"):
        return
    text = texts[-1]
    if mark == "?":
        text.asked.append(Asked(rest))
    elif mark == "=":
        answers = [_reference(text.context, answer) for answer in rest.split(" || ")]
        text.asked[-1].answers = tuple(answers)
    elif mark == "+":
        before, answer, after = _marked(rest)
        last = text.asked[-1]
        last.sentence = before + answer + after
        last.answer = Reference(answer, len(before))
    elif text.context:
        text.context += f"\n{line}"
    else:
        text.context = line


def _marked(sentence: str) -> tuple[str, str, str]:
    """A sentence before, in and after its last brackets; a chat's stamps have brackets too."""
    match = _LAST_BRACKETS.fullmatch(sentence)
    if match is None:
        raise ValueError("a sentence after + has its answer in [brackets]")
    before, answer, after = match.groups()
    return before, answer, after


def _reference(context: str, answer: str) -> Reference:
    """An answer as it is written in a file, at its place in the passage."""
    text, _, which = answer.strip().partition(" @@")
    start = -1
    for _ in range(int(which or 1)):
        start = context.index(text, start + 1)
    return Reference(text, start)


def sentences(context: str) -> Iterator[tuple[int, int]]:
    """Where each sentence begins and ends."""
    at = 0
    while at < len(context):
        if context[at].isspace():
            at += 1
            continue
        low, high = sentence_around(context, at, at + 1)
        yield max(low, at), high
        at = max(high, at + 1)


Answers = dict[int, tuple[Reference, ...]]
"""What answers each question, by its number."""


def changed(text: Text, draw: random.Random, cut: float, put: float) -> tuple[str, Answers]:
    """Take sentences out of a passage and put others in; say what answers each question there.

    ``cut`` and ``put`` are the chances of each sentence that could go or come.
    """
    spans = list(sentences(text.context))
    home = _home(text, spans)
    gone = _gone(text, spans, home, draw, cut)
    come = _come(text, spans, draw, put)

    context = ""
    shift: dict[int, int] = {}  # of every sentence that stays
    answers: Answers = {}
    for k, (low, high) in enumerate(spans):
        gap = text.context[spans[k - 1][1] : low] if k else ""
        if "\n" in gap and context:
            context = context.rstrip(" ")
            if not context.endswith("\n"):
                context += "\n"
        if k not in gone:
            if gap:
                context = _with_space(context)
            shift[k] = len(context) - low
            context += text.context[low:high]
        for number in come.get(k, ()):
            context = _with_space(context)
            asked = text.asked[number]
            answers[number] = ()
            if asked.answer:
                start = len(context) + asked.answer.start
                answers[number] = (Reference(asked.answer.text, start),)
            context += asked.sentence

    answers |= _moved_answers(text, context, home, shift)
    return context, _where_they_are(context, answers)


def _home(text: Text, spans: list[tuple[int, int]]) -> dict[int, list[int]]:
    """The sentences that the first answer of each question is in."""
    home = {}
    for number, asked in enumerate(text.asked):
        if not asked.answers:
            continue
        begin = asked.answers[0].start
        end = begin + len(asked.answers[0].text)
        home[number] = [k for k, (low, high) in enumerate(spans) if low < end and high > begin]
    return home


def _gone(
    text: Text,
    spans: list[tuple[int, int]],
    home: dict[int, list[int]],
    draw: random.Random,
    cut: float,
) -> set[int]:
    """Draw the sentences with an answer that are taken out."""
    gone: set[int] = set()
    for rows in home.values():
        if draw.random() < cut and len(rows) == 1:
            rest = gone.union(rows)
            left = sum(high - low for k, (low, high) in enumerate(spans) if k not in rest)
            if left > (1 - MOST) * len(text.context):
                gone = rest
    return gone


def _come(
    text: Text,
    spans: list[tuple[int, int]],
    draw: random.Random,
    put: float,
) -> dict[int, list[int]]:
    """Draw the sentences that are put in: by sentence of the passage, the questions they answer."""
    come: dict[int, list[int]] = {}
    for number, asked in enumerate(text.asked):
        if not asked.sentence or draw.random() >= put:
            continue
        words = set(words_of(asked.sentence))
        nearness = []
        for low, high in spans:
            shared = words & set(words_of(text.context[low:high]))
            nearness.append(len(shared) + draw.random())
        if draw.random() < ANYWHERE:
            place = draw.randrange(len(spans))
        else:
            place = nearness.index(max(nearness))
        come.setdefault(place, []).append(number)
    return come


def _with_space(context: str) -> str:
    """A text that a sentence can follow."""
    if context and not context.endswith("\n"):
        return context + " "
    return context


def _moved_answers(
    text: Text,
    context: str,
    home: dict[int, list[int]],
    shift: dict[int, int],
) -> Answers:
    """Where the answers are whose sentences stay; nothing where the passage holds none any more."""
    answers: Answers = {}
    for number, rows in home.items():
        asked = text.asked[number]
        first = asked.answers[0]
        shifts = {shift.get(k) for k in rows}
        moved = shifts.pop() if len(shifts) == 1 else None
        if moved is not None:
            answers[number] = (Reference(first.text, first.start + moved),)
        elif not holds(context, Question("", "", asked.answers)):
            answers[number] = ()
    return answers


def _where_they_are(context: str, answers: Answers) -> Answers:
    """The answers, without those that are no longer at their place."""
    there = {}
    for number, references in answers.items():
        is_there = [
            context[reference.start : reference.start + len(reference.text)] == reference.text
            for reference in references
        ]
        if all(is_there):
            there[number] = references
    return there


def learn(texts: list[Text], copies: int) -> Iterator[Article]:
    """Copies of each text, twelve texts an article.

    The first copy has every sentence that was written.
    """
    for copy in range(copies):
        draw = random.Random(copy)
        paragraphs = []
        for row, text in enumerate(texts):
            context, answers = changed(text, draw, CUT if copy else 0, PUT)
            questions = []
            for number, asked in enumerate(text.asked):
                is_bare = not asked.answers and (bool(asked.sentence) or draw.random() < BARE)
                if number in answers or is_bare:
                    name = f"{copy}-everyday-{row}-{number}"
                    questions.append(_question(name, asked.text, answers.get(number, ())))
            paragraphs.append(Paragraph(context, tuple(questions)))
        for at in range(0, len(paragraphs), TEXTS_PER_ARTICLE):
            some = paragraphs[at : at + TEXTS_PER_ARTICLE]
            yield Article(f"everyday {copy} {at}", tuple(some))


def _question(name: str, text: str, answers: tuple[Reference, ...]) -> Question:
    """A question, marked where it has no answer."""
    return Question(name, text, answers, impossible=not answers)


def judge(texts: list[Text]) -> Iterator[Article]:
    """Each question twice; questions of which only one side could be had are left out."""
    draw = random.Random(0)
    for row, text in enumerate(texts):
        questions = []
        others = []
        for number, asked in enumerate(text.asked):
            name = f"everyday-{row}-{number}"
            question = _question(name, asked.text, asked.answers)
            answers: tuple[Reference, ...] = ()
            if asked.answers:
                other = without_answer(text.context, question)
            else:
                alone = Text(text.kind, text.context, [asked])
                other, found = changed(alone, draw, 0, 1)
                answers = found.get(0, ())
                if not answers:
                    other = None
            if other:
                questions.append(question)
                twin = _question(f"{name}-other", asked.text, answers)
                others.append(Paragraph(other, (twin,)))
        if questions:
            first = Paragraph(text.context, tuple(questions))
            yield Article(f"{text.kind} {row}", (first, *others))


def plain(texts: list[Text], count: int) -> Iterator[Article]:
    """Yield so many of the texts, spread over all of them, with their questions as written."""
    for row in range(0, len(texts), max(1, len(texts) // count)):
        text = texts[row]
        questions = []
        for number, asked in enumerate(text.asked):
            name = f"ordinary-{row}-{number}"
            questions.append(_question(name, asked.text, asked.answers))
        yield Article(f"{text.kind} {row}", (Paragraph(text.context, tuple(questions)),))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("learn", "judge", "plain"))
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--texts", type=int, default=40, help="of plain: how many, about")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    texts = []
    for path in args.files:
        texts += read(path)
    match args.what:
        case "learn":
            articles = list(learn(texts, args.copies))
        case "judge":
            articles = list(judge(texts))
        case _:
            articles = list(plain(texts, args.texts))
    write_squad(articles, args.out)
    count = 0
    impossible = 0
    for article in articles:
        for paragraph in article.paragraphs:
            count += len(paragraph.questions)
            impossible += sum(question.impossible for question in paragraph.questions)
    print(f"{args.out}: {len(texts)} texts, {count} questions, {impossible} without an answer")


if __name__ == "__main__":
    main()
