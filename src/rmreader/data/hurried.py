"""Questions as people type them in a hurry: no question mark, no capitals, a slip of the finger."""

import dataclasses
import zlib

import numpy as np

from rmreader.data.squad import Dataset

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

    articles = [
        dataclasses.replace(
            article,
            paragraphs=tuple(
                dataclasses.replace(
                    paragraph,
                    questions=tuple(dataclasses.replace(q, text=typed(q.id, q.text)) for q in paragraph.questions),
                )
                for paragraph in article.paragraphs
            ),
        )
        for article in dataset.articles
    ]
    return dataclasses.replace(dataset, articles=tuple(articles))
