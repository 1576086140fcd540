"""The guide and the notebook: links lead somewhere, quoted errors are in it."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support import kept_scores

from rmreader.data.squad import read_squad
from rmreader.readers.folder import open_folder
from rmreader.reading.engine.native import why_not

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "rmreader"
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "log").rglob("*.md")]


def anchors(page: Path) -> set[str]:
    """The places of a page that a link can name, as GitHub makes them of its headings."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", sorted(PAGES), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: no heading for {link}"


def test_every_file_that_the_house_names_is_there() -> None:
    page = (ROOT / "docs" / "house.md").read_text(encoding="utf-8")
    page = page.replace("`documents/formats/epub.py`", "")  # the one that the reader is to write
    rooms = {path.name for path in SRC.iterdir() if path.is_dir()}
    named = [name for name in re.findall(r"`([\w/]+/[\w.]*)`", page) if name.split("/")[0] in rooms]
    assert len(named) > 40
    assert [name for name in named if not (SRC / name).exists()] == []


def test_the_demo_prints_what_the_readme_shows() -> None:
    shown = (ROOT / "README.md").read_text(encoding="utf-8").partition("$ make demo\n")[2].partition("\n$ make test")[0]
    command = (ROOT / "Makefile").read_text(encoding="utf-8").partition("rmreader ask ")[2].partition("\n\n")[0]
    made = subprocess.run(
        [sys.executable, "-m", "rmreader", "ask", *shlex.split(command.replace("\\\n", " "))],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=True,
    ).stdout
    if why_not() is not None:  # read in float, which may round a confidence differently
        shown, made = (re.sub(r"\((?:\w+, )?\d+%\)", "", text) for text in (shown, made))
    assert made.strip() == shown.strip()


def test_every_error_that_the_guide_quotes_is_in_the_code() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^\| `(.*?)` \|", page, re.MULTILINE)
    assert len(quoted) > 10
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in SRC.rglob("*.py"))
    texts = [
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    for sentence in quoted:
        for part in (part.strip(" :;,.()") for part in sentence.split("…")):
            assert any(part in text for text in texts), f"not in the code: {part!r} of {sentence!r}"


@pytest.mark.parametrize("name", ["small", "base"])
def test_the_readme_says_what_the_files_of_a_reader_say(name: str) -> None:
    scores = open_folder(name).about["scores"]
    row = next(
        line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if f"`{name}`, ship" in line
    )
    card = (ROOT / "src" / "rmreader" / "readers" / "shipped" / name / "README.md").read_text(encoding="utf-8")
    for data in ("SQuAD 1.1 dev", "AddSent", "AddOneSent"):
        exact, f1 = scores[data]["exact_match"], scores[data]["f1"]
        assert f"| {exact:.1f} / {f1:.1f} |" in row
        assert f"| {data} | {exact:.2f} | {f1:.2f} | {scores[data]['total']:,} |" in card


@pytest.mark.data
@pytest.mark.slow
def test_a_shipped_reader_scores_what_its_card_says(real_data: Path) -> None:
    """Every question of a part of dev, whose scores must be those that are kept of all; of all where none are kept."""
    dataset, every = read_squad(real_data / "squad-v1.1" / "dev-v1.1.json.gz"), kept_scores.kept()
    if every is None or "RMREADER_EXAMPLES" in os.environ:
        every = kept_scores.measure(dataset)
    else:
        some, inside = kept_scores.part(dataset, 10)
        apart = (kept_scores.measure(some) != every[:, inside]).any(0)
        assert len(apart) > 1000
        assert apart.mean() <= (0 if why_not() is None else 0.02)  # in float a few answers are others
    exact, f1 = 100 / 255 * every.mean(1)
    said = open_folder(kept_scores.READER).about["scores"]["SQuAD 1.1 dev"]
    assert every.shape == (2, said["total"])
    assert exact == pytest.approx(said["exact_match"], abs=0.1)
    assert f1 == pytest.approx(said["f1"], abs=0.1)
