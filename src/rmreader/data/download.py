"""The public data sets from their official addresses.

Checked, resumable after a cut connection, never half-written.
"""

import dataclasses
import http.client
import os
import re
import shutil
import stat
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rmreader.core.console import progress
from rmreader.core.errors import UserError
from rmreader.core.files.atomic import put_in_place, whole_file, write_whole
from rmreader.core.files.manifest import file_sha256

CHUNK = 1 << 16


@dataclass(frozen=True)
class File:
    """One file at a fixed address."""

    name: str
    url: str
    size: int  # bytes
    digest: str = ""  # "md5:…" or "sha256:…"; empty where the publisher gives none
    member: str = ""  # the one file wanted of a zip archive, which is removed afterwards


SQUAD = "https://rajpurkar.github.io/SQuAD-explorer/dataset/"
CODALAB = "https://worksheets.codalab.org/rest/bundles/"
ELMO = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/2x4096_512_2048cnn_2xhighway/"

SETS: dict[str, tuple[File, ...]] = {
    "squad": (
        File(
            "train-v1.1.json",
            SQUAD + "train-v1.1.json",
            30_288_272,
            "md5:981b29407e0affa3b1b156f72073b945",
        ),
        File(
            "dev-v1.1.json",
            SQUAD + "dev-v1.1.json",
            4_854_279,
            "md5:3e85deb501d4e538b6bc56f786231552",
        ),
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


def download(name: str, folder: Path, sha256: str = "") -> list[Path]:
    """Fetch a data set into a folder and return the files' paths; what is there already stays.

    ``name`` is ``squad``, ``adversarial``, ``glove`` or ``elmo``. ELMo's two files go into a folder
    of their own, ready for ``inputs.contextual=elmo:…``. Its publisher gives no checksums: give
    ``sha256`` of the weights, if you have it from a source you trust.
    """
    if name not in SETS:
        names = ", ".join(SETS)
        raise UserError(f"there is no data set {name!r} to download; choose one of {names}.")
    files = list(SETS[name])
    if name == "elmo":
        folder = folder / "elmo"
    if sha256:
        if files[-1].digest or not re.fullmatch("[0-9a-f]{64}", sha256):
            raise UserError(
                f"--sha256 {sha256}: it is the 64 digits of ELMo's weights; "
                "other files have published ones."
            )
        files[-1] = dataclasses.replace(files[-1], digest=f"sha256:{sha256}")
    return [fetch(file, folder) for file in files]


def fetch(
    file: File,
    folder: Path,
    *,
    timeout: float = 30.0,
    attempts: int = 4,
    pause: float = 1.0,
) -> Path:
    """Bring one file into a folder and return its path.

    What has arrived waits in ``NAME.part``; the next try, in this call or a later one, asks for the
    rest alone. After ``attempts`` tries in a row that brought nothing, give up with a sentence.
    Back-off doubles from ``pause`` seconds. The digest of a file that has no published one is left
    beside it, to compare with ever after.
    """
    path = folder / (file.member or file.name)
    part = folder / f"{file.name}.part"
    if path.exists():
        fault = "" if file.member else _fault(file, path)
        if fault:
            raise UserError(
                f"{path}: it is there already, but {fault}; move it away and run this again."
            )
        return path
    folder.mkdir(parents=True, exist_ok=True)
    # What an earlier run left may be of another version: then once more, whole.
    is_resumed = _length(part) > 0
    _fetch_part(file, part, timeout, attempts, pause)
    if is_resumed and _fault(file, part):
        part.unlink()
        _fetch_part(file, part, timeout, attempts, pause)
    fault = _fault(file, part)
    if fault:
        part.unlink()
        raise UserError(
            f"{file.url}: {fault}, so it was thrown away; try again later, or download it by hand "
            f"from a source you trust and put it at {path}."
        )
    if file.member:
        _extract(part, file.member, path)
    else:
        put_in_place(part, path)
    if not file.digest:
        digest = f"{file_sha256(path)}  {path.name}\n"
        write_whole(path.with_name(f"{path.name}.sha256"), digest.encode())
    return path


def _fetch_part(file: File, part: Path, timeout: float, attempts: int, pause: float) -> None:
    """Append to the partial file until it is as long as it should be."""
    left = attempts
    most = _length(part)
    problem = ""
    with progress(file.name, total=file.size / 1e6, unit="MB") as advance:
        advance(most / 1e6)
        while _length(part) < file.size:
            if not left:
                raise _gave_up(file, part, problem, attempts)
            if problem:
                time.sleep(pause * 2.0 ** max(attempts - left - 1, 0))
            try:
                problem = _receive(file, part, timeout, lambda count: advance(count / 1e6))
            except urllib.error.HTTPError as error:
                error.close()
                problem = f"the server answered {error.code} {error.reason}"
                if error.code == 416:  # it has no such part
                    part.unlink()
                elif error.code not in (408, 429) and error.code < 500:
                    raise UserError(
                        f"{file.url}: {problem}; the address may have changed: "
                        f"{_by_hand(file, part)}"
                    ) from None
            # Progress is more than there ever was.
            left = attempts if _length(part) > most else left - 1
            most = max(most, _length(part))


def _gave_up(file: File, part: Path, problem: str, attempts: int) -> UserError:
    have = _length(part)
    kept = f"; the {have:,} bytes that arrived are kept for the next run" if have else ""
    return UserError(
        f"{file.url}: {problem}, {attempts} times in a row{kept}. "
        f"If this machine is offline, {_by_hand(file, part)}"
    )


def _by_hand(file: File, part: Path) -> str:
    name = f"{file.member} (out of {file.name})" if file.member else f"it, as {file.name},"
    return f"download the file elsewhere and put {name} into {part.parent}."


def _receive(file: File, part: Path, timeout: float, advance: Callable[[float], None]) -> str:
    """Send one request and append what comes to the partial file.

    It is written from the start again where the server sends all of it. Returns what ended the
    request, for the case that something is still missing.
    """
    have = _length(part)
    headers = {"User-Agent": "rmreader"}
    if have:
        headers["Range"] = f"bytes={have}-"
    request = urllib.request.Request(file.url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            is_resumed = reply.status == 206
            if not is_resumed:
                advance(-have)
            with part.open("ab" if is_resumed else "wb") as out:
                # Too much is as wrong as too little.
                while out.tell() <= file.size:
                    chunk = reply.read(CHUNK)
                    if not chunk:
                        break
                    out.write(chunk)
                    advance(len(chunk))
    except urllib.error.HTTPError:
        raise
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            return "the server fell silent"
        return f"the server cannot be reached ({error.reason})"
    except TimeoutError:
        return "the server fell silent"
    except (http.client.HTTPException, ConnectionError):
        pass
    return "the connection was cut"


def _length(part: Path) -> int:
    """Return the bytes that have arrived, 0 where there are none yet.

    A link or the like, planted in its place, is refused.
    """
    if not os.path.lexists(part):
        return 0
    status = part.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        raise UserError(
            f"{part}: a link, or not an ordinary file, where the download is kept; remove it."
        )
    return status.st_size


def _fault(file: File, path: Path) -> str:
    """Say what is wrong with a file that should be the published one; empty where nothing is."""
    size = path.stat().st_size
    if size != file.size:
        return f"its size is {size:,} bytes and not the published {file.size:,}"
    if not file.digest:
        return ""
    kind, _, expected = file.digest.partition(":")
    actual = file_sha256(path, kind)
    if actual != expected:
        return f"its {kind} is {actual} and not the published {expected}"
    return ""


def _extract(archive: Path, member: str, path: Path) -> None:
    """Take the one wanted file out of a zip archive, and remove the archive."""
    try:
        with (
            zipfile.ZipFile(archive) as zipped,
            zipped.open(member) as source,
            whole_file(path) as out,
        ):
            shutil.copyfileobj(source, out, CHUNK)
    except (zipfile.BadZipFile, KeyError) as error:
        archive.unlink()
        raise UserError(
            f"{archive}: {member} cannot be taken out of it ({error}); download it again."
        ) from None
    archive.unlink()
