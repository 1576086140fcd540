"""What the readers learn from, choose by and are measured on.

It is made from the public files and `lab/everyday/`.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from lab.foundry.near_misses import near_misses, with_paragraphs
from lab.scripts import everyday
from rmreader.data.encode import encode_file
from rmreader.data.negatives import with_hurried, with_negatives
from rmreader.data.split import split
from rmreader.data.squad import Article, Dataset, Paragraph, read_squad, write_squad

Item = TypeVar("Item")

HELD_OUT_SHARE = 0.02  # nine of 442 articles, as in every generation before
HELD_OUT_SEED = 1
EVERYDAY_COPIES = 4
PEOPLE = (
    "fairytaleqa-train",
    "fairytaleqa-val",
    "narrativeqa-summaries-test",
    "narrativeqa-summaries-dev",
    "tydiqa-goldp-en-train",
    "qed-nq-dev",
)
SENTENCES = ("qamr-dev", "qamr-test")  # free questions about single sentences


def squad(shared: Path, work: Path, share: float = 1.0) -> None:
    """SQuAD 2.0's training questions in two files: nine articles to choose by, the others to learn.

    :param share: of the articles, the first ones, to rehearse with.
    """
    source = shared / "squad-v2.0" / "train-v2.0-rebuilt.json.gz"
    encoded = encode_file(source, work / "cache")
    _, held = split(encoded, HELD_OUT_SHARE, HELD_OUT_SEED, no_answer=True)
    assert held is not None
    numbers = set(held.article.tolist())
    learned: list[Article] = []
    held_out: list[Article] = []
    for number, article in enumerate(read_squad(source).articles):
        if number in numbers:
            held_out.append(article)
        else:
            learned.append(article)
    write_squad(_first(learned, share), work / "squad.json.gz")
    write_squad(_first(held_out, share), work / "held-squad.json.gz")


def _first(items: Sequence[Item], share: float) -> list[Item]:
    """The first so many of them, at least one."""
    count = max(1, round(share * len(items)))
    return list(items[:count])


def everyday_texts(repository: Path, work: Path, share: float = 1.0) -> None:
    """The everyday texts, each question with its answer in the text and without."""
    folder = repository / "lab" / "everyday"
    texts = []
    for name in ("learn", "learn-2"):
        texts.extend(_first(everyday.read(folder / f"{name}.txt.gz"), share))
    write_squad(list(everyday.learn(texts, EVERYDAY_COPIES)), work / "everyday.json.gz")
    for name in ("held", "test"):
        texts = _first(everyday.read(folder / f"{name}.txt.gz"), share)
        write_squad(list(everyday.judge(texts)), work / f"{name}-everyday.json.gz")


def people(shared: Path, work: Path, share: float = 1.0) -> None:
    """Questions that people asked about stories, plots, articles and sentences.

    Only answers that were given word for word stay.
    """
    articles: list[Article] = []
    for name in (*PEOPLE, *SENTENCES):
        path = shared / "more-questions" / f"{name}.json.gz"
        near = _near_answers(path)
        for number, article in enumerate(read_squad(path).articles):
            kept = _without(article, near)
            articles.extend(_in_parts(kept, f"{name} {number}"))
    write_squad(_first(articles, share), work / "people.json.gz")


def _near_answers(path: Path) -> set[str]:
    """The ids of questions whose span is only near the words that were given."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        tree = json.load(file)
    ids = set()
    for article in tree["data"]:
        for paragraph in article["paragraphs"]:
            for row in paragraph["qas"]:
                if row.get("match") == "near":
                    ids.add(row["id"])
    return ids


def _without(article: Article, ids: set[str]) -> Article:
    """The article without some questions, and without the paragraphs that are left with none."""
    paragraphs = []
    for paragraph in article.paragraphs:
        questions = tuple(question for question in paragraph.questions if question.id not in ids)
        if questions:
            paragraphs.append(Paragraph(paragraph.context, questions))
    return Article(article.title, tuple(paragraphs))


def _in_parts(article: Article, title: str, size: int = 40) -> Iterable[Article]:
    """A long list of paragraphs as several articles.

    Near negatives are looked for within an article, and so among few.
    """
    for begin in range(0, len(article.paragraphs), size):
        yield Article(f"{title} {begin}", article.paragraphs[begin : begin + size])


@dataclasses.dataclass(frozen=True)
class Share:
    """A file to learn from, and how many of its questions are asked again without an answer."""

    file: str
    near: float
    far: float
    cut: float
    hurried: float
    seed: int
    near_misses: float = 0.0  # share that is asked again beside a sentence about another case


SHARES = (
    Share(
        "squad.json.gz",
        near=0.2,
        far=0.06,
        cut=0.3,
        hurried=0.2,
        seed=11,
        near_misses=0.6,
    ),
    Share("everyday.json.gz", near=0.0, far=0.03, cut=0.0, hurried=0.25, seed=12),
    Share("made-texts.json.gz", near=0.0, far=0.05, cut=0.0, hurried=0.25, seed=14),
    Share("people.json.gz", near=0.15, far=0.1, cut=0.1, hurried=0.2, seed=13),
)


def join(files: Sequence[Path], out: Path) -> None:
    """Several files as one."""
    articles: list[Article] = []
    for path in files:
        articles.extend(read_squad(path).articles)
    write_squad(articles, out)


def learn(work: Path, shares: Sequence[Share], out: str) -> None:
    """One file to learn from: every share with its negatives."""
    articles: list[Article] = []
    for share in shares:
        dataset = read_squad(work / share.file)
        with_none = with_negatives(
            dataset,
            share.near,
            share.far,
            share.seed,
            share.cut,
        )
        # Made of the data as they are, so that no twin has a twin.
        twins = near_misses(dataset, share.near_misses, share.seed)
        with_none = with_paragraphs(with_none, twins)
        articles.extend(with_hurried(with_none, share.hurried, share.seed).articles)
    write_squad(articles, work / out)
    count = 0
    impossible = 0
    for _, question in Dataset(tuple(articles)).questions():
        count += 1
        impossible += question.impossible
    print(f"{out}: {count:,} questions, {impossible:,} without an answer", flush=True)
