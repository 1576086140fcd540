"""``rmreader serve``: the HTTP API and the web page; ``rmreader mcp``: the same over a pipe."""

import contextlib
import sys
from collections import deque
from collections.abc import Sequence
from typing import Annotated

import typer

from rmreader.cli.app import app, silence_stdout
from rmreader.cli.read import Model, Threads
from rmreader.core.errors import UserError

# Every setting of the server can also be given as --name VALUE, as it was before KEY=VALUE.
_OTHER_OPTIONS = {"ignore_unknown_options": True}


@app.command(context_settings=_OTHER_OPTIONS)
def serve(
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...",
            help="Limits, as deadline=20: connections, queue, deadline, drain_delay, threads, "
            "batch, batch_tokens, batch_wait, max_body, max_items, max_passage, max_question, "
            "max_explain, max_explain_question, max_answer_length, max_upload, read_deadline, "
            "long_deadline. docs/serving.md explains them.",
        ),
    ] = None,
    model: Model = "small",
    index: Annotated[
        str | None,
        typer.Option(
            "--index",
            "-i",
            metavar="INDEX",
            help="Answer from these documents too: an index that `rmreader index` made, or a "
            "folder, which is indexed, and again after every change.",
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Address to listen on; this machine alone by default."
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(metavar="N", help="Port to listen on; 8000 by default, 0 for a free one."),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar="RMREADER_API_KEY",
            metavar="KEY",
            help="Key that calls must carry; none by default.",
        ),
    ] = None,
    host_names: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="Names to answer for, with commas, beside localhost; * for any."
        ),
    ] = None,
    cors: Annotated[
        str | None,
        typer.Option(metavar="ORIGIN", help="Origins whose web pages may ask, with commas."),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="json or text; by default text on a terminal."),
    ] = None,
) -> None:
    """Serve a reader: the web page at /, the API under /v1.

    Stops gracefully on SIGTERM or Ctrl-C.
    """
    from rmreader.server.server import serve as run
    from rmreader.server.settings import settings_from_words

    options = {
        "index": index,
        "host": host,
        "port": port,
        "api_key": api_key,
        "host_names": host_names,
        "cors": cors,
        "log": log,
    }
    words = setting_words(settings or ())
    words |= {name: str(value) for name, value in options.items() if value is not None}
    run(model, settings_from_words(words, "server setting"))


def setting_words(words: Sequence[str]) -> dict[str, str]:
    """Read settings from words: KEY=VALUE, --key=VALUE or --key VALUE."""
    settings: dict[str, str] = {}
    rest = deque(words)
    while rest:
        word = rest.popleft()
        key, equals, value = word.partition("=")
        if not equals:
            if not key.startswith("--"):
                raise UserError(f"{word}: write a setting as KEY=VALUE, as deadline=20.")
            if not rest:
                raise UserError(f"{word} needs a value.")
            value = rest.popleft()
        settings[key.removeprefix("--").replace("-", "_")] = value
    return settings


@app.command()
def mcp(
    model: Model = "small",
    index: Annotated[
        str | None,
        typer.Option(
            "--index",
            "-i",
            metavar="INDEX",
            help="Answer from these documents too (`rmreader index`).",
        ),
    ] = None,
    threads: Threads = None,
) -> None:
    """Serve the Model Context Protocol on stdin and stdout, for assistants and editors."""
    from rmreader.integrations.mcp import Server
    from rmreader.reading.reader import Reader

    if sys.stdin is None or sys.stdout is None:
        raise UserError(
            "standard input or output is closed; the program that asks starts this one."
        )
    reader = Reader.load(model, threads=threads)
    sink = sys.stdout.buffer
    shelf = None
    if index is not None:
        from rmreader.documents.shelf import Shelf

        shelf = Shelf.open(index, reader)
        # Refuses what is no index.
        shelf.index.size()
    # Standard output is for messages alone.
    with contextlib.redirect_stdout(sys.stderr):
        Server(reader, shelf, sys.stdin.buffer, sink).run()
    try:
        sink.flush()
    except OSError:
        # The program that asked has left, and nothing is wrong.
        silence_stdout()
