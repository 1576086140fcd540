"""What the server listens on and what it refuses."""

from dataclasses import dataclass
from typing import Annotated

from rmreader.core.errors import UserError
from rmreader.core.settings import Count, Natural, NonNegative, Positive, Range, check_settings


@dataclass(frozen=True)
class Settings:
    """Every limit of the server; the docstring under a field is its help text."""

    host: str = "127.0.0.1"
    """Address to listen on; the default is reachable from this machine alone."""
    port: Annotated[int, Range(least=0, below=65_536)] = 8000
    """Port to listen on; 0 takes a free one and logs it."""
    host_names: str = ""
    """Names, with commas, that requests may ask for beside localhost, IP addresses and host; * allows every name."""
    api_key: str = ""
    """Key that every call under /v1 must carry; empty asks for none."""
    index: str = ""
    """Index of documents, as `rmreader index` makes it, that /v1/ask and the page answer from; empty has none."""
    max_answer_length: Annotated[int, Range(least=0, most=500)] = 0
    """Longest answer in words, as for `ask`; 0 is what the reader's recipe says."""
    max_body: Count = 1_048_576
    """Largest request body in bytes."""
    max_passage: Count = 100_000
    """Longest passage in characters."""
    max_question: Count = 100_000
    """Longest question in characters; in words it is the reader's own limit, as for `ask`."""
    max_explain: Count = 4_000
    """Longest passage in characters whose attention is handed out: it grows with the square of the length."""
    max_explain_question: Count = 300
    """Longest question in characters whose attention is handed out."""
    max_items: Count = 64
    """Most questions in one call of /v1/answers."""
    connections: Count = 512
    """Connections open at once; more are closed as they come."""
    queue: Count = 256
    """Questions that may wait; more are refused with 503."""
    deadline: Positive = 10.0
    """Seconds for the head of a request to arrive, and from then to its answer; later ones end with 504."""
    threads: Natural = 0
    """Threads to read with; 0 takes as many as there are processors."""
    batch: Count = 32
    """Questions the reader is given at once."""
    batch_tokens: Count = 12_000
    """Largest batch in tokens; a longer question is read alone, a part at a time."""
    batch_wait: NonNegative = 0.003
    """Seconds a batch waits for clients that were just answered to ask again; an idle server never waits."""
    drain_delay: NonNegative = 0.0
    """Seconds between SIGTERM (/readyz turns 503) and closing the door, for load balancers that poll."""

    def __post_init__(self) -> None:
        check_settings(self, "server setting")
        if not self.host.strip():  # to a socket, every address there is
            raise UserError("server setting host must not be empty; 0.0.0.0 listens on every address.")
        if self.max_items > self.queue:
            raise UserError(
                f"server setting max_items: {self.max_items} questions can never fit a queue of {self.queue}; "
                "raise queue or lower max_items."
            )
        if self.api_key and not (self.api_key.isascii() and self.api_key.isprintable() and " " not in self.api_key):
            raise UserError("server setting api_key must be printable ASCII without spaces, as it travels in a header.")
