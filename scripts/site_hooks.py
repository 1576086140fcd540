"""What MkDocs does to the guide's pages on the way to the site: `mkdocs.yml` names this file.

The pages are written to be read in the repository, too. So a link to a file that is no page
(`../log/…`, `../examples/…`) becomes a link to that file in the repository, and addresses that a
page had under an earlier name still lead to it.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = re.compile(r"\]\(\.\./([^)\s]+)\)")

# Where a page was before, and where it is now.
MOVED = {"shelf.html": "folders.html", "plugs.html": "integrations.html"}
FORWARD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>This page has moved</title>
<meta http-equiv="refresh" content="0; url={target}">
<p>This page has moved: <a href="{target}">{target}</a>.</p>
</html>
"""


def repository() -> str:
    """The address of the repository, as the package says it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    urls = {name.lower(): url for name, url in project.get("urls", {}).items()}
    for name in ("homepage", "repository"):
        if name in urls:
            return str(urls[name]).removesuffix(".git").rstrip("/")
    return "https://github.com/rmreader/rmreader"


def on_config(config: Any, **_: Any) -> Any:
    """Offer the other versions where mike builds the site, which keeps one folder for each."""
    if "MIKE_DOCS_VERSION" in os.environ:
        config["extra"]["version"] = {"provider": "mike"}
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Turn links to files of the repository into addresses."""

    def address(match: re.Match[str]) -> str:
        path = match[1].partition("#")[0]
        if not (ROOT / path).exists():
            return match[0]  # MkDocs warns of it, and the build fails
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"]({repository()}/{kind}/main/{match[1]})"

    return OUTSIDE.sub(address, markdown)


def on_post_build(config: Any, **_: Any) -> None:
    """Leave a page that forwards at every earlier address."""
    for before, now in MOVED.items():
        forward = FORWARD.format(target=now)
        (Path(config["site_dir"]) / before).write_text(forward, encoding="utf-8")
