"""Commands that are in the repository's lab now: each says where it went."""

from typing import Annotated

import typer

from rmreader.cli.app import app
from rmreader.cli.data import data
from rmreader.core.errors import UserError

# Whatever follows, the answer is the same.
WORDS = {"ignore_unknown_options": True, "help_option_names": []}
Rest = Annotated[list[str] | None, typer.Argument(hidden=True)]


def _moved(old: str, new: str) -> None:
    raise UserError(f"rmreader {old} has moved; in a checkout, run python -m lab {new}.")


@app.command(hidden=True, context_settings=WORDS)
def study(rest: Rest = None) -> None:
    """Moved to the lab."""
    _moved("study", "study")


@app.command(hidden=True, context_settings=WORDS)
def members(rest: Rest = None) -> None:
    """Moved to the lab."""
    _moved("members", "members")


@data.command(hidden=True, context_settings=WORDS)
def cloze(rest: Rest = None) -> None:
    """Moved to the lab."""
    _moved("data cloze", "cloze")
