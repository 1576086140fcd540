"""A tiny data set and recipe for whole training runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import tiny_run

from rmreader.core.recipe import Recipe
from rmreader.training.prepare import prepare
from rmreader.training.run_folder import Stop
from rmreader.training.trainer import Run


@dataclass(frozen=True)
class Tiny:
    """The tiny data set: where it is, its recipe, and a run in this process."""

    folder: Path

    @property
    def train(self) -> Path:
        return self.folder / "train.json"

    @property
    def dev(self) -> Path:
        return self.folder / "dev.json"

    def recipe(self, *overrides: str) -> Recipe:
        return tiny_run.tiny_recipe(self.folder, *overrides)

    def finished(self, out: Path, *overrides: str) -> Run:
        recipe = self.recipe(*overrides)
        run = Run(prepare(recipe, self.train, None, out, False, "cpu", self.folder))
        assert run.go(Stop()).finished
        return run


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiny]:
    """Data in a folder and a cache of their own, for this process and the trainings it starts."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_run.write_data(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RMREADER_CACHE", str(folder / "cache"))
        patch.setenv("OMP_NUM_THREADS", "1")
        yield Tiny(folder)
