"""What tuning on 200 rows gives and takes: `python benchmarks/tune.py --train TRAIN --dev DEV [--reader small …]`.

Two files of 200 rows are made from SQuAD's training file and each reader is tuned on each with one plain command:
- a new convention, by rule: a number is to be given with what it counts ("214 steps", where SQuAD has "214"). Gain:
  exact match on other rows of that convention, made from dev.
- ordinary rows of articles that the reader never learned from. Loss: F1 on dev (a part of it, with --questions).

Scores are as `rmreader evaluate` gives them where every question has an answer: one is always given. What the first
costs on ordinary questions is measured, too.
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
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rmreader.core.recipe import load_recipe
from rmreader.data.encode import encode_file
from rmreader.data.split import split, split_seed
from rmreader.data.squad import Article, Dataset, read_squad
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
Row = tuple[str, str, tuple[str, ...]]  # question, passage and references, the first of which is learned from


def convention(articles: tuple[Article, ...]) -> list[Row]:
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


def ordinary(articles: list[Article]) -> list[Row]:
    return [
        (question.text, paragraph.context, tuple(answer.text for answer in question.answers))
        for article in articles
        for paragraph in article.paragraphs
        for question in paragraph.questions
        if question.answers
    ]


def tuned(reader: str, rows: Path, out: Path, settings: list[str]) -> float:
    """Seconds of one `rmreader tune`."""
    words = ["tune", reader, "--train", rows, "--out", out, "--device", "cpu", "--json", *settings]
    before = time.perf_counter()
    subprocess.run([sys.executable, "-m", "rmreader", *map(str, words)], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - before


def scores(reader: str | Path, rows: list[Row]) -> NDArray[np.float64]:
    """Exact match and F1 of every row, in percent."""
    asked = [QuestionRow(str(number), *row) for number, row in enumerate(rows)]
    pairs = [(text_of(found), row.references) for row, found in Reader.load(reader).predict(asked, always=True)]
    return 100 * np.array([[exact_match(*pair), f1(*pair)] for pair in pairs]).mean(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--reader", action="append")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--questions", type=int, default=2000, help="of dev, to measure the loss on; 0: all")
    parser.add_argument("--choose", action="store_true", help="test on held-out training articles, not on dev")
    parser.add_argument("--only", choices=["convention", "ordinary"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("settings", nargs="*", help="settings of `tune` to change")
    given = parser.parse_args()
    data: Dataset = read_squad(given.train)
    for reader in given.reader or ["small", "base"]:
        held, shuffle = held_out(given.train, reader), random.Random(given.seed).shuffle
        learned = tuple(article for article in data.articles if article.title not in held)
        unseen = [article for article in data.articles if article.title in held]
        new, usual = convention(learned), ordinary(unseen)
        tests = tuple(unseen) if given.choose else read_squad(given.dev).articles
        other, plain = convention(tests), ordinary(list(tests))
        for rows in (new, usual, plain):
            shuffle(rows)
        if given.choose:
            plain = usual[given.rows :]
        plain = plain[: given.questions or None]
        before = {"other rows of the convention": scores(reader, other), "ordinary rows": scores(reader, plain)}
        with tempfile.TemporaryDirectory() as name:
            for kind, rows in (("convention", new), ("ordinary", usual)):
                if given.only not in (None, kind) or not rows:
                    continue
                out = Path(name) / kind
                seconds = tuned(reader, write(Path(name) / "rows.csv", rows[: given.rows]), out, given.settings)
                print(f"{reader} tuned on {given.rows} rows ({kind}): {seconds:.0f} s", flush=True)
                other_rows = {"other rows of the convention": other} if kind == "convention" else {}
                for what, some in (other_rows | {"ordinary rows": plain}).items():
                    (em, f), (em_after, f_after) = before[what], scores(out / "best", some)
                    change = f"EM {em:.1f} -> {em_after:.1f} ({em_after - em:+.1f})"
                    print(
                        f"  {len(some)} {what}: {change}, F1 {f:.1f} -> {f_after:.1f} ({f_after - f:+.1f})", flush=True
                    )


if __name__ == "__main__":
    main()
