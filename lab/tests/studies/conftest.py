"""Readers with random weights (fast) and readers that were trained (real)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rmreader.core.recipe import save_recipe
from rmreader.text.lexicon import Lexicon
from rmreader.training.prepare import word_counts
from rmreader.training.reader_folder import make_network, write_reader

MakeReader = Callable[..., Path]


@pytest.fixture(scope="session")
def make_reader(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> MakeReader:
    """Makes a reader's folder with random weights: ``make_reader(3, "network.blocks=2")``."""
    from rmreader.data.encode import encode_file

    counts = word_counts(encode_file(tiny.train))

    def make(seed: int = 1, *overrides: str) -> Path:
        recipe = tiny.recipe("network.blocks=3", *overrides)
        lexicon = Lexicon.build(counts, recipe.inputs)
        torch.manual_seed(seed)
        network = make_network(recipe, lexicon)
        with torch.no_grad():
            for name, weight in network.named_parameters():
                if weight.dim() >= 2:
                    weight.mul_(3.0)  # else all attentions are alike
                elif "gamma" not in name:
                    weight.add_(0.3 * torch.randn_like(weight))
        folder = tmp_path_factory.mktemp("reader") / "best"
        write_reader(folder, network.state_dict(), lexicon, recipe, {}, {"made": "by a test"})
        return folder

    return make


@pytest.fixture(scope="session")
def recipe_file(tiny: Any) -> Path:
    """The tiny recipe as a file: one short epoch."""
    path = tiny.folder / "recipe.yaml"
    save_recipe(tiny.recipe("training.epochs=1"), path)
    return path


@pytest.fixture(scope="session")
def adversarial_file(tiny: Any) -> Path:
    """The dev questions, half of them with an attacked variant after each."""
    tree = json.loads(tiny.dev.read_text(encoding="utf-8"))
    for article in tree["data"]:
        for paragraph in list(article["paragraphs"]):
            for question in paragraph["qas"]:
                question["id"] = question["id"].replace(
                    "-", "_"
                )  # what is before - is the original
            attacked = paragraph["qas"][::2]
            rows = [{**question, "id": question["id"] + "-attack"} for question in attacked]
            context = paragraph["context"] + " In Nowhere, Nobody made nothing."
            article["paragraphs"].append({"context": context, "qas": rows})
    path = tiny.folder / "adversarial.json"
    path.write_text(json.dumps(tree), encoding="utf-8")
    return path
