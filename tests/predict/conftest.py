"""What the tests of this room share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def rmreader() -> Run:
    """Runs the command line in a process of its own."""

    def run(*words: object, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "rmreader", *map(str, words)],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env={**os.environ, **environment},
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    return run
