"""The lab's command line. Each module adds its commands to ``app`` when it is imported."""

from lab.cli import data, members, study  # noqa: F401
from lab.cli.app import app, main

__all__ = ["app", "main"]
