"""Recipes: overrides, nearest names, types, and what is saved reads back the same."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmreader.config import (
    Decoding,
    Inputs,
    NetworkConfig,
    Recipe,
    Training,
    field_help,
    load_recipe,
    recipe_from,
    save_recipe,
    to_tree,
)
from rmreader.errors import UserError

SECTIONS = {"inputs": Inputs, "network": NetworkConfig, "training": Training, "decoding": Decoding}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value a field of this type can hold."""
    if typing.get_origin(hint) is typing.Literal:
        return st.sampled_from(typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return st.tuples(*map(values, typing.get_args(hint)))
    if hint is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    if hint is int:
        return st.integers(-(10**12), 10**12)
    if hint is str:
        return st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
    assert hint is bool
    return st.booleans()


def section(cls: type) -> st.SearchStrategy[Any]:
    return st.builds(cls, **{name: values(hint) for name, hint in typing.get_type_hints(cls).items()})


RECIPES = st.builds(Recipe, **{name: section(cls) for name, cls in SECTIONS.items()})


@settings(max_examples=50, deadline=None)
@given(recipe=RECIPES)
def test_a_saved_recipe_reads_back_equal(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("recipe") / "recipe.yaml"
    save_recipe(recipe, path)
    assert load_recipe(path) == recipe
    assert recipe_from(to_tree(recipe)) == recipe


@settings(max_examples=50, deadline=None)
@given(recipe=RECIPES)
def test_every_setting_can_be_given_as_an_override(recipe: Recipe) -> None:
    import yaml

    overrides = [
        f"{section}.{key}={yaml.safe_dump(value, default_flow_style=True).removesuffix('...' + chr(10)).strip()}"
        for section, tree in to_tree(recipe).items()
        for key, value in (tree | ({"betas": list(tree["betas"])} if "betas" in tree else {})).items()
    ]
    assert recipe_from({}, overrides) == recipe


def test_an_empty_recipe_is_the_default_one() -> None:
    assert recipe_from({}) == Recipe()


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text("network: {blocks: 2, hidden: 64}\n")
    recipe = load_recipe(path, ["network.blocks=4", "training.rate=1e-4", "inputs.tags="])
    assert (recipe.network.blocks, recipe.network.hidden, recipe.training.rate, recipe.inputs.tags) == (4, 64, 1e-4, "")


def test_every_setting_has_a_help_text() -> None:
    for cls in SECTIONS.values():
        assert set(field_help(cls)) == {field.name for field in dataclasses.fields(cls)}


@pytest.mark.parametrize(
    ("tree", "overrides", "message"),
    [
        ({"network": {"block": 2}}, [], "unknown key 'block'; the nearest is 'blocks'"),
        ({"netwrk": {}}, [], "unknown key 'netwrk'; the nearest is 'network'"),
        ({"network": {3: 2}}, [], "unknown key 3"),
        ({"network": [1]}, [], "network must be a mapping"),
        ({"network": None}, [], "network must be a mapping"),
        ([], [], "a recipe is a mapping of sections"),
        ({"network": {"blocks": "two"}}, [], "blocks must be of type int; it is 'two'"),
        ({"network": {"blocks": 2.5}}, [], "blocks must be of type int"),
        ({"network": {"blocks": True}}, [], "blocks must be of type int"),
        ({"network": {"reattention": 1}}, [], "reattention must be of type bool"),
        ({"network": {"dropout": "much"}}, [], "dropout must be of type float"),
        ({"network": {"attention": "cosine"}}, [], "attention must be one of relu, dot; it is 'cosine'"),
        ({"network": {"attention": [1]}}, [], "attention must be one of relu, dot"),
        ({"training": {"betas": [0.9]}}, [], "betas must be of type"),
        ({}, ["blocks=2"], "write it as section.key=value"),
        ({}, ["network.blocks"], "write it as section.key=value"),
        ({}, ["network.blocks=[1"], "network.blocks=[1"),
        ({"network": 3}, ["network.blocks=2"], "'network' must be a mapping"),
    ],
)
def test_what_is_wrong_is_one_sentence(tree: Any, overrides: list[str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        recipe_from(tree, overrides, "r.yaml")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"a: [", "not valid YAML"), (b"\xff\xfe\xfa", "not valid YAML"), (b"- 1\n", "mapping of sections")],
)
def test_a_damaged_recipe_file_is_one_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        load_recipe(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_recipe_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such recipe"):
        load_recipe(tmp_path / "none.yaml")
