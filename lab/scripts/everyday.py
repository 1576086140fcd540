"""Questions about everyday texts, from the files in `lab/everyday/`, in SQuAD's layout 2.0.

python -m lab.scripts.everyday learn lab/everyday/learn.txt.gz --out learn.json.gz --copies 4
python -m lab.scripts.everyday judge lab/everyday/test.txt.gz --out test.json.gz

A file has texts, one after another: a line `## kind of text`, its paragraphs, then questions: `?
question`, and below it `= answer` in the passage's own words (` || ` between several that are
right, ` @@2` for their second place), or `-` where the passage does not answer, at times with `+
sentence` that would, its [answer] in brackets.

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

CUT, PUT, BARE = (
    0.5,
    0.7,
    0.25,
)  # chances: a sentence with an answer goes, one that answers comes, others are asked
MOST = 0.45  # of a passage may go
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
    for number, line in enumerate(map(str.rstrip, read_lines(path)), 1):
        mark, _, rest = line.partition(" ")
        try:
            if mark == "##":
                texts.append(Text(rest))
            elif mark == "?":
                texts[-1].asked.append(Asked(rest))
            elif mark == "=":
                texts[-1].asked[-1].answers = tuple(
                    _found(texts[-1].context, one) for one in rest.split(" || ")
                )
            elif mark == "+":
                before, answer, after = _marked(rest)
                last = texts[-1].asked[-1]
                last.sentence, last.answer = before + answer + after, Reference(answer, len(before))
            elif line not in ("", "-"):
                texts[-1].context += f"\n{line}" if texts[-1].context else line
        except (IndexError, ValueError) as error:
            raise UserError(
                f"{path}, line {number}: {error}; the top of lab/scripts/everyday.py says how to write."
            ) from None
    return texts


def _marked(sentence: str) -> tuple[str, str, str]:
    """A sentence before, in and after its last pair of brackets; a chat's stamps have brackets too."""
    match = _LAST_BRACKETS.fullmatch(sentence)
    if match is None:
        raise ValueError("a sentence after + has its answer in [brackets]")
    before, answer, after = match.groups()
    return before, answer, after


def _found(context: str, answer: str) -> Reference:
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


def changed(
    text: Text, draw: random.Random, cut: float, put: float
) -> tuple[str, dict[int, tuple[Reference, ...]]]:
    """The passage with sentences taken out and put in, and what answers each question (by its
    number) there."""
    spans = list(sentences(text.context))
    home = {
        number: [
            k
            for k, (low, high) in enumerate(spans)
            if low < one.start + len(one.text) and high > one.start
        ]
        for number, asked in enumerate(text.asked)
        for one in asked.answers[:1]
    }
    gone: set[int] = set()
    for rows in home.values():
        if draw.random() < cut and len(rows) == 1:
            left = sum(high - low for k, (low, high) in enumerate(spans) if k not in gone | {*rows})
            gone |= {*rows} if left > (1 - MOST) * len(text.context) else set()
    come: dict[int, list[int]] = {}
    for number, asked in enumerate(text.asked):
        if asked.sentence and draw.random() < put:
            words = set(words_of(asked.sentence))
            near = [
                len(words & set(words_of(text.context[low:high]))) + draw.random()
                for low, high in spans
            ]
            place = (
                draw.randrange(len(spans))
                if draw.random() < 0.3
                else max(range(len(spans)), key=near.__getitem__)
            )
            come.setdefault(place, []).append(number)
    context, shift, answers = "", dict[int, int](), dict[int, tuple[Reference, ...]]()
    for k, (low, high) in enumerate(spans):
        gap = text.context[spans[k - 1][1] : low] if k else ""
        if "\n" in gap and context:
            context = context.rstrip(" ") + ("" if context.endswith("\n") else "\n")
        if k not in gone:
            context += " " * bool(context and not context.endswith("\n") and gap)
            shift[k] = len(context) - low
            context += text.context[low:high]
        for number in come.get(k, ()):
            context += " " * bool(context and not context.endswith("\n"))
            one = text.asked[number].answer
            answers[number] = (Reference(one.text, len(context) + one.start),) if one else ()
            context += text.asked[number].sentence
    for number, rows in home.items():
        one = text.asked[number].answers[0]
        if all(k in shift for k in rows) and len({shift[k] for k in rows}) == 1:
            answers[number] = (Reference(one.text, one.start + shift[rows[0]]),)
        elif not holds(context, Question("", "", text.asked[number].answers)):
            answers[number] = ()
    return context, {
        n: found for n, found in answers.items() if all(_at(context, one) for one in found)
    }


def _at(context: str, one: Reference) -> bool:
    return context[one.start : one.start + len(one.text)] == one.text


def learn(texts: list[Text], copies: int) -> Iterator[Article]:
    """Copies of each text, twelve texts an article; the first copy has every sentence that was
    written."""
    for copy in range(copies):
        draw = random.Random(copy)
        paragraphs = []
        for row, text in enumerate(texts):
            context, answers = changed(text, draw, CUT if copy else 0, PUT)
            bare = {
                n
                for n, one in enumerate(text.asked)
                if not one.answers and (one.sentence or draw.random() < BARE)
            }
            asked = tuple(
                Question(
                    f"{copy}-everyday-{row}-{n}",
                    one.text,
                    answers.get(n, ()),
                    impossible=not answers.get(n),
                )
                for n, one in enumerate(text.asked)
                if n in answers or n in bare
            )
            paragraphs.append(Paragraph(context, asked))
        for at in range(0, len(paragraphs), 12):
            yield Article(f"everyday {copy} {at}", tuple(paragraphs[at : at + 12]))


def judge(texts: list[Text]) -> Iterator[Article]:
    """Each question twice; questions of which only one side could be had are left out."""
    draw = random.Random(0)
    for row, text in enumerate(texts):
        whole, more = [], []
        for number, one in enumerate(text.asked):
            name = f"everyday-{row}-{number}"
            asked = Question(name, one.text, one.answers, impossible=not one.answers)
            answers: tuple[Reference, ...] = ()
            if one.answers:
                other = without_answer(text.context, asked)
            else:
                changed_text, found = changed(Text(text.kind, text.context, [one]), draw, 0, 1)
                answers = found.get(0, ())
                other = changed_text if answers else None
            if other:
                whole.append(asked)
                more.append(
                    Paragraph(
                        other,
                        (Question(f"{name}-other", one.text, answers, impossible=not answers),),
                    )
                )
        if whole:
            yield Article(f"{text.kind} {row}", (Paragraph(text.context, tuple(whole)), *more))


def plain(texts: list[Text], count: int) -> Iterator[Article]:
    """Yield so many of the texts, spread over all of them, with their questions as written."""
    for row in range(0, len(texts), max(1, len(texts) // count)):
        text = texts[row]
        questions = []
        for number, one in enumerate(text.asked):
            name = f"ordinary-{row}-{number}"
            questions.append(Question(name, one.text, one.answers, impossible=not one.answers))
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
    texts = [text for path in args.files for text in read(path)]
    match args.what:
        case "learn":
            articles = list(learn(texts, args.copies))
        case "judge":
            articles = list(judge(texts))
        case _:
            articles = list(plain(texts, args.texts))
    write_squad(articles, args.out)
    asked = [
        question
        for article in articles
        for paragraph in article.paragraphs
        for question in paragraph.questions
    ]
    none = sum(one.impossible for one in asked)
    print(f"{args.out}: {len(texts)} texts, {len(asked)} questions, {none} without an answer")


if __name__ == "__main__":
    main()
