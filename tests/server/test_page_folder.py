"""The page with a folder: its documents, a PDF's page with the answer marked, a link to the place, and changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.documents import pdf
from support.page import drop, look_inside

from rmreader.server.folders import open_documents

pytestmark = pytest.mark.browser
PAGES = [
    ["Pumps of the works"],
    ["Maintenance", "", "The pump C-310 was built by Ada Fenwick, an engineer of Leeds.", "It is oiled in March."],
]
ASKED = "Who built the pump?"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("pypdfium2", reason="pypdfium2, which comes with the extra `pdf`, is not installed")
    monkeypatch.setenv("RMREADER_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "works"
    (place / "papers").mkdir(parents=True)
    (place / "papers" / "pump.pdf").write_bytes(pdf(PAGES))
    (place / "rain.txt").write_text("It rained in Tarn all day, and the weir at Tarrow overflowed.")
    return place


@pytest.fixture
def works(folder: Path, start: Any) -> Any:
    return start(shelf=open_documents(str(folder)))


def enquire(page: Any, question: str) -> None:
    page.fill("#question", question)
    page.press("#question", "Enter")
    page.wait_for_selector(f"#asked:has-text('{question}')")
    page.wait_for_selector("#ask:enabled")


def ink_under_the_mark(page: Any) -> float:
    """The share of the dark dots of the drawn page that are under the mark."""
    return float(
        page.evaluate("""() => {
        const sheet = document.getElementById('sheet-picture'), box = sheet.getBoundingClientRect();
        const mark = document.querySelector('#sheet-areas .area').getBoundingClientRect();
        const { data, width, height } = sheet.getContext('2d').getImageData(0, 0, sheet.width, sheet.height);
        let all = 0, under = 0;
        for (let at = 0; at < width * height; at++) {
            if (data[4 * at] > 128) continue;
            const x = box.left + (at % width + 0.5) * box.width / width;
            const y = box.top + (Math.floor(at / width) + 0.5) * box.height / height;
            all++;
            under += x >= mark.left && x <= mark.right && y >= mark.top && y <= mark.bottom;
        }
        return under / all; }""")
    )


def test_the_page_of_a_pdf_is_shown_with_the_answer_marked(visit: Any, works: Any) -> None:
    page = visit(works.url)
    enquire(page, ASKED)
    page.click("#places button >> nth=0")
    page.wait_for_selector("#sheet:visible")
    assert page.get_attribute("#sheet-picture", "aria-label") == "Page 2 of papers/pump.pdf, with “Ada Fenwick” marked"
    assert page.text_content("#passage-label") == "papers/pump.pdf · page 2"
    assert page.is_hidden("#reading")
    letters = sum(len(line.replace(" ", "")) for line in PAGES[1])
    share = len("AdaFenwick") / letters
    assert 0.6 * share < ink_under_the_mark(page) < 1.8 * share
    assert page.get_attribute("#sheet-areas .area", "class").split()[1] in ("sure", "likely", "perhaps")

    page.click("label:has(input[name=view][value=text])")
    assert page.text_content("#reading:visible mark") == "Ada Fenwick"
    assert page.is_hidden("#sheet")
    look_inside(page)
    assert "Ada Fenwick" in page.text_content("#plain blockquote")
    page.click("label:has(input[name=view][value=page])")
    assert page.is_visible("#sheet")

    page.click("label:has(input[name=source][value=text])")  # nothing of it stays with a text of one's own
    assert page.is_hidden("#sheet")
    assert page.is_hidden("#views")
    assert page.is_visible("#passage")
    drop(page, "rain.txt", b"It rained in Tarn.")
    page.wait_for_function("() => document.getElementById('passage').value.length > 0")
    assert page.is_hidden("#documents")


def test_the_documents_are_listed_with_counts_and_a_change_is_seen(
    visit: Any, works: Any, folder: Path, until: Any
) -> None:
    page = visit(works.url)
    page.wait_for_selector("#document-count:has-text('2 documents')")
    page.click("#documents summary")
    rows = page.locator("#document-list li").all_text_contents()
    assert rows == ["papers/pump.pdf 2 passages", "rain.txt 1 passage"]
    enquire(page, ASKED)
    page.wait_for_selector("#best:has-text('Ada Fenwick')")

    changed = [PAGES[0], [line.replace("Ada Fenwick", "Owen Tarrant") for line in PAGES[1]]]
    (folder / "papers" / "pump.pdf").write_bytes(pdf(changed))
    (folder / "harbour.txt").write_text("The harbour master is called Ruth Amory.")
    until(lambda: works.client.get("/v1/documents").json()["count"] == 3)
    until(lambda: "Owen" in works.post("/v1/ask", {"question": ASKED}).text)
    page.click("#ask")
    page.wait_for_selector("#best:has-text('Owen Tarrant')")
    page.wait_for_selector("#document-count:has-text('3 documents')")
    page.click("#places button >> nth=0")
    page.wait_for_selector("#sheet:visible")
    assert "“Owen Tarrant” marked" in page.get_attribute("#sheet-picture", "aria-label")


def test_a_text_is_opened_with_its_line(visit: Any, works: Any) -> None:
    page = visit(works.url)
    enquire(page, "Where did it rain?")
    page.click("#places button >> nth=0")
    page.wait_for_selector("#passage-label:has-text('rain.txt · line 1')")


def test_a_link_opens_at_the_place(visit: Any, works: Any) -> None:
    page = visit(works.url)
    enquire(page, ASKED)
    page.wait_for_selector("#link[href^='#q=']")
    plain = page.evaluate("document.getElementById('link').href")
    page.click("#places button >> nth=0")
    page.wait_for_selector("#sheet:visible")
    page.wait_for_selector("#link:has-text('Link to this place')")
    page.wait_for_function("plain => document.getElementById('link').href !== plain", arg=plain)
    link = page.evaluate("document.getElementById('link').href")
    other = visit(link)
    other.wait_for_selector("#sheet:visible")
    assert other.get_attribute("#sheet-picture", "aria-label") == page.get_attribute("#sheet-picture", "aria-label")


def test_a_page_that_cannot_be_drawn_leaves_the_text_and_says_why(visit: Any, works: Any, folder: Path) -> None:
    page = visit(works.url)
    enquire(page, ASKED)
    page.route("**/v1/page", lambda route: route.fulfill(status=409, json={"error": {"message": "It has changed."}}))
    page.click("#places button >> nth=0")
    page.wait_for_selector("#passage-note:has-text('The page itself cannot be shown. It has changed.')")
    assert page.text_content("#reading:visible mark") == "Ada Fenwick"
    assert page.is_hidden("#views")


def test_a_key_is_needed_for_the_page_as_well(visit: Any, folder: Path, start: Any) -> None:
    server = start(shelf=open_documents(str(folder)), api_key="open-sesame")
    page = visit(server.url)
    page.wait_for_selector("#error:visible:has-text('API key')")
    page.fill("#key", "open-sesame")
    enquire(page, ASKED)
    page.click("#places button >> nth=0")
    page.wait_for_selector("#sheet:visible")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_the_page_without_scrolling_sideways(visit: Any, works: Any, scheme: str) -> None:
    phone = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True, "color_scheme": scheme}
    page = visit(works.url, **phone)
    enquire(page, ASKED)
    page.tap("#places button >> nth=0")
    page.wait_for_selector("#sheet:visible")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("#sheet-picture").bounding_box()["width"] > 250
