"""Where a command may write, and files that take their place only when they are whole."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from rmreader.errors import UserError


def file_to_write(out: Path, *inputs: Path) -> Path:
    """The file that ``out`` means, links followed; refused, before any work, where writing it would do harm: it is no
    ordinary file, or one of the ``inputs``, or lies in a folder among them."""
    if str(out) == "-":
        raise UserError("-: standard output is not written to; give the name of a file.")
    real = Path(os.path.realpath(out))
    if real.is_dir():
        raise UserError(f"{out}: a folder; give the file to write.")
    if real.is_symlink() or (real.exists() and not real.is_file()):  # a circle of links, a pipe, a device
        raise UserError(f"{out}: not an ordinary file; give another name.")
    _keep_apart(out, inputs)
    _may_write(out, real)
    return real


def folder_to_write(out: Path, *inputs: Path) -> Path:
    """The folder beside ``out`` in which it is made, ``OUT.new``; refused where either is there already, or where
    ``out`` lies in one of the ``inputs``."""
    new = out.with_name(f"{out.name}.new") if out.name else out
    for path in (out, new):
        if os.path.lexists(path):
            raise UserError(f"{path}: there already; remove it or choose another place.")
    _keep_apart(out, inputs)
    _may_write(out, Path(os.path.realpath(out)))
    return new


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that appears when it is whole; an error names it, not what stands in for it meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def lock(path: Path, refusal: str | None = None) -> Iterator[None]:
    """Within, no other process holds the lock of this file or folder. Another one's is waited for, or refused with the
    sentence ``refusal``. It ends with the process, in whatever way; where the system has no locks, none is held."""
    with contextlib.ExitStack() as leave:
        try:
            import fcntl

            descriptor = os.open(path, os.O_RDONLY)
            leave.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | (fcntl.LOCK_NB if refusal else 0))
        except BlockingIOError:
            raise UserError(f"{path}: {refusal}") from None
        except (ImportError, OSError):
            pass
        yield


def _keep_apart(out: Path, inputs: tuple[Path, ...]) -> None:
    real = Path(os.path.realpath(out))
    for source in inputs:
        if any(path.exists() and source.exists() and path.samefile(source) for path in (real, *real.parents)):
            raise UserError(f"{out}: it is, or lies in, {source}, which this command reads; choose another place.")


def _may_write(out: Path, real: Path) -> None:
    nearest = next(path for path in (real, *real.parents) if path.exists())
    if nearest != real and not nearest.is_dir():
        raise UserError(f"{out}: {nearest} is a file, not a folder; choose another place.")
    if not os.access(nearest, os.W_OK):
        raise UserError(f"{out}: {nearest} may not be written; choose another place.")
