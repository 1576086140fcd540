"""Fit the decision of a folder (`rmreader.documents.rank`): which passage, and whether any.

    python -m lab.folders --write         # fitted on both shipped readers, and put into rank.py
    python -m lab.folders --model base    # one reader alone: its figures, and its own fit
    python -m lab.folders --test          # nothing is fitted: everyday `test`

Every question is asked of a folder with its document and of the same folder without it. The
folders: everyday texts, and SQuAD's training articles, of which the nine that no shipped reader
learned from are asked about. rank.py has one set of numbers for all readers: it is fitted on all
that are given, and each reader's own fit is printed beside it, with the shares that are refused and
made up at its threshold and at others.

What a reader makes of a passage is kept in ``--work``, a line each, under the reader's checksum. So
a run that was ended goes on where it was, a new search costs only the passages that the old one did
not find, and after another `small` is shipped the first line above is all there is to do. After a
change of what computes a reader (``reading/engine``), give ``--anew``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

from lab.scripts import everyday
from rmreader import Reader, Shelf
from rmreader.core.files.manifest import file_sha256
from rmreader.data.squad import read_squad
from rmreader.documents import rank
from rmreader.documents.index import Passage
from rmreader.reading.answers import Answers
from rmreader.scoring.squad import exact_match, f1

READ = 10
HELD_OUT_ARTICLES = 9
HELD_OUT_SEED = (1, 0x5E1EC7)  # as rmreader.data.split draws them
SQUAD_QUESTIONS = 100  # a fifth of all: most folders are not encyclopedias
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
class Reading:
    """What a reader made of a question and a text."""

    log_odds: float
    """Of an answer in the text."""
    text: str
    confidence: float

    @classmethod
    def of(cls, answers: Answers) -> Reading:
        """The best answer, and whether there is any."""
        best = answers[0] if answers else None
        return cls(
            rank.log_odds(answers),
            best.text if best else "",
            best.confidence if best else 0.0,
        )


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
    count = min(OTHER_TEXTS, len(texts))
    for number, text in enumerate(random.Random(7).sample(texts, count)):
        (folder / f"other-{number:03}.txt").write_text(text.context, encoding="utf-8")
    return asked


def squad_folder(folder: Path, data: Path) -> list[Asked]:
    """Write SQuAD's training articles as files.

    Returns questions about those that no reader learned from.
    """
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
        contexts = [paragraph.context for paragraph in article.paragraphs]
        (folder / file).write_text("\n\n".join(contexts), encoding="utf-8")
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


class Readings:
    """What a reader made of passages, kept in a file; what is not there yet is read."""

    def __init__(self, model: str, folder: Path, anew: bool = False) -> None:
        self._reader = Reader.load(model, threads=1)
        checksum = file_sha256(self._reader.folder.path / "reader.json")
        self._path = folder / f"{Path(model).name}-{checksum[:12]}.jsonl"
        if anew:
            self._path.unlink(missing_ok=True)
        self._kept: dict[str, Reading] = {}
        for line in _whole_lines(self._path):
            key, *values = json.loads(line)
            self._kept[key] = Reading(*values)

    def read(self, question: str, texts: Sequence[str]) -> dict[str, Reading]:
        """What the reader makes of each of these texts."""
        keys = {text: _key(question, text) for text in texts}
        new = [text for text, key in keys.items() if key not in self._kept]
        if new:
            pairs = [(question, text) for text in new]
            answers = self._reader.ask_many(pairs, top=1, always=True)
            with self._path.open("a", encoding="utf-8") as out:
                for text, given in zip(new, answers, strict=True):
                    reading = Reading.of(given)
                    self._kept[keys[text]] = reading
                    out.write(json.dumps([keys[text], *astuple(reading)]) + "\n")
        return {text: self._kept[key] for text, key in keys.items()}


def _whole_lines(path: Path) -> list[str]:
    """The lines of a file; one that a kill cut short is taken out of it."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    return whole.splitlines()


def _key(question: str, text: str) -> str:
    return hashlib.blake2b(f"{question}\0{text}".encode(), digest_size=12).hexdigest()


def read_pairs(found: Sequence[Found], readings: Readings) -> list[tuple[list[Read], list[Read]]]:
    """What was read for each question: in the folder with its document, and without it."""
    pairs = []
    for asked, with_it, without_it in found:
        texts = [passage.text for passage in (*with_it, *without_it)]
        read = readings.read(asked.text, texts)
        judged_with = list(judge(asked, with_it, read))
        judged_without = list(judge(asked, without_it, read))
        pairs.append((judged_with, judged_without))
    return pairs


def judge(asked: Asked, passages: Sequence[Passage], read: Mapping[str, Reading]) -> Iterator[Read]:
    """What the reader made of these passages, and whether it is right."""
    for passage in passages:
        given = read[passage.text]
        low, high = passage.stretch.span(0, len(passage.text))
        own = passage.file == asked.file
        right = own and any(low <= place < high for place in asked.places)
        yield Read(
            own,
            right,
            passage.score,
            given.log_odds,
            given.confidence,
            exact_match(given.text, asked.answers),
            f1(given.text, asked.answers),
        )


# ---------------------------------------------------------------- the fit


def features(rows: Sequence[Read]) -> np.ndarray:
    """Of each passage: what the reader and the search say of it."""
    values = [[row.reader, row.search, 1.0] for row in rows]
    return np.array(values).reshape(-1, 3)


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
        # What the right passages have of the shares, or "none of them" where none is right.
        wanted = shares * np.append(right, not right.any())
        total = max(wanted.sum(), 1e-12)
        loss -= math.log(total)
        wanted /= total
        slope += (shares - wanted)[:-1] @ values
        mean = shares[:-1] @ values
        curve += (values * shares[:-1, None]).T @ values - np.outer(mean, mean)
    return loss, slope, curve


def _cases(
    pairs: Pairs,
) -> Iterator[tuple[list[Read], np.ndarray]]:
    """What was read of each folder, and which of it is right."""
    for with_it, without_it in pairs:
        for rows in (with_it, without_it):
            # An answer that is right in words is right, wherever it stands.
            right = [row.right or row.f1 == 1 for row in rows]
            yield rows, np.array(right, bool)


def chance_of_none(rows: Sequence[Read], weights: np.ndarray) -> float:
    """As rank.py has it."""
    if not rows:
        return 1.0
    odds = np.exp(features(rows) @ weights)
    return float(1 / (1 + odds.max()))


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
    lower = (there[:, None] < gone[None]).mean()
    equal = (there[:, None] == gone[None]).mean()
    auroc = float(lower + equal / 2)

    exact = []
    overlap = []
    found = []
    for with_it, _ in pairs:
        best = None
        if with_it:
            best = with_it[int(np.argmax(features(with_it) @ weights))]
        exact.append(best.em if best else 0.0)
        overlap.append(best.f1 if best else 0.0)
        found.append(any(row.right for row in with_it))
    print(
        f"{name:16} {len(pairs)} questions: recall {100 * np.mean(found):.1f}, "
        f"EM / F1 {100 * np.mean(exact):.1f} / {100 * np.mean(overlap):.1f}, "
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
    all_pairs: list[tuple[list[Read], list[Read]]] = []
    held_pairs: list[tuple[list[Read], list[Read]]] = []
    for key, pairs in kept.items():
        all_pairs += pairs
        if "held" in key:
            held_pairs += pairs
    weights = fit(all_pairs)
    doubt = threshold(held_pairs, weights)
    print(f"fitted on {name}: weights {weights.round(3).tolist()}, no answer above {doubt:.3f}")
    for key, pairs in kept.items():
        report(f"  {key}", pairs, weights, doubt)
        trade(f"  {key}", pairs, weights)
    return weights, doubt


def write(weights: np.ndarray, doubt: float) -> None:
    """Put the numbers into rank.py."""
    text = RANK.read_text(encoding="utf-8")
    values = {
        "_READER": weights[0],
        "_SEARCH": weights[1],
        "_BIAS": weights[2],
        "_DOUBT": doubt,
    }
    for name, value in values.items():
        line = rf"(?m)^{name} = [-0-9.]+"
        text, count = re.subn(line, f"{name} = {value:.3g}", text)
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
    parser.add_argument("--first", type=int, help="ask only so many of each folder")
    parser.add_argument("--test", action="store_true", help="fit nothing, measure on `test`")
    parser.add_argument("--anew", action="store_true", help="forget what the readers read before")
    parser.add_argument("--write", action="store_true", help="put the numbers into rank.py")
    options = parser.parse_args(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[Found]] = {}
    for name in ("test",) if options.test else ("held", "squad"):
        shelf, asked = folder_of(name, options.data, options.work)
        found[name] = search_both(shelf, options.work / name, asked[: options.first])
    kept: dict[str, Pairs] = {}
    for model in options.model:
        readings = Readings(model, options.work, options.anew)
        for name, some in found.items():
            kept[f"{Path(model).name}, {name}"] = read_pairs(some, readings)
    print("as rank.py has it:")
    weights = np.array(
        [
            rank._READER,
            rank._SEARCH,
            rank._BIAS,
        ]
    )
    for name, pairs in kept.items():
        report(f"  {name}", pairs, weights, rank._DOUBT)
        trade(f"  {name}", pairs, weights)
    if options.test:
        return
    if len(options.model) > 1:
        for model in options.model:
            begin = f"{Path(model).name},"
            own = {key: pairs for key, pairs in kept.items() if key.startswith(begin)}
            fit_reader(f"{model} alone", own)
    weights, doubt = fit_reader(" and ".join(options.model), kept)
    if options.write:
        write(weights, doubt)


if __name__ == "__main__":
    main()
