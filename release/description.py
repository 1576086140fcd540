"""The README for a registry: who reads it there has no checkout.

A link to a file of the repository would lead nowhere, and a release is installed by its name.
"""

import re

_PAGES = "https://github.com/rmreader/rmreader/blob/"
_PICTURES = "https://raw.githubusercontent.com/rmreader/rmreader/"
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")
_CHECKOUT = re.compile(r"pip install \. {7}( +)# a checkout[^\n]*")
_BY_NAME = r"pip install rmreader\1# no compiler, any Python from 3.11"
_EXTRA = re.compile(r"pip install '\.\[")
_RELEASED = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")


def description(readme: str, version: str) -> str:
    """Return the README with whole addresses: those of the tag, or of main before it is tagged."""
    released = _RELEASED.fullmatch(version) is not None
    place = f"v{version}" if released else "main"

    def whole(link: re.Match[str]) -> str:
        mark, words, path = link.groups()
        start = _PICTURES if mark else _PAGES
        return f"{mark}[{words}]({start}{place}/{path})"

    shown = _LINK.sub(whole, readme)
    if released:
        shown = _CHECKOUT.sub(_BY_NAME, shown)
        shown = _EXTRA.sub("pip install 'rmreader[", shown)
    return shown
