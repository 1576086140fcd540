"""One JSON object a line on stderr: when, what, which request. Never a question, a passage, or an error's own words."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any

log = logging.getLogger("rmreader.serving")


class Lines(logging.Formatter):
    """Formats a record as one line of JSON; fields given as ``extra={"fields": {...}}`` stand beside the event."""

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


def failure(error: BaseException) -> dict[str, Any]:
    """Kind and place of an error. Its message stays out: it may quote what was asked."""
    frames = traceback.extract_tb(error.__traceback__)
    return {"error": type(error).__name__, "at": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]}


def event(name: str, **fields: Any) -> None:
    """Log one event with its fields."""
    log.info(name, extra={"fields": fields})


def to_stderr() -> None:
    """Send the server's lines, and uvicorn's warnings, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    for name, level in (("rmreader.serving", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
