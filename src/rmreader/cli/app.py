"""The typer application, and how every error becomes one sentence and an exit status."""

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rmreader.core.console import one_line
from rmreader.core.errors import UserError, printable
from rmreader.core.version import __version__

_FIRST = ("ask", "chat", "index", "predict", "evaluate", "serve", "train")  # in the help, as people come to need them

_REMEDIES = {
    errno.ENOSPC: "make room, and try again",
    errno.EACCES: "check its permissions",
    errno.EROFS: "choose another place",
}


class Verbs(TyperGroup):
    """Statuses: 0 done, 1 an error the user can fix (one sentence on stderr; 3 where it is a faulty
    share of a GPU), 2 wrong usage, 130 interrupted."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The verbs in the order of the help."""
        verbs = super().list_commands(ctx)
        return [*(verb for verb in _FIRST if verb in verbs), *(verb for verb in verbs if verb not in _FIRST)]

    def make_context(self, *words: Any, **more: Any) -> Any:
        """As typer's, with every error in a sentence."""
        with _harmless(), _in_a_sentence():
            return super().make_context(*words, **more)

    def invoke(self, ctx: Any) -> Any:
        """As typer's, with every error in a sentence."""
        with _harmless(), _in_a_sentence():
            result = super().invoke(ctx)
            if sys.stdout is not None:  # as where it was closed
                sys.stdout.flush()
            return result


@contextlib.contextmanager
def _in_a_sentence() -> Iterator[None]:
    """Whatever goes wrong that a person can fix is one sentence and a status."""
    try:
        yield
    except UserError as error:
        _fail(str(error), error.status)
    except BrokenPipeError:  # the reader of our output has left, as in `| head`: nothing to say, nobody to say it to
        silence_stdout()
        raise typer.Exit(141) from None
    except OSError as error:
        where, why = f"{error.filename}: " if error.filename else "", error.strerror or error
        remedy = _REMEDIES.get(error.errno or 0, "check the path" if where else "")
        _fail(f"{where}{why}{f'; {remedy}' if remedy else ''}.")
    except ModuleNotFoundError as error:
        from rmreader.cli.doctor import pip_line

        line = pip_line(error.name or "")
        if line is None:
            raise
        _fail(f"this needs the package {error.name}, which is not installed; {line} gets it.")
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise typer.Exit(130) from None


@contextlib.contextmanager
def _harmless() -> Iterator[None]:
    """What a wrong usage quotes of the command line cannot command the terminal, either."""
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str):
            error.message = printable(message)  # type: ignore[attr-defined]
        raise


def _fail(sentence: str, status: int = 1) -> None:
    typer.echo(f"error: {one_line(sentence).strip()}", err=True)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:  # a full disk, which is what was just said
        silence_stdout()
    raise typer.Exit(status)


def silence_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush does not complain where it cannot be written to."""
    with contextlib.suppress(OSError, ValueError, io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Give it a passage and a question, it points at the answer.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a letter still gets the rest
    app(prog_name="rmreader")
