"""The page as a desk to work at: a question box that grows, keys, copies, what is kept, what is cleared."""

from __future__ import annotations

from typing import Any

import pytest
from support.page import ask, look_inside

pytestmark = pytest.mark.browser
ENGINEER = "Who was the engineer?"
FILLER = "The committee met on a Tuesday and talked about the roof, the drains and the price of coal. "


def focused(page: Any) -> str:
    return str(page.evaluate("document.activeElement.id"))


def height(page: Any, selector: str) -> float:
    return float(page.locator(selector).bounding_box()["height"])


def test_the_question_box_grows_with_the_question(visit: Any) -> None:
    page = visit()
    low = height(page, "#question")
    page.fill("#question", "Who was the engineer of the canal that joins the river Tamble to Eskhaven, and when? " * 3)
    grown = height(page, "#question")
    assert grown > 2 * low
    assert page.evaluate("(() => { const b = document.getElementById('question'); "
                         "return b.scrollHeight <= b.clientHeight + 1; })()")  # fmt: skip
    page.fill("#question", "line\n" * 200)
    assert height(page, "#question") < 500
    page.fill("#question", "Who?")
    assert height(page, "#question") == low


def test_shift_enter_begins_a_line_and_ctrl_enter_asks_from_anywhere(visit: Any, passage: str) -> None:
    page = visit()
    page.fill("#passage", passage)
    page.fill("#question", "Who was")
    page.press("#question", "Shift+Enter")
    page.keyboard.insert_text("the engineer?")
    assert page.input_value("#question") == "Who was\nthe engineer?"
    assert page.is_hidden("#result")
    page.focus("#passage")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#best:has-text('Josiah Penn')")


def test_editing_clears_the_answer_to_the_text_as_it_was(visit: Any, passage: str) -> None:
    page = visit()
    ask(page, ENGINEER, passage)
    page.wait_for_selector("mark")
    look_inside(page)
    page.click("#edit")
    for stale in ("#result", "#why", "#reading"):
        assert page.is_hidden(stale)
    assert focused(page) == "passage"
    assert page.input_value("#passage") == passage
    assert page.locator("#earlier button").count() == 1  # and can be had again


def test_arrows_bring_back_earlier_questions(visit: Any, passage: str) -> None:
    page = visit()
    for question in (ENGINEER, "When was the canal dug?"):
        ask(page, question, passage)
        page.wait_for_selector(f"#asked:has-text('{question}')")
    page.fill("#question", "")
    for key, question in (
        ("ArrowUp", "When was the canal dug?"),
        ("ArrowUp", ENGINEER),
        ("ArrowUp", ENGINEER),
        ("ArrowDown", "When was the canal dug?"),
        ("ArrowDown", ""),
    ):
        page.press("#question", key)
        assert page.input_value("#question") == question
    page.fill("#question", "first\nsecond")  # within lines the keys move the caret
    page.press("#question", "ArrowUp")
    assert page.input_value("#question") == "first\nsecond"


def test_escape_closes_what_is_open_and_goes_to_the_question(visit: Any, passage: str) -> None:
    page = visit()
    ask(page, ENGINEER, passage)
    page.wait_for_selector("mark")
    look_inside(page)
    page.keyboard.press("Escape")
    assert page.is_hidden("#why")
    assert focused(page) == "why-button"
    page.keyboard.press("Escape")
    assert focused(page) == "question"


def test_the_answer_is_copied(visit: Any, passage: str) -> None:
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    ask(page, ENGINEER, passage)
    page.wait_for_selector("mark")
    page.click("#copy")
    page.wait_for_selector("#link-note:has-text('Copied.')")
    assert page.evaluate("navigator.clipboard.readText()") == "Josiah Penn"
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")  # as over plain HTTP
    page.evaluate("document.getElementById('link-note').textContent = ''")
    page.click("#copy")
    page.wait_for_selector("#link-note:has-text('Copied.')")
    assert focused(page) == "copy"


def test_text_question_and_history_outlive_a_reload_until_they_are_forgotten(visit: Any, passage: str) -> None:
    page = visit()
    assert "kept in this browser" in page.text_content("#kept")
    for question in (ENGINEER, "When was the canal dug?"):
        ask(page, question, passage)
        page.wait_for_selector(f"#asked:has-text('{question}')")
    page.fill("#question", "How long is it")
    page.reload()
    page.wait_for_selector("#earlier li", state="attached")
    assert page.input_value("#passage") == passage
    assert page.input_value("#question") == "How long is it"
    assert page.is_hidden("#result")
    earlier = page.locator("#earlier button").all_text_contents()
    assert [one.partition("?")[0] for one in earlier] == ["When was the canal dug", "Who was the engineer"]
    page.click("#history summary")
    page.click("#earlier button >> nth=1")
    page.wait_for_selector("#best:has-text('Josiah Penn')")

    page.click("#forget")
    page.wait_for_selector("#forget-note:has-text('Forgotten.')")
    assert page.is_hidden("#history")
    assert page.evaluate("localStorage.length") == 0
    page.reload()
    page.wait_for_selector("#samples button")
    assert page.input_value("#passage") == ""
    assert page.is_hidden("#history")


@pytest.mark.parametrize(
    "kept", ["{", "[]", '{"passage": 3}', '{"passage": "", "question": "", "earlier": [null, {}]}']
)
def test_what_another_page_left_there_does_no_harm(visit: Any, passage: str, kept: str) -> None:
    page = visit()
    page.evaluate("kept => localStorage.setItem('rmreader', kept)", kept)
    page.reload()
    page.wait_for_selector("#samples button")
    ask(page, ENGINEER, passage)
    page.wait_for_selector("mark")


def test_more_than_a_browser_keeps_is_not_kept_and_harms_nothing(visit: Any, passage: str) -> None:
    page = visit()
    page.evaluate("""() => { const box = document.getElementById('passage'); box.value = 'x'.repeat(3_000_000);
        box.dispatchEvent(new Event('input')); }""")
    page.wait_for_function("() => localStorage.getItem('rmreader')")
    assert page.evaluate("JSON.parse(localStorage.getItem('rmreader')).passage") == ""
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('full'); }; }")
    ask(page, ENGINEER, passage)
    page.wait_for_selector("mark")


def test_what_it_looked_at_is_told_in_plain_words_and_scrolled_to(visit: Any, reader: Any) -> None:
    text = FILLER * 18 + "Its engineer was Josiah Penn of Eskhaven. " + FILLER * 18
    page = visit()
    ask(page, ENGINEER, text)
    page.wait_for_selector("mark")
    page.click("#why-button")
    page.wait_for_selector("#plain:visible")
    assert page.text_content("#plain blockquote") == "Its engineer was Josiah Penn of Eskhaven."
    plain = page.text_content("#plain")
    explained = reader.explain(ENGINEER, text)
    words = explained.passage.words
    inside = [at for at, word in enumerate(words) if text[explained.passage.starts[at] :].startswith(word)]
    begin = text.index("Its engineer")
    inside = [at for at in inside if begin <= explained.passage.starts[at] < begin + 41]
    shares = [max(float(one.context[row, inside].sum()) for one in explained.rounds) for row in range(4)]
    assert f"of your question led to this sentence: “{explained.question.words[shares.index(max(shares))]}”" in plain
    assert f"The words of the answer, “{page.text_content('mark')}”, looked most at “" in plain
    assert "it is no proof" in plain
    assert page.is_hidden("#map")  # what is behind it comes after
    page.click("#numbers > summary")
    page.wait_for_selector("#map:visible")
    box, word = (
        page.locator("#passage-words").bounding_box(),
        page.locator("#passage-words b.answer").first.bounding_box(),
    )
    assert box["y"] <= word["y"] <= box["y"] + box["height"] - 20
    assert page.evaluate("document.getElementById('passage-words').scrollTop") > 0
    assert "how much each word of the text looks at your question" in page.text_content("#map-title")
    assert page.text_content("#axis-across") == "Words of the text, from the first to the last →"
    assert "Each line is a word of your question" in page.text_content("#axis-down")
