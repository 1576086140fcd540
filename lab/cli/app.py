"""The typer application of the lab; errors are told as ``rmreader`` tells them."""

import typer

from rmreader.cli.app import Verbs

app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Measure the paper's claims, and make what the shipped readers learn from.",
)


def main() -> None:
    """Run the command line."""
    app(prog_name="python -m lab")
