"""The page where the passage does not say, and where the server does not: doubt, guesses and nothing stale."""

from __future__ import annotations

from typing import Any

import pytest
from support.page import ask, contrast, look_inside, percent, told

pytestmark = pytest.mark.browser
ABSENT = "When did Napoleon see the canal?"


def background(page: Any, selector: str) -> str:
    return str(page.evaluate("one => getComputedStyle(document.querySelector(one)).background", selector))


def test_a_question_without_an_answer_shows_doubt_and_the_guess_on_request(
    visit: Any, start: Any, doubting: Any, passage: str, questions: list[str]
) -> None:
    page, guess = visit(start(doubting).url), doubting.ask(ABSENT, passage).guess
    ask(page, questions[0], passage)
    page.wait_for_selector("#reading mark")
    answers = doubting.ask(questions[0], passage)
    answer = answers[0]
    assert page.text_content("#best") == told(answers, answer)
    assert page.is_hidden("#guess-button")
    given, style = background(page, "mark"), page.get_attribute("#best", "class")

    ask(page, ABSENT, passage)
    page.wait_for_selector("#best:has-text('Not in this passage')")
    assert page.text_content("#best") == "Not in this passage 94 % sure"
    needs = "An answer would need a sentence that says when; this passage never mentions “Napoleon” or “see”."
    assert page.text_content("#needs:visible") == needs
    assert page.get_attribute("#best", "class") != style
    assert page.text_content("#reading:visible") == passage
    assert page.locator("mark").count() == 0
    assert guess.text not in page.inner_text("#result")
    for other in ("#candidates", "#guess", "#why-button"):
        assert page.is_hidden(other)

    page.focus("#guess-button")
    assert page.get_attribute("#guess-button", "aria-expanded") == "false"
    page.keyboard.press("Enter")
    assert page.get_attribute("#guess-button", "aria-expanded") == "true"
    assert page.get_attribute("#guess-button", "aria-controls") == "guess"
    assert page.text_content("#guess:visible") == f"{guess.text} only a guess, {percent(guess.confidence)}"
    assert page.text_content("#best") == "Not in this passage 94 % sure"
    assert page.text_content("mark.guess") == guess.text
    before = page.evaluate("document.querySelector('mark').previousSibling?.textContent ?? ''")
    assert len(before) == guess.start
    assert background(page, "mark") != given
    look_inside(page)

    page.click("#guess-button")
    assert page.get_attribute("#guess-button", "aria-expanded") == "false"
    assert page.locator("mark").count() == 0
    assert page.is_hidden("#guess")
    assert page.is_hidden("#why")
    ask(page, questions[0], passage)
    page.wait_for_selector("mark:not(.guess)")
    assert page.text_content("mark") == answer.text
    assert page.get_attribute("#best", "class") == style
    assert page.is_hidden("#guess-button")


def test_an_open_guess_is_not_carried_to_the_next_question(
    visit: Any, start: Any, doubting: Any, passage: str, questions: list[str]
) -> None:
    page = visit(start(doubting).url)
    for question in (ABSENT, questions[0], ABSENT):
        ask(page, question, passage)
        page.wait_for_selector("#best.doubt" if question == ABSENT else "mark:not(.guess)")
        assert page.is_hidden("#guess")
        if question == ABSENT:
            assert page.locator("mark").count() == 0
            page.click("#guess-button")
            page.wait_for_selector("mark.guess")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_doubt_is_readable_on_a_phone(visit: Any, start: Any, doubting: Any, passage: str, scheme: str) -> None:
    options = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True, "color_scheme": scheme}
    page = visit(start(doubting).url, **options)
    ask(page, ABSENT, passage)
    page.tap("#guess-button")
    page.wait_for_selector("mark.guess")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("#guess-button").bounding_box()["height"] >= 28
    for selector in ("#best", "#best small", "#needs", "#guess", "#guess small", "#guess-button", "mark.guess"):
        assert contrast(page, selector) >= 4.5, selector


@pytest.mark.parametrize("fails", ["empty question", "refused"])
def test_no_earlier_answer_is_shown_under_an_error(visit: Any, start: Any, passage: str, fails: str) -> None:
    page = visit(start(max_body=2000).url)
    ask(page, "Who was the engineer?", passage)
    page.wait_for_selector("mark")
    look_inside(page)
    page.fill("#question", "" if fails == "empty question" else "ö" * 1000)
    page.press("#question", "Enter")
    page.wait_for_selector("#error:visible")
    for stale in ("#result", "#reading", "#why"):
        assert page.is_hidden(stale)
    assert page.input_value("#passage") == passage
    assert page.is_enabled("#ask")
    page.fill("#question", "Who was the engineer?")
    page.press("#question", "Enter")
    page.wait_for_selector("#reading mark")
    assert page.is_hidden("#error")


def test_attention_that_does_not_come_is_not_another_questions(visit: Any, passage: str, questions: list[str]) -> None:
    page = visit()
    ask(page, questions[0], passage)
    page.wait_for_selector("mark")
    look_inside(page)
    page.route("**/v1/explain", lambda route: route.abort())
    page.fill("#question", questions[1])
    page.press("#question", "Enter")
    page.wait_for_selector("#error:visible:has-text('The server does not answer')")
    assert page.is_hidden("#why")
    assert page.text_content("#why-button:visible") == "Show what it looked at"
    assert page.text_content("#reading:visible mark")
