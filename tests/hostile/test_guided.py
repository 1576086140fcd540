"""Documents and indexes that a fuzzer makes up to reach every path, by guided.py. RMREADER_GUIDED=60: each a minute."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.documents import sound_documents
from support.processes import started

PROGRAM = Path(__file__).with_name("guided.py")
SECONDS = int(os.environ.get("RMREADER_GUIDED", "0"))
NAMES = [name.removeprefix("x.") for name in sound_documents()]


@pytest.mark.slow
@pytest.mark.skipif(not SECONDS, reason="set RMREADER_GUIDED to the seconds that each format is fuzzed")
@pytest.mark.parametrize("name", [*NAMES, "index"])
def test_no_path_ends_in_a_traceback(name: str, tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="pip install atheris")
    log = tmp_path / "log"
    with log.open("wb") as file:
        command = [sys.executable, PROGRAM, name, SECONDS]
        with started(command, stdout=file, stderr=subprocess.STDOUT) as process:
            status = process.wait(20 * SECONDS + 300)
    said = log.read_text(encoding="utf-8", errors="replace").splitlines()
    counts = [line for line in said if line.startswith(("stat::number_of_executed", "Done "))]
    print(name, *counts)
    assert status == 0, "\n".join(said[-40:])
    assert counts
