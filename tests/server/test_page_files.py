"""The page opens and drops every format that ``ask`` reads, and reads texts of any length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.documents import SAYING, every_format, pdf, xlsx
from support.page import ask, drop

from rmreader.documents.document import read_document

pytestmark = pytest.mark.browser
FILLER = "The council met on Tuesdays and talked of the roof, the drains and the price of coal. "
BRIDGE = "The new bridge was designed by Ada Fenwick of Leeds. "
ASKED = "Who designed the new bridge?"


def shown(page: Any) -> str:
    return str(page.input_value("#passage"))


@pytest.mark.parametrize("name", sorted(every_format()))
def test_a_document_of_every_format_is_dropped_and_asked(visit: Any, reader: Any, name: str) -> None:
    page, content = visit(), every_format()[name]
    drop(page, name, content)
    page.wait_for_function("() => document.getElementById('passage').value.length > 0")
    text = read_document(name, content).whole.text
    assert shown(page) == text
    assert "Ada Fenwick of Leeds" in text
    assert name in page.text_content("#length")
    assert page.evaluate("document.activeElement.id") == "question"  # what there is to do next
    page.keyboard.insert_text("Who built the pump?")
    page.keyboard.press("Enter")
    page.wait_for_selector("#best:visible")
    best = reader.ask("Who built the pump?", text).guess
    assert best.text in page.text_content("#reading mark" if page.locator("mark").count() else "#reading")


def test_a_table_is_opened_with_its_column_names(visit: Any, tmp_path: Path) -> None:
    page, file = visit(), tmp_path / "parts.xlsx"
    file.write_bytes(xlsx([["Part", "Price"], ["Pump C-310", "31 EUR"], ["Valve V-2", "7 EUR"]]))
    accepted = page.get_attribute("#file", "accept").split(",")
    assert {".pdf", ".docx", ".xlsx", ".eml", ".html", ".csv"} <= set(accepted)
    with page.expect_file_chooser() as chooser:
        page.click("#file-button")
    chooser.value.set_files(file)
    page.wait_for_function("() => document.getElementById('passage').value.includes('Price: 31 EUR')")


def test_a_remark_on_how_it_was_read_is_shown(visit: Any) -> None:
    page = visit()
    drop(page, "letter.txt", "Käte wohnt in Köln.".encode("cp1252"))
    page.wait_for_selector("#passage-note:has-text('not UTF-8; read as cp1252')")
    assert shown(page) == "Käte wohnt in Köln."


def test_reading_a_file_can_be_cancelled(visit: Any) -> None:
    page, kept = visit(), []
    page.route("**/v1/read*", lambda route: kept.append(route))  # nothing comes until the test lets it
    drop(page, "pump.pdf", pdf([[SAYING]]))
    page.wait_for_selector("#waiting:visible")
    assert page.text_content("#progress-label") == "Reading pump.pdf…"
    assert page.is_disabled("#ask")
    page.click("#cancel")
    page.wait_for_selector("#error:visible:has-text('Cancelled')")
    assert page.is_hidden("#waiting")
    assert page.is_enabled("#ask")
    assert page.evaluate("document.activeElement.id") == "question"
    page.unroute("**/v1/read*")
    drop(page, "pump.pdf", pdf([[SAYING]]))
    page.wait_for_function("() => document.getElementById('passage').value.length > 0")


def test_a_folder_or_too_large_a_file_is_a_sentence(visit: Any, start: Any) -> None:
    page = visit(start(max_upload=1_000).url)
    drop(page, "a.txt", b"a" * 1_001)
    page.wait_for_selector("#error:visible:has-text('“a.txt” has 1,001 bytes; the most is 1,000')")


@pytest.mark.parametrize("odd", ["", "😀"])
def test_a_text_longer_than_an_ordinary_call_takes_is_read_with_progress(
    visit: Any, start: Any, reader: Any, odd: str
) -> None:
    page = visit(start(max_passage=20_000).url)
    text = odd + FILLER * 1_500 + BRIDGE + FILLER * 700
    page.evaluate("""() => { window.shares = []; const bar = document.getElementById('progress');
        new MutationObserver(() => window.shares.push(bar.value)).observe(bar, { attributes: true }); }""")
    ask(page, ASKED, text)
    page.wait_for_selector("mark", timeout=120_000)
    assert page.text_content("mark") == reader.ask(ASKED, text)[0].text
    before = page.evaluate("document.querySelector('mark').previousSibling.textContent")
    assert before.endswith("The new bridge was designed by ")
    assert f"of {len(text):,}" in page.text_content("#passage-note")  # only a part of so long a text is shown
    shares = page.evaluate("window.shares")
    assert shares == sorted(shares)
    assert shares[-1] > 0
    page.click("#why-button")
    page.wait_for_selector("#plain blockquote:has-text('The new bridge was designed by Ada Fenwick')")


def test_a_long_reading_can_be_cancelled_and_ends_on_the_server(visit: Any, start: Any, until: Any) -> None:
    server = start(max_passage=20_000)
    page = visit(server.url)
    drop(page, "long.txt", (FILLER * 15_000).encode())  # too long for a field
    page.wait_for_selector("#reading:visible")
    assert page.is_hidden("#passage")
    assert "too long to be edited here" in page.text_content("#passage-note")
    page.fill("#question", ASKED)
    page.press("#question", "Enter")
    page.wait_for_selector("#waiting:visible")
    until(lambda: bool(server.batcher.pending or server.batcher.reading))
    page.keyboard.press("Escape")
    page.wait_for_selector("#error:visible:has-text('Cancelled')")
    until(lambda: not server.batcher.pending and not server.batcher.reading)
    page.click("#edit")  # and another text can be given
    assert shown(page) == ""
    ask(page, ASKED, BRIDGE)
    page.wait_for_selector("mark")
