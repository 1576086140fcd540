"""Questions made from real ones: put beside the paragraph nearest to them by BM25 that does not answer them, of their
own article or of another, beside their own without the sentence that answers, or as people type them in a hurry: no
question mark, no capitals, a slip of the finger."""

import dataclasses
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from rmreader.data.squad import Article, Dataset, Paragraph, Question
from rmreader.text.sentences import sentence_around

_WORD = re.compile(r"\w+")
_K1, _B = 1.2, 0.75  # BM25's usual constants
Where = Literal["article", "elsewhere", "cut"]


def words_of(text: str) -> list[str]:
    """The words of a text as BM25 compares them: lower-cased, a plural's s left out."""
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in _WORD.findall(text.lower())]


class Nearest:
    """BM25 over a list of texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        counts = [Counter(words_of(text)) for text in texts]
        lengths = np.array([count.total() for count in counts], np.float64)
        rows: defaultdict[str, list[int]] = defaultdict(list)
        for row, count in enumerate(counts):
            for word in count:
                rows[word].append(row)
        norm = _K1 * (1 - _B + _B * lengths / max(1.0, lengths.mean() if len(lengths) else 1.0))
        self.size = len(counts)
        self._weights: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
        for word, at in rows.items():
            found = np.array(at)
            idf = np.log(1 + (self.size - len(at) + 0.5) / (len(at) + 0.5))
            often = np.array([counts[row][word] for row in at], np.float64)
            self._weights[word] = found, idf * often * (_K1 + 1) / (often + norm[found])

    def scores(self, query: str) -> NDArray[np.float64]:
        """BM25 of every text."""
        scores = np.zeros(self.size)
        for word in set(words_of(query)):
            if word in self._weights:
                rows, weights = self._weights[word]
                scores[rows] += weights
        return scores

    def best(self, query: str, k: int) -> list[int]:
        """The k nearest texts, nearest first."""
        scores = self.scores(query)
        chosen = np.argpartition(-scores, k)[:k] if k < self.size else np.arange(self.size)
        return [int(row) for row in chosen[np.argsort(-scores[chosen], kind="stable")]]


def holds(passage: str, question: Question) -> bool:
    """Whether any answer that people gave is in the passage, word for word."""
    text = f" {' '.join(_WORD.findall(passage.lower()))} "
    return any(f" {' '.join(_WORD.findall(answer.text.lower()))} " in text for answer in question.answers)


def without_answer(passage: str, question: Question) -> str | None:
    """The passage without the sentence that answers; None if that was the half of it, or the rest holds an answer."""
    answer = question.answers[0]
    low, high = sentence_around(passage, answer.start, answer.start + len(answer.text))
    left = (passage[:low] + passage[high:].lstrip()).strip()
    return None if 2 * len(left) < len(passage) or holds(left, question) else left


def negatives(
    dataset: Dataset, share: float, where: Where, seed: int = 1, nearest: int = 5
) -> Iterator[tuple[int, str, Question]]:
    """For a share of the answered questions: their article's number, a passage that does not answer, the question.

    The passage is one of the ``nearest`` by BM25 that do not hold the answer, the nearest most often, or their own cut.
    """
    draw = np.random.default_rng((seed, get_args(Where).index(where)))
    contexts = [[paragraph.context for paragraph in article.paragraphs] for article in dataset.articles]
    flat = [(number, context) for number, texts in enumerate(contexts) for context in texts]
    everywhere = Nearest(context for _, context in flat) if where == "elsewhere" else None
    for number, article in enumerate(dataset.articles):
        asked = [(p, q) for p in article.paragraphs for q in p.questions if q.answers and draw.random() < share]
        if where == "cut":
            cut = ((question, without_answer(paragraph.context, question)) for paragraph, question in asked)
            yield from ((number, left, question) for question, left in cut if left)
            continue
        texts, among, many = flat, everywhere, 8 * nearest
        if among is None:
            texts, among, many = [(-1, context) for context in contexts[number]], Nearest(contexts[number]), nearest + 3
        for paragraph, question in asked:
            rows = among.best(question.text, many)
            found = [text for of, text in (texts[row] for row in rows) if of != number]
            others = [text for text in found if text != paragraph.context and not holds(text, question)][:nearest]
            if others:
                yield number, others[min(int(draw.geometric(0.5)) - 1, len(others) - 1)], question


def with_negatives(dataset: Dataset, near: float = 0.3, far: float = 0.1, seed: int = 1, cut: float = 0.0) -> Dataset:
    """The data set with a share of its questions asked once more where they are not answered.

    All of a question's negatives are put into its own article, so that an article that is held out is held out whole.
    """
    more: defaultdict[int, defaultdict[str, list[Question]]] = defaultdict(lambda: defaultdict(list))
    kinds: Sequence[tuple[float, Where]] = ((near, "article"), (far, "elsewhere"), (cut, "cut"))
    for share, where in kinds:
        for number, context, question in negatives(dataset, share, where, seed) if share > 0 else ():
            more[number][context].append(Question(f"{question.id}-{where}", question.text, (), impossible=True))
    articles = [_joined(article, more[number]) for number, article in enumerate(dataset.articles)]
    return dataclasses.replace(dataset, articles=tuple(articles))


def asked_together(ids: Iterable[str]) -> NDArray[np.int64]:
    """The number of each question's group: a question and what ``with_negatives`` made of it, told by their ids."""
    groups: dict[str, int] = {}
    made = re.compile(f"-(?:{'|'.join(get_args(Where))})$")
    return np.array([groups.setdefault(made.sub("", name), len(groups)) for name in ids], np.int64)


def _joined(article: Article, more: defaultdict[str, list[Question]]) -> Article:
    """The article with more questions, in paragraphs it has and in ones it has not."""
    paragraphs = [
        dataclasses.replace(paragraph, questions=(*paragraph.questions, *more.pop(paragraph.context, ())))
        for paragraph in article.paragraphs
    ]
    added = [Paragraph(context, tuple(questions)) for context, questions in more.items()]
    return Article(article.title, (*paragraphs, *added))


_LONG = 5  # letters of a word that a slip is made in: shorter ones would often become another word


def hurried(question: str, draw: np.random.Generator) -> str:
    """The question without its mark, often in lower case; one of three with a slip in one word as well."""
    text = question.rstrip("? ") or question
    if draw.random() < 0.5:
        text = text.lower()
    return slip(text, draw) if draw.random() < 1 / 3 else text


def slip(text: str, draw: np.random.Generator) -> str:
    """The text with one letter of one long word left out, typed twice, or typed before the letter in front of it."""
    words = text.split(" ")
    long = [number for number, word in enumerate(words) if len(word) >= _LONG and word.isalpha()]
    if not long:
        return text
    number = long[int(draw.integers(len(long)))]
    word = words[number]
    at = int(draw.integers(1, len(word) - 1))  # the first letter and the last stay
    before, letter, after = word[:at], word[at], word[at + 1 :]
    swapped = before[:-1] + letter + before[-1] + after if at > 1 else word
    words[number] = (before + after, before + letter + letter + after, swapped)[int(draw.integers(3))]
    return " ".join(words)


def with_hurried(dataset: Dataset, share: float, seed: int = 1) -> Dataset:
    """The data set with a share of its questions typed in a hurry, each chosen by its own id and the seed."""

    def typed(name: str, text: str) -> str:
        draw = np.random.default_rng((seed, zlib.crc32(name.encode("utf-8", "replace"))))
        return hurried(text, draw) if draw.random() < share else text

    def changed(paragraph: Paragraph) -> Paragraph:
        asked = (dataclasses.replace(one, text=typed(one.id, one.text)) for one in paragraph.questions)
        return Paragraph(paragraph.context, tuple(asked))

    articles = (Article(article.title, tuple(map(changed, article.paragraphs))) for article in dataset.articles)
    return dataclasses.replace(dataset, articles=tuple(articles))
