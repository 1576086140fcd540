"""SIGKILL at random moments: every resume succeeds and ends in the bits of the uninterrupted run.

A quick version; ``support/kill_many.py`` kills as often as asked.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.kill_many import data_folder, torture

pytestmark = pytest.mark.usefixtures("warm")


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "in_write"), [("ml", False), ("dcrl", True)])
def test_killed_runs_resume_to_the_same_bits(tmp_path: Path, stage: str, in_write: bool) -> None:
    hits = torture(data_folder(tmp_path), stage, 2, random.Random(5), in_write)
    assert hits.total() >= 2
