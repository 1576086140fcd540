"""The version, readable where the package runs from its source folder without being installed."""

import datetime
import os
from pathlib import Path

__version__ = "0.2.0"


def commit() -> str:
    """The commit of this code, with + where it was changed; else ``RMREADER_COMMIT``, or the version."""
    words = "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+", "--exclude=*"
    return told("git", *words) or os.environ.get("RMREADER_COMMIT") or __version__


def provenance() -> dict[str, str]:
    """What every trained reader says of where it comes from: which version made it, and when."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"rmreader": __version__, "created": now}


def told(program: str, *words: str) -> str:
    """What a program prints; nothing where it fails or is absent."""
    import shutil
    import subprocess

    found = shutil.which(program)
    return subprocess.run([found, *words], capture_output=True, check=False).stdout.decode().strip() if found else ""
