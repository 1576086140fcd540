"""scripts/build_guide.py, which runs the commands of the guide, as a module."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("build_guide", ROOT / "scripts" / "build_guide.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["build_guide"] = module  # where its dataclasses look for their types
    spec.loader.exec_module(module)
    return module


guide = _load()


def differences(page: Path, folder: Path, known: dict[str, str] | None = None) -> list[str]:
    """Every command of a page that does not print what the page shows."""
    told = []
    for _, command, printed in guide.run_page(page, folder, known or {}):
        if unlike := guide.differences(command.shown, printed):
            told += [f"$ {command.text}", *unlike]
    return ["if this is right, run `make guide`", *told] if told else []
