"""The questions about the guide: their rule, and that the pages still say what they ask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.scripts.ask_guide import QUESTIONS, ROOT, judge
from rmreader.scoring.squad import normalize

LATER = QUESTIONS.with_name("docs-questions-later.json")


def test_the_rule() -> None:
    accepted = ["15 tokens", "about five times as long"]
    assert judge(None, accepted) == "refused"
    assert judge("at most 15 tokens", accepted) == "right"
    assert judge("five times as long", accepted) == "right"
    assert judge("40", accepted) == "wrong"
    assert judge("115 tokens of it", accepted) == "wrong"


@pytest.mark.parametrize("file", [QUESTIONS, LATER], ids=lambda file: file.name)
def test_each_question_is_answered_by_its_page(file: Path) -> None:
    rows = json.loads(file.read_text(encoding="utf-8"))
    assert len(rows) == (40 if file == QUESTIONS else 20)
    for row in rows:
        page = (ROOT / "docs" / row["page"]).read_text(encoding="utf-8")
        said = normalize(page)
        assert any(normalize(text) in said for text in row["accepted"]), row["question"]
