"""A reader in an archive, unpacked into the cache: every name and size is looked at first."""

import contextlib
import os
import re
import shutil
import stat
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urldefrag, urlsplit

from rmreader.core.errors import UserError, reason, user_error_on
from rmreader.core.files.manifest import damage, file_sha256
from rmreader.core.files.reading import open_bytes
from rmreader.data.download import File, fetch
from rmreader.readers.elsewhere import check_name
from rmreader.readers.folder import MANIFEST

MOST_FILES = 1_000
MOST_BYTES = 4 << 30
_RATIO = 100  # how many times as large as the archive its content may be
_FREE = 64 << 20  # bytes that it may have whatever the size of the archive
_BLOCK = 1 << 20
_TIMEOUT = 30.0  # seconds

Member = tuple[str, IO[bytes]]


def bring(address: str, place: Path) -> Path:
    """Fetch an archive and unpack it.

    Its SHA-256 may follow the address as ``#sha256=…``; without it the address must be https.
    """
    address, fragment = urldefrag(address)
    digest = fragment.removeprefix("sha256=").lower()
    if fragment and not re.fullmatch("[0-9a-f]{64}", digest):
        raise UserError(
            f"{address}: after # comes sha256= and 64 hexadecimal digits, not {fragment[:80]!r}."
        )
    if not digest and not address.startswith("https://"):
        raise UserError(
            f"{address}: without encryption anybody on the way can change it; give an https "
            "address, or add #sha256= and the archive's digest."
        )
    if digest and (place / digest).is_dir():
        return _reader_in(place / digest, address)
    name = Path(unquote(urlsplit(address).path)).name or "reader"
    check_name(name, address)
    arrived = place / "arriving" / f"{os.getpid()}-{os.urandom(4).hex()}"
    expected = f"sha256:{digest}" if digest else ""
    try:
        packed = fetch(File(name, address, _length(address), expected), arrived)
        return unpack(packed, place)
    finally:
        shutil.rmtree(arrived, ignore_errors=True)


def _length(address: str) -> int:
    """Ask how long an archive is."""
    request = urllib.request.Request(address, headers={"User-Agent": "rmreader"}, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as reply:
            length = reply.headers.get("Content-Length", "")
    except urllib.error.HTTPError as error:
        error.close()
        raise UserError(
            f"{address}: the server answered {error.code} {error.reason}; look at the address."
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(
            f"{address}: cannot be reached ({reason(error)}); download the archive by hand and "
            "give its file."
        ) from None
    if not length.isdigit() or not 0 < int(length) <= MOST_BYTES:
        raise UserError(
            f"{address}: the server does not say how long it is, or it is longer than "
            f"{MOST_BYTES >> 30} GiB; download the archive by hand and give its file."
        )
    return int(length)


def unpack(packed: Path, place: Path) -> Path:
    """Return the reader's folder out of an archive, from the cache where it is there already."""
    with user_error_on(f"{packed}: cannot be read ({{why}}).", OSError):
        digest = file_sha256(packed)
    target = place / digest
    if not target.is_dir():
        new = place / f".{digest[:16]}.{os.getpid()}-{os.urandom(4).hex()}"
        try:
            with user_error_on(f"{packed}: cannot be unpacked ({{why}}).", OSError):
                _unpack_into(new, packed)
                _reader_in(new, str(packed))
                # Another process may have been quicker; what it has is the same.
                with contextlib.suppress(FileExistsError):
                    _rename(new, target)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return _reader_in(target, str(packed))


def _rename(new: Path, target: Path) -> None:
    if target.is_dir():
        raise FileExistsError(target)
    os.rename(new, target)


def _reader_in(folder: Path, source: str) -> Path:
    """Return the one reader in a folder, compared with its checksums."""
    found = sorted(folder.glob(f"*/{MANIFEST}"))
    if len(found) != 1:
        raise UserError(
            f"{source}: it has {len(found)} readers and not one; give an archive of one "
            f"reader's folder, with {MANIFEST} at its top or in the one folder at its top."
        )
    reader = found[0].parent
    problem = damage(reader, MANIFEST)
    if problem is not None:
        raise UserError(f"{source}: {problem}; fetch it again from a source you trust.")
    return reader


def _unpack_into(new: Path, packed: Path) -> None:
    broken = (zipfile.BadZipFile, tarfile.TarError, EOFError, NotImplementedError, RuntimeError)
    with user_error_on(f"{packed}: a damaged archive ({{why}}); fetch it again.", *broken):
        members = _of_zip(packed) if zipfile.is_zipfile(packed) else _of_tar(packed)
        left = min(MOST_BYTES, max(_FREE, _RATIO * packed.stat().st_size))
        for count, (name, content) in enumerate(members):
            if count >= MOST_FILES:
                raise UserError(f"{packed}: refused, it has more than {MOST_FILES:,} files.")
            check_name(name, str(packed))
            # Where the reader is at the top, its folder is called after the archive.
            path = new / (name if "/" in name else f"{packed.name.split('.')[0]}/{name}")
            left -= _write(path, content, left, packed)


def _write(path: Path, content: IO[bytes], most: int, packed: Path) -> int:
    """Write one file, and return how many bytes it has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with path.open("xb") as out:
        while block := content.read(_BLOCK):
            written += len(block)
            if written > most:
                raise UserError(
                    f"{packed}: refused, it unfolds to far more than a reader is; "
                    "fetch it from a source you trust."
                )
            out.write(block)
    return written


def _of_zip(packed: Path) -> Iterator[Member]:
    with zipfile.ZipFile(packed) as archive:
        for entry in archive.infolist():
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _no_file(packed, entry.filename)
            if entry.is_dir():
                continue
            with archive.open(entry) as content:
                yield entry.filename.removeprefix("./"), content


def _of_tar(packed: Path) -> Iterator[Member]:
    with open_bytes(packed) as file, tarfile.open(fileobj=file, mode="r|") as archive:
        for entry in archive:
            if entry.isdir():
                continue
            content = archive.extractfile(entry) if entry.isreg() else None
            if content is None:
                raise _no_file(packed, entry.name)
            yield entry.name.removeprefix("./"), content


def _no_file(packed: Path, name: str) -> UserError:
    return UserError(
        f"{packed}: refused, since {name[:80]!r} in it is a link or a device, not a file."
    )
