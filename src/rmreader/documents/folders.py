"""The files of a folder that are to be indexed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from rmreader.core.errors import UserError

_BESIDE = (
    "",
    "-wal",
    "-shm",
    "-journal",
    ".new",
    ".new-journal",
)  # files of an index, by how they end


@dataclass(frozen=True)
class FileSelection:
    """Which files of a folder are wanted, by patterns such as ``*.md`` or ``drafts/*``.

    A pattern without a slash fits every file and folder of that name, however deep. One with a
    slash fits paths from the top of the folder. What fits a folder fits all that is in it.
    """

    include: Sequence[str] = ()
    """If there are any, only files that fit one of them."""
    exclude: Sequence[str] = ()
    """Files that fit one of these are left out."""

    def wants(self, file: str) -> bool:
        """Whether a file, by its path in the folder, is wanted."""
        if self.include and not any(_fits(file, pattern) for pattern in self.include):
            return False
        return not any(_fits(file, pattern) for pattern in self.exclude)


def list_files(
    folder: Path, index: Path | None = None, selection: FileSelection | None = None
) -> tuple[str, list[str]]:
    """The root of a folder or of a single file, and the paths in it.

    Links are not followed. Hidden files and the ``index`` itself are left out.
    """
    place = Path(os.path.realpath(folder))
    if not is_unicode(str(place)):
        raise UserError(
            f"{str(place)!a}: a name in this path is not UTF-8; rename that folder or file."
        )
    if place.is_file():
        return place.parent.as_posix(), [place.name]
    if not place.is_dir():
        raise UserError(f"{folder}: no such folder or file; check the path.")
    own = set()
    if index is not None:
        own = {f"{os.path.realpath(index)}{suffix}" for suffix in _BESIDE}
    wanted = selection or FileSelection()
    files: list[str] = []
    for path in _walk(place):
        file = Path(path).relative_to(place).as_posix()
        if path not in own and wanted.wants(file):
            files.append(file)
    return place.as_posix(), sorted(files)


def is_unicode(name: str) -> bool:
    """Whether a name of a file is UTF-8, so that it can be kept and shown."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _walk(place: Path) -> Iterator[str]:
    """Every ordinary file under a folder."""
    waiting = [str(place)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        yield entry.path
        except OSError as error:
            raise UserError(
                f"{error.filename}: cannot be read ({error.strerror}); check its permissions."
            ) from None


def _fits(file: str, pattern: str) -> bool:
    pattern = pattern.removeprefix("./").rstrip("/")
    parts = file.split("/")
    if "/" not in pattern:
        return any(fnmatchcase(part, pattern) for part in parts)
    paths = ("/".join(parts[: count + 1]) for count in range(len(parts)))
    return any(fnmatchcase(path, pattern) for path in paths)
