"""Several trainings at once: each is what it would have been alone, and one failure leaves the others be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmreader.config import save_recipe
from rmreader.errors import UserError
from rmreader.learning.members import Member, Outcome, seeds, train_members, variants
from rmreader.learning.trainer import train


@pytest.fixture
def run_members(tiny: Any, tmp_path: Path) -> Any:
    recipe = tiny.recipe("training.epochs=1")
    save_recipe(recipe, tmp_path / "recipe.yaml")
    options = ["--train", str(tiny.folder / "train.json"), "--dev", str(tiny.folder / "dev.json"), "--device", "cpu"]

    def run(members: list[Member], **more: Any) -> list[Outcome]:
        return train_members(tmp_path / "recipe.yaml", recipe, members, options, tmp_path / "out", **more)

    return run


def test_members_side_by_side_are_the_lone_runs(tiny: Any, run_members: Any, tmp_path: Path) -> None:
    outcomes = run_members(seeds(2))
    assert [(outcome.name, outcome.status) for outcome in outcomes] == [("seed-1", 0), ("seed-2", 0)], outcomes
    assert all("dev" in outcome.scores for outcome in outcomes)
    recipe = tiny.recipe("training.epochs=1", "training.seed=2")
    alone = train(recipe, tiny.folder / "train.json", None, tmp_path / "alone", device="cpu", cache_dir=tiny.folder)
    together = tmp_path / "out" / "seed-2" / "best" / "weights.safetensors"
    assert together.read_bytes() == (alone.best / "weights.safetensors").read_bytes()


def test_a_member_that_fails_says_why_and_stops_nobody(run_members: Any) -> None:
    members = [Member("none", ("network.blocks=0",)), Member("good", ())]
    none, good = run_members(members, at_once=1)
    assert none.status == 1
    assert "at least 1 aligning block" in none.problem
    assert good.status == 0


def test_variants_are_run_with_every_seed() -> None:
    made = variants(["dot:network.attention=dot", "deep: network.blocks=4, network.hidden=50"], 2)
    assert [member.name for member in made] == ["dot-seed-1", "dot-seed-2", "deep-seed-1", "deep-seed-2"]
    assert made[3].overrides == ("network.blocks=4", "network.hidden=50", "training.seed=2")
    with pytest.raises(UserError, match="NAME:KEY=VALUE"):
        variants(["network.blocks=2"], 1)


def test_two_members_of_one_name_are_refused(run_members: Any) -> None:
    with pytest.raises(UserError, match="same name"):
        run_members([Member("a", ()), Member("a", ())])
