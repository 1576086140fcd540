"""The version of a build is that of its tag; its moment is that of its commit."""

import os
import re
import subprocess
from pathlib import Path

NUMBER = Path("src/rmreader/core/version.py")
_LINE = re.compile(r'^__version__ = "(.*)"$', re.MULTILINE)
_DESCRIBED = re.compile(r"v(\d+)\.(\d+)\.(\d+)((?:a|b|rc)\d+)?-(\d+)-(g[0-9a-f]+)(-changed)?")


def version(root: Path) -> str:
    """Return the version of what lies in ``root``.

    An unpacked source archive has its own. Else the tag decides: v1.2.3 is 1.2.3, and the fifth
    commit after it 1.2.4.dev5+gCOMMIT. Without a tag, or without git, it is the number in the code.
    """
    archived = root / "PKG-INFO"
    if archived.is_file():
        found = re.search(r"^Version: (.*)$", archived.read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            return found[1]
    described = git(root, "describe", "--tags", "--long", "--match=v[0-9]*", "--dirty=-changed")
    tagged = _DESCRIBED.fullmatch(described)
    if tagged is None:
        return number((root / NUMBER).read_text(encoding="utf-8"))
    return _of_tag(*tagged.groups(default=""))


def _of_tag(
    major: str, minor: str, patch: str, early: str, commits: str, commit: str, changed: str
) -> str:
    if commits == "0" and not changed:
        return f"{major}.{minor}.{patch}{early}"
    # Before 1.2.3 where the tag was 1.2.3rc1.
    following = patch if early else str(int(patch) + 1)
    mark = ".changed" if changed else ""
    return f"{major}.{minor}.{following}.dev{commits}+{commit}{mark}"


def number(code: str) -> str:
    """Return the number in the text of ``core/version.py``."""
    found = _LINE.search(code)
    if found is None:
        raise ValueError(f"{NUMBER}: it has no line with __version__; restore the file")
    return found[1]


def stamped(code: str, version: str) -> str:
    """Return the text of ``core/version.py`` with another number."""
    return _LINE.sub(f'__version__ = "{version}"', code)


def moment(root: Path) -> int:
    """Return the second that everything in an archive is dated by.

    It is ``SOURCE_DATE_EPOCH``, the commit's, or the one that an unpacked source archive has.
    """
    given = os.environ.get("SOURCE_DATE_EPOCH") or git(root, "log", "-1", "--format=%ct")
    if given:
        return int(given)
    archived = root / "PKG-INFO"
    dated = archived if archived.is_file() else root / NUMBER
    return int(dated.stat().st_mtime)


def git(root: Path, *words: str) -> str:
    """Return what git says of the repository whose root this is; nothing where it is none."""
    # A source archive may lie in somebody else's repository.
    if not (root / ".git").exists():
        return ""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
