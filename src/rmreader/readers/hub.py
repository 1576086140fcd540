"""A reader on the Hugging Face hub, brought into the cache by the hub's own addresses.

Asked for are the commit, the list of files, and the files that the reader's manifest names; nothing
is sent but their names. ``HF_ENDPOINT`` is another hub, ``HF_HUB_OFFLINE=1`` asks nobody.
"""

import json
import os
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rmreader.core.console import say
from rmreader.core.errors import UserError, reason, user_error_on
from rmreader.core.files.atomic import lock, write_whole
from rmreader.core.files.manifest import CARD, damage, read_manifest
from rmreader.data.download import File, fetch
from rmreader.readers.archive import MOST_BYTES, MOST_FILES
from rmreader.readers.elsewhere import HUB, check_name
from rmreader.readers.folder import MANIFEST

_NAME = re.compile(r"([\w][\w.-]{0,95})/([\w][\w.-]{0,95})(?:@([\w][\w./-]{0,199}))?")
_COMMIT = re.compile("[0-9a-f]{40}")
_LARGEST_ANSWER = 16 << 20  # bytes
_TIMEOUT = 30.0  # seconds


class _UnreachableError(Exception):
    """Nobody answers; what is in the cache may do."""


def bring(name: str, place: Path) -> Path:
    """Return the folder of ORGANISATION/NAME, or of ORGANISATION/NAME@REVISION, in the cache.

    A branch, ``main`` where none is given, is looked up each time; a commit never changes, so it
    is fetched once.
    """
    parts = _NAME.fullmatch(name)
    if parts is None or ".." in name:
        raise UserError(
            f"{HUB}{name[:200]}: not a name on the hub; give {HUB}ORGANISATION/NAME, and after an "
            "@ a branch, tag or commit."
        )
    organisation, repository, revision = parts.groups(default="main")
    shelf = place / f"{organisation}--{repository}"
    known = shelf / f"{revision.replace('/', '--')}.commit"
    try:
        commit = revision
        if not _COMMIT.fullmatch(revision):
            commit = _commit(organisation, repository, revision)
        folder = shelf / commit / repository
        if not (folder / MANIFEST).is_file():
            _fetch_reader(organisation, repository, commit, folder)
        write_whole(known, commit.encode())
    except _UnreachableError as problem:
        if not known.is_file():
            raise UserError(
                f"{HUB}{name}: {problem}, and it is not in the cache; fetch it where there is a "
                "network, and give its folder."
            ) from None
        say(f"{HUB}{name}: {problem}; the one in the cache is read.")
        folder = shelf / known.read_text(encoding="utf-8") / repository
    return folder


def _fetch_reader(organisation: str, repository: str, commit: str, folder: Path) -> None:
    """Fetch every file that the manifest names, and put the folder in place when it is whole."""
    source = f"{HUB}{organisation}/{repository}"
    base = f"{_endpoint()}/{organisation}/{repository}/resolve/{commit}"
    sizes = _sizes(organisation, repository, commit)
    if MANIFEST not in sizes:
        raise UserError(
            f"{source}: it has no {MANIFEST}, so it is not a reader of rmreader; look at the name."
        )
    # What has arrived stays for the next try.
    new = folder.with_name(f"{folder.name}.new")
    new.mkdir(parents=True, exist_ok=True)
    with lock(new):
        if (folder / MANIFEST).is_file():  # another process has been quicker
            return
        for name in (MANIFEST, CARD):
            if name in sizes:
                write_whole(new / name, _asked(f"{base}/{name}", source))
        with user_error_on(f"{source}/{MANIFEST}: damaged ({{why}}).", ValueError):
            checksums = read_manifest(new / MANIFEST)["checksums"]
        wanted = {name: checksums[name] for name in checksums if not name.endswith(CARD)}
        _check_size(source, wanted, sizes)
        for name, checksum in wanted.items():
            path = new / name
            file = File(path.name, f"{base}/{quote(name)}", sizes[name], f"sha256:{checksum}")
            fetch(file, path.parent)
        problem = damage(new, MANIFEST)
        if problem is not None:
            raise UserError(f"{source}/{problem}; tell whoever put it there.")
        os.rename(new, folder)


def _check_size(source: str, wanted: dict[str, str], sizes: dict[str, int]) -> None:
    """Refuse names that lead out, files that are not there, and more than a reader can be."""
    for name in wanted:
        check_name(name, source)
        if name not in sizes:
            raise UserError(f"{source}: {name}: missing; tell whoever put it there.")
    if len(wanted) > MOST_FILES or sum(sizes[name] for name in wanted) > MOST_BYTES:
        raise UserError(f"{source}: refused, it is far larger than a reader is.")


def _commit(organisation: str, repository: str, revision: str) -> str:
    """Ask which commit a branch or tag is."""
    path = f"api/models/{organisation}/{repository}/revision/{quote(revision, safe='')}"
    tree = _answer(path, f"{HUB}{organisation}/{repository}")
    commit = tree.get("sha") if isinstance(tree, dict) else None
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise UserError(f"{_endpoint()}/{path}: the hub names no commit; try again later.")
    return commit


def _sizes(organisation: str, repository: str, commit: str) -> dict[str, int]:
    """Ask for the files of a commit, by name, with their sizes in bytes."""
    path = f"api/models/{organisation}/{repository}/tree/{commit}?recursive=true"
    tree = _answer(path, f"{HUB}{organisation}/{repository}")
    sizes = {}
    with user_error_on(
        f"{_endpoint()}/{path}: no list of files; try again later.", TypeError, KeyError, ValueError
    ):
        for entry in tree:
            if entry["type"] == "file":
                sizes[str(entry["path"])] = int(entry["size"])
    return sizes


def _answer(path: str, source: str) -> Any:
    address = f"{_endpoint()}/{path}"
    with user_error_on(f"{address}: no JSON ({{why}}); try again later.", ValueError):
        return json.loads(_asked(address, source))


def _asked(address: str, source: str) -> bytes:
    """Ask for one small thing."""
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        raise _UnreachableError("the hub is not asked, as HF_HUB_OFFLINE says")
    request = urllib.request.Request(address, headers={"User-Agent": "rmreader"})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as reply:
            content: bytes = reply.read(_LARGEST_ANSWER + 1)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code >= 500 or error.code in (408, 429):
            raise _UnreachableError(f"the hub answered {error.code} {error.reason}") from None
        raise UserError(
            f"{source}: the hub answered {error.code} {error.reason}; look at the name. A private "
            "one must be downloaded by the hub's own tool: give the folder."
        ) from None
    except (OSError, ValueError) as error:
        cause = getattr(error, "reason", error)
        words = reason(cause) if isinstance(cause, BaseException) else str(cause)
        raise _UnreachableError(f"the hub cannot be reached ({words})") from None
    if len(content) > _LARGEST_ANSWER:
        raise UserError(f"{address}: longer than {_LARGEST_ANSWER >> 20} MiB; look at the name.")
    return content


def _endpoint() -> str:
    given = os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"
    if not given.startswith(("https://", "http://")):
        raise UserError(f"HF_ENDPOINT={given}: not an address; it begins with https://.")
    return given
