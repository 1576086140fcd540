"""The examples in docs/reading.md run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs" / "reading.md"


def test_every_example_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 3
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example.replace('"small"', repr(str(folder))), str(DOCS), "exec"), names)
    shown = capsys.readouterr().out
    assert "round 2: Lovelace looks at" in shown
    assert "Where did it go?" in shown
