"""One JSON object per line on stderr: when, what, which request.

No line ever holds a question, a passage, or an error's own words. A thread of its own writes the
lines. Where nobody reads them they wait, up to a bound; then the oldest are dropped and counted.
"""

import contextlib
import json
import logging
import os
import sys
import threading
import time
import traceback
from collections import deque
from datetime import UTC, datetime
from typing import Any

KEPT = 1_000  # lines that may wait to be written
LAST_WORDS = 2.0  # seconds that the last lines have to get out

log = logging.getLogger("rmreader.server")


class Lines(logging.Formatter):
    """Formats a record as one line of JSON, with the fields of ``extra={"fields": {...}}``."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[1]:
            line.update(failure(record.exc_info[1]))
        return json.dumps(line)


class Patient(logging.Handler):
    """Leaves the writing to a thread, which no one waits for.

    The thread writes past Python's own buffer: it may hang in there when the process ends.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.setFormatter(Lines())
        self.descriptor, self.waiting = descriptor, deque[str](maxlen=KEPT)
        self.dropped, self.writing, self.some = 0, False, threading.Event()
        threading.Thread(target=self._write, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Line up a record; where there is no room, the oldest goes."""
        self.dropped += len(self.waiting) == KEPT
        self.waiting.append(self.format(record))
        self.some.set()

    def flush(self) -> None:
        """Give what waits a moment to get out; ``logging`` calls this at exit."""
        end = time.monotonic() + LAST_WORDS
        while (self.waiting or self.writing) and time.monotonic() < end:
            time.sleep(0.005)

    def _write(self) -> None:
        told = 0
        while self.some.wait():
            self.writing = True
            self.some.clear()
            lines = []
            while self.waiting:
                lines.append(self.waiting.popleft())
            if (dropped := self.dropped) > told:
                fields = {"lines": dropped - told, "in_all": dropped}
                record = logging.makeLogRecord(
                    {"msg": "log_dropped", "levelname": "WARNING", "fields": fields}
                )
                lines, told = [self.format(record), *lines], dropped
            data = "".join(f"{line}\n" for line in lines).encode()
            with contextlib.suppress(OSError):  # closed, or whoever read it has left
                while data:
                    data = data[os.write(self.descriptor, data) :]
            self.writing = False


def failure(error: BaseException) -> dict[str, Any]:
    """Kind and place of an error. Its message stays out: it may quote what was asked."""
    frames = traceback.extract_tb(error.__traceback__)
    return {
        "error": type(error).__name__,
        "at": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }


def event(name: str, **fields: Any) -> None:
    """Log one event with its fields."""
    log.info(name, extra={"fields": fields})


def to_stderr() -> None:
    """Send the server's lines, and uvicorn's warnings, to stderr."""
    handler = Patient(sys.stderr.fileno() if sys.stderr is not None else 2)
    for name, level in (("rmreader.server", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
