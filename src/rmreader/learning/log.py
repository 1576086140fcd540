"""What a run says of itself: a line of JSON for each event, curves for TensorBoard if asked, a live line for people."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rmreader.console import progress
from rmreader.console import say as say
from rmreader.errors import UserError
from rmreader.files import write_whole

Show = Callable[[int, str], None]
"""``show(steps_done, text)`` moves the progress bar."""


class Log:
    """Events appended to a JSONL file, one object per line, and to TensorBoard if asked."""

    def __init__(self, path: Path, tensorboard: bool = False) -> None:
        self.path = path
        self._board: Any = _board(path.parent / "tensorboard") if tensorboard else None

    def write(self, event: str, step: int, **fields: Any) -> None:
        """Record an event; it is in the file when this returns."""
        line = json.dumps({"event": event, "step": step, **_finite(fields)}, allow_nan=False) + "\n"
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written ({error.strerror}); make room, then resume.") from None
        if self._board is not None:
            for name, value in _numbers(event, fields):
                self._board.add_scalar(name, value, step)

    def close(self) -> None:
        """Finish the curves."""
        if self._board is not None:
            self._board.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    """The events of a log; a last line cut off by a kill is left out."""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else []
    return [_event(path, number, line) for number, line in enumerate(lines[:-1], 1)]


def _event(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
        if isinstance(event, dict) and isinstance(event["step"], int):
            return event
    except (ValueError, KeyError):
        pass
    raise UserError(f"{path}: line {number} is no event of a run; remove the line, or the file.")


def rewind(path: Path, last: Mapping[str, int]) -> None:
    """Forget what came after the ``last`` step of each event: a resumed run lives through it again."""
    if not path.exists():
        return
    kept = [event for event in read_log(path) if event["step"] <= last.get(event.get("event", ""), -1)]
    write_whole(path, "".join(json.dumps(event) + "\n" for event in kept).encode())


@contextmanager
def live(total: int) -> Iterator[Show]:
    """A progress bar over ``total`` steps with a text after it; silent where stderr is no terminal."""
    done = 0
    with progress("training", total, transient=False) as advance:

        def show(now: int, text: str) -> None:
            nonlocal done
            advance(now - done, text)
            done = now

        yield show


def _finite(value: Any) -> Any:
    """Plain data with null for numbers that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, (list, tuple)) else value


def _numbers(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Every number in plain data, by its path."""
    if isinstance(value, (int, float)):
        yield name, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _numbers(f"{name}/{key}", part)
    elif isinstance(value, list):
        for key, part in enumerate(value):
            yield from _numbers(f"{name}/{key}", part)


def _board(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError(
            "tensorboard is not installed; pip install 'rmreader[tensorboard]', or train without it."
        ) from None
    return SummaryWriter(str(folder))
