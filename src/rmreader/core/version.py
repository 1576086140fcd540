"""The version, readable where the package runs from its source folder without being installed."""

import datetime
import os
from pathlib import Path

from rmreader.core.processes import stdout_of

__version__ = "0.2.0"
"""Of what is worked on here; a build has its tag's in its place (``release/version.py``)."""


def commit() -> str:
    """Return the commit of this code, with + where it was changed.

    Outside a repository it is ``RMREADER_COMMIT``, or the version.
    """
    folder = str(Path(__file__).parent)
    described = stdout_of("git", "-C", folder, "describe", "--always", "--dirty=+", "--exclude=*")
    return described or os.environ.get("RMREADER_COMMIT") or __version__


def provenance() -> dict[str, str]:
    """Return what every trained reader says of its origin: which version made it, and when."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"rmreader": __version__, "created": now}
