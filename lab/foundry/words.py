"""What teachers say of every training question, in a file small enough to be carried.

    python -m lab.foundry.words READER... --train learn.json.gz --out words.safetensors

It has the likeliest starts and ends, and the log-odds of "no answer". With ``--states FOLDER`` the
first teacher's states of every word are written, too, for students of its hidden size.

Where the truth is known by construction (a passage whose answering sentence was cut, a question
beside another paragraph, everyday texts), the truth wins over the teachers.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rmreader.data.encode import encode_file
from rmreader.data.encoded import Encoded
from rmreader.data.split import split
from rmreader.readers.folder import open_folder
from rmreader.training.states import StatesWriter
from rmreader.training.teacher import distributions
from rmreader.training.words import save_words

MAX_CONTEXT = 400  # words of a training passage, as in every recipe
KNOWN = re.compile(r"-(article|elsewhere|cut|twin|beside)$|everyday")
SURE = 5.0  # log-odds where the truth is known: 99.3 %


Words = dict[str, NDArray[Any]]
"""What a teacher says: the chances of starts and ends, where each question's are, "no answer"."""


def mean_of(teachers: list[Words]) -> Words:
    """The mean of several teachers' distributions and of their chances of "no answer"."""
    mean = {"bounds": teachers[0]["bounds"]}
    for name in ("start", "end"):
        total = np.zeros(len(teachers[0][name]), np.float32)
        for words in teachers:
            total += np.exp(words[name].astype(np.float32))
        mean[name] = np.log(np.maximum(total / len(teachers), 1e-9))

    chances = []
    for words in teachers:
        log_odds = words["no_answer"].astype(np.float64)
        chances.append(1 / (1 + np.exp(-log_odds)))
    chance = np.clip(np.mean(chances, axis=0), 1e-6, 1 - 1e-6)
    mean["no_answer"] = np.log(chance / (1 - chance)).astype(np.float32)
    return mean


def let_truth_win(words: Words, learned: Encoded) -> int:
    """Put the known truth in place of what teachers say.

    Returns for how many questions they were wrong.
    """
    known = np.array([KNOWN.search(name) is not None for name in learned.ids])
    truth = np.where(learned.start < 0, SURE, -SURE).astype(np.float32)
    differ = np.sign(truth) != np.sign(words["no_answer"])
    words["no_answer"] = np.where(known, truth, words["no_answer"])
    return int((known & differ).sum())


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("readers", type=Path, nargs="+")
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--states", type=Path, help="a folder of 11 GB")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    learned, _ = split(encode_file(args.train), 0, 0, no_answer=True)
    states = None
    if args.states is not None:
        size = 2 * open_folder(args.readers[0]).recipe.network.hidden
        states = StatesWriter(args.states, learned, MAX_CONTEXT, size)

    teachers = []
    for number, reader in enumerate(args.readers):
        wanted = states if number == 0 else None
        words = distributions(
            reader,
            learned,
            MAX_CONTEXT,
            device,
            states=wanted,
        )
        teachers.append(words)
    if states is not None:
        states.close()

    mean = mean_of(teachers)
    wrong = let_truth_win(mean, learned)
    save_words(args.out, mean, learned, MAX_CONTEXT)
    size = args.out.stat().st_size / 1e6
    print(
        f"{args.out}: {len(learned):,} questions, {size:.0f} MB, teachers wrong of {wrong:,} known",
        flush=True,
    )


if __name__ == "__main__":
    main()
