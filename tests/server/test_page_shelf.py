"""The page asks a shelf: three answers with their documents, one opened at its place, and why."""

from __future__ import annotations

from typing import Any

import pytest
from support.page import contrast, drop, look_inside, percent, told

pytestmark = pytest.mark.browser
ASKED = "Who built the lighthouse?"


@pytest.fixture
def home(start: Any, shelf: Any) -> str:
    return str(start(shelf=shelf).url)


def enquire(page: Any, question: str) -> None:
    page.fill("#question", question)
    page.press("#question", "Enter")


def test_three_answers_with_their_documents_and_one_opened_at_its_place(visit: Any, home: str, shelf: Any) -> None:
    page = visit(home)
    assert "harbour" in page.text_content("#shelf-label")
    for absent in ("#text", "#try", "#result"):
        assert page.is_hidden(absent)
    enquire(page, ASKED)
    page.wait_for_selector("#places button")
    cited = shelf.ask(ASKED, top=3)
    assert len(cited) == 3
    rows = page.locator("#places button")
    worth = [one for number, one in enumerate(cited) if not number or one.confidence >= 0.05]  # others only distract
    for row, one in zip(rows.all(), worth, strict=True):
        said = row.text_content()
        assert said.startswith(f"{one.text} {cited.doubt(one)}, {percent(one.confidence)}")
        assert one.sentence in said
        assert one.file in row.locator("small").text_content()
        assert one.passage.stretch.heading in row.locator("small").text_content()
        assert row.locator("em").text_content() == one.text
    assert page.text_content("#best") == f"{told(cited, cited[0])}, in {cited[0].file}"
    assert page.is_hidden("#text")
    assert page.is_hidden("#why-button")

    for place in reversed(range(len(worth))):
        rows.nth(place).focus()
        page.keyboard.press("Enter")
        one = worth[place]
        page.wait_for_selector(f"#reading:visible mark:has-text({one.text!r})")
        assert page.text_content("#reading") == "\n\n".join(
            passage.text for passage in shelf.index.document(one.passage.root, one.file)
        )
        assert one.file in page.text_content("#passage-label")
        assert rows.nth(place).get_attribute("aria-pressed") == "true"
    look_inside(page)
    marked = page.eval_on_selector_all("#passage-words b.answer", "words => words.map(word => word.textContent)")
    assert "".join(marked) == cited[0].text.replace(" ", "")
    assert page.text_content("#passage-words") == cited[0].passage.text  # what was read, and nothing else


def test_what_is_not_there_is_doubted_and_the_guess_opens_its_document(
    visit: Any, start: Any, shelf: Any, doubting: Any
) -> None:
    page = visit(start(doubting, shelf=shelf).url)
    enquire(page, "When did Napoleon see the lighthouse?")
    page.wait_for_selector("#best.doubt:has-text('Not in these documents')")
    assert page.is_hidden("#places")
    assert page.is_hidden("#text")
    page.click("#guess-button")
    page.wait_for_selector("#reading mark.guess")
    assert "only a guess" in page.text_content("#guess")
    assert "harbour/" in page.text_content("#guess")
    page.click("#guess-button")
    page.wait_for_selector("#text", state="hidden")
    enquire(page, "?!")  # without a word there is nothing to search for
    page.wait_for_selector("#best:has-text('None of them has a word of the question')")


def test_between_the_shelf_and_a_text_nothing_is_carried_over(visit: Any, home: str) -> None:
    page = visit(home)
    enquire(page, ASKED)
    page.click("#places button >> nth=0")
    page.wait_for_selector("mark")
    page.wait_for_selector("#link[href^='#q=']")
    link = page.evaluate("document.getElementById('link').href")
    page.focus("input[name=source]:checked")
    page.keyboard.press("ArrowLeft")
    for absent in ("#result", "#why", "#reading"):
        assert page.is_hidden(absent)
    assert page.text_content("#passage-label") == "Passage"
    page.click("#samples button >> nth=0")
    page.wait_for_selector("#best:visible")
    page.click("#history summary")
    page.click(f"#earlier button:has-text('{ASKED}')")
    page.wait_for_selector("#places button")
    drop(page, "rain.txt", b"It rained in Tarn.")  # a text of one's own
    page.wait_for_selector("#passage:visible")
    assert page.is_checked("input[name=source][value=text]")
    assert page.is_hidden("#result")
    other = visit(link)
    other.wait_for_selector("#places button")
    assert other.input_value("#question") == ASKED


def test_a_phone_never_scrolls_sideways_and_all_is_readable(visit: Any, home: str) -> None:
    phone = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True, "color_scheme": "dark"}
    page = visit(home, **phone)
    enquire(page, ASKED)
    page.tap("#places button >> nth=1")
    page.wait_for_selector("mark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for selector in ("#places .text", "#places .text span", "#places q", "#places small", "#passage-label"):
        assert contrast(page, selector) >= 4.5, selector


def test_a_document_that_cannot_be_opened_is_a_sentence(visit: Any, home: str) -> None:
    page = visit(home)
    enquire(page, ASKED)
    page.wait_for_selector("#places button")
    page.route("**/v1/place", lambda route: route.abort())
    page.click("#places button >> nth=0")
    page.wait_for_selector("#error:visible:has-text('The server does not answer')")
    assert page.is_hidden("#text")
