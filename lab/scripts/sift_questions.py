"""Hold articles out, keep those made questions that a reader answers as they were meant, and join
files.

python -m lab.scripts.sift_questions split train.json.gz --out learned.json.gz --held-out
heldout.json.gz python -m lab.scripts.sift_questions check made.json.gz --reader base --out
kept.json.gz python -m lab.scripts.sift_questions join learned.json.gz kept.json.gz --out
all.json.gz
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from rmreader.data.encode import encode_file
from rmreader.data.split import split as held_out
from rmreader.data.squad import Article, Paragraph, Question, Reference, read_squad, write_squad
from rmreader.model.spans import top_spans
from rmreader.readers.folder import find
from rmreader.training.teacher import distributions


def check(args: argparse.Namespace) -> None:
    """Keep what a reader answers with the words that were asked for, with its bounds of the answer."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    encoded, dataset = encode_file(args.made, args.cache), read_squad(args.made)
    said = distributions(find(args.reader), encoded, 400, device)
    bounds, kept = said["bounds"], dict[str, Reference]()
    for low in range(0, len(encoded), 256):
        rows = np.arange(low, min(len(encoded), low + 256))
        lengths = bounds[rows + 1] - bounds[rows]
        inside = np.arange(int(lengths.max())) < lengths[:, None]
        log_p = np.full((2, *inside.shape), -1e4, np.float32)
        log_p[0][inside], log_p[1][inside] = (
            said[k][bounds[low] : bounds[rows[-1] + 1]] for k in ("start", "end")
        )
        log_starts, log_ends = torch.from_numpy(log_p)
        first, last, _ = top_spans(log_starts, log_ends, torch.from_numpy(lengths), 15, 1)
        for i, begin, end in zip(
            rows.tolist(), first[:, 0].tolist(), last[:, 0].tolist(), strict=True
        ):
            if encoded.start[i] < 0 or (
                "no_answer" in said and said["no_answer"][i] > args.most_doubt
            ):
                continue
            both = min(end, encoded.end[i]) - max(begin, encoded.start[i]) + 1
            if 2 * both / (end - begin + 1 + encoded.end[i] - encoded.start[i] + 1) >= args.agree:
                starts, ends = encoded.spans(i)
                text = encoded.passage(i)[starts[begin] : ends[end]]
                kept[encoded.ids[i]] = Reference(text, int(starts[begin]))
    articles = []
    for article in dataset.articles:
        paragraphs = [
            Paragraph(
                p.context,
                tuple(Question(q.id, q.text, (kept[q.id],)) for q in p.questions if q.id in kept),
            )
            for p in article.paragraphs
        ]
        articles.append(Article(article.title, tuple(p for p in paragraphs if p.questions)))
    write_squad([article for article in articles if article.paragraphs], args.out)
    print(f"{args.out}: {len(kept)} of {len(encoded)} questions", flush=True)


def split(args: argparse.Namespace) -> None:
    """The articles to learn from, and those that `training.holdout` would hold out of this file."""
    encoded, dataset = encode_file(args.file, args.cache), read_squad(args.file)
    held = held_out(encoded, args.share, args.seed, True)[1]
    numbers = set() if held is None else {*held.article.tolist()}
    for out, wanted in ((args.out, False), (args.held_out, True)):
        write_squad(
            [one for number, one in enumerate(dataset.articles) if (number in numbers) == wanted],
            out,
        )
    print(f"{args.held_out}: {len(numbers)} of {len(dataset.articles)} articles", flush=True)


def join(args: argparse.Namespace) -> None:
    """Several files as one."""
    datasets = [read_squad(path) for path in args.files]
    write_squad([article for dataset in datasets for article in dataset.articles], args.out)
    print(
        f"{args.out}: {sum(1 for dataset in datasets for _ in dataset.questions())} questions",
        flush=True,
    )


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
