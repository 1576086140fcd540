"""SIGKILL at random moments: every resume succeeds and ends in the bits of the uninterrupted run.

A quick version; ``kill_many.py`` beside it kills as often as asked.
"""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def killer() -> Any:
    spec = importlib.util.spec_from_file_location("kill_many", Path(__file__).with_name("kill_many.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "in_write"), [("ml", False), ("dcrl", True)])
def test_killed_runs_resume_to_the_same_bits(killer: Any, tmp_path: Path, stage: str, in_write: bool) -> None:
    hits = killer.torture(killer.data_folder(tmp_path), stage, 2, random.Random(5), in_write)
    assert hits.total() >= 2
