"""Another language is said to be one, and English never is."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from rmreader.data.squad import read_squad
from rmreader.text.language import other_language

EVERYDAY = Path(__file__).parents[2] / "lab" / "everyday"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Wie hoch ist der Turm?", "German"),
        ("Combien coûte le billet ?", "French"),
        ("¿Dónde está la estación?", "Spanish"),
        ("Chi ha scritto la lettera e quando?", "Italian"),
        ("Wie schreef de brief?", "Dutch"),
        ("Кто написал письмо?", "another language"),
        ("opening hours", None),
        ("Who wrote Der Ring des Nibelungen?", None),
        ("", None),
    ],
)
def test_examples(text: str, language: str | None) -> None:
    assert other_language(text) == language


def test_no_false_alarm_on_everyday_questions() -> None:
    asked = 0
    for name in ("learn", "held", "test"):
        with gzip.open(EVERYDAY / f"{name}.txt.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("? "):
                    asked += 1
                    assert other_language(line[2:]) is None, line
    assert asked > 15_000


@pytest.mark.data
def test_no_false_alarm_on_squad(real_data: Path) -> None:
    dataset = read_squad(real_data / "squad-v1.1" / "dev-v1.1.json.gz")
    for paragraph, question in dataset.questions():
        assert other_language(question.text) is None, question.text
        assert other_language(paragraph.context) is None, paragraph.context
