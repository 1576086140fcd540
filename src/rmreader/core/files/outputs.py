"""Where a command may write, decided before any work is done."""

import os
from pathlib import Path

from rmreader.core.errors import UserError


def file_to_write(out: Path, *inputs: Path) -> Path:
    """Return the file that ``out`` means, links followed.

    Refused where writing it would do harm: it is no ordinary file, or it is one of the ``inputs``
    or lies in a folder among them.
    """
    if str(out) == "-":
        raise UserError("-: standard output is not written to; give the name of a file.")
    real = Path(os.path.realpath(out))
    if real.is_dir():
        raise UserError(f"{out}: a folder; give the file to write.")
    # A circle of links, a pipe, a device.
    if real.is_symlink() or (real.exists() and not real.is_file()):
        raise UserError(f"{out}: not an ordinary file; give another name.")
    _check_place(out, real, inputs)
    return real


def folder_to_write(out: Path, *inputs: Path) -> Path:
    """Return the folder beside ``out`` in which it is made, ``OUT.new``.

    Refused where either is there already, or where ``out`` lies in one of the ``inputs``.
    """
    new = out.with_name(f"{out.name}.new") if out.name else out
    for path in (out, new):
        if os.path.lexists(path):
            raise UserError(f"{path}: there already; remove it or choose another place.")
    _check_place(out, Path(os.path.realpath(out)), inputs)
    return new


def _check_place(out: Path, real: Path, inputs: tuple[Path, ...]) -> None:
    places = (real, *real.parents)
    for source in inputs:
        if source.exists() and any(path.exists() and path.samefile(source) for path in places):
            raise UserError(
                f"{out}: it is, or lies in, {source}, which this command reads; "
                "choose another place."
            )
    nearest = next(path for path in places if path.exists())
    if nearest != real and not nearest.is_dir():
        raise UserError(f"{out}: {nearest} is a file, not a folder; choose another place.")
    if not os.access(nearest, os.W_OK):
        raise UserError(f"{out}: {nearest} may not be written; choose another place.")
