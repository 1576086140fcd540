"""Readers with random weights, whole folders as training leaves them, for everything but how good the answers are."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from rmreader.core.recipe import Inputs, NetworkConfig, Recipe
from rmreader.readers.folder import SHIPPED
from rmreader.reading.reader import Reader
from rmreader.text.lexicon import Lexicon
from rmreader.text.tokens import tokenize
from rmreader.text.vectors import SubwordTable
from rmreader.training.reader_folder import make_network, write_reader

PASSAGE = (
    "Super Bowl 50 was an American football game. The American Football Conference (AFC) champion Denver Broncos "
    "defeated the National Football Conference (NFC) champion Carolina Panthers 24–10 to earn their third title. "
    "The game was played on February 7, 2016, at Levi's Stadium in Santa Clara, California."
)
QUESTION = "Which team did the Denver Broncos defeat?"

MakeReader = Callable[..., Path]


def small_table(folder: Path, dim: int = 12) -> Path:
    """A subword table of every ASCII letter and digit, alone and as a continuation, with random vectors."""
    letters = [chr(k) for k in range(33, 127) if not chr(k).isupper()]
    pieces = ["[UNK]", *letters, *(f"##{letter}" for letter in letters), "the", "game", "##er"]
    rng = np.random.default_rng(5)
    vectors = rng.integers(-127, 128, (len(pieces), dim)).astype(np.int8)
    scale = rng.uniform(0.002, 0.006, len(pieces)).astype(np.float32)
    path = folder / "letters.safetensors"
    path.write_bytes(SubwordTable(pieces, vectors, scale).to_bytes())
    return path


@pytest.fixture(scope="session")
def make_reader(tmp_path_factory: pytest.TempPathFactory) -> MakeReader:
    """Makes a reader's folder: ``make_reader(hidden=8, blocks=2, …)``, network settings by name."""

    def make(seed: int = 1, inputs: Inputs | None = None, **settings: object) -> Path:
        folder = tmp_path_factory.mktemp("reader")
        inputs = inputs or Inputs(vectors=str(small_table(folder)), character_size=5)
        settings = {"hidden": 8, "blocks": 2, "lstm": "plain"} | settings
        recipe = Recipe(inputs=inputs, network=NetworkConfig(**settings))  # type: ignore[arg-type]
        lexicon = Lexicon.build(tokenize(PASSAGE).words, inputs)
        torch.manual_seed(seed)
        network = make_network(recipe, lexicon)
        with torch.no_grad():
            for name, weight in network.named_parameters():
                if weight.dim() < 2 and "gamma" not in name:  # biases start at zero, which would hide mistakes
                    weight.add_(0.3 * torch.randn_like(weight))
                elif "pointer" in name:
                    weight.mul_(2.0)  # some answers are better than others
        write_reader(folder / "best", network.state_dict(), lexicon, recipe, {}, {"made": "by a test"})
        return folder / "best"

    return make


@pytest.fixture(scope="session")
def folder(make_reader: MakeReader) -> Path:
    """One small reader's folder, not to be changed; RMREADER_READER names a shipped one to take instead."""
    name = os.environ.get("RMREADER_READER")
    return SHIPPED / name if name else make_reader()


@pytest.fixture(scope="session")
def reader(folder: Path) -> Reader:
    """The small reader, in float."""
    return Reader.load(folder, threads=2)


@pytest.fixture(scope="session")
def windowed(reader: Reader) -> Reader:
    """The same reader, short-sighted: it reads what is longer than the smallest window in several."""
    recipe = dataclasses.replace(
        reader.folder.recipe, decoding=dataclasses.replace(reader.folder.recipe.decoding, max_length=5)
    )
    return Reader(dataclasses.replace(reader.folder, recipe=recipe), reader.engine, window=1)
