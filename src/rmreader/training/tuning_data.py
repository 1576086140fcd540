"""What a reader is tuned on: somebody's examples, and questions that keep it saying "no".

A reader that learns from answered questions alone forgets that a passage may not answer. So some of
the examples are asked once more where they are not answered, and ordinary questions about everyday
texts, which the shipped readers have learned from, are mixed in.
"""

from collections import Counter
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from typing import Any

from rmreader.data.examples import Examples
from rmreader.data.negatives import negatives, words_of
from rmreader.data.squad import Article, Dataset, Paragraph, Question, read_squad, tree_of

ORDINARY = "ordinary-"
"""How the id of an ordinary question begins."""
_UNANSWERED = 0.1  # share of the examples asked without the answering sentence; as many elsewhere
_LEAST_UNANSWERED = 10  # of each, where half of the examples are that many
_LEAST_ORDINARY = 100  # questions, however few the examples are
_ORDINARY = 1.0  # for each example
_SEED = 1


@dataclass(frozen=True)
class TuningData:
    """The data set of a tuning, and how much of it the examples themselves cannot teach."""

    articles: tuple[Article, ...]
    refused: int
    """Questions made from the examples, or given with them, that their passages do not answer."""

    def tree(self) -> dict[str, Any]:
        """Return it as plain data, in SQuAD's layout 2.0."""
        articles = [tree_of(article, impossible=True) for article in self.articles]
        return {"version": "v2.0", "data": articles}


def mix(examples: Examples) -> TuningData:
    """Return the examples with questions that are not answered and ordinary ones mixed in."""
    own = Dataset(articles=examples.articles(), problems=(), file="")
    extended = list(own.articles)
    made = 0
    for number, passage, question in _unanswered(own):
        again = Question(f"{question.id}-none", question.text, (), impossible=True)
        article = extended[number]
        paragraphs = (*article.paragraphs, Paragraph(passage, (again,)))
        extended[number] = replace(article, paragraphs=paragraphs)
        made += 1
    given = sum(question.impossible for _, _, question in examples.rows)
    wanted = max(_LEAST_ORDINARY, round(_ORDINARY * len(examples.rows)))
    ordinary = _some(ordinary_questions("learn"), wanted)
    return TuningData((*extended, *ordinary), made + given)


def _unanswered(dataset: Dataset) -> list[tuple[int, str, Question]]:
    """Return questions beside passages that do not answer them, with their articles' numbers.

    Each question is there once: beside its own passage without the sentence that answers, where it
    can be cut, else beside the passage of another example. A question that several examples ask
    may well be answered there, so it is not put there.
    """
    count = sum(1 for _ in dataset.questions())
    share = min(0.5, max(_UNANSWERED, _LEAST_UNANSWERED / count))
    asked = Counter(_words(question.text) for _, question in dataset.questions())
    found: dict[str, tuple[int, str, Question]] = {}
    for number, passage, question in negatives(dataset, share, "elsewhere", _SEED):
        if asked[_words(question.text)] == 1:
            found[question.id] = number, passage, question
    for number, passage, question in negatives(dataset, share, "cut", _SEED):
        found[question.id] = number, passage, question
    return list(found.values())


def _words(question: str) -> str:
    return " ".join(words_of(question))


def ordinary_questions(which: str) -> tuple[Article, ...]:
    """Return everyday texts with questions: those to ``learn`` from, or those to ``test`` on.

    ``lab.scripts.everyday plain`` made the files.
    """
    packaged = files("rmreader.training") / "ordinary" / f"{which}.json.gz"
    with as_file(packaged) as path:
        return read_squad(path).articles


def is_ordinary(id: str) -> bool:
    """Return whether a question of the data set was mixed in, by its id."""
    return id.startswith(ORDINARY)


def _some(articles: tuple[Article, ...], count: int) -> list[Article]:
    """Return so many questions about the shorter half of the texts, which cost least to read, as
    many about each."""
    shorter = sorted(articles, key=_length)[: len(articles) // 2]
    most = max(1, round(count / len(shorter)))
    chosen = []
    for number, article in enumerate(shorter[:count]):
        paragraphs = []
        for paragraph in article.paragraphs:
            # Not the first of each: those without an answer stand in the same places everywhere.
            questions = paragraph.questions
            places = [(number + 3 * k) % len(questions) for k in range(min(most, len(questions)))]
            kept = tuple(questions[place] for place in sorted(set(places)))
            paragraphs.append(replace(paragraph, questions=kept))
        chosen.append(replace(article, paragraphs=tuple(paragraphs)))
    return chosen


def _length(article: Article) -> int:
    return sum(len(paragraph.context) for paragraph in article.paragraphs)
