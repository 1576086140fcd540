"""What the server listens on and what it refuses."""

import dataclasses
import os
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from rmreader.core.errors import UserError, quoted
from rmreader.core.settings import (
    Count,
    Natural,
    NonNegative,
    Positive,
    Range,
    build_settings,
    check_settings,
)
from rmreader.documents.document import LARGEST

PREFIX = "RMREADER_"


@dataclass(frozen=True)
class Settings:
    """Every limit of the server; the docstring under a field is its help text."""

    host: str = "127.0.0.1"
    """Address to listen on; the default is reachable from this machine alone."""
    port: Annotated[int, Range(least=0, below=65_536)] = 8000
    """Port to listen on; 0 takes a free one and prints it."""
    host_names: str = ""
    """Names, with commas, to answer for beside localhost and IP addresses; * for any name."""
    cors: str = ""
    """Origins, with commas, whose web pages may ask, as https://example.org; * for any."""
    api_key: str = ""
    """Key that every call under /v1 must carry; empty asks for none."""
    index: str = ""
    """Documents to answer from: an index that `rmreader index` made, or a folder, which is indexed
    and watched; empty for none."""
    max_answer_length: Annotated[int, Range(least=0, most=500)] = 0
    """Longest answer in words, as for `ask`; 0 is what the reader's recipe says."""
    max_body: Count = 1_048_576
    """Largest request body in bytes."""
    max_passage: Count = 100_000
    """Longest passage in characters; longer ones are for /v1/long-answer."""
    max_upload: Count = LARGEST
    """Largest document that is read, and largest request with a long text, in bytes."""
    max_question: Count = 100_000
    """Longest question in characters; the reader has its own limit in words, as for `ask`."""
    max_explain: Count = 4_000
    """Longest passage in characters whose attention is shown: it grows with the square."""
    max_explain_question: Count = 300
    """Longest question in characters whose attention is shown."""
    max_items: Count = 64
    """Most questions in one call of /v1/answers."""
    connections: Count = 512
    """Most connections open at once; more are closed."""
    queue: Count = 256
    """Most questions that may wait; more are refused with 503."""
    deadline: Positive = 10.0
    """Timeout in seconds for request headers, and again for the answer."""
    read_deadline: Positive = 60.0
    """Timeout in seconds for a document that is uploaded, or whose page is drawn."""
    long_deadline: Positive = 600.0
    """Timeout in seconds for a question about a long text."""
    threads: Natural = 0
    """Threads to read with; 0 takes as many as there are processors."""
    batch: Count = 32
    """Most questions that the reader is given at once."""
    batch_tokens: Count = 12_000
    """Largest batch in tokens; a longer question is read alone, a part at a time."""
    batch_wait: NonNegative = 0.003
    """Seconds a batch waits for clients that were just answered; an idle server never waits."""
    drain_delay: NonNegative = 0.0
    """Seconds from SIGTERM, when /readyz turns 503, to closing the listening socket."""
    log: Literal["auto", "json", "text"] = "auto"
    """json, text, or auto: text on a terminal, JSON otherwise."""

    def __post_init__(self) -> None:
        check_settings(self, "server setting")
        # To a socket, an empty host is every address there is.
        if not self.host.strip():
            raise UserError(
                "server setting host must not be empty; 0.0.0.0 listens on every address."
            )
        if self.max_items > self.queue:
            raise UserError(
                f"server setting max_items: {self.max_items} questions can never fit a queue of "
                f"{self.queue}; raise queue or lower max_items."
            )
        if not (self.api_key.isascii() and self.api_key.isprintable()) or " " in self.api_key:
            raise UserError(
                "server setting api_key must be printable ASCII without spaces, "
                "as it travels in a header."
            )


def settings_from_words(words: Mapping[str, str], where: str) -> Settings:
    """Build settings from texts, as the environment and the command line have them."""
    types = typing.get_type_hints(Settings)
    values: dict[str, Any] = {}
    for name, word in words.items():
        values[name] = _number(word, types[name], f"{where}: {name}") if name in types else word
    return build_settings(Settings, values, where)


def settings_from_environment(
    changes: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> tuple[Settings, str]:
    """Return the settings and the reader's name that variables such as RMREADER_DEADLINE set.

    ``changes`` are settings that count instead of the variables.
    """
    words: dict[str, str] = {}
    for field in dataclasses.fields(Settings):
        variable = f"{PREFIX}{field.name.upper()}"
        if variable in environment:
            words[field.name] = environment[variable]
    settings = settings_from_words(words, "environment")
    model = environment.get(f"{PREFIX}MODEL", "small")
    return dataclasses.replace(settings, **changes), model


def _number(word: str, kind: Any, where: str) -> Any:
    if kind not in (int, float):
        return word
    try:
        return kind(word)
    except ValueError:
        raise UserError(f"{where} must be a number; it is {quoted(word)}.") from None
