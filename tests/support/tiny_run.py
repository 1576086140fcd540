"""A tiny but whole training run, as a script, so that tests can kill it: data, GloVe file and recipe of its own.

    PYTHONPATH=tests python -m support.tiny_run FOLDER OUT [--slow-writes] [section.key=value ...]

FOLDER holds the data (``write_data``). The run resumes whatever is in OUT. With --slow-writes every act of writing a
checkpoint takes long, so that a kill at a random moment falls into one.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import torch

from rmreader.core.recipe import Recipe, recipe_from
from rmreader.training.trainer import train

PEOPLE = ["Ada", "Grace", "Alan", "Emmy", "Noor", "Kofi", "Mei", "Lars", "Ines", "Olga"]
PLACES = ["London", "Accra", "Oslo", "Lima", "Kyoto", "Turin", "Cairo", "Quito"]
THINGS = ["a red clock", "the first engine", "three maps", "an old theory", "a bridge"]


def write_data(folder: Path, articles: int = 6) -> None:
    """Train and dev files of small invented articles, and vectors for most of their words.

    The passages are short: most of what a step costs is done word by word.
    """
    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(7)
    for name, count in (("train.json", articles), ("dev.json", 2)):
        data = [{"title": f"{name} {k}", "paragraphs": _paragraphs(generator, f"{name}-{k}")} for k in range(count)]
        (folder / name).write_text(json.dumps({"version": "1.1", "data": data}), encoding="utf-8")
    common = ("a", "the", "in", "made", "was", "it", "where", "who", "what", ".", "?", "first", "red")
    words = sorted({*PEOPLE[1:], *PLACES[1:], *common})
    lines = [" ".join([word, *(f"{generator.gauss(0, 1):.3f}" for _ in range(5))]) for word in words]
    (folder / "vectors.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _paragraphs(generator: random.Random, name: str) -> list[dict[str, Any]]:
    """One of three sentences and one of two, with two questions about each."""
    return [_paragraph(generator, name, numbers) for numbers in (range(3), range(3, 5))]


def _paragraph(generator: random.Random, name: str, numbers: range) -> dict[str, Any]:
    context, questions = "", []
    for k in numbers:
        person, place, thing = (generator.choice(choices) for choices in (PEOPLE, PLACES, THINGS))
        sentence = f"In {place}, {person} made {thing}. "
        for kind, answer, text in (("who", person, f"Who made {thing}?"), ("where", place, f"Where was {person}?")):
            start = len(context) + sentence.index(answer)
            questions.append(
                {"id": f"{name}-{k}-{kind}", "question": text, "answers": [{"text": answer, "answer_start": start}]}
            )
        context += sentence
    return {"context": context.strip(), "qas": questions}


def tiny_recipe(folder: Path, *overrides: str) -> Recipe:
    """Hidden 8, characters, everything the checkpoint must remember switched on."""
    tree = {
        "inputs": {"vectors": str(folder / "vectors.txt"), "character_size": 4},
        "network": {"hidden": 8, "blocks": 2},
        "training": {
            "epochs": 4,
            "batch_size": 8,
            "rate": 5e-3,
            "ema": 0.9,
            "holdout": 0.2,
            "checkpoint_every": 3,
            "evaluate_every": 1,
            "patience": 10,
        },
    }
    return recipe_from(tree, overrides)


def slow_writes(seconds: float = 0.01) -> None:
    """Every fsync and rename takes long."""
    for name in ("fsync", "rename"):
        act = getattr(os, name)
        setattr(os, name, lambda *args, act=act: (time.sleep(seconds), act(*args))[1])


def run(folder: str, out: str, *rest: str) -> None:
    if "--slow-writes" in rest:
        slow_writes()
    data, settings = Path(folder), [word for word in rest if word != "--slow-writes"]
    recipe = tiny_recipe(data, *settings)
    result = train(recipe, data / "train.json", data / "dev.json", out, resume=True, device="cpu", cache_dir=data)
    assert result.finished


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(*sys.argv[1:])
