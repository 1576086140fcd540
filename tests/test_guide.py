"""The guide's users' shelf: its commands are run as they are written; the site is built from it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.guide import ROOT, differences, guide
from typer.main import get_command

from rmreader.cli.app import app

PAGES: list[Path] = guide.users_pages()
# What another test runs: tests/test_first_minutes.py, which tunes once for README and tutorial.
ELSEWHERE = {"tutorial.md"}
RUN = [page for page in PAGES if page.name not in ELSEWHERE]


def _needs(page: Path) -> str | None:
    """Why a page's commands cannot be run here."""
    text = page.read_text(encoding="utf-8")
    if "curl " in text and shutil.which("curl") is None:
        return "no curl here"
    if shutil.which("bash") is None:
        return "no bash here"
    return None


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_every_command_prints_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    if reason := _needs(page):
        pytest.skip(reason)
    unlike = differences(page, tmp_path)
    assert not unlike, "\n".join(unlike)


def test_what_is_not_run_says_why() -> None:
    reasons = []
    ran = 0
    for page in PAGES:
        for block in guide.blocks(page.read_text(encoding="utf-8")):
            if block.why_not is not None:
                reasons.append(block.why_not)
            else:
                ran += len(block.commands())
    assert ran > 50
    # Each names what is not here: a package index, a server, another system, another package.
    assert all(re.search(r"needs|another system", reason) for reason in reasons)
    assert len(reasons) <= 6


def test_no_block_of_commands_escapes_the_test() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for language, body in re.findall(r"^ *```(\w*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
            if language in ("console", "sh", "python"):
                continue
            # Cron, systemd and Windows have a language of their own.
            lines = body.splitlines() if language in ("", "text", "bash", "shell") else []
            assert not [line for line in lines if re.match(r"(\$ )?(rmreader|pip|curl) ", line)], page.name
        assert not re.search(r"^    (\$ )?rmreader ", text, re.MULTILINE), f"{page.name}: indented"


def _options() -> dict[str, set[str]]:
    """The options of every verb, and of every verb of a group such as `data check`."""
    known: dict[str, set[str]] = {}

    def collect(prefix: str, command: Any) -> None:
        options = {option for parameter in command.params for option in parameter.opts}
        known[prefix] = options | {"--help"}
        for name, inner in getattr(command, "commands", {}).items():
            collect(f"{prefix} {name}".strip(), inner)

    collect("", get_command(app))
    return known


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_verbs_and_options_in_the_text_exist(page: Path) -> None:
    known = _options()
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for line in re.findall(r"`rmreader ([^`\n]+)`", text):
        words = line.split()
        verb = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0]
        if not re.fullmatch(r"[a-z ]+", verb):
            continue  # a class or a module, as `rmreader VERB`
        assert verb in known, f"{page.name}: no verb {verb!r} in `rmreader {line}`"
        used = {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
        assert used <= known[verb], f"{page.name}: `rmreader {line}`"


def test_the_table_of_readers_is_what_their_files_say() -> None:
    page = (ROOT / "docs" / "which-reader.md").read_text(encoding="utf-8")
    assert guide.readers_table() in page, "run `make guide`"


def test_lines_that_differ_are_told() -> None:
    shown = ["Who?", "  Ada  (sure, 94%)   [Ada] wrote it.", ""]
    near = ["Who?", "  Ada  (likely, 82%)   [Ada] wrote it."]
    assert guide.differences(shown, near) == []
    assert guide.differences(shown, ["Who?", "  Ada  (sure, 60%)   [Ada] wrote it."])
    assert guide.differences(shown, ["Who?", "  Ben  (sure, 94%)   [Ben] wrote it."])
    assert guide.differences(shown, [*near, "more"])
    assert guide.differences(["{", "…", "}"], ["{", '"a": 1', "}"]) == []
    assert guide.differences(["{", "…", "}"], ["{", '"a": 1', "]"])
    assert guide.differences([], ["anything"]) == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site in a folder; a warning is an error."""
    if importlib.util.find_spec("material") is None:
        pytest.skip("no mkdocs-material here: pip install 'rmreader[docs]'")
    folder = tmp_path_factory.mktemp("guide") / "site"
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert pages <= {page.stem for page in site.glob("*.html")}
    assert "var __index" in (site / "search" / "search_index.js").read_text(encoding="utf-8")[:100]
    for page in site.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|link)[^>]+?(?:src|href)=\"?(https?://[^\" >]+)", text)
        assert loaded == [], page.name
    assert 'url=folders.html"' in (site / "shelf.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.browser
def test_the_site_is_searched_from_a_folder_without_a_network(chromium: Any, site: Path) -> None:
    page = chromium.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    try:
        page.goto((site / "index.html").as_uri())
        page.fill("input[name=query]", "chimney sweep")
        page.wait_for_selector(".md-search-result__item", timeout=60_000)
        assert "A mailbox" in page.inner_text(".md-search-result__list")
    finally:
        page.close()
    assert [address for address in asked if not address.startswith("file:")] == []
