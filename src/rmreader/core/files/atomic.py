"""Files that appear only when they are whole and on the disk, and locks between processes."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from rmreader.core.errors import UserError


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that appears when it is whole and on the disk."""
    with whole_file(path) as file:
        file.write(content)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to write piece by piece; it is put in place at the end, unless that fails.

    An error names ``path``, not the temporary file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Processes of several machines or containers may share both the folder and a process id.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        # "x": never through a link that somebody put there.
        with temporary.open("xb") as file:
            yield file
        put_in_place(temporary, path)
    except OSError as error:
        if error.filename not in (None, str(temporary)):
            # The error is about another file, one that the content comes from.
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def put_in_place(temporary: Path, path: Path) -> None:
    """Rename a file that is written to the end, once its content is on the disk."""
    sync(temporary)
    os.replace(temporary, path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    if os.name == "nt":  # Windows cannot open a folder
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def lock(path: Path, refusal: str | None = None) -> Iterator[None]:
    """Hold the lock of this file or folder against other processes.

    If another process holds it, wait, or refuse with the sentence ``refusal``. The lock ends with
    the process, however that ends. Where the system has no locks, none is held.
    """
    with contextlib.ExitStack() as leave:
        try:
            import fcntl

            descriptor = os.open(path, os.O_RDONLY)
            leave.callback(os.close, descriptor)
            mode = fcntl.LOCK_EX
            if refusal:
                mode |= fcntl.LOCK_NB
            fcntl.flock(descriptor, mode)
        except BlockingIOError:
            raise UserError(f"{path}: {refusal}") from None
        except (ImportError, OSError):
            pass
        yield
