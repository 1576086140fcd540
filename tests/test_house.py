"""How the house is kept."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

SRC = Path(__file__).resolve().parent.parent / "src" / "rmreader"


def test_a_class_name_means_one_thing() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in SRC.rglob("*.py")]
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []
