"""Somebody's own examples: every format says the same, offsets are found, and what is uncertain or wrong is named."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from rmreader.core.errors import UserError
from rmreader.data.examples import read_examples
from rmreader.data.squad import read_squad

PASSAGE = "The art of the party began in 1901. Ada met Grace in 1901, and Grace left in 1903."
ROWS = [
    {"id": "a", "question": "When did Ada meet Grace?", "passage": PASSAGE, "answer": "1901"},
    {"id": "b", "question": "Who left?", "passage": "Noor stayed. Kofi left.", "answer": "Kofi"},
]


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def table(path: Path, rows: list[dict[str, Any]], delimiter: str = ",") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_every_format_gives_the_same_examples(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pytest.importorskip("pyarrow").Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    files = [
        lines(tmp_path / "rows.jsonl", ROWS),
        table(tmp_path / "rows.csv", ROWS),
        table(tmp_path / "rows.tsv", ROWS, "\t"),
        tmp_path / "rows.parquet",
    ]
    found = [read_examples(path).tree() for path in files]
    assert all(tree == found[0] for tree in found)
    (tmp_path / "squad.json").write_text(json.dumps(found[0]), encoding="utf-8")
    assert read_examples(tmp_path / "squad.json").tree() == found[0]
    dataset = read_squad(tmp_path / "squad.json")
    assert not dataset.problems
    for paragraph, question in dataset.questions():
        (answer,) = question.answers
        assert paragraph.context.startswith(answer.text, answer.start)


def test_an_answer_that_is_there_twice_is_taken_where_the_question_s_words_are_and_reported(tmp_path: Path) -> None:
    found = read_examples(lines(tmp_path / "rows.jsonl", ROWS))
    (answer,) = found.rows[0][2].answers
    assert answer.start == PASSAGE.rindex("1901")
    assert list(map(str, found.ambiguous)) == [
        f"{tmp_path / 'rows.jsonl'}: line 1: '1901' is in its passage several times"
    ]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"answer": "art"}, [("art", 4)]),  # not the one in "party"
        ({"answer": "ada"}, [("Ada", 36)]),  # as the passage writes it
        ({"answer": "1901", "answer_start": "30"}, [("1901", 30)]),
        ({"answer": 1903}, [("1903", 77)]),
        ({"answer": "The", "answer_start": 0}, [("The", 0)]),
        ({"answers": ["art", "Ada"]}, [("art", 4), ("Ada", 36)]),
        ({"answers": [{"text": "Ada", "answer_start": 36}]}, [("Ada", 36)]),
        ({"answers": {"text": ["Ada", "Ada"], "answer_start": [36, 36]}}, [("Ada", 36), ("Ada", 36)]),
    ],
)
def test_answers_come_in_the_shapes_that_people_have_them_in(
    tmp_path: Path, row: dict[str, Any], expected: list[tuple[str, int]]
) -> None:
    found = read_examples(lines(tmp_path / "rows.jsonl", [{"question": "Who?", "context": PASSAGE, **row}]))
    (_, _, question), *rest = found.rows
    assert not rest
    assert question.id == "1"
    assert [(answer.text, answer.start) for answer in question.answers] == expected


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"answer": "Zoe"}, "the answer 'Zoe' is not in its passage"),
        ({"answer": ""}, "there is no answer"),
        ({}, "there is no answer"),
        ({"answer": "Ada", "answer_start": 3}, "the answer 'Ada' is not at its offset 3"),
        ({"answer": "Ada", "answer_start": "three"}, "the answer's offset 'three' is not a whole number"),
        ({"answer": [{"words": "Ada"}]}, "the answer 'None' is not text"),
        ({"answer": "Ada", "question": " "}, "'question' is missing"),
        ({"answer": "Ada", "question": 3}, "'question' is not text but int"),
        ({"answer": "Ada", "passage": ""}, "'passage' or 'context' is missing"),
        ({"answer": "Ada", "id": "good"}, "its id, 'good', is that of an earlier row"),
    ],
)
def test_a_bad_row_is_named_and_left_out(tmp_path: Path, row: dict[str, Any], why: str) -> None:
    good = {"id": "good", "question": "Who?", "passage": PASSAGE, "answer": "Ada"}
    path = lines(tmp_path / "rows.jsonl", [good, {"question": "Who?", "passage": PASSAGE, **row}])
    found = read_examples(path)
    assert len(found.rows) == 1
    assert len(found.problems) == 1
    assert str(found.problems[0]).startswith(f"{path}: line 2: {why}")


def test_a_file_without_an_example_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no example to learn from.*the answer 'Zoe' is not in its passage"):
        read_examples(lines(tmp_path / "rows.jsonl", [{**ROWS[0], "answer": "Zoe"}]))
    with pytest.raises(UserError, match="no column 'answer' or 'answers'; its columns are 'id', 'question'"):
        read_examples(table(tmp_path / "rows.csv", [{"id": "1", "question": "Who?", "passage": "Ada."}]))


def test_passages_are_held_out_whole_unless_there_are_too_few(tmp_path: Path) -> None:
    def articles(passages: int, titles: int = 0) -> list[int]:
        rows = [
            {"question": "Who?", "passage": f"Ada {k % passages} met.", "answer": "Ada", "id": str(k)}
            | ({"title": str(k % titles)} if titles else {})
            for k in range(12)
        ]
        tree = read_examples(lines(tmp_path / "rows.jsonl", rows)).tree()
        return [sum(len(paragraph["qas"]) for paragraph in article["paragraphs"]) for article in tree["data"]]

    assert articles(6) == [2] * 6
    assert articles(12, titles=6) == [2] * 6
    assert articles(2) == [1] * 12
