"""Recipes: overrides, nearest names, types, and what is saved reads back the same."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmreader.core.errors import UserError
from rmreader.core.recipe import (
    Decoding,
    Inputs,
    NetworkConfig,
    Recipe,
    Training,
    load_recipe,
    recipe_from,
    save_recipe,
    to_tree,
)
from rmreader.core.settings import Range, build_settings, field_help, field_ranges

SECTIONS = {"inputs": Inputs, "network": NetworkConfig, "training": Training, "decoding": Decoding}
ANY = Range()


def values(hint: Any, allowed: Range = ANY) -> st.SearchStrategy[Any]:
    """Any value a field of this type can hold."""
    if typing.get_origin(hint) is typing.Annotated:
        return values(*typing.get_args(hint))
    if typing.get_origin(hint) is typing.Literal:
        return st.sampled_from(typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return st.tuples(*map(values, typing.get_args(hint)))
    if hint is float:
        least, most = max(allowed.least, allowed.above, -1e37), min(allowed.below, allowed.most, 1e37)
        return st.floats(least, most, allow_nan=False).filter(allowed.__contains__)
    if hint is int:
        return st.integers(int(max(allowed.least, -(10**12))), int(min(allowed.below - 1, allowed.most, 10**12)))
    if hint is str:
        return st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
    assert hint is bool
    return st.booleans()


def section(cls: type) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return st.builds(cls, **{name: values(hint) for name, hint in hints.items()})


def consistent(recipe: Recipe) -> bool:
    """No setting contradicts another; the sentence on each contradiction has a test of its own."""
    inputs, training = recipe.inputs, recipe.training
    frozen = not inputs.contextual or inputs.contextual_mode == "frozen"
    return (
        bool(inputs.vectors or inputs.characters or inputs.exact_match or inputs.tags or inputs.contextual)
        and (not inputs.contextual or not frozen or inputs.contextual_pairing == "apart")
        and (frozen or not inputs.contextual.startswith("elmo:"))
        and (recipe.network.align == "both" or not recipe.network.reattention)
        and (training.schedule != "halve" or training.holdout > 0)
    )


def without_rivals(recipe: Recipe) -> Recipe:
    """Texts are seldom empty, so that two settings of which one must be are set both nearly always."""
    training = recipe.training
    if not training.teacher:
        training = dataclasses.replace(training, teacher_states="")
    if training.init:
        training = dataclasses.replace(training, inherit="")
    return dataclasses.replace(recipe, training=training)


ANY_RECIPES = st.builds(Recipe, **{name: section(cls) for name, cls in SECTIONS.items()})
RECIPES = ANY_RECIPES.map(without_rivals).filter(consistent)


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
        ({"training": {"betas": [0.9]}}, [], "training: betas must be a list of 2 numbers; it is [0.9]"),
        ({"training": {"betas": 0.9}}, [], "betas must be a list of 2 numbers; it is 0.9"),
        ({"training": {"betas": [0.9, 1]}}, [], "betas must be at least 0 and below 1; it is 1"),
        ({"training": {"rate": float("nan")}}, [], "rate must be a finite number, of single precision; it is nan"),
        ({}, ["network.gamma=-.inf"], "gamma must be a finite number, of single precision; it is -inf"),
        ({}, ["training.rate=nan"], "rate must be a finite number, of single precision; it is 'nan'"),
        ({}, ["training.rate=1e300"], "rate must be a finite number, of single precision; it is '1e300'"),
        ({"training": {"rate": 10**400}}, [], "rate must be of type float"),
        ({}, ["network.gamma=2026-13-45"], "the value is not valid YAML"),
        ({}, ["blocks=2"], "write it as section.key=value"),
        ({}, ["network.blocks"], "write it as section.key=value"),
        ({}, ["network.blocks=[1"], "network.blocks=[1"),
        ({"network": 3}, ["network.blocks=2"], "'network' must be a mapping"),
        ({}, ["inputs.vectors=", "inputs.characters=false", "inputs.exact_match=false"], "r.yaml: inputs: all are off"),
        ({}, ["inputs.contextual=minilm", "inputs.contextual_pairing=together"], "only a tuned encoder reads pairs"),
        ({}, ["inputs.contextual=elmo:x", "inputs.contextual_mode=tuned"], "ELMo is read frozen only"),
        ({}, ["training.holdout=0"], "halving is decided on held-out articles, and training.holdout is 0"),
    ],
)
def test_what_is_wrong_is_one_sentence(tree: Any, overrides: list[str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        recipe_from(tree, overrides, "r.yaml")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "allowed"),
    [
        ("inputs.character_size=0", "at least 1"),
        ("inputs.max_characters=0", "at least 1"),
        ("inputs.tag_size=-1", "at least 1"),
        ("inputs.contextual_layer_dropout=1", "at least 0 and below 1"),
        ("network.hidden=0", "at least 1"),
        ("network.blocks=0", "at least 1"),
        ("network.dropout=1.0", "at least 0 and below 1"),
        ("training.seed=-1", "at least 0 and below 9223372036854775808"),
        ("training.epochs=-1", "above 0"),
        ("training.epochs=0", "above 0"),
        ("training.batch_size=0", "at least 1"),
        ("training.rate=0", "above 0"),
        ("training.contextual_rate=-1e-4", "at least 0"),
        ("training.warmup=-1", "at least 0"),
        ("training.patience=-1", "at least 0"),
        ("training.weight_decay=-0.1", "at least 0"),
        ("training.clip=-1", "at least 0"),
        ("training.ema=1", "at least 0 and below 1"),
        ("training.holdout=1.5", "at least 0 and below 1"),
        ("training.evaluate_every=0", "above 0"),
        ("training.checkpoint_every=0", "at least 1"),
        ("training.max_bad_steps=0", "at least 1"),
        ("training.max_context=0", "at least 1"),
        ("training.top_k=1", "at least 2"),
        ("training.reward_weight=-1", "at least 0"),
        ("training.holdout_seed=-2", "at least -1 and below 9223372036854775808"),
        ("decoding.max_length=0", "at least 1"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused_with_what_is_allowed(setting: str, allowed: str) -> None:
    section, key, value = setting.replace("=", ".", 1).split(".", 2)
    with pytest.raises(UserError) as caught:
        recipe_from({}, [setting])
    assert str(caught.value).startswith(f"recipe: {section}: {key} must be {allowed}; it is ")
    assert str(caught.value).replace("'", "").endswith(f"{value}.")


def test_zero_switches_off_what_can_be_switched_off() -> None:
    off = ["clip", "ema", "holdout", "weight_decay", "warmup", "patience", "reward_weight", "contextual_rate"]
    recipe = recipe_from(
        {},
        [
            *(f"training.{key}=0" for key in off),
            "training.schedule=anneal",
            "network.dropout=0",
            "training.betas=[0, 0]",
        ],
    )
    assert [getattr(recipe.training, key) for key in off] == [0] * len(off)


def test_every_number_but_gamma_has_a_range() -> None:
    numbers = {
        f"{name}.{key}"
        for name, cls in SECTIONS.items()
        for key, hint in typing.get_type_hints(cls).items()
        if hint in (int, float)
    }
    ranged = {
        f"{name}.{key}"
        for name, cls in SECTIONS.items()
        for key, said in field_ranges(cls).items()
        if said[-1:].isdigit() and "|" not in said
    }
    assert numbers - ranged == {"network.gamma"}
    assert ranged - numbers == {"training.betas"}


@pytest.mark.parametrize("text", ["network: {blocks: 2, hidden: 8, blocks: 3}", "network: {}\nblocks: 1\nblocks: 1\n"])
def test_a_key_that_stands_twice_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match="the key 'blocks' is there twice"):
        load_recipe(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [", "not valid YAML"),
        (b"a: 2026-13-45", "not valid YAML"),
        (b"\xff\xfe\xfa", "not valid YAML"),
        (b"- 1\n", "mapping of sections"),
    ],
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


@dataclasses.dataclass(frozen=True)
class Door:
    port: typing.Annotated[int, Range(least=0, most=65_535)] = 80
    name: str = ""


def test_any_dataclass_of_settings_is_checked_as_a_recipe_is() -> None:
    assert build_settings(Door, {"port": 65_535}, "server") == Door(65_535)
    assert field_ranges(Door) == {"port": "at least 0 and at most 65535", "name": ""}
    with pytest.raises(UserError, match=r"^server: port must be at least 0 and at most 65535; it is 65536.$"):
        build_settings(Door, {"port": 65_536}, "server")
    with pytest.raises(UserError, match=r"^server: unknown key 'prt'; the nearest is 'port'.$"):
        build_settings(Door, {"prt": 1}, "server")
