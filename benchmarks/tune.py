"""What tuning on a few examples gives and takes.

    python benchmarks/tune.py --train TRAIN --dev DEV --ordinary EVERYDAY [--reader small ...]

Two files of rows are made from SQuAD's training file and each reader is tuned on each with one
plain command:
- a new convention, by rule: a number is to be given with what it counts ("214 steps", where SQuAD
  has "214"). Gain: exact match on other rows of that convention, made from dev.
- ordinary rows of articles that the reader never learned from. Loss: F1 on dev (a part of it, with
  --questions).

Scores are as `rmreader evaluate` gives them where every question has an answer: one is always
given. What the first costs on ordinary questions is measured, too, and how many questions are
refused, with the decision on: of those that their passages do not answer (in --ordinary, a SQuAD
2.0 file), and of those that they answer.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rmreader.core.recipe import load_recipe
from rmreader.data.encode import encode_file
from rmreader.data.split import split, split_seed
from rmreader.data.squad import Article, read_squad
from rmreader.readers.folder import find
from rmreader.reading.answers import text_of
from rmreader.reading.reader import Reader
from rmreader.reading.rows import QuestionRow
from rmreader.scoring.squad import exact_match, f1

NUMBER = re.compile(r"(?!(1\d|20)\d\d$)(\d[\d,.]*|two|three|four|five|six|seven|eight|nine|ten)")  # but no years
NO_UNIT = {
    "and",
    "or",
    "of",
    "in",
    "to",
    "by",
    "at",
    "on",
    "for",
    "from",
    "with",
    "the",
    "a",
    "an",
    "were",
    "was",
    "are",
}
NO_UNIT |= {"is", "as", "had", "has", "have", "who", "which", "that", "but", "when", "while", "after", "before", "per"}
REFUSED = "refused:"
Row = tuple[str, str, tuple[str, ...]]  # question, passage and references, the first of which is learned from


def convention(articles: Sequence[Article]) -> list[Row]:
    """Question, passage and answer with its unit, where the first answer is a number before a word that is counted."""
    rows = []
    for paragraph in (paragraph for article in articles for paragraph in article.paragraphs):
        for question in paragraph.questions:
            for answer in question.answers[:1]:
                after = re.match(r" ([a-z]{3,})\b", paragraph.context[answer.start + len(answer.text) :])
                if NUMBER.fullmatch(answer.text.lower()) and after is not None and after[1] not in NO_UNIT:
                    rows.append((question.text, paragraph.context, (answer.text + after[0],)))
    return rows


def write(path: Path, rows: list[Row]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("question", "passage", "answer"), *((*row[:2], row[2][0]) for row in rows)])
    return path


def held_out(path: Path, reader: str) -> set[str]:
    """Titles of the articles of the training file that a reader did not learn from."""
    training = load_recipe(find(reader) / "recipe.yaml").training
    held = split(encode_file(path), training.holdout, split_seed(training))[1]
    if held is None:  # it learned from all of them
        return set()
    titles = [article.title for article in read_squad(path).articles]
    return {titles[number] for number in np.unique(held.article)}


def ordinary(articles: Sequence[Article]) -> list[Row]:
    """Return the questions that are answered, with all references."""
    return [
        (question.text, paragraph.context, tuple(answer.text for answer in question.answers))
        for article in articles
        for paragraph in article.paragraphs
        for question in paragraph.questions
        if question.answers
    ]


def unanswered(articles: Sequence[Article]) -> list[Row]:
    """Return the questions that their passages do not answer."""
    return [
        (question.text, paragraph.context, ())
        for article in articles
        for paragraph in article.paragraphs
        for question in paragraph.questions
        if question.impossible
    ]


def tuned(reader: str, rows: Path, out: Path, settings: list[str]) -> float:
    """Return the seconds of one `rmreader tune`."""
    words = ["tune", reader, "--train", rows, "--out", out, "--device", "cpu", "--json", *settings]
    before = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "rmreader", *map(str, words)],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - before


def measured(reader: Reader, rows: list[Row], what: str) -> list[float]:
    """Return exact match and F1, in percent; of a set named "refused" the share that is refused."""
    asked = [QuestionRow(str(number), *row) for number, row in enumerate(rows)]
    if what.startswith(REFUSED):
        return [100 * float(np.mean([not found for _, found in reader.predict(asked)]))]
    predicted = reader.predict(asked, always=True)
    pairs = [(text_of(found), row.references) for row, found in predicted]
    exact = 100 * float(np.mean([exact_match(*pair) for pair in pairs]))
    overlap = 100 * float(np.mean([f1(*pair) for pair in pairs]))
    return [exact, overlap]


def compare(what: str, rows: list[Row], old: list[float], reader: Reader) -> None:
    """Print what a set of rows gained or lost."""
    names = ["share"] if what.startswith(REFUSED) else ["EM", "F1"]
    changes = []
    for name, before, after in zip(names, old, measured(reader, rows, what), strict=True):
        changes.append(f"{name} {before:.1f} -> {after:.1f} ({after - before:+.1f})")
    print(f"  {len(rows)} {what}: {', '.join(changes)}", flush=True)


def sources(given: argparse.Namespace, reader: str) -> tuple[list[Row], list[Row], list[Article]]:
    """Return rows of the convention, ordinary rows, and the articles that others are made from."""
    articles = list(read_squad(given.train).articles)
    held = held_out(given.train, reader)
    unseen = [article for article in articles if article.title in held]
    learned = [article for article in articles if article.title not in held]
    if not given.choose:
        return convention(learned), ordinary(unseen), list(read_squad(given.dev).articles)
    random.Random(given.seed).shuffle(learned)
    half = len(learned) // 2
    return convention(learned[:half]), ordinary(unseen), learned[half:]


def measure(given: argparse.Namespace, reader: str) -> None:
    """Tune one reader on each kind of rows and print what changed."""
    new, usual, tests = sources(given, reader)
    other = convention(tests)
    plain = ordinary(tests)
    shuffle = random.Random(given.seed).shuffle
    for rows in (new, usual, plain, other):
        shuffle(rows)
    sets = {
        "other rows of the convention": other[: given.others],
        "ordinary rows": plain[: given.questions or None],
    }
    for path in given.ordinary:
        articles = read_squad(path).articles
        sets[f"{REFUSED} unanswered of {path.name}"] = unanswered(articles)
        sets[f"{REFUSED} answered of {path.name}"] = ordinary(articles)
    before = {}
    start = Reader.load(reader)
    for what, some in sets.items():
        before[what] = measured(start, some, what)
    with tempfile.TemporaryDirectory() as name:
        for kind, rows in (("convention", new), ("ordinary", usual)):
            if given.only not in (None, kind) or not rows:
                continue
            file = write(Path(name) / "rows.csv", rows[: given.rows])
            out = Path(name) / kind
            seconds = tuned(reader, file, out, given.settings)
            print(f"{reader} tuned on {given.rows} rows ({kind}): {seconds:.0f} s", flush=True)
            after = Reader.load(out / "best")
            for what, some in sets.items():
                if kind == "convention" or what != "other rows of the convention":
                    compare(what, some, before[what], after)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--ordinary", type=Path, nargs="*", default=[], help="SQuAD 2.0 files")
    parser.add_argument("--reader", action="append")
    parser.add_argument("--rows", type=int, default=150)
    parser.add_argument("--questions", type=int, default=2000, help="of dev, to measure the loss on; 0: all")
    parser.add_argument("--others", type=int, default=300, help="other rows of the convention")
    parser.add_argument("--choose", action="store_true", help="test on other training articles, not on dev")
    parser.add_argument("--only", choices=["convention", "ordinary"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--settings", nargs="*", default=[], help="settings of `tune` to change")
    given = parser.parse_args()
    for reader in given.reader or ["small", "base"]:
        measure(given, reader)


if __name__ == "__main__":
    main()
