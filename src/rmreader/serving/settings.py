"""What the server listens on and what it refuses."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rmreader.errors import UserError


@dataclass(frozen=True)
class Settings:
    """Every limit of the server; the docstring under a field is its help text."""

    host: str = "127.0.0.1"
    """Address to listen on; the default is reachable from this machine alone."""
    port: int = 8000
    """Port to listen on; 0 takes a free one and logs it."""
    api_key: str = ""
    """Key that every call under /v1 must carry; empty asks for none."""
    max_body: int = 1_048_576
    """Largest request body in bytes."""
    max_passage: int = 100_000
    """Longest passage in characters."""
    max_question: int = 2_000
    """Longest question in characters."""
    max_explain: int = 4_000
    """Longest passage in characters whose attention is handed out: it grows with the square of the length."""
    max_items: int = 64
    """Most questions in one call of /v1/answers."""
    connections: int = 512
    """Connections open at once; more are closed as they come."""
    queue: int = 256
    """Questions that may wait; more are refused with 503."""
    deadline: float = 10.0
    """Seconds for the head of a request to arrive, and from then to its answer; later ones end with 504."""
    batch: int = 32
    """Questions the reader is given at once."""
    batch_characters: int = 48_000
    """Largest batch in characters; a longer question is read alone."""
    batch_wait: float = 0.003
    """Seconds a batch waits for clients that were just answered to ask again; an idle server never waits."""
    drain_delay: float = 0.0
    """Seconds between SIGTERM (/readyz turns 503) and closing the door, for load balancers that poll."""

    def __post_init__(self) -> None:
        for name in ("max_body", "max_passage", "max_question", "max_explain", "max_items", "connections", "queue",
                     "batch"):  # fmt: skip
            if getattr(self, name) < 1:
                raise UserError(f"server setting {name}: must be at least 1; it is {getattr(self, name)}.")
        for name in ("deadline", "batch_wait", "drain_delay"):
            if not math.isfinite(getattr(self, name)):
                raise UserError(f"server setting {name}: must be a number of seconds; it is {getattr(self, name)}.")
        for name in ("deadline", "batch_characters"):
            if not getattr(self, name) > 0:
                raise UserError(f"server setting {name}: must be above 0; it is {getattr(self, name)}.")
        for name in ("batch_wait", "drain_delay"):
            if not getattr(self, name) >= 0:
                raise UserError(f"server setting {name}: must not be negative; it is {getattr(self, name)}.")
        if not self.host.strip():  # to a socket, every address there is
            raise UserError("server setting host: must not be empty; 0.0.0.0 listens on every address.")
        if not 0 <= self.port <= 65_535:
            raise UserError(f"server setting port: must lie between 0 and 65535; it is {self.port}.")
        if self.max_items > self.queue:
            raise UserError(
                f"server setting max_items: {self.max_items} questions can never fit a queue of {self.queue}; "
                "raise queue or lower max_items."
            )
        if self.api_key and not (self.api_key.isascii() and self.api_key.isprintable() and " " not in self.api_key):
            raise UserError(
                "server setting api_key: must be printable ASCII without spaces, as it travels in a header."
            )
