"""Every recipe that comes with the project is valid and says what it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmreader.core.errors import UserError
from rmreader.core.recipe import SHIPPED, load_recipe


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.stem)
def test_recipe_is_valid(path: Path) -> None:
    recipe = load_recipe(path)
    assert recipe.training.holdout > 0 or recipe.training.schedule != "halve"  # halving needs something to judge by


def test_paper_recipe_has_the_figures_of_the_paper() -> None:
    recipe = load_recipe("paper")
    training, network = recipe.training, recipe.network
    assert (training.rate, training.batch_size, training.schedule, training.ema) == (8e-4, 48, "halve", 0)
    assert (network.hidden, network.blocks, network.gamma, network.dropout) == (100, 3, 3.0, 0.3)
    assert recipe.inputs.character_size == 50
    assert recipe.inputs.tags
    assert recipe.inputs.contextual.startswith("elmo:")


def test_both_stages_of_small_have_one_network() -> None:
    one, two = map(load_recipe, ("small", "small-dcrl"))
    assert (one.network, one.inputs) == (two.network, two.inputs)


def test_a_recipe_is_found_by_its_name_from_any_folder_and_a_file_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small").mkdir()  # a run's folder, say
    assert load_recipe("small") == load_recipe(SHIPPED / "small.yaml")
    (tmp_path / "tiny").write_text("network: {blocks: 7}\n", encoding="utf-8")
    assert load_recipe("tiny").network.blocks == 7


def test_an_unknown_recipe_is_told_which_there_are() -> None:
    with pytest.raises(UserError) as caught:
        load_recipe("smal")
    names = ", ".join(sorted(path.stem for path in SHIPPED.glob("*.yaml")))
    assert "paper" in names
    assert str(caught.value) == f"smal: no such recipe; there are {names}; or give a YAML file."
