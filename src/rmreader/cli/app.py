"""The typer application, and how every error becomes one sentence and an exit status."""

import atexit
import contextlib
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rmreader.core.console import one_line
from rmreader.core.errors import UserError, printable
from rmreader.core.version import __version__

# In the help these come first, in the order in which people need them.
_FIRST = ("ask", "chat", "index", "predict", "evaluate", "serve", "train", "tune")

_REMEDIES = {
    errno.ENOSPC: "make room, and try again",
    errno.EACCES: "check its permissions",
    errno.EROFS: "choose another place",
}


_INTERRUPTED = 130
_is_program = threading.Event()  # not so where another program, such as a test, calls a verb


class Group(TyperGroup):
    """Verbs with plain help."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a verb; its help shows a flag as ``--json``, not as ``--json <bool>``."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _without_types(command.get_params(ctx))
        return command

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options before a verb, their flags shown in the same way."""
        return _without_types(super().get_params(ctx))


class Verbs(Group):
    """The verbs, with every error as one sentence and an exit status.

    Statuses: 0 done, 1 an error the user can fix (one sentence on stderr; 3 where it is a faulty
    share of a GPU), 2 wrong usage, 130 interrupted.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the verbs in the order of the help."""
        verbs = super().list_commands(ctx)
        first = [verb for verb in _FIRST if verb in verbs]
        others = [verb for verb in verbs if verb not in _FIRST]
        return first + others

    def make_context(self, *words: Any, **more: Any) -> Any:
        """Parse the command line as typer does, with every error in a sentence."""
        with _printable_usage_errors(), _errors_as_sentences():
            return super().make_context(*words, **more)

    def invoke(self, ctx: Any) -> Any:
        """Run the verb as typer does, with every error in a sentence."""
        with _printable_usage_errors(), _errors_as_sentences():
            result = super().invoke(ctx)
            if sys.stdout is not None:  # None where it was closed
                sys.stdout.flush()
            return result


def _without_types(options: list[Any]) -> list[Any]:
    """Return the options with no type beside their flags."""
    for option in options:
        if getattr(option, "is_flag", False) and option.metavar is None:
            option.metavar = ""
    return options


@contextlib.contextmanager
def _errors_as_sentences() -> Iterator[None]:
    """Turn whatever goes wrong that a person can fix into one sentence and a status."""
    try:
        yield
    except UserError as error:
        _fail(str(error), error.status)
    except BrokenPipeError:
        # The reader of our output has left, as in `| head`: nobody is there to tell.
        silence_stdout()
        raise typer.Exit(141) from None
    except OSError as error:
        _fail(_os_error_sentence(error))
    except ModuleNotFoundError as error:
        from rmreader.cli.doctor import pip_line

        line = pip_line(error.name or "")
        if line is None:
            raise
        _fail(f"this needs the package {error.name}, which is not installed; {line} gets it.")
    except KeyboardInterrupt:
        _stay_interrupted()
        typer.echo("interrupted", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    except typer.Exit as leaving:
        if leaving.exit_code == _INTERRUPTED:
            _stay_interrupted()
        raise


def _stay_interrupted() -> None:
    """Let another Ctrl-C end the program at once, with the status that it is about to have."""
    if not _is_program.is_set():
        return

    def leave(*_: object) -> None:
        os._exit(_INTERRUPTED)

    signal.signal(signal.SIGINT, leave)
    # At its very end Python forgets handlers, and a signal would be the end once more.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def _os_error_sentence(error: OSError) -> str:
    """Say which file, what is wrong with it, and the remedy where there is one."""
    sentence = str(error.strerror or error)
    remedy = _REMEDIES.get(error.errno or 0, "")
    filename = error.filename or _blamed_stream(error)
    if filename:
        sentence = f"{filename}: {sentence}"
        remedy = remedy or "check the path"
    if remedy:
        sentence += f"; {remedy}"
    return f"{sentence}."


def _blamed_stream(error: OSError) -> str:
    """Name standard output where that cannot be written: such an error names no file.

    What could not be written is kept, unless PYTHONUNBUFFERED is set, so a flush fails again.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as again:
        if again.errno == error.errno:
            return "standard output"
    return ""


@contextlib.contextmanager
def _printable_usage_errors() -> Iterator[None]:
    """Replace control characters in what a usage error quotes of the command line."""
    try:
        yield
    except Exception as error:
        message = getattr(error, "message", None)
        if isinstance(message, str):
            error.message = printable(message)  # type: ignore[attr-defined]
        raise


def _fail(sentence: str, status: int = 1) -> None:
    typer.echo(f"error: {one_line(sentence).strip()}", err=True)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:  # a full disk, which the sentence says
        silence_stdout()
    raise typer.Exit(status)


def silence_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush raises no error."""
    with contextlib.suppress(OSError, ValueError, io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Give it a passage and a question, and it points at the answer.",
    epilog='Begin with: rmreader ask --text "The lamp was first lit in 1871." "When was it lit?"',
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
]


@app.callback()
def _root(version: Version = False) -> None:
    pass


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that lacks a letter still gets the rest.
            stream.reconfigure(errors="backslashreplace")
    _is_program.set()
    app(prog_name="rmreader")
