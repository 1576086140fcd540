"""The operators in C under the sanitizers, a few folders' worth; RMREADER_SANITISE=10000 is the long run."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("sanitise.py")


@pytest.mark.skipif(os.name != "posix", reason="the sanitizers are loaded as only POSIX systems can")
def test_no_reader_folder_makes_the_operators_touch_what_is_not_theirs(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("sanitise", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    count = int(os.environ.get("RMREADER_SANITISE", "12"))
    done = module.fuzz(count, 1, tmp_path)
    if done is None:
        pytest.skip("no compiler with the sanitizers")
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.startswith(f"{count} folders: ")
    flags = Path("/proc/cpuinfo")
    if flags.exists() and "avx512_bf16" in flags.read_text(encoding="utf-8"):  # all products are in C
        found = module.fuzz(0, 0, tmp_path, planted=True)
        assert found.returncode != 0
        assert "heap-buffer-overflow" in found.stderr  # so it would have been found
