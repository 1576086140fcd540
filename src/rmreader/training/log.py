"""What a run says of itself: a line of JSON for each event, and curves for TensorBoard if asked."""

import json
import math
from collections.abc import Iterator, Mapping
from operator import index
from pathlib import Path
from typing import Any

from rmreader.core.errors import user_error_on
from rmreader.core.files.atomic import write_whole
from rmreader.core.files.reading import read_records


class Log:
    """Events appended to a JSONL file, one object per line, and to TensorBoard if asked."""

    def __init__(self, path: Path, tensorboard: bool = False) -> None:
        self.path = path
        self._board: Any = _board(path.parent / "tensorboard") if tensorboard else None

    def write(self, event: str, step: int, **fields: Any) -> None:
        """Record an event; it is in the file when this returns."""
        line = json.dumps({"event": event, "step": step, **_finite(fields)}, allow_nan=False) + "\n"
        remedy = f"{self.path}: cannot be written ({{why}}); make room, then resume."
        with user_error_on(remedy, OSError), self.path.open("a", encoding="utf-8") as file:
            file.write(line)
        if self._board is not None:
            for name, value in _numbers(event, fields):
                self._board.add_scalar(name, value, step)

    def close(self) -> None:
        """Finish the curves."""
        if self._board is not None:
            self._board.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    """The events of a log."""
    return read_records(
        path,
        lambda event: index(event["step"]),
        "is not an event of a run; remove the line, or the file.",
    )


def finished(run: Path) -> dict[str, Any] | None:
    """The last event of the run in a folder, if it came to its end."""
    ends = [event for event in read_log(run / "log.jsonl") if event["event"] == "end"]
    return ends[-1] if ends and (run / "best").is_dir() else None


def rewind(path: Path, last: Mapping[str, int]) -> None:
    """Forget what came after the ``last`` step of each event: a resumed run lives through it
    again."""
    if not path.exists():
        return
    kept = [
        event for event in read_log(path) if event["step"] <= last.get(event.get("event", ""), -1)
    ]
    write_whole(path, "".join(json.dumps(event) + "\n" for event in kept).encode())


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
    with user_error_on(
        "tensorboard is not installed; pip install 'rmreader[tensorboard]', or train without it.",
        ImportError,
    ):
        from torch.utils.tensorboard import SummaryWriter
    return SummaryWriter(str(folder))
