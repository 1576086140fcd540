"""Fixtures every room's tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with SQuAD and its companions: ``RMREADER_DATA``, or ``shared/data`` beside the checkout."""
    for folder in (os.environ.get("RMREADER_DATA"), ROOT.parent / "shared" / "data"):
        if folder and Path(folder).is_dir():
            return Path(folder)
    pytest.skip("the real data is absent: set RMREADER_DATA to its folder")
