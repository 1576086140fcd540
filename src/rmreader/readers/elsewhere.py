"""Readers that lie elsewhere: on the Hugging Face hub, at an address, in an archive.

Each is brought into the cache once, compared with its own checksums, and read from there.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from rmreader.core.errors import UserError
from rmreader.core.files.cache import cache_folder, cache_root

HUB = "hf://"
_WEB = ("https://", "http://")
_PACKED = (".zip", ".tar", ".tar.gz", ".tgz")


def is_elsewhere(name: str) -> bool:
    """Whether this names a reader that has to be fetched or unpacked before it can be opened."""
    if name.startswith((HUB, *_WEB)):
        return True
    return name.lower().endswith(_PACKED) and os.path.isfile(name)


def bring(name: str) -> Path:
    """Return the folder in the cache that has the reader of this name, whole."""
    # These know HTTP and archives, which take longer to import than a reader to load.
    from rmreader.readers import archive, hub

    if name.startswith(HUB):
        return hub.bring(name.removeprefix(HUB), _place("hub"))
    if name.startswith(_WEB):
        return archive.bring(name, _place("archives"))
    return archive.unpack(Path(name), _place("archives"))


def cached() -> Iterator[Path]:
    """Yield the folder of every reader in the cache."""
    from rmreader.readers.folder import MANIFEST

    root = cache_root() / "readers"
    # Two levels of folders, a reader's own, and in it those of an ensemble.
    for depth in ("hub/*/*/*", "archives/*/*"):
        for manifest in sorted(root.glob(f"{depth}/{MANIFEST}")):
            yield manifest.parent


def _place(kind: str) -> Path:
    place = cache_folder("readers") / kind
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{place}: cannot be made ({error.strerror}); set RMREADER_CACHE to a folder of "
            "your own."
        ) from None
    return place


def check_name(name: str, source: str) -> None:
    """Refuse the name of a file that would be written outside the reader's folder."""
    parts = name.split("/")
    odd = "\\" in name or ":" in name or not name.isprintable()
    if odd or len(name) > 255 or any(part in ("", ".", "..") for part in parts):
        raise UserError(
            f"{source}: refused, since it has a file called {name[:80]!r}, which is not a name "
            "within a reader's folder."
        )
