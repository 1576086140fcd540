"""Train the table that a search by meaning uses: one vector per word piece, a text is their sum.

    python -m lab.retrieval prepare --data ../shared/data --out work/retrieval
    python -m lab.retrieval train --out work/retrieval --device cuda   # minutes; torch and NumPy alone
    python -m lab.retrieval build --out work/retrieval                 # the file that ships

``prepare`` writes questions and passages as pieces. ``train`` learns by contrast: a question's
passage must score higher than the other passages of its batch, and than those that the search would
confuse it with. What is scored is what the search uses, a mix of BM25 with the cosines of the passage
and of its best part, so the vectors learn what the words do not say. The table begins as what a
sentence encoder makes of each piece alone. Everyday `held` and held-out articles of SQuAD choose the epoch and
the mix; everyday `test` and SQuAD's dev set are never read. ``train`` goes on where it was stopped,
from its last evaluation.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

SHIPPED_TABLE = "src/rmreader/readers/shipped/retrieval/table.safetensors"
HELD_ARTICLES = 24  # of SQuAD, whose questions choose
HELD_QUESTIONS = 1500
WIKI_PASSAGES = 60_000
MOST_DIM = 320
HARD_LIST = 30  # passages that each question is confused with, of which a batch takes some
LONGEST_QUESTION = 48  # pieces that the network looks at
BLOCK = 16  # pieces; a part of a passage is two blocks
MOST_BLOCKS = 24  # of a passage that are looked at
IN_PART = 0.6  # what the best part counts in the cosine, against the whole passage
CAP = 0.6  # BM25 counts in full from this share of what the question's words could have on
K1, B = 1.2, 0.75  # of BM25, as FTS5 has them
MIXES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
SHARES = {"squad": 0.4, "everyday": 0.3, "more": 0.12, "wiki": 0.18}  # of a batch


# ---------------------------------------------------------------- prepare


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
        from rmreader.text.vectors import SubwordTable

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
        from rmreader.documents.embedding import split_text

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
    table = collector.table
    stop = [
        piece for word in stop_words() for piece in table.split(word) if len(table.split(word)) == 1
    ]
    np.savez_compressed(
        out / "train.npz",
        **collector.questions.arrays("question"),
        **collector.passages.arrays("passage"),
        gold=np.array(collector.gold, np.uint32),
        source=np.array(collector.source),
        stop=np.array(sorted(set(stop)), np.uint16),
        **start_vectors(table.pieces, encoder),
    )
    for source in sorted(set(collector.source)):
        print(source, collector.source.count(source))
    print(
        len(collector.passages.ends) - 1,
        "passages;",
        (out / "train.npz").stat().st_size >> 20,
        "MiB",
    )


def start_vectors(pieces: Sequence[str], encoder: str) -> dict[str, Any]:
    """What a sentence encoder makes of each piece alone, its main axes first, in eight bits."""
    import torch
    from transformers import AutoModel

    from rmreader.text.pieces import encoder_folder

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
    return quantize(main_axes(torch.cat(states).numpy()))


def main_axes(vectors: np.ndarray) -> np.ndarray:
    """Vectors turned to their main axes; what all of them share is left out."""
    centred = vectors - vectors.mean(0)
    _, _, axes = np.linalg.svd(centred[:: max(1, len(vectors) // 8000)], full_matrices=False)
    return np.asarray(centred @ axes[1 : MOST_DIM + 1].T)


def quantize(table: np.ndarray) -> dict[str, Any]:
    """A table in eight bits, with a scale for each row."""
    scale = np.abs(table).max(axis=1) / 127 + 1e-12
    codes = np.round(table / scale[:, None]).astype(np.int8)
    return {"vectors": codes, "scale": scale.astype(np.float32)}


def stop_words() -> frozenset[str]:
    """The words that the search leaves out."""
    from rmreader.documents import index

    return index._STOP


def add_squad(collector: Collector, data: Path, rng: random.Random) -> None:
    """SQuAD's training articles; unanswerable questions are about their paragraph, too."""
    from rmreader.data.squad import read_squad

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
    """Everyday texts to learn from; `held` to choose, beside as many others as a folder has."""
    for name in ("learn", "learn-2"):
        for text in read_everyday(folder / f"{name}.txt.gz"):
            add_text(collector, text, "everyday", rng)
    for text in read_everyday(folder / "held.txt.gz"):
        add_text(collector, text, "held-everyday", rng)


def read_everyday(path: Path) -> list[Any]:
    """The texts of a file of everyday texts."""
    from lab.scripts import everyday

    return list(everyday.read(path))


def add_text(collector: Collector, text: Any, source: str, rng: random.Random) -> None:
    """A text's passages, as `index` cuts them, and its questions with the passage that answers."""
    spans = passages_of(text.context)
    for asked in text.asked:
        answers = asked.answers
        if answers:
            here = [span for span in spans if span[0] <= answers[0].start < span[1]]
            for _, _, passage in here[:1]:
                collector.question(asked.text, collector.passage(passage), source)
        elif asked.sentence and source == "everyday":
            # The sentence that would answer is put into the passage that it fits best.
            words = set(re.findall(r"\w+", asked.sentence.lower()))
            _, _, passage = max(
                spans, key=lambda span: len(words & set(re.findall(r"\w+", span[2].lower())))
            )
            collector.question(asked.text, collector.passage(f"{passage} {asked.sentence}"), source)
    for _, _, passage in spans:
        collector.passage(passage)


def passages_of(context: str) -> list[tuple[int, int, str]]:
    """Where each passage of a plain text begins and ends, and what it says."""
    from rmreader.documents.document import read_document
    from rmreader.documents.passages import split

    spans = []
    for piece in split(read_document("x.txt", context.encode()).paragraphs):
        spans.append((*piece.span(0, len(piece.text)), piece.text))
    return spans


def add_more(collector: Collector, data: Path) -> None:
    """Questions that people asked about stories, plots and Wikipedia."""
    from rmreader.data.squad import read_squad

    files = (
        "fairytaleqa-train",
        "fairytaleqa-val",
        "narrativeqa-summaries-dev",
        "narrativeqa-summaries-test",
        "tydiqa-goldp-en-train",
        "qed-nq-dev",
    )
    for name in files:
        for article in read_squad(data / "more-questions" / f"{name}.json.gz").articles:
            for paragraph in article.paragraphs:
                spans = passages_of(paragraph.context)
                for question in paragraph.questions:
                    start = question.answers[0].start if question.answers else -1
                    here = [span for span in spans if span[0] <= start < span[1]]
                    for _, _, passage in here[:1]:
                        collector.question(question.text, collector.passage(passage), "more")


def add_wiki(collector: Collector, data: Path, rng: random.Random) -> None:
    """Prose: a sentence asks for the passage that it was taken out of."""
    import bz2

    for path in sorted((data / "wiki").glob("*.bz2")):
        text = bz2.decompress(path.read_bytes()).decode("utf-8")
        paragraphs = [paragraph for paragraph in text.split("\n") if 400 < len(paragraph) < 1500]
        share = WIKI_PASSAGES // len(list((data / "wiki").glob("*.bz2")))
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


# ---------------------------------------------------------------- train


class TrainingData:
    """The arrays of ``prepare`` on a device: bags of pieces, and the blocks of passages."""

    def __init__(self, path: Path, device: str) -> None:
        import torch

        arrays = np.load(path)
        self.device = device
        self.size = len(arrays["scale"])
        self.sequences = self._texts(arrays, "question")
        self.questions = self._bags(self.sequences)
        passages = self._texts(arrays, "passage")
        self.passages = self._bags(passages)
        self.blocks, self.block_ends = self._blocks(passages)
        self.gold = torch.from_numpy(arrays["gold"].astype(np.int64)).to(device)
        self.source = arrays["source"]
        self.table = arrays["vectors"].astype(np.float32) * arrays["scale"][:, None]
        self.idf = self._idf(arrays["stop"])
        self.weights = self._bm25_weights()

    def _texts(self, arrays: Any, name: str) -> tuple[Any, Any]:
        import torch

        pieces = torch.from_numpy(arrays[f"{name}_pieces"].astype(np.int64)).to(self.device)
        ends = torch.from_numpy(arrays[f"{name}_ends"].astype(np.int64)).to(self.device)
        return pieces, ends

    def _bags(self, texts: tuple[Any, Any]) -> tuple[Any, Any, Any]:
        """Different pieces of each text, how often each is in it, where each text ends."""
        import torch

        pieces, ends = texts
        numbers = torch.arange(len(ends) - 1, device=self.device)
        owner = torch.repeat_interleave(numbers, ends[1:] - ends[:-1])
        keys, counts = torch.unique(owner * self.size + pieces, return_counts=True)
        sizes = torch.bincount(keys // self.size, minlength=len(numbers))
        bag_ends = torch.cat([sizes.new_zeros(1), torch.cumsum(sizes, 0)])
        return keys % self.size, counts.float(), bag_ends

    def _blocks(self, texts: tuple[Any, Any]) -> tuple[tuple[Any, Any, Any], Any]:
        """The blocks of all passages as bags, and the number of the block that each ends before."""
        import torch

        pieces, ends = texts
        sizes = ends[1:] - ends[:-1]
        counts = (sizes + BLOCK - 1) // BLOCK
        last = torch.cumsum(counts, 0)
        owner = torch.repeat_interleave(torch.arange(len(sizes), device=self.device), counts)
        place = torch.arange(len(owner), device=self.device) - (last - counts)[owner]
        begins = ends[:-1][owner] + BLOCK * place
        block_ends = torch.cat([begins, ends[-1:]])
        ones = torch.ones(len(pieces), device=self.device)
        return (pieces, ones, block_ends), torch.cat([last.new_zeros(1), last])

    def _idf(self, stop: np.ndarray) -> Any:
        import torch

        pieces, _, ends = self.passages
        found = torch.bincount(pieces, minlength=self.size).float()
        total = len(ends) - 1
        idf = torch.log((total - found + 0.5) / (found + 0.5)).clamp(min=1e-6)
        idf[torch.from_numpy(stop.astype(np.int64)).to(self.device)] = 0.0
        return idf

    def _bm25_weights(self) -> Any:
        """What each piece of each passage is worth to a question that has it."""
        import torch

        pieces, counts, ends = self.passages
        sizes = ends[1:] - ends[:-1]
        lengths = torch.zeros(len(sizes), device=self.device)
        owner = torch.repeat_interleave(torch.arange(len(sizes), device=self.device), sizes)
        lengths.index_add_(0, owner, counts)
        norm = K1 * (1 - B + B * lengths / lengths.mean())
        return self.idf[pieces] * counts * (K1 + 1) / (counts + norm[owner])


def gather(bags: tuple[Any, Any, Any], rows: Any) -> tuple[Any, Any, Any]:
    """Positions of these texts in the flat arrays, where each text begins, each position's text."""
    import torch

    ends = bags[2]
    sizes = ends[rows + 1] - ends[rows]
    begins = torch.cumsum(sizes, 0) - sizes
    owner = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), sizes)
    places = torch.arange(len(owner), device=rows.device) - begins[owner] + ends[rows][owner]
    return places, begins, owner


class Model:
    """The table, the weights of pieces in questions, and how sharply scores are compared.

    With ``layers`` the pieces of a question also look at each other, in a small network whose
    sum is added to theirs.
    """

    def __init__(self, data: TrainingData, dim: int, layers: int) -> None:
        import torch
        from torch import nn

        device = data.device
        # A good place to begin: rare pieces count more.
        vectors = data.table[:, :dim] / np.linalg.norm(data.table[:, :dim], axis=1).mean()
        vectors = vectors * (data.idf.cpu().numpy()[:, None] + 0.3) / 8
        self.table = torch.tensor(vectors, dtype=torch.float32, device=device, requires_grad=True)
        self.weights = torch.zeros(len(vectors), device=device, requires_grad=True)
        self.sharpness = torch.full((3,), math.log(20.0), device=device, requires_grad=True)
        self.network: nn.TransformerEncoder | None = None
        if layers:
            kind = nn.TransformerEncoderLayer(
                dim, 4, 2 * dim, 0.1, "gelu", batch_first=True, norm_first=True
            )
            self.network = nn.TransformerEncoder(kind, layers, enable_nested_tensor=False)
            self.places = nn.Parameter(0.02 * torch.randn(LONGEST_QUESTION, dim, device=device))
            self.out = nn.Linear(dim, dim, bias=False)
            nn.init.zeros_(self.out.weight)
            self.network.to(device)
            self.out.to(device)

    def parameters(self) -> list[Any]:
        """What is learned."""
        some = [self.table, self.weights, self.sharpness]
        if self.network is not None:
            some += [self.places, self.out.weight, *self.network.parameters()]
        return some

    def train(self, mode: bool) -> None:
        """Whether parts of the network are left out by chance."""
        if self.network is not None:
            self.network.train(mode)

    def encode_questions(self, data: TrainingData, rows: Any, drop: float = 0.0) -> Any:
        """Vectors of length one."""
        from torch.nn import functional

        sums = self._sums(data.questions, rows, True, drop)
        if self.network is not None:
            sums = sums + self._context(data, rows)
        return functional.normalize(sums, dim=1, eps=1e-6)

    def encode_passages(self, data: TrainingData, rows: Any, drop: float = 0.0) -> Any:
        """Vectors of length one."""
        from torch.nn import functional

        return functional.normalize(self._sums(data.passages, rows, False, drop), dim=1, eps=1e-6)

    def encode_parts(self, data: TrainingData, rows: Any) -> Any:
        """Vectors of length one of every two blocks; a passage has as many as the longest."""
        import torch
        from torch.nn import functional

        begins = data.block_ends[rows]
        counts = data.block_ends[rows + 1] - begins
        most = int(counts.max())
        places = torch.arange(most, device=data.device)
        real = places[None] < counts[:, None]
        numbers = (begins[:, None] + places[None])[real]
        sums = self._sums(data.blocks, numbers, False)
        padded = sums.new_zeros(len(rows), most, sums.shape[1])
        padded[real] = sums
        with_last = padded.clone()
        with_last[:, 1:] += padded[:, :-1]
        return functional.normalize(with_last * real[:, :, None], dim=2, eps=1e-6)

    def _sums(
        self, bags: tuple[Any, Any, Any], rows: Any, question: bool, drop: float = 0.0
    ) -> Any:
        import torch
        from torch.nn import functional

        places, begins, _ = gather(bags, rows)
        pieces = bags[0][places]
        weights = bags[1][places].sqrt()
        if question:
            weights = weights * self.weights[pieces].exp()
        if drop:
            weights = weights * (torch.rand_like(weights) > drop)
        return functional.embedding_bag(
            pieces, self.table, begins, mode="sum", per_sample_weights=weights
        )

    def _context(self, data: TrainingData, rows: Any) -> Any:
        """What the pieces of questions say together."""
        import torch

        pieces, ends = data.sequences
        sizes = (ends[rows + 1] - ends[rows]).clamp(max=LONGEST_QUESTION)
        places = torch.arange(int(sizes.max()), device=data.device)
        real = places[None] < sizes[:, None]
        flat = (ends[rows][:, None] + places[None]).clamp(max=len(pieces) - 1)
        # Lengths of vectors say what pieces count: here each is as long as the others.
        states = torch.nn.functional.normalize(self.table[pieces[flat]], dim=2)
        assert self.network is not None
        states = self.network(states + self.places[: len(places)], src_key_padding_mask=~real)
        return self.out((states * real[:, :, None]).sum(1) / sizes[:, None])


def bm25(data: TrainingData, questions: Any, passages: Any) -> Any:
    """BM25 of every question with every passage, over word pieces."""
    import torch

    places, _, owner = gather(data.questions, questions)
    wanted, pieces = torch.unique(data.questions[0][places], return_inverse=True)
    row_of = torch.full((data.size,), -1, dtype=torch.long, device=data.device)
    row_of[wanted] = torch.arange(len(wanted), device=data.device)
    # What each piece of the questions (rows) is worth in each passage (columns).
    matrix = torch.zeros(len(wanted), len(passages), device=data.device)
    flat, _, column = gather(data.passages, passages)
    row = row_of[data.passages[0][flat]]
    shared = row >= 0
    matrix[row[shared], column[shared]] = data.weights[flat[shared]]
    scores = torch.zeros(len(questions), len(passages), device=data.device)
    for begin in range(0, len(pieces), 8192):
        part = slice(begin, begin + 8192)
        scores.index_add_(0, owner[part], matrix[pieces[part]])
    return scores


def most_words(data: TrainingData, questions: Any) -> Any:
    """BM25 that a passage with all words of the question could have, about."""
    import torch

    places, _, owner = gather(data.questions, questions)
    worth = data.idf[data.questions[0][places]] * (K1 + 1)
    sums = torch.zeros(len(questions), device=data.device)
    return sums.index_add_(0, owner, worth)


def mix(cosine: Any, words: Any, most: Any, share: float) -> Any:
    """The score that the search sorts by."""
    import torch

    best = words.max(dim=1).values
    full = torch.maximum(best, CAP * most).clamp(min=1e-6)
    return share * cosine + (1 - share) * words / full[:, None]


def best_part(questions: Any, parts: Any) -> Any:
    """The cosine of each question with the best part of each passage."""
    count, most, dim = parts.shape
    return (questions @ parts.view(-1, dim).T).view(-1, count, most).amax(2)


def mine(data: TrainingData, model: Model, questions: Any, candidates: Any, count: int) -> Any:
    """For each question the passages that the mix likes best and that are not its own."""
    import torch

    vectors = torch.cat([model.encode_passages(data, part) for part in candidates.split(8192)])
    lists = []
    for rows in questions.split(1024):
        cosine = model.encode_questions(data, rows) @ vectors.T
        words = torch.cat([bm25(data, rows, part) for part in candidates.split(16384)], dim=1)
        scores = mix(cosine, words, most_words(data, rows), 0.6)
        scores[data.gold[rows][:, None] == candidates[None, :]] = -2.0
        lists.append(candidates[scores.topk(count, dim=1).indices])
    return torch.cat(lists)


def measure(
    data: TrainingData, model: Model, source: str, distractors: Any
) -> dict[str, list[float]]:
    """Recall at 1, 5 and 10 of a held-out set, for each mix."""
    import torch

    rows = torch.from_numpy(np.flatnonzero(data.source == source)).to(data.device)
    candidates = torch.unique(torch.cat([data.gold[rows], distractors]))
    model.train(False)
    with torch.no_grad():
        questions = model.encode_questions(data, rows)
        columns = [
            (
                questions @ model.encode_passages(data, part).T,
                best_part(questions, model.encode_parts(data, part)),
                bm25(data, rows, part),
            )
            for part in candidates.split(1024)
        ]
        whole, parts, words = (torch.cat(some, dim=1) for some in zip(*columns, strict=True))
        most = most_words(data, rows)
        right = torch.searchsorted(candidates, data.gold[rows])
        recalls = {}
        for share in (0.0, *MIXES, 1.0):
            scores = mix(IN_PART * parts + (1 - IN_PART) * whole, words, most, share)
            rank = (scores > scores.gather(1, right[:, None])).sum(1)
            recalls[f"{share:.1f}"] = [
                round(100 * float((rank < k).float().mean()), 2) for k in (1, 5, 10)
            ]
    model.train(True)
    return recalls


@dataclass(frozen=True)
class Settings:
    """How to train."""

    out: Path
    name: str = "a"
    """Of this run's files in ``out``."""
    steps: int = 4000
    batch: int = 1024
    hard: int = 3
    """Hard passages per question and batch."""
    rate: float = 2e-3
    drop: float = 0.1
    """Share of pieces that are left out, by chance."""
    share: float = 0.6
    """Of the cosine in the mix that learns."""
    everyday: float = 0.3
    """Share of everyday questions in a batch; the others share the rest as ``SHARES`` has it."""
    dim: int = 256
    layers: int = 0
    """Of a network that questions go through, beside the sum of their pieces."""
    seed: int = 1
    evaluations: int = 16
    minutes: float = 30.0
    """At most so long; the rate of learning ends at zero then."""
    limit: int = 0
    """Use only so many questions; 0 is all of them."""
    resumable: int = 1
    """Whether the state is kept (eight times the table)."""
    device: str = "cpu"


class Trainer:
    """One training: its data, its model, and where it stands."""

    def __init__(self, settings: Settings) -> None:
        import torch

        self.settings = settings
        self.began = time.monotonic()
        torch.manual_seed(settings.seed)
        torch.set_float32_matmul_precision("high")
        self.rng = np.random.default_rng(settings.seed)
        self.data = TrainingData(settings.out / "train.npz", settings.device)
        self.model = Model(self.data, settings.dim, settings.layers)
        self.optimizer = torch.optim.Adam(self.model.parameters(), betas=(0.9, 0.98))
        self.step = 0
        self.best = 0.0
        others = (1 - settings.everyday) / (1 - SHARES["everyday"])
        self.shares = {name: others * share for name, share in SHARES.items()}
        self.shares["everyday"] = settings.everyday
        self.rows = {name: self._rows(name) for name in SHARES}
        self.hard_passages = torch.zeros(0)
        self._resume()

    def run(self) -> None:
        """Train to the end, or until the time is over."""
        settings = self.settings
        self._mine()
        mined_again = False
        evaluated = 0.0
        while self._done() < 1:
            loss = self._step()
            self.step += 1
            if not mined_again and self._done() > 1 / 3:
                self._mine()
                mined_again = True
            if self._done() >= min(1.0, evaluated + 1 / settings.evaluations):
                evaluated = self._done()
                self._evaluate(loss)

    def _done(self) -> float:
        """The share of the training that is done, in steps or in time, whichever is more."""
        spent = (time.monotonic() - self.began) / (60 * self.settings.minutes)
        return max(self.step / self.settings.steps, spent)

    def _rows(self, name: str) -> np.ndarray:
        rows = np.flatnonzero(self.data.source == name)
        if self.settings.limit:
            rows = rows[: int(self.settings.limit * SHARES[name])]
        return rows

    def _on_device(self, array: np.ndarray) -> Any:
        import torch

        return torch.from_numpy(array).to(self.settings.device)

    def _mine(self) -> None:
        """Find the passages of the same source that each question is confused with today."""
        import torch

        shape = (len(self.data.source), HARD_LIST)
        self.hard_passages = torch.zeros(shape, dtype=torch.long, device=self.settings.device)
        with torch.no_grad():
            for rows in self.rows.values():
                questions = self._on_device(rows)
                candidates = torch.unique(self.data.gold[questions])
                found = mine(self.data, self.model, questions, candidates, HARD_LIST)
                self.hard_passages[questions] = found
        self._say(f"hard passages mined at step {self.step}")

    def _step(self) -> float:
        import torch
        from torch.nn import functional

        settings = self.settings
        data = self.data
        share_left = max(0.0, 1 - self._done())
        for group in self.optimizer.param_groups:
            group["lr"] = (
                settings.rate * min(1.0, (self.step + 1) / 100) * (0.02 + 0.98 * share_left)
            )
        picked = [
            self.rng.choice(self.rows[name], int(settings.batch * share))
            for name, share in self.shares.items()
        ]
        rows = self._on_device(np.concatenate(picked))
        columns = self._on_device(self.rng.choice(HARD_LIST, settings.hard, replace=False))
        near = self.hard_passages[rows][:, columns]
        passages = torch.unique(torch.cat([data.gold[rows], near.flatten()]))
        questions = self.model.encode_questions(data, rows, settings.drop)
        whole = questions @ self.model.encode_passages(data, passages, settings.drop).T
        parts = best_part(questions, self.model.encode_parts(data, passages))
        cosine = IN_PART * parts + (1 - IN_PART) * whole
        words = bm25(data, rows, passages)
        target = torch.searchsorted(passages, data.gold[rows])
        scale = self.model.sharpness.exp()
        mixed = mix(cosine, words, most_words(data, rows), settings.share)
        loss = functional.cross_entropy(scale[0] * mixed, target)
        loss = loss + 0.2 * functional.cross_entropy(scale[1] * cosine, target)
        loss = loss + 0.2 * functional.cross_entropy(scale[2] * whole, target)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        self.optimizer.step()
        return float(loss.detach())

    def _evaluate(self, loss: float) -> None:
        import torch

        data = self.data
        # Beside SQuAD's held-out passages all others of it, beside a folder's as many as it has.
        squad = torch.unique(data.gold[self._on_device(self.rows["squad"])])
        folder = torch.unique(data.gold[self._on_device(self.rows["everyday"])])[:220]
        recalls = {
            "everyday": measure(data, self.model, "held-everyday", folder),
            "squad": measure(data, self.model, "held-squad", squad),
        }
        score = max(
            recalls["everyday"][share][2] + recalls["squad"][share][2] for share in recalls["squad"]
        )
        line = {
            "name": self.settings.name,
            "step": self.step,
            "loss": loss,
            "score": score,
            "recall": recalls,
        }
        with (self.settings.out / "log.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
        self._say(f"step {self.step}, loss {loss:.3f}, score {score:.2f}")
        for name, table in recalls.items():
            print(
                "   ",
                name,
                {
                    share: table[share]
                    for share in ("0.0", "0.4", "0.5", "0.6", "0.7", "0.8", "1.0")
                },
                flush=True,
            )
        if score > self.best:
            self.best = score
            save(self.model, self.settings.out / f"model-{self.settings.name}.npz")
        if not self.settings.resumable:
            return
        parameters = [parameter.data for parameter in self.model.parameters()]
        state = {"parameters": parameters, "optimizer": self.optimizer.state_dict()}
        torch.save({**state, "step": self.step, "best": self.best}, self._state)

    @property
    def _state(self) -> Path:
        return self.settings.out / f"state-{self.settings.name}.pt"

    def _resume(self) -> None:
        import torch

        if not self._state.exists():
            return
        saved = torch.load(self._state, weights_only=True, map_location=self.settings.device)
        for parameter, value in zip(self.model.parameters(), saved["parameters"], strict=True):
            parameter.data.copy_(value)
        self.optimizer.load_state_dict(saved["optimizer"])
        self.step = saved["step"]
        self.best = saved["best"]
        self.rng = np.random.default_rng([self.settings.seed, self.step])

    def _say(self, sentence: str) -> None:
        print(
            f"{self.settings.name}: {time.monotonic() - self.began:.0f} s: {sentence}", flush=True
        )


def save(model: Model, path: Path) -> None:
    """Write the table in eight bits, as it ships."""
    arrays = quantize(model.table.detach().cpu().numpy())
    arrays["weights"] = np.exp(model.weights.detach().cpu().numpy()).astype(np.float32)
    if model.network is not None:
        for name, value in model.network.state_dict().items():
            arrays[f"network.{name}"] = value.cpu().numpy().astype(np.float16)
        arrays["out"] = model.out.weight.detach().cpu().numpy().astype(np.float16)
        arrays["places"] = model.places.detach().cpu().numpy().astype(np.float16)
    np.savez_compressed(path, **arrays)


# ---------------------------------------------------------------- build


def build(model: Path, to: Path) -> None:
    """Write the file that ships."""
    from safetensors.numpy import save_file

    arrays = np.load(model)
    to.parent.mkdir(parents=True, exist_ok=True)
    tensors = {name: np.ascontiguousarray(arrays[name]) for name in ("vectors", "scale", "weights")}
    save_file(tensors, to, {"pieces": "pieces"})
    print(to, to.stat().st_size)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stage", choices=("prepare", "train", "build"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--everyday-texts", type=Path, default=Path("lab/everyday"))
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--out", type=Path, default=Path("work/retrieval"))
    parser.add_argument("--to", type=Path, default=Path(SHIPPED_TABLE))
    for setting in fields(Settings)[1:]:
        kind = type(setting.default)
        parser.add_argument(f"--{setting.name}", type=kind, default=setting.default)
    options = parser.parse_args(arguments)
    if options.stage == "prepare":
        prepare(options.data, options.everyday_texts, options.encoder, options.out)
    elif options.stage == "train":
        settings = {setting.name: getattr(options, setting.name) for setting in fields(Settings)}
        Trainer(Settings(**settings)).run()
    else:
        build(options.out / f"model-{options.name}.npz", options.to)


if __name__ == "__main__":
    main()
