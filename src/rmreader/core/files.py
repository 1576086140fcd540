"""Files and folders: where a command may write, what takes its place only when it is whole, what is opened with a bound
on its size, checksums, locks, and the cache."""

import bz2
import contextlib
import gzip
import hashlib
import io
import json
import os
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from rmreader.core.errors import UserError, quoted, user_error_on

LARGEST = 1 << 30  # bytes of a file that is read as a whole, unpacked
_RATIO, _FREE = 100, 64 << 20  # unpacking may expand a file so many times, or to so many bytes whatever its size
CARD = "README.md"  # of a folder with a manifest: for people, who may correct it, so it is under no checksum
_MANIFEST = 16 << 20  # bytes of a manifest


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
    _check_place(out, real, inputs)
    return real


def folder_to_write(out: Path, *inputs: Path) -> Path:
    """The folder beside ``out`` in which it is made, ``OUT.new``; refused where either is there already, or where
    ``out`` lies in one of the ``inputs``."""
    new = out.with_name(f"{out.name}.new") if out.name else out
    for path in (out, new):
        if os.path.lexists(path):
            raise UserError(f"{path}: there already; remove it or choose another place.")
    _check_place(out, Path(os.path.realpath(out)), inputs)
    return new


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that appears when it is whole and on the disk; an error names it, not its temporary place."""
    with written_whole(path) as file:
        file.write(content)


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """The same for content that comes piece by piece: a file to write to, put in place at the end unless that fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # processes of several machines, or containers, may share both the folder and a number
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        with temporary.open("xb") as file:  # never through a link that somebody put there
            yield file
        put_in_place(temporary, path)
    except OSError as error:
        if error.filename not in (None, str(temporary)):  # another file, which the content comes from
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def put_in_place(temporary: Path, path: Path) -> None:
    """Rename a file that is written to the end, once its content is on the disk."""
    _to_disk(temporary)
    os.replace(temporary, path)
    _to_disk(path.parent)


def write_folder(
    target: Path, manifest: str, fill: Callable[[Path], dict[str, Any]], keep_previous: bool = False
) -> None:
    """Replace the folder ``target``, never leaving a moment without a whole one on the disk.

    It is written beside its place as ``NAME.new``, file by file down to the disk, its manifest with the SHA-256 of
    every file last; then two renames put it in place. ``fill`` writes the files into the folder that it is given and
    returns what the manifest says beside the checksums. ``settle`` undoes what a kill between any two acts leaves.
    """
    from safetensors import SafetensorError

    new, old = _beside(target, "new"), _beside(target, "old")
    try:
        _remove(new)
        new.mkdir(parents=True)
        sign(new, manifest, fill(new))
        for path in [*new.rglob("*"), new]:
            _to_disk(path)
    except (Exception, KeyboardInterrupt) as error:
        with contextlib.suppress(OSError):  # what is not finished only takes room
            _remove(new)
        if isinstance(error, (OSError, SafetensorError)):
            why = error.strerror if isinstance(error, OSError) and error.strerror else " ".join(str(error).split())
            raise UserError(
                f"{target}: cannot be written ({why}); make room or choose another place. What was there is unharmed."
            ) from None
        raise
    if target.exists():
        _remove(old)
        os.rename(target, old)
    os.rename(new, target)
    _to_disk(target.parent)
    if not keep_previous:
        _remove(old)


def sign(folder: Path, manifest: str, about: dict[str, Any]) -> None:
    """Write a folder's manifest: what it says, and the checksum of every other file but the card."""
    names = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
    sums = {name: file_sha256(folder / name) for name in names if name != manifest and not name.endswith(CARD)}
    write_whole(folder / manifest, (json.dumps({**about, "checksums": sums}, indent=1) + "\n").encode())


def settle(target: Path, manifest: str) -> list[str]:
    """Put the newest whole folder in its place after a kill or damage; says in sentences what had to be done.

    Afterwards ``target`` is whole or absent. A damaged folder is set aside as ``NAME.damaged``, never deleted.
    """
    problem = damage(target, manifest)
    if problem is None:
        return []
    notes = []
    if target.exists():
        _remove(_beside(target, "damaged"))
        os.rename(target, _beside(target, "damaged"))
        notes.append(f"{target}/{problem}; it is set aside as {target.name}.damaged.")
    for suffix in ("new", "old"):  # in this order: a kill between the renames leaves both, and the new one is newer
        candidate = _beside(target, suffix)
        if damage(candidate, manifest) is None:
            os.rename(candidate, target)
            if notes:
                notes.append(f"{target}: going on from {candidate.name}, the last whole one.")
            break
    return notes


def damage(folder: Path, manifest: str) -> str | None:
    """What is wrong with a folder that ``write_folder`` wrote, the file first; None where it is whole."""
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
            right = file_sha256(Path(path)) == checksum
        except FileNotFoundError:  # just now: another process replaces the folder
            return f"{name}: missing"
        if not right:
            return f"{name}: damaged (its checksum is not the one in {manifest})"
    return None


def read_manifest(path: Path) -> dict[str, Any]:
    """What a folder's manifest says; ``ValueError`` where it is none."""
    with path.open("rb") as file:
        content = file.read(_MANIFEST + 1)
    if len(content) > _MANIFEST:
        raise ValueError("too large")
    try:
        tree = json.loads(content)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    sums = tree.get("checksums") if isinstance(tree, dict) else None
    if not isinstance(sums, dict) or any(not isinstance(sums[name], str) or "\0" in name for name in sums):
        raise ValueError("it has no checksums")
    if any(len(name) > 255 for name in sums):
        raise ValueError("a name in it is too long")
    found: dict[str, Any] = tree
    return found


def file_sha256(path: Path, kind: str = "sha256") -> str:
    """The SHA-256 of a file (or another digest by its name in ``hashlib``), in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


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


def cache_root(given: str | Path | None = None) -> Path:
    """Where what is computed once is kept: as given, else ``$RMREADER_CACHE``, else ``~/.cache/rmreader``."""
    with user_error_on("no home folder to keep computed data in; set RMREADER_CACHE to a folder.", RuntimeError):
        return Path(given or os.environ.get("RMREADER_CACHE") or "~/.cache/rmreader").expanduser()


def cache_folder(kind: str, given: str | Path | None = None) -> Path:
    """One kind's folder in the cache; refused where other users can put something there, since it would be believed."""
    root = cache_root(given)
    for folder in (root, root / kind):
        with contextlib.suppress(OSError):  # whoever writes there says so
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = folder.stat()
            if hasattr(os, "geteuid") and (found.st_mode & 0o002 or found.st_uid not in (0, os.geteuid())):
                raise UserError(
                    f"{folder}: other users can write to this cache; `chmod o-w` it if it is yours, or set "
                    "RMREADER_CACHE to a folder of your own."
                )
    return root / kind


def open_bytes(path: Path, packed: bool = False, content: bytes | None = None) -> IO[bytes]:
    """A file (or its ``content``) for reading, unpacked where it is gzip, or must be, or is called ``.bz2``; refused
    where that never ends."""
    file = path.open("rb") if content is None else io.BufferedReader(io.BytesIO(content))
    packed = packed or path.suffix == ".bz2" or file.peek(2)[:2] == b"\x1f\x8b"
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


def read_records(path: Path, check: Callable[[Any], object], refusal: str) -> list[dict[str, Any]]:
    """The objects of a file with one line of JSON each, if it is there; a last line cut off by a kill is left out, one
    that ``check`` finds a fault with is refused."""
    found: list[dict[str, Any]] = []
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1] if path.is_file() else []
    for number, line in enumerate(lines, 1):
        with user_error_on(f"{path}: line {number} {refusal}", ValueError, TypeError, LookupError, AttributeError):
            found.append(json.loads(line))
            check(found[-1])
    return found


def parse_yaml(text: str) -> Any:
    """A YAML text as plain data.

    ``ValueError`` where it nests deep or has aliases, of which a few lines unfold to gigabytes, or has a key twice, of
    which the last would silently win.
    """
    import yaml  # here, since most commands need no YAML

    depth, safe = 0, getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C ten times as fast, where it was compiled
    for event in yaml.parse(text, safe):  # as it comes, so that nothing is built before it is known to end
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > 20 or isinstance(event, yaml.AliasEvent):
            raise ValueError("it nests more than 20 deep" if depth > 20 else "it has an alias, *NAME: write it out")
    loader = safe(text)
    inside = [root := loader.get_single_node()]
    tree = None if root is None else loader.construct_document(root)
    while inside:
        if isinstance(node := inside.pop(), yaml.MappingNode):
            for key, count in Counter(str(key.value) for key, _ in node.value).items():
                if count > 1:
                    raise ValueError(f"the key {quoted(key)} is there twice: leave one of them")
            inside += [value for _, value in node.value]
    return tree


class _Unpacked(io.RawIOBase):
    """The content of a gzip or bzip2 file, up to the size that an honest one may have."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path, self.file = path, file
        self.left = max(_FREE, _RATIO * file.seek(0, io.SEEK_END))
        file.seek(0)
        self.kind = "bzip2" if path.suffix == ".bz2" else "gzip"
        self.content = bz2.BZ2File(file) if self.kind == "bzip2" else gzip.GzipFile(fileobj=file)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            count = self.content.readinto(buffer)
        except (EOFError, zlib.error, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # the disk's, not the decompressor's
                raise
            raise UserError(
                f"{self.path}: the {self.kind} data is cut short or damaged; fetch the file again."
            ) from None
        self.left -= count
        if self.left < 0:
            raise UserError(
                f"{self.path}: the {self.kind} data unfolds more than {_RATIO} times; if you trust it, unpack it first."
            )
        return count

    def close(self) -> None:
        self.content.close()
        self.file.close()
        super().close()


def _check_place(out: Path, real: Path, inputs: tuple[Path, ...]) -> None:
    for source in inputs:
        if any(path.exists() and source.exists() and path.samefile(source) for path in (real, *real.parents)):
            raise UserError(f"{out}: it is, or lies in, {source}, which this command reads; choose another place.")
    nearest = next(path for path in (real, *real.parents) if path.exists())
    if nearest != real and not nearest.is_dir():
        raise UserError(f"{out}: {nearest} is a file, not a folder; choose another place.")
    if not os.access(nearest, os.W_OK):
        raise UserError(f"{out}: {nearest} may not be written; choose another place.")


def _beside(target: Path, suffix: str) -> Path:
    return target.with_name(f"{target.name}.{suffix}")


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _to_disk(path: Path) -> None:
    if os.name == "nt":  # which opens no folder
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
