"""Questions made from real ones, to learn from beside them.

A question is put beside the paragraph nearest to it by BM25 that does not answer it, of its own
article or of another, or beside its own paragraph without the sentence that answers. Others are
typed as people type in a hurry: no question mark, no capitals, a slip of the finger.
"""

import dataclasses
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from rmreader.data.squad import Article, Dataset, Paragraph, Question
from rmreader.text.sentences import sentence_around

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Where = Literal["article", "elsewhere", "cut"]

_WORD = re.compile(r"\w+")

# BM25's usual constants.
_K1 = 1.2
_B = 0.75


def words_of(text: str) -> list[str]:
    """Return the words of a text as BM25 compares them: lower-cased, without a plural's s."""
    words = []
    for word in _WORD.findall(text.lower()):
        is_plural = len(word) > 3 and word.endswith("s")
        words.append(word[:-1] if is_plural else word)
    return words


class Nearest:
    """BM25 over a list of texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        counts = [Counter(words_of(text)) for text in texts]
        lengths = np.array([count.total() for count in counts], np.float64)
        rows_of: defaultdict[str, list[int]] = defaultdict(list)
        for row, count in enumerate(counts):
            for word in count:
                rows_of[word].append(row)

        # Long texts hold a word more often by chance: their counts weigh less.
        mean = lengths.mean() if len(lengths) else 1.0
        norm = _K1 * (1 - _B + _B * lengths / max(1.0, mean))
        self.size = len(counts)
        self._weights: dict[str, tuple[Ints, Floats]] = {}
        for word, listed in rows_of.items():
            rows = np.array(listed)
            # Rare words count more: the usual inverse document frequency.
            without = self.size - len(rows)
            idf = np.log(1 + (without + 0.5) / (len(rows) + 0.5))
            frequency = np.array([counts[row][word] for row in listed], np.float64)
            weights = idf * frequency * (_K1 + 1) / (frequency + norm[rows])
            self._weights[word] = rows, weights

    def scores(self, query: str) -> Floats:
        """Return BM25 of every text."""
        scores = np.zeros(self.size)
        for word in set(words_of(query)):
            if word in self._weights:
                rows, weights = self._weights[word]
                scores[rows] += weights
        return scores

    def best(self, query: str, k: int) -> list[int]:
        """Return the k nearest texts, nearest first."""
        scores = self.scores(query)
        if k < self.size:
            rows = np.argpartition(-scores, k)[:k]
        else:
            rows = np.arange(self.size)
        order = np.argsort(-scores[rows], kind="stable")
        return [int(row) for row in rows[order]]


def holds(passage: str, question: Question) -> bool:
    """Whether any answer that people gave is in the passage, word for word."""
    text = _spaced_words(passage)
    return any(_spaced_words(answer.text) in text for answer in question.answers)


def _spaced_words(text: str) -> str:
    """Return the lower-cased words with a space around each, so that only whole words match."""
    return f" {' '.join(_WORD.findall(text.lower()))} "


def without_answer(passage: str, question: Question) -> str | None:
    """Return the passage without the sentence that answers.

    None if that was more than half of it, or the rest still holds an answer.
    """
    answer = question.answers[0]
    begin, end = sentence_around(passage, answer.start, answer.start + len(answer.text))
    rest = (passage[:begin] + passage[end:].lstrip()).strip()
    if 2 * len(rest) < len(passage) or holds(rest, question):
        return None
    return rest


def negatives(
    dataset: Dataset,
    share: float,
    where: Where,
    seed: int = 1,
    nearest: int = 5,
) -> Iterator[tuple[int, str, Question]]:
    """Yield for a share of the answered questions: article number, passage, question.

    The passage does not answer. It is one of the ``nearest`` by BM25 that do not hold the answer,
    the nearest most often, or the question's own with the answering sentence cut out.
    """
    draw = np.random.default_rng((seed, get_args(Where).index(where)))
    everywhere = _every_passage(dataset, nearest) if where == "elsewhere" else None
    for number, article in enumerate(dataset.articles):
        # Drawn before anything else, so that the choice does not depend on what is found.
        asked = []
        for paragraph in article.paragraphs:
            for question in paragraph.questions:
                if question.answers and draw.random() < share:
                    asked.append((paragraph.context, question))

        if where == "cut":
            for context, question in asked:
                rest = without_answer(context, question)
                if rest:
                    yield number, rest, question
            continue
        search = everywhere or _own_passages(article, nearest)
        for context, question in asked:
            others = search.passages(question, context, outside=number)[:nearest]
            if others:
                place = min(int(draw.geometric(0.5)) - 1, len(others) - 1)
                yield number, others[place], question


class _Search:
    """Passages that are nearest to a question and do not answer it."""

    def __init__(self, contexts: list[tuple[int, str]], many: int) -> None:
        """``contexts`` are passages with the number of their article; ``many`` are looked at."""
        self.contexts = contexts
        self.index = Nearest(context for _, context in contexts)
        self.many = many

    def passages(self, question: Question, own: str, outside: int) -> list[str]:
        """Return passages of other articles than ``outside``, nearest first, never its ``own``."""
        passages = []
        for row in self.index.best(question.text, self.many):
            article, context = self.contexts[row]
            if article != outside and context != own and not holds(context, question):
                passages.append(context)
        return passages


def _every_passage(dataset: Dataset, nearest: int) -> _Search:
    contexts = []
    for number, article in enumerate(dataset.articles):
        for paragraph in article.paragraphs:
            contexts.append((number, paragraph.context))
    return _Search(contexts, 8 * nearest)  # many of them are of the question's own article


def _own_passages(article: Article, nearest: int) -> _Search:
    contexts = [(-1, paragraph.context) for paragraph in article.paragraphs]
    return _Search(contexts, nearest + 3)  # some of them hold the answer


def with_negatives(
    dataset: Dataset,
    near: float = 0.3,
    far: float = 0.1,
    seed: int = 1,
    cut: float = 0.0,
) -> Dataset:
    """Ask a share of the questions once more where they are not answered.

    All of a question's negatives are put into its own article, so that an article that is held out
    is held out whole.
    """
    more: defaultdict[int, defaultdict[str, list[Question]]]
    more = defaultdict(lambda: defaultdict(list))
    kinds: dict[Where, float] = {
        "article": near,
        "elsewhere": far,
        "cut": cut,
    }
    for where, share in kinds.items():
        if share <= 0:
            continue
        for number, context, question in negatives(dataset, share, where, seed):
            again = Question(f"{question.id}-{where}", question.text, (), impossible=True)
            more[number][context].append(again)
    articles = []
    for number, article in enumerate(dataset.articles):
        articles.append(_extended(article, more[number]))
    return dataclasses.replace(dataset, articles=tuple(articles))


def asked_together(ids: Iterable[str]) -> Ints:
    """Return the number of each question's group.

    A question and what ``with_negatives`` made of it are one group; their ids tell.
    """
    groups: dict[str, int] = {}
    suffix = re.compile(f"-(?:{'|'.join(get_args(Where))})$")
    numbers = [groups.setdefault(suffix.sub("", name), len(groups)) for name in ids]
    return np.array(numbers, np.int64)


def _extended(article: Article, more: defaultdict[str, list[Question]]) -> Article:
    """Return the article with more questions, in paragraphs it has and in new ones."""
    paragraphs = []
    for paragraph in article.paragraphs:
        questions = (*paragraph.questions, *more.pop(paragraph.context, ()))
        paragraphs.append(dataclasses.replace(paragraph, questions=questions))
    for context, added in more.items():
        paragraphs.append(Paragraph(context, tuple(added)))
    return Article(article.title, tuple(paragraphs))


_LONG = 5  # letters of a word that a slip is made in: shorter ones often become another word


def hurried(question: str, draw: np.random.Generator) -> str:
    """Type a question without its mark, often in lower case; one of three with a slip as well."""
    text = question.rstrip("? ") or question
    if draw.random() < 0.5:
        text = text.lower()
    if draw.random() < 1 / 3:
        text = slip(text, draw)
    return text


def slip(text: str, draw: np.random.Generator) -> str:
    """Leave out, double or swap one letter of one long word."""
    words = text.split(" ")
    long = []
    for number, word in enumerate(words):
        if len(word) >= _LONG and word.isalpha():
            long.append(number)
    if not long:
        return text
    number = long[int(draw.integers(len(long)))]
    word = words[number]
    # The first letter and the last stay.
    place = int(draw.integers(1, len(word) - 1))
    before = word[:place]
    letter = word[place]
    after = word[place + 1 :]
    swapped = before[:-1] + letter + before[-1] + after if place > 1 else word
    slips = (
        before + after,
        before + letter + letter + after,
        swapped,
    )
    words[number] = slips[int(draw.integers(3))]
    return " ".join(words)


def with_hurried(dataset: Dataset, share: float, seed: int = 1) -> Dataset:
    """Type a share of the questions in a hurry, each chosen by its own id and the seed."""
    articles = []
    for article in dataset.articles:
        paragraphs = []
        for paragraph in article.paragraphs:
            typed = [_perhaps_hurried(question, share, seed) for question in paragraph.questions]
            paragraphs.append(Paragraph(paragraph.context, tuple(typed)))
        articles.append(Article(article.title, tuple(paragraphs)))
    return dataclasses.replace(dataset, articles=tuple(articles))


def _perhaps_hurried(question: Question, share: float, seed: int) -> Question:
    draw = np.random.default_rng((seed, zlib.crc32(question.id.encode("utf-8", "replace"))))
    if draw.random() >= share:
        return question
    return dataclasses.replace(question, text=hurried(question.text, draw))
