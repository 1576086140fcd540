"""Files opened with a bound on their size, unpacked where they are compressed."""

import bz2
import gzip
import io
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from rmreader.core.errors import UserError, user_error_on

LARGEST = 1 << 30
"""Bytes that a file may have, unpacked, where it is read as a whole."""

# Unpacking may expand a file this many times, or to this many bytes whatever its size.
_RATIO = 100
_FREE = 64 << 20


def open_bytes(path: Path, packed: bool = False, content: bytes | None = None) -> IO[bytes]:
    """Open a file (or its ``content``) for reading.

    It is unpacked where it is gzip, or ``packed`` says that it must be, or it is called ``.bz2``;
    refused where unpacking never ends.
    """
    file = path.open("rb") if content is None else io.BufferedReader(io.BytesIO(content))
    if packed or path.suffix == ".bz2" or file.peek(2)[:2] == b"\x1f\x8b":
        return io.BufferedReader(_Unpacked(path, file))
    return file


def read_bytes(path: Path, limit: int = LARGEST) -> bytes:
    """Read a file, unpacked where it is gzip, of at most ``limit`` bytes."""
    content = io.BytesIO()
    with open_bytes(path) as file:
        while content.tell() <= limit:
            block = file.read(1 << 20)
            if not block:
                break
            content.write(block)
    if content.tell() > limit:
        raise UserError(
            f"{path}: more than the {limit:,} bytes that it may have; give a smaller file."
        )
    return content.getvalue()


def read_json(path: Path, remedy: str, limit: int = LARGEST) -> Any:
    """Read a JSON file; what is no JSON is refused in one sentence that ends with ``remedy``.

    A missing file is an ``OSError``.
    """
    try:
        return json.loads(read_bytes(path, limit).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (at byte {error.start}); {remedy}.") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise UserError(f"{path}: {place}: not valid JSON ({error.msg}); {remedy}.") from None
    except (ValueError, RecursionError) as error:
        # A number of 5,000 digits, or brackets 5,000 deep.
        kind = type(error).__name__
        raise UserError(f"{path}: not readable JSON ({kind}); {remedy}.") from None


def read_records(path: Path, check: Callable[[Any], object], refusal: str) -> list[dict[str, Any]]:
    """Read a file with one JSON object per line, if it is there.

    A last line cut off by a kill is left out. A line that ``check`` raises an error for is refused.
    """
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    lines.pop()  # what comes after the last newline is empty, or cut off
    wrong = (ValueError, TypeError, LookupError, AttributeError)
    records: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        with user_error_on(f"{path}: line {number} {refusal}", *wrong):
            record = json.loads(line)
            check(record)
            records.append(record)
    return records


class _Unpacked(io.RawIOBase):
    """The content of a gzip or bzip2 file, up to the size that an honest one may have."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path = path
        self.file = file
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        self.left = max(_FREE, _RATIO * size)
        self.kind = "bzip2" if path.suffix == ".bz2" else "gzip"
        self.content = bz2.BZ2File(file) if self.kind == "bzip2" else gzip.GzipFile(fileobj=file)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            count = self.content.readinto(buffer)
        except (EOFError, zlib.error, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                # From the disk, not from the decompressor.
                raise
            raise UserError(
                f"{self.path}: the {self.kind} data is cut short or damaged; fetch the file again."
            ) from None
        self.left -= count
        if self.left < 0:
            raise UserError(
                f"{self.path}: the {self.kind} data unfolds more than {_RATIO} times; "
                "if you trust it, unpack it first."
            )
        return count

    def close(self) -> None:
        self.content.close()
        self.file.close()
        super().close()
