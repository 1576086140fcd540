"""The README for a registry, where a link to a file of the repository would lead nowhere."""

import re

_PAGES = "https://github.com/rmreader/rmreader/blob/"
_PICTURES = "https://raw.githubusercontent.com/rmreader/rmreader/"
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")
_RELEASED = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")


def description(readme: str, version: str) -> str:
    """Return the README with whole addresses: those of the tag, or of main before it is tagged."""
    place = f"v{version}" if _RELEASED.fullmatch(version) else "main"

    def whole(link: re.Match[str]) -> str:
        mark, words, path = link.groups()
        start = _PICTURES if mark else _PAGES
        return f"{mark}[{words}]({start}{place}/{path})"

    return _LINK.sub(whole, readme)
