"""The command line: one verb per job, thin over the API. Each module adds its verbs to ``app`` when it is imported."""

from rmreader.cli import (  # noqa: F401
    chat,
    data,
    export,
    learn,
    mcp,
    members,
    predict,
    read,
    serve,
    shelf,
    study,
    tools,
)
from rmreader.cli.app import app, main

__all__ = ["app", "main"]
