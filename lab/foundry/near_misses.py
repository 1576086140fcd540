"""Near misses: a sentence like the one that answers, about another case.

The twin of "The bridge at Arles was finished in 1825" is "The bridge at Vienna was finished in
1871": it has the kind of thing that is asked for, and does not answer "When was the bridge at Arles
finished?". A question is asked once more of its passage with the twin put in somewhere (it is still
answered), or with the twin in the place of the sentence (it is not answered any more). What a twin
looks like therefore tells nothing.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

import numpy as np

from rmreader.data.negatives import holds
from rmreader.data.squad import Article, Dataset, Paragraph, Question, Reference
from rmreader.text.sentences import sentence_around

# Names: words with a capital, one after the other. Numbers: years, amounts with their separators.
_NAME = re.compile(r"[A-Z][\w'’-]+(?: (?:of |de |the )?[A-Z][\w'’-]+)*")
_NUMBER = re.compile(r"\d[\d,.]*\d|\d")
_WORDS = re.compile(r"\w+")

# With a capital for their place or their kind, not as names.
_CAPITALS = (
    "The This That These Those There Then They Their His Her Its It In On At By For From With"
    " Without After Before During When While Where Who Whose Which What How Why If As And But Or"
    " Not No One Two Some Many Most All Each Both Such He She We You I My Our Your An A To Of"
    " Since Until Although However Also Only Under Over Between Among"
)
_NOT_NAMES = frozenset(_CAPITALS.split())
_MOST_TRIES = 8


class Twins:
    """Makes twins, with names and answers that other articles have."""

    def __init__(self, dataset: Dataset, seed: int) -> None:
        """``dataset``: where the names come from."""
        self.draw = np.random.default_rng((seed, 7))
        self.names: dict[int, list[str]] = {}
        seen = set()
        for _, question in dataset.questions():
            texts = _names(question.text)
            texts += [answer.text for answer in question.answers[:1]]
            for text in texts:
                if _NAME.fullmatch(text) and text not in seen:
                    seen.add(text)
                    words = len(text.split())
                    self.names.setdefault(words, []).append(text)

    def twin(self, sentence: str, question: Question, answer: str) -> str | None:
        """A sentence about another case.

        None where the sentence names no case that is asked for.
        """
        shared = []
        for case in _cases(sentence, question.text):
            if case not in answer and answer not in case:
                shared.append(case)
        another_answer = self._another(answer)
        if not shared or another_answer is None:
            return None
        changes = {answer: another_answer}
        for case in shared:
            another = self._another(case)
            if another is None:
                return None
            changes[case] = another
        # The longest first, so that no part of a name is changed before the whole.
        longest_first = sorted(changes, key=len, reverse=True)
        pattern = "|".join(rf"(?<!\w){re.escape(old)}(?!\w)" for old in longest_first)
        twin = re.sub(pattern, lambda match: changes[match[0]], sentence)
        if twin == sentence or holds(twin, question):
            return None
        return twin

    def _another(self, text: str) -> str | None:
        """Another name of as many words, or another number that is written alike."""
        if _NUMBER.search(text):
            return _NUMBER.sub(lambda match: self._another_number(match[0]), text)
        names = self.names.get(len(text.split()))
        if not names or not _NAME.fullmatch(text):
            return None
        for _ in range(_MOST_TRIES):
            place = int(self.draw.integers(len(names)))
            name = names[place]
            if set(name.split()).isdisjoint(text.split()):
                return name
        return None

    def _another_number(self, text: str) -> str:
        """The number with its last digits changed: a year stays a year of that time."""
        digits = [place for place, letter in enumerate(text) if letter.isdigit()]
        changed = digits[-2:] if len(digits) > 2 else digits
        letters = list(text)
        while "".join(letters) == text:
            for place in changed:
                is_first = place == digits[0]
                letters[place] = str(self.draw.integers(1 if is_first else 0, 10))
        return "".join(letters)


def _names(text: str) -> list[str]:
    """The names in a text, without what has a capital for another reason."""
    names = []
    for match in _NAME.finditer(text):
        words = match[0].split()
        while words and words[0] in _NOT_NAMES:
            words = words[1:]
        if words:
            names.append(" ".join(words))
    return names


def _cases(sentence: str, question: str) -> list[str]:
    """The names and numbers of a sentence that are in the question, too."""
    asked = set(_WORDS.findall(question))
    cases = []
    for name in _names(sentence):
        if set(_WORDS.findall(name)) & asked:
            cases.append(name)
    for match in _NUMBER.finditer(sentence):
        if match[0] in asked:
            cases.append(match[0])
    return list(dict.fromkeys(cases))


def near_misses(dataset: Dataset, share: float, seed: int) -> Iterator[tuple[int, str, Question]]:
    """Ask a share of the questions again, of passages with a twin.

    Yields the number of an article, a passage and the question. Each question is there twice: with
    the twin beside the sentence that answers, and with the twin in its place.
    """
    twins = Twins(dataset, seed)
    draw = np.random.default_rng((seed, 8))
    for number, article in enumerate(dataset.articles):
        for paragraph in article.paragraphs:
            for question in paragraph.questions:
                if not question.answers or draw.random() >= share:
                    continue
                for passage, asked in _both(paragraph.context, question, twins, draw):
                    yield number, passage, asked


def _both(
    context: str,
    question: Question,
    twins: Twins,
    draw: np.random.Generator,
) -> Iterator[tuple[str, Question]]:
    """The question with its twin beside the answering sentence, and in its place."""
    answer = question.answers[0]
    begin, end = sentence_around(context, answer.start, answer.start + len(answer.text))
    twin = twins.twin(context[begin:end], question, answer.text)
    if twin is None:
        return
    # Beside: at the edge of any sentence.
    place = _boundary(context, draw)
    if begin < place < end:
        place = end
    before = context[:place].rstrip()
    after = context[place:].lstrip()
    passage = f"{before} {twin} {after}".strip()
    moved = len(passage) - len(context) if place <= answer.start else 0
    start = answer.start + moved
    if passage[start : start + len(answer.text)] == answer.text:
        reference = Reference(answer.text, start)
        yield passage, Question(f"{question.id}-beside", question.text, (reference,))

    # In its place: the question has no answer any more.
    passage = context[:begin] + twin + context[end:]
    if not holds(passage, question):
        yield passage, Question(f"{question.id}-twin", question.text, (), impossible=True)


def _boundary(context: str, draw: np.random.Generator) -> int:
    """Where a sentence begins, or the end: any of them."""
    somewhere = int(draw.integers(len(context) + 1))
    if somewhere >= len(context) - 1:
        return len(context)
    begin, end = sentence_around(context, somewhere, somewhere + 1)
    return begin if draw.random() < 0.5 else end


def with_paragraphs(dataset: Dataset, more: Iterable[tuple[int, str, Question]]) -> Dataset:
    """The data with more passages, each with one question, in the articles of these numbers."""
    added: dict[int, list[Paragraph]] = {}
    for number, passage, question in more:
        added.setdefault(number, []).append(Paragraph(passage, (question,)))
    articles = []
    for number, article in enumerate(dataset.articles):
        paragraphs = (*article.paragraphs, *added.get(number, []))
        articles.append(Article(article.title, paragraphs))
    return dataclasses.replace(dataset, articles=tuple(articles))
