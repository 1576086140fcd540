"""Whether every reader on this machine is as it was written: checksums of all their files."""

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from rmreader.core.files.manifest import damage
from rmreader.readers.elsewhere import cached
from rmreader.readers.folder import MANIFEST, SHIPPED, find

WHOLE = "whole"
UNLISTED = "not compared: a checkout has no list of its files"
_SHARED = ("vectors", "retrieval")  # what the shipped readers and the search share


@dataclass(frozen=True)
class Verified:
    """A reader's folder, or a file that readers share, and how it is."""

    name: str
    path: str
    state: str  # WHOLE, UNLISTED, or what is wrong

    @property
    def is_damaged(self) -> bool:
        """Whether something is wrong with it."""
        return self.state not in (WHOLE, UNLISTED)


def verify(name: str = "") -> list[Verified]:
    """Compare one reader with its checksums; without a name every shipped and every cached one."""
    if name:
        return [_reader(name, find(name))]
    shipped = [manifest.parent for manifest in sorted(SHIPPED.glob(f"*/{MANIFEST}"))]
    found = [_reader(path.name, path) for path in shipped]
    found += _shared()
    found += [_reader(path.name, path) for path in cached()]
    return found


def _reader(name: str, path: Path) -> Verified:
    return Verified(name, str(path), damage(path, MANIFEST) or WHOLE)


def _shared() -> Iterator[Verified]:
    """Compare what lies beside the readers with the list that the wheel brought."""
    listed = _listed()
    for kind in _SHARED:
        for path in sorted((SHIPPED / kind).glob("*.safetensors")):
            digest = listed.get(f"rmreader/readers/shipped/{kind}/{path.name}")
            if digest is None:
                state = UNLISTED
            elif digest == _digest(path):
                state = WHOLE
            else:
                state = f"{path.name}: damaged (its checksum is not the one in the wheel's list)"
            yield Verified(f"{kind}/{path.stem}", str(path), state)


def _listed() -> dict[str, str]:
    """Return the SHA-256 of every installed file, as the wheel's list has it."""
    try:
        files = metadata.files("rmreader") or []
    except metadata.PackageNotFoundError:
        return {}
    return {file.as_posix(): file.hash.value for file in files if file.hash is not None}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
