"""Every recipe that comes with the project is valid and says what it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmreader.config import load_recipe

FOLDER = Path(__file__).resolve().parents[2] / "recipes"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_recipe_is_valid(path: Path) -> None:
    recipe = load_recipe(path)
    assert recipe.training.holdout > 0 or recipe.training.schedule != "halve"  # halving needs something to judge by


def test_paper_recipe_has_the_figures_of_the_paper() -> None:
    recipe = load_recipe(FOLDER / "paper.yaml")
    training, network = recipe.training, recipe.network
    assert (training.rate, training.batch_size, training.schedule, training.ema) == (8e-4, 48, "halve", 0)
    assert (network.hidden, network.blocks, network.gamma, network.dropout) == (100, 3, 3.0, 0.3)
    assert recipe.inputs.character_size == 50
    assert recipe.inputs.tags
    assert recipe.inputs.contextual.startswith("elmo:")


def test_both_stages_of_small_have_one_network() -> None:
    one, two = (load_recipe(FOLDER / name) for name in ("small.yaml", "small-dcrl.yaml"))
    assert (one.network, one.inputs) == (two.network, two.inputs)
