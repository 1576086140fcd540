"""Scores of trained readers on files of questions, by the network itself on a GPU.

    python -m lab.foundry.measure READER FILE... [--adversarial]

One JSON line per file: exact match and F1 where there is an answer, and with "no answer" the best
F1 over all questions and the AUROC. `rmreader evaluate` scores the files that ship.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from rmreader.data.encode import encode_file
from rmreader.data.encoded import Encoded
from rmreader.data.squad import read_squad
from rmreader.model.network import Network
from rmreader.scoring.squad import score_adversarial
from rmreader.text.lexicon import Lexicon
from rmreader.training.contextual import ContextualInputs
from rmreader.training.evaluate import evaluate, predict
from rmreader.training.feed import Feed
from rmreader.training.reader_folder import load_network

LONGEST_ANSWER = 15
WHOLE = 100_000  # words of a passage: nothing is cut


class Measured:
    """A trained reader on a device, ready to be asked whole files."""

    def __init__(self, reader: Path, device: torch.device) -> None:
        """``reader``: the folder of a trained reader."""
        self.network: Network
        self.lexicon: Lexicon
        self.network, self.lexicon, recipe = load_network(reader, device)
        self.inputs = ContextualInputs(recipe.inputs, device, reader=reader)
        self.device = device

    def feed(self, encoded: Encoded) -> Feed:
        """The questions of a file, in batches on the device."""
        return Feed(
            encoded,
            self.lexicon,
            self.device,
            max_context=WHOLE,
            contextual=self.inputs,
            keep=False,
        )

    def scores(self, path: Path, adversarial: bool = False) -> dict[str, Any]:
        """The scores on one file."""
        encoded = encode_file(path)
        feed = self.feed(encoded)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            if not adversarial:
                return evaluate(self.network, feed, LONGEST_ANSWER).tree()
            texts, _ = predict(self.network, feed, LONGEST_ANSWER)
        predictions = dict(zip(encoded.ids, texts, strict=True))
        return score_adversarial(read_squad(path), predictions).tree()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reader", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--adversarial", action="store_true")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    reader = Measured(args.reader, device)
    for path in args.files:
        row = {"reader": args.reader.parent.name, "file": path.name}
        print(json.dumps(row | reader.scores(path, args.adversarial)), flush=True)


if __name__ == "__main__":
    main()
