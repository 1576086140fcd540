"""Folders under a manifest of checksums, replaced as a whole and repaired after a kill."""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rmreader.core.errors import UserError
from rmreader.core.files.atomic import sync, write_whole

CARD = "README.md"
"""The card of a folder is for people, who may correct it, so it is under no checksum."""

_LARGEST_MANIFEST = 16 << 20  # bytes


def write_folder(
    target: Path,
    manifest: str,
    fill: Callable[[Path], dict[str, Any]],
    keep_previous: bool = False,
) -> None:
    """Replace the folder ``target``, never leaving a moment without a whole one on the disk.

    It is written beside its place as ``NAME.new``, file by file down to the disk, its manifest with
    the SHA-256 of every file last; then two renames put it in place. ``fill`` writes the files into
    the folder that it is given and returns what the manifest says beside the checksums. ``settle``
    repairs what a kill between any two of these steps leaves.
    """
    new = _sibling(target, "new")
    old = _sibling(target, "old")
    try:
        _remove(new)
        new.mkdir(parents=True)
        sign(new, manifest, fill(new))
        for path in [*new.rglob("*"), new]:
            sync(path)
    except (Exception, KeyboardInterrupt) as error:
        # What is not finished only takes room.
        with contextlib.suppress(OSError):
            _remove(new)
        why = _write_failure(error)
        if why is None:
            raise
        raise UserError(
            f"{target}: cannot be written ({why}); make room or choose another place. "
            "What was there is unharmed."
        ) from None
    if target.exists():
        _remove(old)
        os.rename(target, old)
    os.rename(new, target)
    sync(target.parent)
    if not keep_previous:
        _remove(old)


def _write_failure(error: BaseException) -> str | None:
    """Say why a file could not be written; None where the error is about something else."""
    from safetensors import SafetensorError

    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, (OSError, SafetensorError)):
        return " ".join(str(error).split())
    return None


def sign(folder: Path, manifest: str, about: dict[str, Any]) -> None:
    """Write a folder's manifest: ``about``, and the checksum of every other file but the card."""
    checksums = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name != manifest and not name.endswith(CARD):
            checksums[name] = file_sha256(path)
    content = json.dumps({**about, "checksums": checksums}, indent=1) + "\n"
    write_whole(folder / manifest, content.encode())


def settle(target: Path, manifest: str) -> list[str]:
    """Put the newest whole folder in its place after a kill or damage; say what had to be done.

    Afterwards ``target`` is whole or absent. A damaged folder is set aside as ``NAME.damaged``,
    never deleted.
    """
    problem = damage(target, manifest)
    if problem is None:
        return []
    notes = []
    if target.exists():
        aside = _sibling(target, "damaged")
        _remove(aside)
        os.rename(target, aside)
        notes.append(f"{target}/{problem}; it is set aside as {aside.name}.")
    # The new one first: a kill between the two renames leaves both, and the new one is newer.
    for suffix in ("new", "old"):
        candidate = _sibling(target, suffix)
        if damage(candidate, manifest) is None:
            os.rename(candidate, target)
            if notes:
                notes.append(f"{target}: going on from {candidate.name}, the last whole one.")
            break
    return notes


def damage(folder: Path, manifest: str) -> str | None:
    """Say what is wrong with a folder that ``write_folder`` wrote; None where it is whole.

    The sentence begins with the name of the file.
    """
    try:
        checksums = read_manifest(folder / manifest)["checksums"]
    except FileNotFoundError:
        return f"{manifest}: missing"
    except (OSError, ValueError) as error:
        return f"{manifest}: damaged ({error})"
    root = os.path.realpath(folder)
    for name, checksum in checksums.items():
        path = os.path.realpath(folder / name)
        if not path.startswith(root + os.sep):
            return f"{manifest}: damaged (it names {name!r}, which lies outside)"
        if name.endswith(CARD):
            continue
        if not os.path.isfile(path):
            return f"{name}: missing"
        try:
            actual = file_sha256(Path(path))
        except FileNotFoundError:  # just now: another process replaces the folder
            return f"{name}: missing"
        if actual != checksum:
            return f"{name}: damaged (its checksum is not the one in {manifest})"
    return None


def read_manifest(path: Path) -> dict[str, Any]:
    """Read a folder's manifest; ``ValueError`` where it is none."""
    with path.open("rb") as file:
        content = file.read(_LARGEST_MANIFEST + 1)
    if len(content) > _LARGEST_MANIFEST:
        raise ValueError("too large")
    try:
        tree = json.loads(content)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(tree, dict) or not isinstance(tree.get("checksums"), dict):
        raise ValueError("it has no checksums")
    for name, checksum in tree["checksums"].items():
        if not isinstance(checksum, str) or "\0" in name:
            raise ValueError("it has no checksums")
        if len(name) > 255:
            raise ValueError("a name in it is too long")
    return tree


def file_sha256(path: Path, kind: str = "sha256") -> str:
    """Return the SHA-256 of a file in hexadecimal, or another digest by its name in ``hashlib``."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def _sibling(target: Path, suffix: str) -> Path:
    return target.with_name(f"{target.name}.{suffix}")


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
