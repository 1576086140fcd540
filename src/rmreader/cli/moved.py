"""Commands that are in the repository's lab now: each says where it went."""

import typer

from rmreader.cli.app import app
from rmreader.cli.data import data
from rmreader.core.errors import UserError

# Whatever follows, the answer is the same.
WORDS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


@app.command("study", hidden=True, context_settings=WORDS)
@app.command("members", hidden=True, context_settings=WORDS)
@data.command("cloze", hidden=True, context_settings=WORDS)
def moved(ctx: typer.Context) -> None:
    """Say where a command went."""
    command = f"python -m lab {ctx.info_name}"
    raise UserError(f"this has moved: in a checkout of the repository, run {command}.")
