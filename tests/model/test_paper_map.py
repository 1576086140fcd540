"""docs/paper-map.md names files, functions and settings that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from rmreader.core.recipe import recipe_from

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")
QUOTED = re.compile(r"`([^`\n]+)`")


def places() -> list[tuple[str, str | None]]:
    """(file, name) for every file quoted, and for every bare name quoted after it on the same line."""
    found: list[tuple[str, str | None]] = []
    for line in PAGE.splitlines():
        file = None
        for quoted in QUOTED.findall(line):
            if re.fullmatch(r"[\w/]+\.py", quoted):
                file = quoted
                found.append((file, None))
            elif file is not None and re.fullmatch(r"[A-Za-z_]\w*", quoted):
                found.append((file, quoted))
    return found


def defined(path: Path) -> set[str]:
    return {
        n.name for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.FunctionDef | ast.ClassDef)
    }


@pytest.mark.parametrize(("file", "name"), sorted(set(places()), key=str))
def test_every_place_on_the_map_is_there(file: str, name: str | None) -> None:
    path = ROOT / file if file.startswith(("tests/", "lab/")) else ROOT / "src" / "rmreader" / file
    assert path.is_file()
    assert name is None or name in defined(path)


def test_the_map_covers_every_equation_and_every_module_of_the_network() -> None:
    rows = [line.split("|")[1].strip() for line in PAGE.splitlines() if line.startswith("|")]
    numbers = {int(n) for row in rows for n in re.findall(r"\d+", row) if re.fullmatch(r"[\d, ]+", row)}
    assert numbers >= set(range(1, 17))
    named = {file for file, _ in places()}
    not_of_the_paper = {"__init__", "masking", "precision", "compiled", "contextual", "transformer"}
    parts = {path.stem for path in (ROOT / "src/rmreader/model").glob("*.py")} - not_of_the_paper
    assert {f"model/{part}.py" for part in parts} <= named


@pytest.mark.parametrize("setting", sorted({q for q in QUOTED.findall(PAGE) if re.fullmatch(r"\w+\.\w+=\S+", q)}))
def test_every_setting_on_the_map_is_one(setting: str) -> None:
    recipe_from({}, [setting])
