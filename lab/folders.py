"""Fit the decision of a folder (`rmreader.documents.rank`): which passage, and whether any.

    python -m lab.folders --data ../shared/data --work work/folders --model small base
    python -m lab.folders --data ../shared/data --work work/folders --model base --test   # measured

Every question is asked of a folder with its document and of the same folder without it. The folders:
everyday texts, and SQuAD's training articles, of which the nine that no shipped reader learned from
are asked about. What the readers make of the passages is kept in ``--work``, a file for each reader
and folder, and is read again unless ``--anew``; the fit itself takes a second. rank.py has one set of
numbers for all readers: it is fitted on all that are given, and each reader's own fit is told beside
it, with the shares that are refused and made up at its threshold and at others. ``--write`` puts the
numbers into rank.py; after readers or the search have changed:

    python -m lab.folders --anew --write && python -m lab.folders --anew --test

With ``--test`` nothing is fitted: the decision as it is, on everyday `test`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lab.scripts import everyday
from rmreader import Reader, Shelf
from rmreader.data.squad import read_squad
from rmreader.documents import rank
from rmreader.documents.index import Passage
from rmreader.reading.answers import Answers
from rmreader.scoring.squad import exact_match, f1

READ = 10
HELD_OUT_ARTICLES = 9
HELD_OUT_SEED = (1, 0x5E1EC7)  # as rmreader.data.split draws them
SQUAD_QUESTIONS = 250
OTHER_TEXTS = 92  # of `learn`, beside `held`: a folder as large as that of the benchmark
MOST_MADE_UP = 0.15  # answered though the document is not there
SHARES = (0.05, 0.10, 0.15, 0.20, 0.25)  # of the same, to see what each costs
RANK = Path(rank.__file__)


@dataclass(frozen=True)
class Asked:
    """A question about a document of a folder."""

    file: str
    text: str
    answers: tuple[str, ...]
    places: tuple[int, ...]


@dataclass(frozen=True)
class Read:
    """What a reader made of one passage."""

    own: bool
    """Whether it is of the question's document."""
    right: bool
    """Whether the place of a reference answer is in it."""
    search: float
    reader: float
    """Its log-odds of an answer in the passage."""
    confidence: float
    em: float
    f1: float


Pairs = Sequence[tuple[list[Read], list[Read]]]
"""What was read for each question, in the folder with its document and without it."""
Found = tuple[Asked, list[Passage], list[Passage]]
"""A question, and the passages for it in a folder with its document and without it."""


# ---------------------------------------------------------------- folders


def everyday_folder(folder: Path, part: str, others: str) -> list[Asked]:
    """Write everyday texts as files, others beside them; the questions about the first."""
    folder.mkdir(parents=True, exist_ok=True)
    source = Path(__file__).parent / "everyday"
    asked: list[Asked] = []
    for number, text in enumerate(everyday.read(source / f"{part}.txt.gz")):
        file = f"{part}-{number:03}.txt"
        (folder / file).write_text(text.context, encoding="utf-8")
        for question in text.asked:
            if question.answers:
                answers = tuple(answer.text for answer in question.answers)
                places = tuple(answer.start for answer in question.answers)
                asked.append(Asked(file, question.text, answers, places))
    texts = everyday.read(source / f"{others}.txt.gz")
    for number, text in enumerate(random.Random(7).sample(texts, min(OTHER_TEXTS, len(texts)))):
        (folder / f"other-{number:03}.txt").write_text(text.context, encoding="utf-8")
    return asked


def squad_folder(folder: Path, data: Path) -> list[Asked]:
    """Write SQuAD's training articles as files; questions about those that no reader learned from."""
    folder.mkdir(parents=True, exist_ok=True)
    articles = list(read_squad(data / "squad-v2.0" / "train-v2.0-rebuilt.json.gz").articles)
    drawn = np.random.default_rng(HELD_OUT_SEED).permutation(len(articles))
    held = set(drawn[:HELD_OUT_ARTICLES].tolist())
    asked: list[Asked] = []
    for number, article in enumerate(articles):
        file = f"{number:03}.txt"
        offset = 0
        for paragraph in article.paragraphs:
            for question in paragraph.questions if number in held else ():
                if question.answers:
                    answers = tuple(answer.text for answer in question.answers)
                    places = tuple(offset + answer.start for answer in question.answers)
                    asked.append(Asked(file, question.text, answers, places))
            offset += len(paragraph.context) + 2
        whole = "\n\n".join(paragraph.context for paragraph in article.paragraphs)
        (folder / file).write_text(whole, encoding="utf-8")
    return random.Random(7).sample(asked, SQUAD_QUESTIONS)


def folder_of(name: str, data: Path, work: Path) -> tuple[Shelf, list[Asked]]:
    """A folder by name, indexed, and the questions about it."""
    folder = work / name
    if name == "squad":
        asked = squad_folder(folder, data)
    elif name == "test":
        asked = everyday_folder(folder, "test", "held")
    else:
        asked = everyday_folder(folder, "held", "learn")
    shelf = Shelf.open(work / f"{name}.rmindex")
    shelf.add(folder)
    return shelf, asked


# ---------------------------------------------------------------- reading


def search_both(shelf: Shelf, folder: Path, asked: Sequence[Asked]) -> list[Found]:
    """What the search finds for each question: in the folder, and in it without the document.

    The document is really taken out: its words must not count in what the others are worth.
    """
    by_file: dict[str, list[Asked]] = {}
    for question in asked:
        by_file.setdefault(question.file, []).append(question)
    found: list[Found] = []
    for file, questions in by_file.items():
        with_it = [shelf.search(question.text, READ) for question in questions]
        shelf.index.put([], [(str(folder.resolve()), file)])
        without_it = [shelf.search(question.text, READ) for question in questions]
        assert all(passage.file != file for some in without_it for passage in some)
        found.extend(zip(questions, with_it, without_it, strict=True))
        shelf.add(folder)
    return found


def collect(found: Sequence[Found], reader: Reader, path: Path) -> None:
    """Read what was found for each question; a line each."""
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8") as out:
        for asked, with_it, without_it in found:
            # A passage that is in both folders is read once.
            texts = list(dict.fromkeys(passage.text for passage in (*with_it, *without_it)))
            pairs = [(asked.text, text) for text in texts]
            answers = reader.ask_many(pairs, top=1, always=True)
            read = dict(zip(texts, answers, strict=True))
            rows = [
                [asdict(row) for row in judge(asked, some, read)] for some in (with_it, without_it)
            ]
            out.write(json.dumps(rows) + "\n")
    part.replace(path)


def judge(
    asked: Asked, passages: Sequence[Passage], answers: Mapping[str, Answers]
) -> Iterator[Read]:
    """What the reader made of these passages, and whether it is right."""
    for passage in passages:
        given = answers[passage.text]
        low, high = passage.stretch.span(0, len(passage.text))
        own = passage.file == asked.file
        right = own and any(low <= place < high for place in asked.places)
        text = given[0].text if given else ""
        confidence = given[0].confidence if given else 0.0
        scores = exact_match(text, asked.answers), f1(text, asked.answers)
        yield Read(own, right, passage.score, rank.log_odds(given), confidence, *scores)


def load(path: Path) -> list[tuple[list[Read], list[Read]]]:
    """What was read for each question: in the folder with its document, and without it."""
    pairs = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with_it, without_it = json.loads(line)
        pairs.append(([Read(**row) for row in with_it], [Read(**row) for row in without_it]))
    return pairs


# ---------------------------------------------------------------- the fit


def features(rows: Sequence[Read]) -> np.ndarray:
    """Of each passage: what the reader and the search say of it."""
    return np.array([[row.reader, row.search, 1.0] for row in rows]).reshape(-1, 3)


def fit(pairs: Pairs, rounds: int = 300) -> np.ndarray:
    """Numbers by which odds e^(w·x) share one between the passages and "none of them".

    In the folder with the document the right passages should have it, without it nobody.
    """
    weights = np.array([0.7, 8.0, -5.0])
    rate = 1.0
    before = math.inf
    for _ in range(rounds):
        loss, slope, curve = _loss(pairs, weights)
        if abs(before - loss) < 1e-7 * loss:
            break
        if loss > before:
            rate /= 2
        before = loss
        weights = weights - rate * np.linalg.solve(curve + 1e-3 * np.eye(3), slope)
    return weights


def _loss(pairs: Pairs, weights: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """The loss, its slope, and a matrix that says how far to go."""
    loss = 0.0
    slope = np.zeros(3)
    curve = np.zeros((3, 3))
    for rows, right in _cases(pairs):
        values = features(rows)
        logits = np.append(values @ weights, 0.0)
        shares = np.exp(logits - logits.max())
        shares /= shares.sum()
        wanted = shares * np.append(right, not right.any())
        loss -= math.log(max(wanted.sum(), 1e-12))
        wanted /= max(wanted.sum(), 1e-12)
        slope += (shares - wanted)[:-1] @ values
        mean = shares[:-1] @ values
        curve += (values * shares[:-1, None]).T @ values - np.outer(mean, mean)
    return loss, slope, curve


def _cases(
    pairs: Pairs,
) -> Iterator[tuple[list[Read], np.ndarray]]:
    for with_it, without_it in pairs:
        for rows in (with_it, without_it):
            # An answer that is right in words is right, wherever it stands.
            yield rows, np.array([row.right or row.f1 == 1 for row in rows], bool)


def chance_of_none(rows: Sequence[Read], weights: np.ndarray) -> float:
    """As rank.py has it."""
    if not rows:
        return 1.0
    return float(1 / (1 + np.exp(features(rows) @ weights).max()))


def threshold(pairs: Pairs, weights: np.ndarray, made_up: float = MOST_MADE_UP) -> float:
    """Above which chance of none no answer is given: as many made up as may be."""
    none = sorted(chance_of_none(without_it, weights) for _, without_it in pairs)
    return none[int(made_up * len(none))]


def report(
    name: str,
    pairs: Pairs,
    weights: np.ndarray,
    doubt: float,
) -> None:
    """One line of figures."""
    there = np.array([chance_of_none(with_it, weights) for with_it, _ in pairs])
    gone = np.array([chance_of_none(without_it, weights) for _, without_it in pairs])
    auroc = float((there[:, None] < gone[None]).mean() + (there[:, None] == gone[None]).mean() / 2)
    best = [
        with_it[int(np.argmax(features(with_it) @ weights))] if with_it else None
        for with_it, _ in pairs
    ]
    found = [any(row.right for row in with_it) for with_it, _ in pairs]
    em, score = (
        100 * float(np.mean([getattr(row, key) if row else 0.0 for row in best]))
        for key in ("em", "f1")
    )
    print(
        f"{name:16} {len(pairs)} questions: recall {100 * np.mean(found):.1f}, EM / F1 {em:.1f} / {score:.1f}, "
        f"AUROC {auroc:.3f}; refused though it is there {100 * (there > doubt).mean():.1f} %, "
        f"answered though it is not {100 * (gone <= doubt).mean():.1f} %",
        flush=True,
    )


def trade(name: str, pairs: Pairs, weights: np.ndarray) -> None:
    """One line: what is refused at several shares of made-up answers."""
    there = np.array([chance_of_none(with_it, weights) for with_it, _ in pairs])
    costs = []
    for share in SHARES:
        doubt = threshold(pairs, weights, share)
        refused = 100 * (there > doubt).mean()
        costs.append(f"{100 * share:.0f} %: {refused:.1f} % (above {doubt:.2f})")
    print(f"{name:16} refused where so many are made up: {', '.join(costs)}", flush=True)


def fit_reader(name: str, kept: Mapping[str, Pairs]) -> tuple[np.ndarray, float]:
    """Fit on all folders, choose the threshold on everyday texts, and tell the figures of each."""
    weights = fit([pair for pairs in kept.values() for pair in pairs])
    doubt = threshold([pair for key in kept if "held" in key for pair in kept[key]], weights)
    print(f"fitted on {name}: weights {weights.round(3).tolist()}, no answer above {doubt:.3f}")
    for key, pairs in kept.items():
        report(f"  {key}", pairs, weights, doubt)
        trade(f"  {key}", pairs, weights)
    return weights, doubt


def write(weights: np.ndarray, doubt: float) -> None:
    """Put the numbers into rank.py."""
    text = RANK.read_text(encoding="utf-8")
    values = {"_READER": weights[0], "_SEARCH": weights[1], "_BIAS": weights[2], "_DOUBT": doubt}
    for name, value in values.items():
        text, count = re.subn(rf"(?m)^{name} = [-0-9.]+", f"{name} = {value:.3g}", text)
        assert count == 1, name
    RANK.write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--work", type=Path, default=Path("work/folders"))
    parser.add_argument("--model", nargs="+", default=["small", "base"])
    parser.add_argument("--first", type=int, default=0, help="ask only so many of each folder")
    parser.add_argument("--test", action="store_true", help="fit nothing, measure on `test`")
    parser.add_argument("--anew", action="store_true", help="read the passages again")
    parser.add_argument("--write", action="store_true", help="put the numbers into rank.py")
    options = parser.parse_args(arguments)
    names = ("test",) if options.test else ("held", "squad")
    kept: dict[str, Any] = {}
    for name in names:
        found: list[Found] = []
        for model in options.model:
            path = options.work / f"{Path(model).name}-{name}.jsonl"
            if options.anew or not path.exists():
                if not found:
                    shelf, asked = folder_of(name, options.data, options.work)
                    some = asked[: options.first] if options.first else asked
                    found = search_both(shelf, options.work / name, some)
                collect(found, Reader.load(model, threads=1), path)
            kept[f"{Path(model).name}, {name}"] = load(path)
    print("as rank.py has it:")
    weights = np.array([rank._READER, rank._SEARCH, rank._BIAS])
    for name, pairs in kept.items():
        report(f"  {name}", pairs, weights, rank._DOUBT)
        trade(f"  {name}", pairs, weights)
    if options.test:
        return
    for model in options.model if len(options.model) > 1 else ():
        own = {key: pairs for key, pairs in kept.items() if key.startswith(f"{Path(model).name},")}
        fit_reader(f"{model} alone", own)
    weights, doubt = fit_reader(" and ".join(options.model), kept)
    if options.write:
        write(weights, doubt)


if __name__ == "__main__":
    main()
