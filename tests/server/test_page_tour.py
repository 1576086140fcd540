"""The tour of reattention: three steps, told with the attention of the reader that runs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from support.page import ask, contrast

pytestmark = pytest.mark.browser


def quoted(page: Any) -> list[str]:
    return re.findall("“([^”]*)”", page.text_content("#tour-text"))


def figure(share: float) -> str:
    return f"{share * 100:.1f} %" if share < 0.1 else f"{int(share * 100 + 0.5)} %"


def lit(page: Any, side: str, name: str) -> list[float]:
    script = "(words, name) => words.map(word => Number(word.style.getPropertyValue(name)))"
    return list(page.eval_on_selector_all(f"#tour-{side} b", script, name))


def test_three_steps_tell_what_the_reader_did(visit: Any, reader: Any, passage: str) -> None:
    page, question = visit(), "Who was the engineer?"
    ask(page, question, passage)
    page.wait_for_selector("mark")
    page.focus("#tour-button")
    page.keyboard.press("Enter")
    page.wait_for_selector("#tour:visible")
    explained = reader.explain(question, passage)
    words, first, second = explained.passage.words, explained.rounds[0], explained.rounds[1]
    assert page.evaluate("document.activeElement.id") == "tour-title"
    assert page.text_content("#tour-title").startswith("Step 1 of 3")
    assert page.get_attribute("#tour-text", "aria-live") == "polite"

    answer, most = quoted(page)[:2]
    assert answer in page.text_content("#best")
    (j,) = [at for at, word in enumerate(words) if word == answer]
    assert page.text_content("#tour-passage b.active") == answer
    assert explained.question.words[int(first.interactive[:, j].argmax())] == most
    assert int(np.argmax(lit(page, "question", "--a"))) == int(first.interactive[:, j].argmax())
    assert max(lit(page, "passage", "--a")) == 0

    page.click("#tour-next")
    assert page.text_content("#tour-title").startswith("Step 2 of 3")
    column = np.asarray(getattr(first, "self"))[:, j]  # noqa: B009
    tints = lit(page, "passage", "--a")
    assert column[int(np.argmax(tints))] >= 0.95 * column.max()
    assert max(lit(page, "question", "--a")) == 0

    page.click("#tour-next")
    asking = quoted(page)[0]
    i = explained.question.words.index(asking)
    overlap = float(first.context[i] @ column)  # Eq. 4
    told = page.text_content("#tour-text")
    assert f"overlap is {figure(overlap)}" in told
    before, after = (f"{int(one.interactive[i, j] * 100 + 0.5)} %" for one in (first, second))
    assert re.search(f"{before} of its attention in round 1 and {after} in round 2", told.replace("< 1 %", "0 %"))
    assert int(np.argmax(lit(page, "passage", "--a"))) == int(first.context[i].argmax())
    assert column[int(np.argmax(lit(page, "passage", "--line")))] >= 0.95 * column.max()
    assert page.text_content("#tour-question b.active") == asking

    page.click("#tour-back")
    assert page.text_content("#tour-title").startswith("Step 2 of 3")
    page.keyboard.press("Escape")
    assert page.is_hidden("#tour")
    assert page.evaluate("document.activeElement.id") == "tour-button"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_who_has_asked_nothing_tours_a_sample_on_a_phone(visit: Any, scheme: str) -> None:
    phone = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True, "color_scheme": scheme}
    page = visit(**phone)
    page.tap("#tour-button")
    page.wait_for_selector("#tour:visible")
    for step in (1, 2, 3):
        assert page.text_content("#tour-title").startswith(f"Step {step} of 3")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        for selector in ("#tour-title", "#tour-text", "#tour-next", "#tour-close"):
            assert contrast(page, selector) >= 4.5, selector
        page.tap("#tour-next")
    assert page.is_hidden("#tour")


def test_a_new_question_ends_the_tour(visit: Any, passage: str, questions: list[str]) -> None:
    page = visit()
    ask(page, questions[0], passage)
    page.wait_for_selector("mark")
    page.click("#tour-button")
    page.wait_for_selector("#tour:visible")
    ask(page, questions[1], passage)
    page.wait_for_selector("#tour", state="hidden")
