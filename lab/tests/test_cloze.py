"""Questions made by rule from prose."""

from __future__ import annotations

import bz2
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.scripts.cloze import candidates, clause, cloze_article, cloze_files, read_articles
from rmreader.core.errors import UserError
from rmreader.data.squad import read_squad, write_squad

PROSE = """= Halvorsen =

In 1871 the northern lighthouse of Skerry Rock was designed by Ingrid Halvorsen, a young engineer from Bergen. The lamp of the lighthouse burned whale oil for thirty years.

Ingrid Halvorsen studied in Bergen and built three towers. Her lighthouse at Skerry Rock opened in 1871 and its lamp was seen from far away by every engineer on the coast.

The northern coast has many storms. Engineers of the coast remember Skerry Rock for its lamp and for the lighthouse keeper.

= Other =

A short article about nothing in particular, written only so that there is a second one to read here.
"""  # noqa: E501


def articles() -> list[tuple[str, list[str]]]:
    return list(read_articles(PROSE.splitlines()))


def test_answers_are_where_they_are_said_to_be_and_in_another_paragraph() -> None:
    title, texts = articles()[0]
    made = cloze_article(title, texts, 1, per_thousand=200, unanswered=0.0)
    questions = [
        (paragraph, question) for paragraph in made.paragraphs for question in paragraph.questions
    ]
    assert len(questions) >= 5
    for paragraph, question in questions:
        (answer,) = question.answers
        assert paragraph.context[answer.start : answer.start + len(answer.text)] == answer.text
        assert answer.text.lower() not in question.text.lower()
        source = int(question.id.split("-")[1])
        assert texts[source] != paragraph.context
        assert answer.text in texts[source]


def test_questions_put_where_the_answer_is_not_have_none() -> None:
    title, texts = articles()[0]
    made = cloze_article(title, texts, 1, per_thousand=200, unanswered=1.0)
    questions = [question for paragraph in made.paragraphs for question in paragraph.questions]
    assert questions
    assert all(question.impossible and not question.answers for question in questions)


def test_files_are_read_and_written_and_the_same_by_any_number_of_processes(tmp_path: Path) -> None:
    (tmp_path / "prose.txt").write_text(PROSE, encoding="utf-8")
    one = cloze_files([tmp_path / "prose.txt"], per_thousand=100)
    assert cloze_files([tmp_path / "prose.txt"], per_thousand=100, workers=2) == one
    write_squad(one, tmp_path / "made.json.gz")
    assert read_squad(tmp_path / "made.json.gz").articles == tuple(one)
    code = (
        "import sys; from pathlib import Path; from lab.scripts.cloze import cloze_files;"
        "print(cloze_files([Path(sys.argv[1])], per_thousand=100))"
    )
    command = [sys.executable, "-c", code, tmp_path / "prose.txt"]
    other = subprocess.run(command, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(one)  # whatever the seed of its hashes


@given(st.text(max_size=200))
def test_any_sentence_can_be_looked_at(sentence: str) -> None:
    for _, begin, end in candidates(sentence):
        assert 0 <= begin < end <= len(sentence)
        before, after = clause(sentence, begin, end)
        assert before in sentence
        assert after in sentence


def test_a_bzip2_bomb_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmreader.core.files.reading._FREE", 1 << 20)
    path = tmp_path / "prose.bz2"
    path.write_bytes(bz2.compress(b"\n" * (64 << 20)))
    assert path.stat().st_size < 1 << 16
    with pytest.raises(UserError, match=r"prose\.bz2: the bzip2 data unfolds more than 100 times"):
        cloze_files([path])


@pytest.mark.parametrize("content", [b"no bzip2", bz2.compress(b"= A =\nprose\n" * 99)[:-9]])
def test_damaged_bzip2_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "prose.bz2").write_bytes(content)
    with pytest.raises(UserError, match=r"prose\.bz2: the bzip2 data is cut short or damaged"):
        cloze_files([tmp_path / "prose.bz2"])
