"""The server's log on stderr: one line per event, as JSON or for a person at a terminal.

No line ever holds a question, a passage, or an error's own words. A thread of its own writes the
lines, so the server never waits for its log: where nobody reads it, the oldest lines are dropped
and counted.
"""

import contextlib
import json
import logging
import os
import queue
import sys
import threading
import time
import traceback
from datetime import UTC, datetime
from logging.handlers import QueueHandler
from typing import Any

WAITING_LINES = 1_000  # lines that may wait to be written
LAST_WORDS = 2.0  # seconds that the last lines have to get out
MOMENT = 0.05  # seconds whose lines are written together

log = logging.getLogger("rmreader.server")


def event(name: str, **fields: Any) -> None:
    """Log one event with its fields."""
    if log.isEnabledFor(logging.INFO):
        # Not ``log.info``, which would look through the stack for this very line each time.
        extra = {"fields": fields}
        record = log.makeRecord(log.name, logging.INFO, __file__, 0, name, (), None, extra=extra)
        log.handle(record)


def failure(error: BaseException) -> dict[str, Any]:
    """Return kind and place of an error; its message stays out, as it may quote what was asked."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return {"error": type(error).__name__, "at": places}


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of an event, and what its exception was, if there was one."""
    fields = dict(getattr(record, "fields", {}))
    if record.exc_info and record.exc_info[1]:
        fields.update(failure(record.exc_info[1]))
    return fields


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level, event and fields as JSON."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **fields_of(record),
        }
        return json.dumps(line)


class TextLines(logging.Formatter):
    """Formats a record for a person at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the address to open, a request, or any other event with its fields."""
        fields = fields_of(record)
        name = record.getMessage()
        if name == "serving":
            return f"open {fields['url']}  (Ctrl-C stops)"
        moment = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        if name == "request":
            words = "{method} {path} {status} {ms} ms".format_map(fields)
            # What a caller made up must not command the terminal.
            return f"{moment}  {ascii(words)[1:-1]}"
        words = " ".join(f"{key}={value}" for key, value in fields.items())
        return f"{moment}  {name} {words}".rstrip()


class LineQueue(QueueHandler):
    """Queues formatted lines; where there is no room, the oldest goes."""

    queue: "queue.Queue[str]"

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__(queue.Queue(WAITING_LINES))
        self.setFormatter(formatter)
        self.dropped = 0

    def prepare(self, record: logging.LogRecord) -> str:
        """Return the line: nothing else of a record is written."""
        return self.format(record)

    def enqueue(self, record: Any) -> None:
        """Queue a line without waiting."""
        while True:
            try:
                self.queue.put_nowait(record)
                return
            except queue.Full:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        # Empty where the writer was quicker.
        with contextlib.suppress(queue.Empty):
            self.queue.get_nowait()
            self.queue.task_done()
            self.dropped += 1

    def flush(self) -> None:
        """Give what waits a moment to get out; ``logging`` calls this at exit."""
        end = time.monotonic() + LAST_WORDS
        while self.queue.unfinished_tasks and time.monotonic() < end:
            time.sleep(0.005)


class LineWriter(threading.Thread):
    """Writes queued lines to a file descriptor, those of a moment together.

    It writes past Python's own buffer: it may hang in there when the process ends.
    """

    def __init__(self, lines: LineQueue, descriptor: int) -> None:
        super().__init__(name="log", daemon=True)
        self.lines = lines
        self.descriptor = descriptor
        self.reported = 0  # dropped lines that the log has told of

    def run(self) -> None:
        """Write until the process ends."""
        while True:
            lines = [self.lines.queue.get()]
            # A thread that wakes for every request costs more than all else about its line.
            time.sleep(MOMENT)
            lines += self._waiting()
            self._write([*self._dropped(), *lines])
            for _ in lines:
                self.lines.queue.task_done()

    def _waiting(self) -> list[str]:
        """Take all lines that wait."""
        lines: list[str] = []
        with contextlib.suppress(queue.Empty):
            while True:
                lines.append(self.lines.queue.get_nowait())
        return lines

    def _dropped(self) -> list[str]:
        """Make a line about those that were dropped since the last one, if any were."""
        dropped = self.lines.dropped
        if dropped == self.reported:
            return []
        fields = {"lines": dropped - self.reported, "in_all": dropped}
        self.reported = dropped
        tree = {"msg": "log_dropped", "levelname": "WARNING", "fields": fields}
        return [self.lines.format(logging.makeLogRecord(tree))]

    def _write(self, lines: list[str]) -> None:
        data = "".join(f"{line}\n" for line in lines).encode()
        # Closed, or whoever read it has left.
        with contextlib.suppress(OSError):
            while data:
                written = os.write(self.descriptor, data)
                data = data[written:]


def to_stderr(style: str = "auto") -> None:
    """Send the server's lines, and uvicorn's warnings, to stderr.

    ``style`` is json, text, or auto: text where stderr is a terminal.
    """
    if style == "auto":
        style = "text" if sys.stderr is not None and sys.stderr.isatty() else "json"
    lines = LineQueue(TextLines() if style == "text" else JsonLines())
    LineWriter(lines, sys.stderr.fileno() if sys.stderr is not None else 2).start()
    levels = {
        "rmreader.server": logging.INFO,
        "rmreader.documents": logging.WARNING,
        "uvicorn": logging.WARNING,
    }
    for name, level in levels.items():
        logger = logging.getLogger(name)
        logger.handlers = [lines]
        logger.propagate = False
        logger.setLevel(level)
