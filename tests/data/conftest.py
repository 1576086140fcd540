"""A small SQuAD tree to spoil, and a way to write one to disk."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CONTEXT = "Ada Lovelace, born in 1815, wrote the first program. Her father was Lord Byron."


def question(id: str, text: str, *answers: str, **more: Any) -> dict[str, Any]:
    """A row of a SQuAD file about ``CONTEXT``."""
    return {
        "id": id,
        "question": text,
        "answers": [{"text": answer, "answer_start": CONTEXT.index(answer)} for answer in answers],
        **more,
    }


def small_tree() -> dict[str, Any]:
    """Two articles, three paragraphs, five questions, one of them without an answer."""
    ada = [question("q1", "Who wrote the first program?", "Ada Lovelace", "Ada"), question("q2", "Born when?", "1815")]
    father = [
        question("q3", "Who was her father?", "Lord Byron"),
        question(
            "q4", "Who was her mother?", is_impossible=True, plausible_answers=[{"text": "Her", "answer_start": 53}]
        ),
    ]
    other = [{"id": "q5", "question": "What is cut?", "answers": [{"text": "umbrella", "answer_start": 7}]}]
    return {
        "version": "1.1",
        "data": [
            {"title": "Ada", "paragraphs": [{"context": CONTEXT, "qas": ada}, {"context": CONTEXT, "qas": father}]},
            {"title": "Rain", "paragraphs": [{"context": "Bring  umbrellas, café-goers \ud83d\ude00!", "qas": other}]},
        ],
    }


@pytest.fixture
def tree() -> dict[str, Any]:
    return small_tree()


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a tree (or bytes) as a file, compressed where its name says so."""

    def write(tree: Any, name: str = "data.json") -> Path:
        path = tmp_path / name
        content = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write
