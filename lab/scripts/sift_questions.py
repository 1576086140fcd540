"""Hold articles out, keep the made questions that a reader answers as meant, and join files.

    python -m lab.scripts.sift_questions split train.json.gz \\
        --out learned.json.gz --held-out heldout.json.gz
    python -m lab.scripts.sift_questions check made.json.gz --reader base --out kept.json.gz
    python -m lab.scripts.sift_questions join learned.json.gz kept.json.gz --out all.json.gz
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rmreader.data.encode import encode_file
from rmreader.data.encoded import Encoded
from rmreader.data.split import split as split_articles
from rmreader.data.squad import (
    Article,
    Dataset,
    Paragraph,
    Question,
    Reference,
    read_squad,
    write_squad,
)
from rmreader.model.spans import top_spans
from rmreader.readers.folder import find
from rmreader.training.teacher import distributions

BATCH = 256  # questions whose best spans are computed at once
LONGEST = 15  # words of an answer


def check(args: argparse.Namespace) -> None:
    """Keep what a reader answers with the words that were asked for, with its bounds."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    encoded = encode_file(args.made, args.cache)
    predictions = distributions(
        find(args.reader),
        encoded,
        400,
        device,
    )
    references = {}
    for i, begin, end in _best_spans(predictions, len(encoded)):
        if encoded.start[i] < 0:
            continue
        if "no_answer" in predictions and predictions["no_answer"][i] > args.most_doubt:
            continue
        if (
            _agreement(
                encoded,
                i,
                begin,
                end,
            )
            >= args.agree
        ):
            starts, ends = encoded.spans(i)
            text = encoded.passage(i)[starts[begin] : ends[end]]
            references[encoded.ids[i]] = Reference(text, int(starts[begin]))
    write_squad(_with_answers(read_squad(args.made), references), args.out)
    print(f"{args.out}: {len(references)} of {len(encoded)} questions", flush=True)


def _best_spans(
    predictions: Mapping[str, NDArray[Any]],
    count: int,
) -> Iterator[tuple[int, int, int]]:
    """The first and the last word of the best answer to every question."""
    bounds = predictions["bounds"]  # where each question's words begin among all
    for low in range(0, count, BATCH):
        rows = np.arange(low, min(count, low + BATCH))
        lengths = bounds[rows + 1] - bounds[rows]
        inside = np.arange(int(lengths.max())) < lengths[:, None]
        words = slice(bounds[low], bounds[rows[-1] + 1])
        log_p = np.full((2, *inside.shape), -1e4, np.float32)
        log_p[0][inside] = predictions["start"][words]
        log_p[1][inside] = predictions["end"][words]
        log_starts, log_ends = torch.from_numpy(log_p)
        lengths = torch.from_numpy(lengths)
        firsts, lasts, _ = top_spans(
            log_starts,
            log_ends,
            lengths,
            LONGEST,
            1,
        )
        for row, first, last in zip(
            rows,
            firsts[:, 0],
            lasts[:, 0],
            strict=True,
        ):
            yield int(row), int(first), int(last)


def _agreement(encoded: Encoded, i: int, begin: int, end: int) -> float:
    """F1 of some words of a passage with those that were asked for."""
    meant_begin = encoded.start[i]
    meant_end = encoded.end[i]
    shared = min(end, meant_end) - max(begin, meant_begin) + 1
    both = (end - begin + 1) + (meant_end - meant_begin + 1)
    return float(2 * shared / both)


def _with_answers(dataset: Dataset, references: Mapping[str, Reference]) -> list[Article]:
    """The questions that have such an answer, each with it alone."""
    articles = []
    for article in dataset.articles:
        paragraphs = []
        for paragraph in article.paragraphs:
            questions = []
            for question in paragraph.questions:
                if question.id in references:
                    answers = (references[question.id],)
                    questions.append(Question(question.id, question.text, answers))
            if questions:
                paragraphs.append(Paragraph(paragraph.context, tuple(questions)))
        if paragraphs:
            articles.append(Article(article.title, tuple(paragraphs)))
    return articles


def split(args: argparse.Namespace) -> None:
    """Part the articles to learn from and those that `training.holdout` would hold out."""
    encoded = encode_file(args.file, args.cache)
    _, held = split_articles(
        encoded,
        args.share,
        args.seed,
        True,
    )
    numbers = set() if held is None else set(held.article.tolist())
    learned = []
    held_out = []
    dataset = read_squad(args.file)
    for number, article in enumerate(dataset.articles):
        if number in numbers:
            held_out.append(article)
        else:
            learned.append(article)
    write_squad(learned, args.out)
    write_squad(held_out, args.held_out)
    print(f"{args.held_out}: {len(numbers)} of {len(dataset.articles)} articles", flush=True)


def join(args: argparse.Namespace) -> None:
    """Join several files to one."""
    articles: list[Article] = []
    count = 0
    for path in args.files:
        dataset = read_squad(path)
        articles += dataset.articles
        count += sum(1 for _ in dataset.questions())
    write_squad(articles, args.out)
    print(f"{args.out}: {count} questions", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("check", help="keep the questions that a reader answers as meant")
    first.add_argument("made", type=Path)
    first.add_argument("--reader", default="base")
    first.add_argument(
        "--agree", type=float, default=0.6, help="F1 of its words with those asked for, at least"
    )
    first.add_argument(
        "--most-doubt", type=float, default=0.0, help="log-odds of no answer that it may have"
    )
    first.add_argument("--cache", type=Path, default=None)
    first.add_argument("--out", type=Path, required=True)
    first.set_defaults(run=check)
    second = commands.add_parser(
        "split", help="hold articles out before anything is learned or made"
    )
    second.add_argument("file", type=Path)
    second.add_argument("--out", type=Path, required=True)
    second.add_argument("--held-out", type=Path, required=True)
    second.add_argument("--share", type=float, default=0.02)
    second.add_argument("--seed", type=int, default=1)
    second.add_argument("--cache", type=Path, default=None)
    second.set_defaults(run=split)
    third = commands.add_parser("join", help="several files as one")
    third.add_argument("files", nargs="+", type=Path)
    third.add_argument("--out", type=Path, required=True)
    third.set_defaults(run=join)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
