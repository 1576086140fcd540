"""A reader that waits in the middle of long passages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any


class InParts:
    """Reads long passages part by part, and writes down in which order what is read."""

    def __init__(self, reader: Any) -> None:
        self.reader, self.read, self.began, self.gate = reader, list[str](), threading.Event(), threading.Event()

    def ask_many(self, pairs: Iterator[tuple[str, str]], *, top: int, **options: Any) -> Iterator[Any]:
        for question, passage in pairs:
            self.read.append(question)
            yield self.reader.ask(question, passage, top=top, always=True)

    def ask_in_parts(self, question: str, passage: str, **options: Any) -> Iterator[Any]:
        for part in self.reader.ask_in_parts(question, passage, **options):
            self.read.append(question)
            self.began.set()
            assert self.gate.wait(60)
            yield part
