"""Questions with their passages, as word pieces in flat arrays: ``train.npz``."""

from __future__ import annotations

import bz2
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lab.retrieval.arrays import BLOCK, MOST_BLOCKS, quantize
from lab.scripts import everyday
from rmreader.data.squad import read_squad
from rmreader.documents import index
from rmreader.documents.document import read_document
from rmreader.documents.embedding import split_text
from rmreader.documents.passages import split
from rmreader.text.pieces import encoder_folder
from rmreader.text.vectors import SubwordTable

HELD_ARTICLES = 24  # of SQuAD, whose questions choose
HELD_QUESTIONS = 1500
WIKI_PASSAGES = 60_000
MOST_DIM = 320
MORE_QUESTIONS = (
    "fairytaleqa-train",
    "fairytaleqa-val",
    "narrativeqa-summaries-dev",
    "narrativeqa-summaries-test",
    "tydiqa-goldp-en-train",
    "qed-nq-dev",
)


@dataclass
class Texts:
    """Texts as pieces in order, ready to be written as two arrays."""

    pieces: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=lambda: [0])

    def add(self, pieces: Sequence[int]) -> int:
        """Add a text; returns its number."""
        self.pieces.extend(pieces[: BLOCK * MOST_BLOCKS])
        self.ends.append(len(self.pieces))
        return len(self.ends) - 2

    def arrays(self, name: str) -> dict[str, Any]:
        """The arrays by name."""
        return {
            f"{name}_pieces": np.array(self.pieces, np.uint16),
            f"{name}_ends": np.array(self.ends, np.uint32),
        }


class Collector:
    """Questions with their passages, out of many files."""

    def __init__(self) -> None:
        self.table = SubwordTable.load("pieces")
        self.questions = Texts()
        self.passages = Texts()
        self.gold: list[int] = []
        self.source: list[str] = []
        self._numbers: dict[str, int] = {}

    def passage(self, text: str) -> int:
        """The number of a passage; the same text has one number."""
        if text not in self._numbers:
            self._numbers[text] = self.passages.add(self.split(text))
        return self._numbers[text]

    def question(self, text: str, passage: int, source: str) -> None:
        """Add a question of a passage."""
        pieces = self.split(text)
        if pieces:
            self.questions.add(pieces)
            self.gold.append(passage)
            self.source.append(source)

    def split(self, text: str) -> list[int]:
        """The pieces of a text."""
        return split_text(self.table, text)


def prepare(data: Path, everyday: Path, encoder: str, out: Path) -> None:
    """Write ``train.npz``: everything that ``train`` reads."""
    out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(20261118)
    collector = Collector()
    add_squad(collector, data, rng)
    add_everyday(collector, everyday, rng)
    add_more(collector, data)
    add_wiki(collector, data, rng)
    stop: set[int] = set()
    for word in stop_words():
        pieces = collector.table.split(word)
        if len(pieces) == 1:
            stop.update(pieces)
    np.savez_compressed(
        out / "train.npz",
        **collector.questions.arrays("question"),
        **collector.passages.arrays("passage"),
        gold=np.array(collector.gold, np.uint32),
        source=np.array(collector.source),
        stop=np.array(sorted(stop), np.uint16),
        **start_vectors(collector.table.pieces, encoder),
    )
    for source in sorted(set(collector.source)):
        print(source, collector.source.count(source))
    passages = len(collector.passages.ends) - 1
    size = (out / "train.npz").stat().st_size >> 20
    print(
        passages,
        "passages;",
        size,
        "MiB",
    )


def start_vectors(pieces: Sequence[str], encoder: str) -> dict[str, Any]:
    """What a sentence encoder makes of each piece alone, its main axes first, in eight bits."""
    import torch
    from transformers import AutoModel

    folder = encoder_folder(encoder)
    vocabulary = json.loads((folder / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    model = AutoModel.from_pretrained(folder).eval()
    ids = torch.tensor([vocabulary[piece] for piece in pieces])
    states = []
    with torch.no_grad():
        for part in torch.split(ids, 1024):
            first = torch.full_like(part, vocabulary["[CLS]"])
            last = torch.full_like(part, vocabulary["[SEP]"])
            rows = torch.stack([first, part, last], 1)
            hidden = model(input_ids=rows, attention_mask=torch.ones_like(rows)).last_hidden_state
            states.append(hidden.mean(1))
    vectors = torch.cat(states).numpy()
    return quantize(main_axes(vectors))


def main_axes(vectors: np.ndarray) -> np.ndarray:
    """Vectors turned to their main axes; what all of them share is left out."""
    centred = vectors - vectors.mean(0)
    sample = centred[:: max(1, len(vectors) // 8000)]
    _, _, axes = np.linalg.svd(sample, full_matrices=False)
    return np.asarray(centred @ axes[1 : MOST_DIM + 1].T)


def stop_words() -> frozenset[str]:
    """The words that the search leaves out."""
    return index._STOP


def add_squad(collector: Collector, data: Path, rng: random.Random) -> None:
    """SQuAD's training articles; unanswerable questions are about their paragraph, too."""
    articles = list(read_squad(data / "squad-v2.0" / "train-v2.0-rebuilt.json.gz").articles)
    held = set(rng.sample(range(len(articles)), HELD_ARTICLES))
    held_questions: list[tuple[str, int]] = []
    for number, article in enumerate(articles):
        for paragraph in article.paragraphs:
            passage = collector.passage(paragraph.context)
            for question in paragraph.questions:
                if number not in held:
                    collector.question(question.text, passage, "squad")
                elif question.answers:
                    held_questions.append((question.text, passage))
    for text, passage in rng.sample(held_questions, HELD_QUESTIONS):
        collector.question(text, passage, "held-squad")


def add_everyday(collector: Collector, folder: Path, rng: random.Random) -> None:
    """Everyday texts to learn from; `held` to choose.

    It is beside as many others as a folder has.
    """
    for name in ("learn", "learn-2"):
        for text in read_everyday(folder / f"{name}.txt.gz"):
            add_text(
                collector,
                text,
                "everyday",
                rng,
            )
    for text in read_everyday(folder / "held.txt.gz"):
        add_text(
            collector,
            text,
            "held-everyday",
            rng,
        )


def read_everyday(path: Path) -> list[Any]:
    """The texts of a file of everyday texts."""
    return list(everyday.read(path))


def add_text(collector: Collector, text: Any, source: str, rng: random.Random) -> None:
    """A text's passages, as `index` cuts them, and its questions with the passage that answers."""
    spans = passages_of(text.context)
    for asked in text.asked:
        answers = asked.answers
        if answers:
            add_where(collector, spans, asked.text, answers[0].start, source)
        elif asked.sentence and source == "everyday":
            # The sentence that would answer is put into the passage that it fits best.
            passage = nearest(asked.sentence, [passage for _, _, passage in spans])
            number = collector.passage(f"{passage} {asked.sentence}")
            collector.question(asked.text, number, source)
    for _, _, passage in spans:
        collector.passage(passage)


def add_where(
    collector: Collector,
    spans: Sequence[tuple[int, int, str]],
    question: str,
    start: int,
    source: str,
) -> None:
    """Add a question of the passage that an answer begins in."""
    for begin, end, passage in spans:
        if begin <= start < end:
            collector.question(question, collector.passage(passage), source)
            return


def nearest(sentence: str, passages: Sequence[str]) -> str:
    """The first of the passages that share the most words with a sentence."""
    words = set(re.findall(r"\w+", sentence.lower()))
    counts = [len(words.intersection(re.findall(r"\w+", text.lower()))) for text in passages]
    return passages[counts.index(max(counts))]


def passages_of(context: str) -> list[tuple[int, int, str]]:
    """Where each passage of a plain text begins and ends, and what it says."""
    spans = []
    for piece in split(read_document("x.txt", context.encode()).paragraphs):
        spans.append((*piece.span(0, len(piece.text)), piece.text))
    return spans


def add_more(collector: Collector, data: Path) -> None:
    """Questions that people asked about stories, plots and Wikipedia."""
    for name in MORE_QUESTIONS:
        for article in read_squad(data / "more-questions" / f"{name}.json.gz").articles:
            for paragraph in article.paragraphs:
                spans = passages_of(paragraph.context)
                for question in paragraph.questions:
                    if question.answers:
                        start = question.answers[0].start
                        add_where(collector, spans, question.text, start, "more")


def add_wiki(collector: Collector, data: Path, rng: random.Random) -> None:
    """Prose: a sentence asks for the passage that it was taken out of."""
    files = sorted((data / "wiki").glob("*.bz2"))
    for path in files:
        text = bz2.decompress(path.read_bytes()).decode("utf-8")
        paragraphs = [paragraph for paragraph in text.split("\n") if 400 < len(paragraph) < 1500]
        share = WIKI_PASSAGES // len(files)
        for paragraph in rng.sample(paragraphs, min(share, len(paragraphs))):
            sentences = re.split(r"(?<=[.!?]) +", paragraph)
            fitting = [sentence for sentence in sentences if 6 <= len(sentence.split()) <= 30]
            if len(sentences) < 3 or not fitting:
                continue
            sentence = rng.choice(fitting)
            words = sentence.split()
            # Questions are shorter than sentences: a part of one will do.
            size = rng.randrange(5, len(words) + 1)
            begin = rng.randrange(len(words) - size + 1)
            passage = collector.passage(paragraph.replace(sentence, " "))
            collector.question(" ".join(words[begin : begin + size]), passage, "wiki")
