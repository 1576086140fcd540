"""Files of questions that ``small`` can answer."""

from __future__ import annotations

import json
import os
from pathlib import Path

from rmreader.predict.job import PredictJob

PEOPLE = ("Ada Lovelace", "Grace Hopper", "Alan Turing", "Emmy Noether", "Kurt Gödel", "Mary Somerville")
PLACES = ("Turin", "Vienna", "Göttingen", "London", "New York")


def write_questions(path: Path, count: int, bad: bool = True) -> Path:
    """So many questions, each a little different, with bad rows among them."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            who, where = PEOPLE[number % len(PEOPLE)], PLACES[number % len(PLACES)]
            text = f"Letter {number} was written by {who}. It was sent to {where} in {1800 + number % 99}."
            question = ("Who wrote the letter?", "Where was it sent?", "When was it sent?")[number % 3]
            file.write(json.dumps({"id": f"q{number}", "question": question, "passage": text}) + "\n")
            if bad and number % 50 == 7:
                file.write('{"id": "empty", "question": "", "passage": "Nobody asks."}\n')
    return path


class Deadly(PredictJob):
    """A job that takes the life of the process that answers the first question."""

    def answer_lines(self, lines: bytes) -> bytes:
        return super().answer_lines(lines) if b'"q0"' not in lines else os._exit(9)
