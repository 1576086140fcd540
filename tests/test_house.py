"""How the house is kept."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "rmreader"


def test_a_class_name_means_one_thing() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in SRC.rglob("*.py")]
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_planted_mistake_can_still_be_planted() -> None:
    check = subprocess.run(
        [sys.executable, ROOT / "tests" / "mutants.py", "--dry"], capture_output=True, text=True, timeout=120
    )
    assert check.returncode == 0, check.stdout


@pytest.mark.skipif(find_spec("ruff") is None, reason="ruff is not installed")
def test_no_file_is_packed_more_tightly_than_its_limit() -> None:
    check = subprocess.run([sys.executable, ROOT / ".ci" / "density.py", "--check"], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr


def test_the_measures_see_packed_code(tmp_path: Path) -> None:
    density = runpy.run_path(str(ROOT / ".ci" / "density.py"))
    inside = SRC / "core" / "errors.py"
    assert density["measure"](inside).excess(density["MEASURES"]) == []
    packed = "\n".join(["a, b = (c or d), [e for e in f if e]"] * 40)
    density["measure"].__globals__["ROOT"] = tmp_path
    path = tmp_path / "packed.py"
    path.write_text(f"def all_at_once():\n    {packed.replace(chr(10), chr(10) + '    ')}\n")
    sentences = density["measure"](path).excess(density["MEASURES"])
    assert [sentence.split()[1] for sentence in sentences] == ["tokens", "branches"]
