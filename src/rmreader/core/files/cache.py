"""The cache: where what is computed once is kept for the next time."""

import contextlib
import os
from pathlib import Path

from rmreader.core.errors import UserError, user_error_on


def cache_root(given: str | Path | None = None) -> Path:
    """Return the cache's folder: as given, else ``$RMREADER_CACHE``, else ``~/.cache/rmreader``."""
    root = Path(given or os.environ.get("RMREADER_CACHE") or "~/.cache/rmreader")
    no_home = "no home folder to keep computed data in; set RMREADER_CACHE to a folder."
    with user_error_on(no_home, RuntimeError):
        return root.expanduser()


def cache_folder(kind: str, given: str | Path | None = None) -> Path:
    """Return one kind's folder in the cache.

    Refused where other users can put something there, since we would trust it.
    """
    root = cache_root(given)
    for folder in (root, root / kind):
        # A folder that cannot be made is reported by whoever writes to it.
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _others_can_write(folder):
                raise UserError(
                    f"{folder}: other users can write to this cache; `chmod o-w` it if it is "
                    "yours, or set RMREADER_CACHE to a folder of your own."
                )
    return root / kind


def _others_can_write(folder: Path) -> bool:
    if not hasattr(os, "geteuid"):
        return False
    status = folder.stat()
    return bool(status.st_mode & 0o002) or status.st_uid not in (0, os.geteuid())
