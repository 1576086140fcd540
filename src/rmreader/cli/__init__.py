"""The command line: one verb per job, thin over the API.

Each module adds its verbs to ``app`` when it is imported.
"""

from rmreader.cli import data, documents, export, moved, predict, read, serve, tools, train  # noqa: F401
from rmreader.cli.app import app, main

__all__ = ["app", "main"]
