"""What the shipped reader scores on every question of dev, kept, so that a sample can show that it still does.

    PYTHONPATH=tests python -m support.kept_scores DEV     # after another reader is shipped

To ask it all of dev takes a minute of a processor. So exact match and F1 of every question are kept here, with the
checksum of the weights that they are of: all together make the figures of the card, and the reader's own scores on a
part of the paragraphs must be the kept ones. Scores kept of other weights say nothing.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rmreader.data.squad import Dataset, read_squad
from rmreader.readers.folder import open_folder
from rmreader.reading.evaluate import best_answers
from rmreader.reading.reader import Reader
from rmreader.scoring.squad import score_question

READER, KEPT = "small", Path(__file__).with_suffix(".json")


def weights() -> str:
    """The checksum of the shipped reader's."""
    return str(open_folder(READER).about["checksums"]["weights.safetensors"])


def measure(dataset: Dataset) -> NDArray[np.uint8]:
    """Exact match and F1 of every question [2, questions], from 0 to 255, by asking."""
    texts = {name: answer.text if answer else "" for name, answer in best_answers(Reader.load(READER), dataset).items()}
    rows = [score_question(question, texts) for _, question in dataset.questions()]
    return np.rint(255 * np.array(rows).T).astype(np.uint8)


def kept() -> NDArray[np.uint8] | None:
    """The same as it was when the reader was shipped; None where another is shipped now."""
    tree = json.loads(KEPT.read_text(encoding="utf-8"))
    return np.stack([unpack(tree[name]) for name in ("exact_match", "f1")]) if tree["weights"] == weights() else None


def pack(values: Iterable[int]) -> str:
    """Small numbers as text, a byte each before they are compressed."""
    return b64encode(zlib.compress(bytes(values), 9)).decode("ascii")


def unpack(text: str) -> NDArray[np.uint8]:
    """What was packed."""
    return np.frombuffer(zlib.decompress(b64decode(text)), np.uint8)


def part(dataset: Dataset, every: int) -> tuple[Dataset, NDArray[np.bool_]]:
    """One in so many paragraphs, over all of the data, and which of all questions are in it."""
    paragraphs = [paragraph for article in dataset.articles for paragraph in article.paragraphs]
    chosen = {id(paragraph) for paragraph in paragraphs[::every]}
    articles = tuple(
        dataclasses.replace(article, paragraphs=tuple(one for one in article.paragraphs if id(one) in chosen))
        for article in dataset.articles
    )
    inside = np.array([id(paragraph) in chosen for paragraph, _ in dataset.questions()])
    return dataclasses.replace(dataset, articles=articles), inside


if __name__ == "__main__":
    found = measure(read_squad(sys.argv[1]))
    told = {"weights": weights(), "exact_match": pack(found[0].tolist()), "f1": pack(found[1].tolist())}
    KEPT.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
