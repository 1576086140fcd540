"""``rmreader serve``, the HTTP API and the web page, and ``rmreader mcp``, for programs that speak that protocol."""

import contextlib
import dataclasses
import inspect
import sys
import typing
from typing import Annotated, Any

import typer

from rmreader.cli.app import app, silence_stdout
from rmreader.cli.read import Model, Threads
from rmreader.core.errors import UserError

_AS_THEY_ARE = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


@app.command("serve", context_settings=_AS_THEY_ARE, add_help_option=False)
def _serve(context: typer.Context) -> None:
    """Serve a reader: the web page at /, the API under /v1. SIGTERM or Ctrl-C ends it in order."""
    # The options are made from the server's settings, which every other command can do without.
    command = _command()
    with command.make_context("serve", context.args, parent=context.parent) as own:
        command.invoke(own)


def _command() -> Any:
    """The command with one option for each field of the settings, and the field's help."""
    from rmreader.core.settings import field_help
    from rmreader.server.settings import Settings

    def serve(model: Model = "small", **settings: Any) -> None:
        from rmreader.server.server import serve as run

        run(model, Settings(**settings))

    helps, types = field_help(Settings), typing.get_type_hints(Settings)
    parameters = [inspect.signature(serve, eval_str=True).parameters["model"]]
    for field in dataclasses.fields(Settings):
        variable = "RMREADER_API_KEY" if field.name == "api_key" else None
        option = typer.Option(field.default, help=helps[field.name], envvar=variable)
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(field.name, keyword, default=option, annotation=types[field.name]))
    serve.__doc__ = _serve.__doc__
    serve.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    serve.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    own = typer.Typer(context_settings={"help_option_names": ["-h", "--help"]}, add_completion=False)
    own.command()(serve)
    return typer.main.get_command(own)


@app.command()
def mcp(
    model: Model = "small",
    index: Annotated[
        str | None, typer.Option("--index", "-i", help="Ask its documents too: an index that `rmreader index` makes.")
    ] = None,
    threads: Threads = None,
) -> None:
    """Serve the Model Context Protocol on standard input and output: a program asks a passage, or an index."""
    from rmreader.integrations.mcp import Server
    from rmreader.reading.reader import Reader

    if sys.stdin is None or sys.stdout is None:
        raise UserError("standard input or output is closed; the program that asks must start this one.")
    reader, sink = Reader.load(model, threads=threads), sys.stdout.buffer
    shelf = None
    if index is not None:
        from rmreader.documents.shelf import Shelf

        shelf = Shelf.open(index, reader)
        shelf.index.size()  # which refuses what is no index
    with contextlib.redirect_stdout(sys.stderr):  # standard output is for messages alone
        Server(reader, shelf, sys.stdin.buffer, sink).run()
    try:
        sink.flush()
    except OSError:  # the program that asked has left, and nothing is wrong
        silence_stdout()
