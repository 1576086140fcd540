"""Train the table that a search by meaning uses: one vector per word piece, a text is their sum.

    python -m lab.retrieval prepare --data ../shared/data --out work/retrieval
    python -m lab.retrieval train --out work/retrieval --device cuda   # minutes; torch and NumPy alone
    python -m lab.retrieval build --out work/retrieval                 # the file that ships

``prepare`` writes questions and passages as piece counts. ``train`` learns by contrast: a question's
passage must score higher than the other passages of its batch, and than those that the search would
confuse it with. What is scored is what the search uses, a mix of the cosine with BM25, so the vectors
learn what the words do not say. Everyday `held` and held-out articles of SQuAD choose the epoch and
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
DIM = 256
HARD_LIST = 30  # passages that each question is confused with, of which a batch takes some
K1, B = 1.2, 0.75  # of BM25, as FTS5 has them
MIXES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
SHARES = {"squad": 0.4, "everyday": 0.3, "more": 0.12, "wiki": 0.18}  # of a batch


# ---------------------------------------------------------------- prepare


@dataclass
class Bags:
    """Texts as piece counts, ready to be written as three arrays."""

    pieces: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=lambda: [0])

    def add(self, bag: dict[int, int]) -> int:
        """Add a text; returns its number."""
        self.pieces.extend(bag.keys())
        self.counts.extend(min(count, 255) for count in bag.values())
        self.ends.append(len(self.pieces))
        return len(self.ends) - 2

    def arrays(self, name: str) -> dict[str, Any]:
        """The arrays by name."""
        return {
            f"{name}_pieces": np.array(self.pieces, np.uint16),
            f"{name}_counts": np.array(self.counts, np.uint8),
            f"{name}_ends": np.array(self.ends, np.uint32),
        }


class Collector:
    """Questions with their passages, out of many files."""

    def __init__(self) -> None:
        from rmreader.text.vectors import SubwordTable

        self.table = SubwordTable.load("pieces")
        self.questions = Bags()
        self.passages = Bags()
        self.gold: list[int] = []
        self.source: list[str] = []
        self._numbers: dict[str, int] = {}

    def passage(self, text: str) -> int:
        """The number of a passage; the same text has one number."""
        if text not in self._numbers:
            self._numbers[text] = self.passages.add(self.bag(text))
        return self._numbers[text]

    def question(self, text: str, passage: int, source: str) -> None:
        """Add a question of a passage."""
        bag = self.bag(text)
        if bag:
            self.questions.add(bag)
            self.gold.append(passage)
            self.source.append(source)

    def bag(self, text: str) -> dict[int, int]:
        """The pieces of a text."""
        from rmreader.documents.embedding import split_pieces

        return split_pieces(self.table, text)


def prepare(data: Path, everyday: Path, out: Path) -> None:
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
        vectors=table.vectors,
        scale=table.scale,
    )
    for source in sorted(set(collector.source)):
        print(source, collector.source.count(source))
    print(
        len(collector.passages.ends) - 1,
        "passages;",
        (out / "train.npz").stat().st_size >> 20,
        "MiB",
    )


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
    for text in read_everyday(folder / "learn.txt.gz"):
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
    """The arrays of ``prepare`` on a device."""

    def __init__(self, path: Path, device: str) -> None:
        import torch

        arrays = np.load(path)
        self.device = device
        self.size = len(arrays["scale"])
        self.questions = self._bags(arrays, "question")
        self.passages = self._bags(arrays, "passage")
        self.gold = torch.from_numpy(arrays["gold"].astype(np.int64)).to(device)
        self.source = arrays["source"]
        self.table = arrays["vectors"].astype(np.float32) * arrays["scale"][:, None]
        self.idf = self._idf(arrays["stop"])
        self.weights = self._bm25_weights()

    def _bags(self, arrays: Any, name: str) -> tuple[Any, Any, Any]:
        import torch

        pieces = torch.from_numpy(arrays[f"{name}_pieces"].astype(np.int64)).to(self.device)
        counts = torch.from_numpy(arrays[f"{name}_counts"].astype(np.float32)).to(self.device)
        ends = torch.from_numpy(arrays[f"{name}_ends"].astype(np.int64)).to(self.device)
        return pieces, counts, ends

    def _idf(self, stop: np.ndarray) -> Any:
        import torch

        pieces, _, ends = self.passages
        found = torch.bincount(pieces, minlength=self.size).float()
        total = len(ends) - 1
        idf = torch.log((total - found + 0.5) / (found + 0.5)).clamp(min=1e-6)
        idf[torch.from_numpy(stop.astype(np.int64))] = 0.0
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
    """The table, the weights of pieces in questions, and how sharply scores are compared."""

    def __init__(self, table: np.ndarray, idf: Any, device: str) -> None:
        import torch

        # A good place to begin: rare pieces count more, what all vectors share counts nothing.
        centred = table - table.mean(0)
        _, _, axes = np.linalg.svd(centred[:: max(1, len(table) // 8000)], full_matrices=False)
        vectors = centred @ axes[1 : DIM + 1].T
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-6
        vectors *= (idf.cpu().numpy()[:, None] + 0.3) / 8
        self.table = torch.tensor(vectors, dtype=torch.float32, device=device, requires_grad=True)
        self.weights = torch.zeros(len(table), device=device, requires_grad=True)
        self.sharpness = torch.tensor(
            [math.log(20.0), math.log(20.0)], device=device, requires_grad=True
        )

    def parameters(self) -> list[Any]:
        """What is learned."""
        return [self.table, self.weights, self.sharpness]

    def encode(
        self, bags: tuple[Any, Any, Any], rows: Any, question: bool, drop: float = 0.0
    ) -> Any:
        """Vectors of length one."""
        import torch
        from torch.nn import functional

        places, begins, _ = gather(bags, rows)
        pieces = bags[0][places]
        weights = bags[1][places].sqrt()
        if question:
            weights = weights * self.weights[pieces].exp()
        if drop:
            weights = weights * (torch.rand_like(weights) > drop)
        sums = functional.embedding_bag(
            pieces, self.table, begins, mode="sum", per_sample_weights=weights
        )
        return functional.normalize(sums, dim=1, eps=1e-6)


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


def mix(cosine: Any, words: Any, share: float) -> Any:
    """The score that the search sorts by."""
    best = words.max(dim=1, keepdim=True).values.clamp(min=1e-6)
    return share * cosine + (1 - share) * words / best


def mine(data: TrainingData, model: Model, questions: Any, candidates: Any, count: int) -> Any:
    """For each question the passages that the mix likes best and that are not its own."""
    import torch

    vectors = torch.cat(
        [model.encode(data.passages, part, False) for part in candidates.split(8192)]
    )
    lists = []
    for rows in questions.split(1024):
        cosine = model.encode(data.questions, rows, True) @ vectors.T
        words = torch.cat([bm25(data, rows, part) for part in candidates.split(16384)], dim=1)
        scores = mix(cosine, words, 0.5)
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
    with torch.no_grad():
        vectors = torch.cat(
            [model.encode(data.passages, part, False) for part in candidates.split(8192)]
        )
        cosine = model.encode(data.questions, rows, True) @ vectors.T
        words = torch.cat([bm25(data, rows, part) for part in candidates.split(4096)], dim=1)
        right = torch.searchsorted(candidates, data.gold[rows])
        recalls = {}
        for share in (0.0, *MIXES, 1.0):
            scores = mix(cosine, words, share)
            rank = (scores > scores.gather(1, right[:, None])).sum(1)
            recalls[f"{share:.1f}"] = [
                round(100 * float((rank < k).float().mean()), 2) for k in (1, 5, 10)
            ]
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
    seed: int = 1
    evaluations: int = 16
    minutes: float = 30.0
    """Stop after so long; the next run goes on."""
    limit: int = 0
    """Use only so many questions; 0 is all of them."""
    device: str = "cpu"


class Trainer:
    """One training: its data, its model, and where it stands."""

    def __init__(self, settings: Settings) -> None:
        import torch

        self.settings = settings
        self.began = time.monotonic()
        torch.manual_seed(settings.seed)
        self.rng = np.random.default_rng(settings.seed)
        self.data = TrainingData(settings.out / "train.npz", settings.device)
        self.model = Model(self.data.table, self.data.idf, settings.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), betas=(0.9, 0.98))
        self.step = 0
        self.best = 0.0
        self.rows = {name: self._rows(name) for name in SHARES}
        self.hard_passages = torch.zeros(0)
        self._resume()

    def run(self) -> None:
        """Train to the end, or until the time is over."""
        settings = self.settings
        self._mine()
        while self.step < settings.steps:
            loss = self._step()
            self.step += 1
            late = time.monotonic() - self.began > 60 * settings.minutes
            if (
                self.step % max(1, settings.steps // settings.evaluations) == 0
                or self.step == settings.steps
                or late
            ):
                self._evaluate(loss)
            if late:
                print("out of time; run it again to go on", flush=True)
                return
            if self.step == settings.steps // 3:
                self._mine()

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
        share_left = 1 - self.step / settings.steps
        for group in self.optimizer.param_groups:
            group["lr"] = (
                settings.rate * min(1.0, (self.step + 1) / 100) * (0.02 + 0.98 * share_left)
            )
        picked = [
            self.rng.choice(self.rows[name], int(settings.batch * share))
            for name, share in SHARES.items()
        ]
        rows = self._on_device(np.concatenate(picked))
        columns = self._on_device(self.rng.choice(HARD_LIST, settings.hard, replace=False))
        near = self.hard_passages[rows][:, columns]
        passages = torch.unique(torch.cat([data.gold[rows], near.flatten()]))
        questions = self.model.encode(data.questions, rows, True, settings.drop)
        vectors = self.model.encode(data.passages, passages, False, settings.drop)
        cosine = questions @ vectors.T
        words = bm25(data, rows, passages)
        target = torch.searchsorted(passages, data.gold[rows])
        scale = self.model.sharpness.exp()
        mixed = functional.cross_entropy(scale[0] * mix(cosine, words, 0.5), target)
        alone = functional.cross_entropy(scale[1] * cosine, target)
        loss = mixed + 0.3 * alone
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
                {share: table[share] for share in ("0.0", "0.4", "0.5", "0.6", "1.0")},
                flush=True,
            )
        if score > self.best:
            self.best = score
            save(self.model, self.settings.out / f"model-{self.settings.name}.npz")
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
    table = model.table.detach().cpu().numpy()
    scale = np.abs(table).max(axis=1) / 127 + 1e-12
    codes = np.round(table / scale[:, None]).astype(np.int8)
    weights = np.exp(model.weights.detach().cpu().numpy())
    np.savez_compressed(
        path, vectors=codes, scale=scale.astype(np.float32), weights=weights.astype(np.float32)
    )


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
    parser.add_argument("--everyday", type=Path, default=Path("lab/everyday"))
    parser.add_argument("--out", type=Path, default=Path("work/retrieval"))
    parser.add_argument("--to", type=Path, default=Path(SHIPPED_TABLE))
    for setting in fields(Settings)[1:]:
        kind = type(setting.default)
        parser.add_argument(f"--{setting.name}", type=kind, default=setting.default)
    options = parser.parse_args(arguments)
    if options.stage == "prepare":
        prepare(options.data, options.everyday, options.out)
    elif options.stage == "train":
        settings = {setting.name: getattr(options, setting.name) for setting in fields(Settings)}
        Trainer(Settings(**settings)).run()
    else:
        build(options.out / f"model-{options.name}.npz", options.to)


if __name__ == "__main__":
    main()
