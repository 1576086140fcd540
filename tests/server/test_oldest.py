"""The server on the oldest versions of what it stands on, as far as pyproject.toml allows them.

They are put into a folder that comes first on the path, which takes seconds; the other tests of the server then run on
them in a process of their own: all that speak HTTP, are slow, hostile or told to stop. What takes long and hardly
depends on these versions is left to `make oldest`, which runs every test every week.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ["test_api", "test_bad_requests", "test_slow_clients", "test_hostile", "test_drain"]
WEEKLY = (
    "generated_requests",
    "long_passages",
    "java_offers",
    "a_wrong_setting",
    "host_that_is_no_name",
    "every_setting",
    "log_that_nobody_reads",
    "on_a_terminal",
)


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the oldest versions run on the oldest Python, 3.11")
def test_the_oldest_versions_allowed_serve_as_well(tmp_path: Path) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    needed = [one for one in extras["asgi"] + extras["serve"] if not one.startswith("rmreader")]
    oldest = [re.sub(r",<[\d.]+", "", one).replace(">=", "==", 1) for one in needed]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tmp_path), *oldest]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"the oldest versions cannot be had here: {done.stderr.strip().splitlines()[-1]}")
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    versions = (
        "from importlib.metadata import version as v; "
        "print(*(f'{n}=={v(n)}' for n in ('pydantic', 'starlette', 'uvicorn')))"
    )
    environment = {**os.environ, "PYTHONPATH": path}
    told = subprocess.run([sys.executable, "-c", versions], env=environment, capture_output=True, text=True).stdout
    assert all(found.startswith(tuple(oldest)) for found in told.split())
    files = [str(ROOT / "tests" / "server" / f"{name}.py") for name in TESTS]
    run = [sys.executable, "-m", "pytest", "-x", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not slow"]
    run += ["-k", " and ".join(f"not {name}" for name in WEEKLY)]
    tests = subprocess.run([*run, *files], env=environment, capture_output=True, text=True, cwd=ROOT, timeout=900)
    assert tests.returncode == 0, (tests.stdout + tests.stderr)[-30000:]
    (passed,) = re.findall(r"(\d+) passed", tests.stdout)
    assert int(passed) > 250  # no name above leaves out more than it means to
