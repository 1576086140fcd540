"""Where a command may write, and files that take their place only when they are whole."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from rmreader.errors import UserError

LARGEST = 1 << 30  # bytes of a file that is read as a whole, unpacked
_RATIO, _FREE = 100, 64 << 20  # gzip may expand a file so many times, or to so many bytes whatever its size


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


def open_bytes(path: Path, packed: bool = False, content: bytes | None = None) -> IO[bytes]:
    """A file (or its ``content``) for reading, unpacked where it is gzip, or must be; refused where that never ends."""
    file = path.open("rb") if content is None else io.BufferedReader(io.BytesIO(content))
    packed = packed or file.peek(2)[:2] == b"\x1f\x8b"
    return io.BufferedReader(_Unpacked(path, file)) if packed else file


def read_bytes(path: Path, limit: int = LARGEST) -> bytes:
    """The content of a file, unpacked where it is gzip, of at most ``limit`` bytes."""
    content = io.BytesIO()
    with open_bytes(path) as file:
        while content.tell() <= limit and (block := file.read(1 << 20)):
            content.write(block)
    if content.tell() > limit:
        raise UserError(f"{path}: more than the {limit:,} bytes that it may have; give a smaller file.")
    return content.getvalue()


def read_json(path: Path, remedy: str, limit: int = LARGEST) -> Any:
    """What a JSON file says; one sentence, with the remedy, where it says nothing. A missing file is an ``OSError``."""
    try:
        return json.loads(read_bytes(path, limit).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (at byte {error.start}); {remedy}.") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise UserError(f"{path}: {place}: not valid JSON ({error.msg}); {remedy}.") from None
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits; brackets 5,000 deep
        raise UserError(f"{path}: not readable JSON ({type(error).__name__}); {remedy}.") from None


def parse_yaml(text: str) -> tuple[Any, Any]:
    """A YAML text as its root node and as plain data.

    ``ValueError`` where it nests deep or has aliases, of which a few lines unfold to gigabytes.
    """
    import yaml  # here, since most commands need no YAML

    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):  # as it comes, so that nothing is built before it is known to end
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > 20 or isinstance(event, yaml.AliasEvent):
            raise ValueError("it nests more than 20 deep" if depth > 20 else "it has an alias, *NAME: write it out")
    loader = yaml.SafeLoader(text)
    root = loader.get_single_node()
    return root, None if root is None else loader.construct_document(root)


class _Unpacked(io.RawIOBase):
    """The content of a gzip file, up to the size that an honest one may have."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path, self.file = path, file
        self.left = max(_FREE, _RATIO * file.seek(0, io.SEEK_END))
        file.seek(0)
        self.content = gzip.GzipFile(fileobj=file)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            count = self.content.readinto(buffer)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise UserError(f"{self.path}: the gzip data is cut short or damaged; fetch the file again.") from None
        self.left -= count
        if self.left < 0:
            raise UserError(
                f"{self.path}: the gzip data unfolds more than {_RATIO} times; if you trust it, unpack it first."
            )
        return count

    def close(self) -> None:
        self.content.close()
        self.file.close()
        super().close()


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
