"""``rmreader serve``: the HTTP API and the web page."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from typing import Any

import typer

from rmreader.cli.app import app
from rmreader.cli.read import Model
from rmreader.serving.settings import Settings
from rmreader.settings import field_help


def serve(model: Model = "small", **settings: Any) -> None:
    """Serve a reader: the web page at /, the API under /v1. SIGTERM or Ctrl-C ends it in order."""
    from rmreader.serving.server import serve as run

    run(model, Settings(**settings))


def _options() -> list[inspect.Parameter]:
    """One option for each field of the settings, with the field's help."""
    helps, types = field_help(Settings), typing.get_type_hints(Settings)
    options = []
    for field in dataclasses.fields(Settings):
        variable = "RMREADER_API_KEY" if field.name == "api_key" else None
        option = typer.Option(field.default, help=helps[field.name], envvar=variable)
        keyword = inspect.Parameter.KEYWORD_ONLY
        options.append(inspect.Parameter(field.name, keyword, default=option, annotation=types[field.name]))
    return options


_model = inspect.signature(serve, eval_str=True).parameters["model"]
_signature = inspect.Signature([_model, *_options()])
serve.__signature__ = _signature  # type: ignore[attr-defined]
serve.__annotations__ = {name: parameter.annotation for name, parameter in _signature.parameters.items()}
app.command()(serve)
