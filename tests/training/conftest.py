"""A tiny data set and recipe for whole training runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import tiny_run
from support.encoders import build_bert

from rmreader.core.recipe import Recipe
from rmreader.training.prepare import Setup, prepare
from rmreader.training.run_folder import Stop
from rmreader.training.trainer import Run


@dataclass(frozen=True)
class Tiny:
    """The tiny data set: where it is, its recipe, and a run prepared in-process."""

    folder: Path

    def recipe(self, *overrides: str) -> Recipe:
        return tiny_run.tiny_recipe(self.folder, *overrides)

    def setup(self, out: Path, *overrides: str, resume: bool = False, dev: bool = False) -> Setup:
        dev_path = self.folder / "dev.json" if dev else None
        recipe = self.recipe(*overrides)
        return prepare(recipe, self.folder / "train.json", dev_path, out, resume, "cpu", self.folder)

    def finished(self, out: Path, *overrides: str, dev: bool = False, curve: bool = False) -> Run:
        run = Run(self.setup(out, *overrides, dev=dev), curve=curve)
        assert run.go(Stop()).finished
        return run


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    folder = tmp_path_factory.mktemp("tiny")
    tiny_run.write_data(folder)
    return Tiny(folder)


@pytest.fixture
def stop_after() -> Callable[[int], Any]:
    """A stop that is asked for once it has been looked at half as often (once a step)."""

    class StopAfter:
        def __init__(self, looks: int) -> None:
            self.looks = looks // 2

        def __bool__(self) -> bool:
            self.looks -= 1
            return self.looks < 0

    return StopAfter


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny BERT encoder."""
    return build_bert(tmp_path_factory.mktemp("bert"))
