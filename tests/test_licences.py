"""What is licensed how: the software, and what was trained on data under CC BY-SA."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READERS = ROOT / "src" / "rmreader" / "readers" / "shipped"


def test_the_metadata_names_both_licences_and_carries_the_notice() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == "Apache-2.0 AND CC-BY-SA-4.0"
    assert {"LICENSE", "NOTICE"} <= set(project["license-files"])
    assert all((ROOT / name).is_file() for name in project["license-files"])


def test_the_notice_names_everything_that_was_trained() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    trained = {
        path.relative_to(READERS).parts[0] for path in READERS.rglob("*") if path.suffix in (".safetensors", ".cfg")
    }
    assert trained == {"base", "retrieval", "small", "tags", "vectors"}
    for name in trained:
        assert f"rmreader/readers/shipped/{name}" in notice
    for words in (
        "CC BY-SA 4.0",
        "https://creativecommons.org/licenses/by-sa/4.0/",
        "SQuAD",
        "all-MiniLM-L6-v2",
        "GTE-small",
        "EWT",
    ):
        assert words in notice
