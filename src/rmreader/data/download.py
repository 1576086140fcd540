"""The public data sets from their official addresses: checked, resumable after a cut connection, never half-written."""

from __future__ import annotations

import http.client
import re
import shutil
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rmreader.console import progress
from rmreader.errors import UserError
from rmreader.files import file_sha256, put_in_place

CHUNK = 1 << 16


@dataclass(frozen=True)
class File:
    """One file at a fixed address."""

    name: str
    url: str
    size: int  # bytes
    digest: str = ""  # "md5:…" or "sha256:…"; empty where the publisher gives none, so that the size alone is checked
    member: str = ""  # the one file wanted out of a zip archive; the archive is removed once it is extracted


SQUAD = "https://rajpurkar.github.io/SQuAD-explorer/dataset/"
CODALAB = "https://worksheets.codalab.org/rest/bundles/"
ELMO = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/2x4096_512_2048cnn_2xhighway/"

SETS: dict[str, tuple[File, ...]] = {
    "squad": (
        File("train-v1.1.json", SQUAD + "train-v1.1.json", 30_288_272, "md5:981b29407e0affa3b1b156f72073b945"),
        File("dev-v1.1.json", SQUAD + "dev-v1.1.json", 4_854_279, "md5:3e85deb501d4e538b6bc56f786231552"),
    ),
    "adversarial": (
        File(
            "addsent.json",
            CODALAB + "0xb765680b60c64d088f5daccac08b3905/contents/blob/",
            4_073_864,
            "sha256:40e3602aa5195cdacd03904a9c301ceb17ccf730cc32bd3ab998b66b4401e660",
        ),
        File(
            "addonesent.json",
            CODALAB + "0x3ac9349d16ba4e7bb9b5920e3b1af393/contents/blob/",
            1_920_649,
            "sha256:50420ac8d8b7547cd3715347c9a276802bc9466328ba0814adce4c20495e2889",
        ),
    ),
    "glove": (
        File(
            "glove.6B.zip",
            "https://nlp.stanford.edu/data/glove.6B.zip",
            862_182_613,
            "sha256:617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
            member="glove.6B.100d.txt",
        ),
    ),
    "elmo": (
        File("options.json", ELMO + "elmo_2x4096_512_2048cnn_2xhighway_options.json", 336),
        File("weights.hdf5", ELMO + "elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5", 374_434_792),
    ),
}


class _Retry(Exception):
    """Worth another try: the connection was cut, timed out, or the server is busy."""


def download(name: str, folder: Path, *, timeout: float = 30.0, attempts: int = 4, pause: float = 1.0) -> list[Path]:
    """Fetch a data set (``squad``, ``adversarial``, ``glove`` or ``elmo``) into a folder; what is there already stays.

    Returns the files' paths. ELMo's two files go into a folder of their own, ready for ``inputs.contextual=elmo:…``.
    """
    if name not in SETS:
        raise UserError(f"there is no data set {name!r} to download; choose one of {', '.join(SETS)}.")
    target = folder / "elmo" if name == "elmo" else folder
    return [fetch(file, target, timeout=timeout, attempts=attempts, pause=pause) for file in SETS[name]]


def fetch(file: File, folder: Path, *, timeout: float = 30.0, attempts: int = 4, pause: float = 1.0) -> Path:
    """Bring one file into a folder and return its path.

    What has arrived waits in ``NAME.part``; the next try, in this call or a later one, asks for the rest alone. After
    ``attempts`` tries in a row that brought nothing, give up with a sentence. Back-off doubles from ``pause`` seconds.
    """
    path = folder / (file.member or file.name)
    if path.exists():
        if not file.member and (fault := _fault(file, path)):
            raise UserError(f"{path}: it is there already, but {fault}; move it away and run this again.")
        return path
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{file.name}.part"
    from_before = part.exists()
    _fetch_part(file, part, timeout, attempts, pause)
    if _fault(file, part) and from_before:  # the old piece may belong to another version of the file: once more, whole
        _forget(part)
        _fetch_part(file, part, timeout, attempts, pause)
    if fault := _fault(file, part):
        _forget(part)
        raise UserError(
            f"{file.url}: {fault}, so it was thrown away; try again later, or download it by hand from a "
            f"source you trust and put it at {path}."
        )
    if file.member:
        _extract(part, file.member, path)
    else:
        put_in_place(part, path)
    _forget(part)
    return path


def _fetch_part(file: File, part: Path, timeout: float, attempts: int, pause: float) -> None:
    """Append to the partial file until it is as long as it should be."""
    left, most = attempts, _length(part)
    with progress(file.name, total=file.size / 1e6, unit="MB") as advance:
        advance(most / 1e6)
        while _length(part) < file.size:
            try:
                _receive(file, part, timeout, lambda count: advance(count / 1e6))
                problem = "the connection was cut"
            except _Retry as error:
                problem = str(error)
            have = _length(part)
            if have >= file.size:
                return
            left = attempts if have > most else left - 1  # progress is more than there ever was
            most = max(most, have)
            if not left:
                kept = (
                    f"; the {have:,} bytes that arrived are kept, and the next run goes on from there" if have else ""
                )
                raise UserError(
                    f"{file.url}: {problem}, {attempts} times in a row{kept}. If this machine is offline, download the "
                    f"file elsewhere and put {_by_hand(file)} into {part.parent}."
                )
            time.sleep(pause * 2.0 ** max(attempts - left - 1, 0))


def _receive(file: File, part: Path, timeout: float, advance: Callable[[float], None]) -> None:
    """One request: append what comes to the partial file, from the start again where the server insists."""
    have, tag = _length(part), part.with_name(part.name + ".etag")
    request = urllib.request.Request(file.url, headers={"User-Agent": "rmreader"})
    if have:
        request.add_header("Range", f"bytes={have}-")
        if tag.exists():  # the rest only of the same version; the whole file where it has changed since
            request.add_header("If-Range", tag.read_text(encoding="utf-8"))
    try:
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            resumed = reply.status == 206 and _begins_at(reply.headers.get("Content-Range", "")) == have
            if have and not resumed:
                advance(-have)
            etag = reply.headers.get("ETag", "")
            if etag.startswith('"'):  # weak tags may not be used to join pieces
                tag.write_text(etag, encoding="utf-8")
            if reply.status == 206 and not resumed:
                part.unlink(missing_ok=True)
                raise _Retry("the server answered with another part of the file than asked")
            with part.open("ab" if resumed else "wb") as out:
                while out.tell() <= file.size and (chunk := reply.read(CHUNK)):  # too much is as wrong as too little
                    out.write(chunk)
                    advance(len(chunk))
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:
            _forget(part)
            advance(-have)
            raise _Retry("the server has no such part of the file") from None
        if error.code in (408, 429) or error.code >= 500:
            raise _Retry(f"the server answered {error.code} {error.reason}") from None
        raise UserError(
            f"{file.url}: the server answered {error.code} {error.reason}; the address may have changed: find the file "
            f"elsewhere and put {_by_hand(file)} into {part.parent}."
        ) from None
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
        raise _Retry(_reason(error)) from None


def _reason(error: Exception) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return "the server fell silent"
    if isinstance(error, urllib.error.URLError):
        return f"the server cannot be reached ({cause})"
    return "the connection was cut"


def _by_hand(file: File) -> str:
    return f"{file.member} (out of {file.name})" if file.member else f"it, as {file.name},"


def _begins_at(content_range: str) -> int:
    match = re.match(r"bytes (\d+)-", content_range)
    return int(match.group(1)) if match else -1


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    part.with_name(part.name + ".etag").unlink(missing_ok=True)


def _fault(file: File, path: Path) -> str:
    """What is wrong with a file that should be the published one; empty where nothing is."""
    if (size := path.stat().st_size) != file.size:
        return f"its size is {size:,} bytes and not the published {file.size:,}"
    if not file.digest:
        return ""
    kind, _, expected = file.digest.partition(":")
    found = file_sha256(path, kind)
    return "" if found == expected else f"its {kind} is {found} and not the published {expected}"


def _extract(archive: Path, member: str, path: Path) -> None:
    """The one wanted file out of a zip archive, renamed into place when it is whole."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with zipfile.ZipFile(archive) as zipped, zipped.open(member) as source, temporary.open("wb") as out:
            shutil.copyfileobj(source, out, CHUNK)
        put_in_place(temporary, path)
    except (zipfile.BadZipFile, KeyError) as error:
        _forget(archive)
        raise UserError(f"{archive}: {member} cannot be taken out of it ({error}); download it again.") from None
    finally:
        temporary.unlink(missing_ok=True)
