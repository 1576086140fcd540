"""A disk that is full while a run writes: one sentence, status 1, and the run goes on when there is room again."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from rmreader.core.recipe import save_recipe

pytestmark = pytest.mark.usefixtures("warm")


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """A file system of so many bytes; skipped where none can be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("no file system can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def command(tiny: Any, recipe: Path, out: Path) -> list[str]:
    words = ["train", recipe, "--train", tiny.folder / "train.json", "--out", out, "--device", "cpu", "--resume"]
    return [sys.executable, "-m", "rmreader", *map(str, words)]


SIZES = ["40k", "110k", "240k"]  # too small for run/, for the first reader, for a checkpoint


def test_a_full_disk_is_one_sentence_and_nothing_is_lost(tiny: Any, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    save_recipe(tiny.recipe("training.epochs=2"), recipe)
    environment = {**os.environ, "RMREADER_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}

    def run(out: Path) -> subprocess.CompletedProcess[str]:
        words = command(tiny, recipe, out)
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)

    for size in SIZES:
        out = tmp_path / size / "out"
        with small_disk(out.parent, size):
            first = run(out)
            assert first.returncode == 1
            assert "Traceback" not in first.stderr
            (sentence,) = [line for line in first.stderr.splitlines() if line.startswith("error: ")]
            assert "No space left on device" in sentence
            assert str(out) in sentence
            subprocess.run(["mount", "-o", "remount,size=50m", str(out.parent)], check=True)
            again = run(out)
            assert again.returncode == 0, again.stderr
            if not (tmp_path / "out").exists():  # the same, without trouble
                assert run(tmp_path / "out").returncode == 0
            ours, theirs = (load_file(at / "best" / "weights.safetensors") for at in (out, tmp_path / "out"))
            assert all((ours[name] == theirs[name]).all() for name in theirs)
            assert not [path.name for path in out.iterdir() if path.suffix == ".new"]
