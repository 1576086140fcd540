"""A tiny reader, trained for real through the command line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rmreader.cli import app

NAMES = ["Ada", "Grace", "Alan", "Emmy", "Noor", "Kofi"]
PLACES = ["London", "Accra", "Oslo", "Lima"]


@dataclass(frozen=True)
class Trained:
    folder: Path
    model: str
    data: str
    result: Result


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """One training of a network of 8 hidden units, and the data it was trained on."""
    folder = tmp_path_factory.mktemp("trained")
    articles = []
    for k in range(4):
        name, place = NAMES[k], PLACES[k]
        context = f"{name} lived in {place}. The house was small."
        rows = [
            {"id": f"{k}-who", "question": "Who lived there?", "answers": [{"text": name, "answer_start": 0}]},
            {
                "id": f"{k}-where",
                "question": "Where did they live?",
                "answers": [{"text": place, "answer_start": context.index(place)}],
            },
        ]
        articles.append({"title": name, "paragraphs": [{"context": context, "qas": rows}]})
    (folder / "data.json").write_text(json.dumps({"version": "1.1", "data": articles}), encoding="utf-8")
    words = sorted({*NAMES, *PLACES, "lived", "in", "The", "house", "was", "small", "Who", "Where", "there"})
    lines = [f"{word} {(k % 5) / 5:.2f} {(k % 7) / 7:.2f} {(k % 3) / 3:.2f}" for k, word in enumerate(words)]
    (folder / "vectors.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "recipe.yaml").write_text(
        f"inputs: {{vectors: {folder / 'vectors.txt'}, character_size: 4}}\n"
        "network: {hidden: 8, blocks: 2}\n"
        "training: {epochs: 2, batch_size: 4, holdout: 0.25}\n",
        encoding="utf-8",
    )
    data = str(folder / "data.json")
    words = ["train", str(folder / "recipe.yaml"), "training.rate=0.01", "--train", data, "--dev", data]
    result = CliRunner().invoke(app, [*words, "--out", str(folder / "run"), "--device", "cpu", "--json"])
    return Trained(folder, str(folder / "run" / "best"), data, result)
