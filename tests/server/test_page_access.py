"""The page for everybody: WCAG AA by axe in every state and both schemes, and what is heard is what is seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.documents import pdf
from support.page import ask, look_inside

from rmreader.server.folders import open_documents

pytestmark = pytest.mark.browser
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
ABSENT = "When did Napoleon see the canal?"


@pytest.fixture(scope="module")
def check() -> Callable[[Any], None]:
    """Have axe look at all of a page."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")

    def look(page: Any) -> None:
        page.wait_for_timeout(250)  # for colours that fade
        found = axe.Axe().run(page, options={"runOnly": RULES, "resultTypes": ["violations"]})
        problems = [
            f"{one['id']}: {node['target']} {node.get('failureSummary', '')}"
            for one in found.response["violations"]
            for node in one["nodes"]
        ]
        assert problems == []

    return look


def start_page(page: Any, passage: str) -> None:
    """Nothing asked yet."""


def answer(page: Any, passage: str) -> None:
    ask(page, "Who was the engineer?", passage)
    page.wait_for_selector("mark")


def perhaps(page: Any, passage: str) -> None:
    ask(page, "Who?", "Ann Lee came. Bob Ray came. Carl May came.")
    page.wait_for_selector("#best:visible")


def refusal(page: Any, passage: str) -> None:
    ask(page, ABSENT, passage)
    page.click("#guess-button")
    page.wait_for_selector("mark.guess")


def failure(page: Any, passage: str) -> None:
    page.press("#question", "Enter")
    page.wait_for_selector("#error:visible")


def history(page: Any, passage: str) -> None:
    for question in ("Who was the engineer?", "When was the canal dug?"):
        ask(page, question, passage)
        page.wait_for_selector(f"#asked:has-text('{question}')")
    page.click("#history summary")


def numbers(page: Any, passage: str) -> None:
    answer(page, passage)
    look_inside(page)
    page.locator("#question-words b").nth(1).focus()


def to_itself(page: Any, passage: str) -> None:
    numbers(page, passage)
    page.click("label:has(input[name=kind][value=self])")
    page.click("label:has(input[name=round][value='3'])")


def tour(page: Any, passage: str) -> None:
    answer(page, passage)
    page.click("#tour-button")
    page.wait_for_selector("#tour:visible")


STATES = (start_page, answer, perhaps, refusal, failure, history, numbers, to_itself, tour)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("state", STATES)
def test_axe_finds_nothing(
    visit: Any, start: Any, doubting: Any, passage: str, check: Any, state: Any, scheme: str
) -> None:
    page = visit(start(doubting).url, color_scheme=scheme)
    state(page, passage)
    check(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_a_folder(
    visit: Any, start: Any, check: Any, scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMREADER_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "works"
    folder.mkdir()
    (folder / "pump.pdf").write_bytes(pdf([["The pump C-310 was built by Ada Fenwick of Leeds."]]))
    page = visit(start(shelf=open_documents(str(folder))).url, color_scheme=scheme)
    page.fill("#question", "Who built the pump?")
    page.press("#question", "Enter")
    page.click("#places button >> nth=0")
    page.wait_for_selector("#sheet:visible")
    page.click("#documents summary")
    check(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_the_page_of_the_api(chromium: Any, server: Any, check: Any, scheme: str) -> None:
    context = chromium.new_context(color_scheme=scheme)
    try:
        page = context.new_page()
        page.goto(f"{server.url}/docs")
        page.wait_for_selector(".operation")
        check(page)
    finally:
        context.close()


def test_what_is_heard_is_what_is_seen(visit: Any, start: Any, doubting: Any, passage: str) -> None:
    page = visit(start(doubting).url)
    for state in (answer, perhaps, refusal):
        state(page, passage)
        live = page.locator("#told")
        assert live.get_attribute("aria-live") == "polite"
        heard = page.locator("#told").aria_snapshot()
        seen = " ".join(page.inner_text("#told").split())
        for word in seen.split():
            assert word.strip(":,.") in heard, (word, heard)
        # No name of a button hides its words.
        assert page.locator("main button[aria-label]").count() == 0
        for row in page.locator("#answers button:visible, #places button:visible").all():
            words = " ".join(row.inner_text().split())
            assert page.get_by_role("button", name=words, exact=True).count() == 1
    answer(page, passage)
    assert any(word in page.inner_text("#told") for word in ("sure", "likely", "Perhaps"))
