"""The page in a real Chromium: ask, see, choose, look inside, and be told what went wrong."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from support.page import ask, contrast, look_inside, luminance, percent

from rmreader.reading.reader import Reader

pytestmark = pytest.mark.browser
BUILDERS = {"Ann Lee": "Tarn", "Bob Ray": "Keld", "Carl May": "Dorn"}


def pick(page: Any, name: str, value: Any) -> None:
    page.click(f"label:has(input[name={name}][value='{value}'])")


def tints(page: Any, side: str) -> list[float]:
    script = "words => words.map(word => Number(word.style.getPropertyValue('--a')))"
    return list(page.eval_on_selector_all(f"#{side}-words b", script))


def strongest(lit: list[float], shares: np.ndarray) -> bool:  # type: ignore[type-arg]
    """Whether the word that is tinted most is the one with the largest share, up to the rounding of tints."""
    return bool(max(lit) > 0 and abs(shares[int(np.argmax(lit))]) >= 0.95 * np.abs(shares).max())


def test_the_answer_is_highlighted_in_place(visit: Any, reader: Any, passage: str, questions: list[str]) -> None:
    page = visit()
    for question in questions[:2]:
        best = reader.ask(question, passage)[0]
        ask(page, question, passage)
        page.wait_for_selector(f"#best:has-text({best.text!r})")
        assert page.text_content("mark") == best.text
        assert page.text_content("#reading") == passage
        before = page.evaluate("document.querySelector('mark').previousSibling?.textContent ?? ''")
        assert len(before) == best.start
        assert page.text_content("#asked") == question
    assert page.get_attribute("#told", "aria-live") == "polite"


def test_offsets_survive_characters_beyond_the_basic_plane(visit: Any, reader: Any, passage: str) -> None:
    text = f"😀𝔘 {passage} 🎈"
    page = visit()
    ask(page, "Who was the engineer?", text)
    page.wait_for_selector("mark")
    assert page.text_content("mark") == reader.ask("Who was the engineer?", text)[0].text
    assert page.text_content("#reading") == text


def test_choosing_a_candidate_moves_the_highlight(visit: Any, start: Any, reader: Any) -> None:
    undecided = Reader(reader.folder, reader.engine)
    undecided.decision = None  # so that it answers, whatever it doubts
    page = visit(start(undecided).url)
    passage = "".join(f"{name} built the bridge at {place}. " for name, place in BUILDERS.items())
    question = "Who built the bridge?"
    ask(page, question, passage)
    page.wait_for_selector("mark")
    found = undecided.ask(question, passage, top=12)
    expected = [answer for answer in found if answer.confidence >= 0.05][:6]  # the others only distract
    assert 1 < len(expected) < 12
    rows = page.locator("#answers button")
    assert [row.locator(".text").text_content() for row in rows.all()] == [answer.text for answer in expected]
    rows.nth(1).focus()
    page.keyboard.press("Enter")
    assert page.text_content("mark") == expected[1].text
    assert page.get_attribute("mark", "class") == found.doubt(expected[1])
    assert rows.nth(1).get_attribute("aria-pressed") == "true"
    assert rows.nth(0).get_attribute("aria-pressed") == "false"
    widths = [row.locator(".bar i").evaluate("bar => bar.getBoundingClientRect().width") for row in rows.all()]
    page.wait_for_timeout(350)
    assert widths == sorted(widths, reverse=True)
    for row, answer in zip(rows.all(), expected, strict=True):
        assert row.locator("span").all_text_contents()[2:] == [f"{found.doubt(answer)}, {percent(answer.confidence)}"]
    assert f"candidate 2, {percent(expected[1].confidence)}" in page.text_content("#best small").replace(
        "perhaps, ", ""
    )


def test_samples_ask_by_themselves(visit: Any) -> None:
    page = visit()
    page.click("#samples button >> nth=1")
    page.wait_for_selector("mark")
    first = page.text_content("#best")
    page.click("#suggestions button >> nth=2")
    page.wait_for_function("text => document.getElementById('best').textContent !== text", arg=first)
    assert page.input_value("#question") == page.text_content("#suggestions button >> nth=2")


def test_hovering_a_word_tints_what_attends_to_it(visit: Any, reader: Any, passage: str, questions: list[str]) -> None:
    page = visit()
    ask(page, questions[0], passage)
    page.wait_for_selector("mark")
    look_inside(page)
    explained = reader.explain(questions[0], passage)
    rounds = [np.asarray(one.interactive) for one in explained.rounds]
    n, m = rounds[0].shape
    assert page.locator("#question-words b").count() == n
    assert page.locator("#passage-words b").count() == m
    assert page.is_checked(f"#rounds input[value='{len(rounds) - 1}']")  # the last round is shown first
    assert "Attention is how strongly the reader ties one word to another" in page.text_content("#why-lead")
    last = rounds[-1]
    row = int(last.max(axis=1).argmax())
    page.hover(f"#question-words b >> nth={row}")
    assert strongest(tints(page, "passage"), last[row])
    assert max(tints(page, "question")) == 0
    assert "is looked at most by" in page.text_content("#readout")
    page.hover("#passage-words b >> nth=4")
    assert strongest(tints(page, "question"), last[:, 4])
    assert f"{round(float(last[:, 4].max()) * 100)} %" in page.text_content("#readout")
    pick(page, "round", 0)
    row = int(rounds[0].max(axis=1).argmax())  # one that has more than an even share, below which nothing is tinted
    page.hover(f"#question-words b >> nth={row}")
    assert strongest(tints(page, "passage"), rounds[0][row])


def test_self_attention_and_what_reattention_changed(
    visit: Any, reader: Any, passage: str, questions: list[str]
) -> None:
    page = visit()
    ask(page, questions[0], passage)
    page.wait_for_selector("mark")
    look_inside(page)
    rounds = [np.asarray(getattr(one, "self")) for one in reader.explain(questions[0], passage).rounds]  # noqa: B009
    assert page.locator("#rounds input").count() == 2 * len(rounds) - 1
    pick(page, "kind", "self")
    page.hover("#passage-words b >> nth=5")
    assert strongest(tints(page, "passage"), rounds[-1][:, 5])
    pick(page, "round", len(rounds))
    page.hover("#passage-words b >> nth=6")
    page.hover("#passage-words b >> nth=5")
    change = (rounds[1] - rounds[0])[:, 5]
    lit = tints(page, "passage")
    assert strongest(lit, change)
    word = int(np.argmax(lit))
    tone = page.locator("#passage-words b").nth(word).evaluate("word => word.style.getPropertyValue('--tone')")
    assert tone == ("var(--gain)" if change[word] > 0 else "var(--loss)")
    assert "What a look back changed from round 1 to 2" in page.text_content("#map-title")
    assert page.text_content("#axis-down").startswith("↑ Each line is a word of the text too")


def test_the_heat_map_is_drawn_and_names_the_cell_under_the_mouse(
    visit: Any, reader: Any, passage: str, questions: list[str]
) -> None:
    page = visit()
    ask(page, questions[0], passage)
    page.wait_for_selector("mark")
    look_inside(page)
    explained = reader.explain(questions[0], passage)
    matrix = np.asarray(explained.rounds[-1].interactive)
    n, m = matrix.shape
    row, column = np.unravel_index(int(matrix.argmax()), matrix.shape)
    box = page.evaluate("""() => { const map = document.getElementById('map'); map.scrollIntoView({block: 'center'});
        const box = map.getBoundingClientRect(); return {width: box.width - 34, height: box.height - 74}; }""")
    page.hover("#map", position={"x": (column + 0.5) * box["width"] / m, "y": 74 + (row + 0.5) * box["height"] / n})
    across = page.locator("#passage-words b").nth(column).text_content()
    down = page.locator("#question-words b").nth(row).text_content()
    assert page.text_content("#cell") == f"“{across}” at “{down}”: {matrix[row, column] * 100:.1f} %"
    assert page.locator("#passage-words b.linked").count() == 1
    colours = page.evaluate("""() => { const map = document.getElementById('map'), pixels = map.getContext('2d')
        .getImageData(0, 74, map.width, map.height - 74).data, seen = new Set();
        for (let at = 0; at < pixels.length; at += 4) seen.add(pixels.slice(at, at + 4).join()); return seen.size; }""")
    assert colours > 20


def test_everything_can_be_done_from_the_keyboard(visit: Any, passage: str, questions: list[str]) -> None:
    page = visit()
    page.focus("#passage")
    page.keyboard.insert_text(passage)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "question"
    page.keyboard.insert_text(questions[0])
    page.keyboard.press("Enter")
    page.wait_for_selector("mark")
    for _ in range(12):
        if page.evaluate("document.activeElement.id") == "why-button":
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#why:visible")
    assert page.evaluate("document.activeElement.id") == "why-label"  # where there is something new to read
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#map:visible")
    for _ in range(3):  # attention, round, question words
        page.keyboard.press("Tab")
    focused = "Number(document.activeElement.dataset.index)"
    assert page.evaluate("document.activeElement.closest('.words').id") == "question-words"
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused) == 1
    assert "is looked at most by" in page.text_content("#readout")
    assert page.evaluate("document.activeElement.getAttribute('aria-describedby')") == "readout"
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    last = page.evaluate(focused)
    page.keyboard.press("ArrowUp")
    assert page.evaluate(focused) < last - 1
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "map"
    page.keyboard.press("ArrowDown")
    first = page.text_content("#cell")
    page.keyboard.press("Shift+ArrowRight")
    assert page.text_content("#cell") != first
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"


def test_every_control_has_a_name(visit: Any, passage: str) -> None:
    page = visit()
    page.click("#samples button >> nth=0")
    page.wait_for_selector("mark")
    look_inside(page)
    nameless = page.evaluate("""() =>
        [...document.querySelectorAll('button, input, textarea, canvas:not([aria-hidden])')]
        .filter(one => !(one.textContent.trim() || one.labels?.length || one.getAttribute('aria-label')))
        .map(one => one.outerHTML)""")  # fmt: skip
    assert nameless == []


@pytest.mark.parametrize(
    ("question", "passage", "sentence"), [("", "Some text.", "no question yet"), ("Who?", " ", "no passage yet")]
)
def test_missing_input_is_a_sentence(visit: Any, question: str, passage: str, sentence: str) -> None:
    page = visit()
    ask(page, question, passage)
    assert sentence in page.text_content("#error:visible")
    assert page.is_hidden("#result")


def test_too_much_text_is_a_sentence(visit: Any, start: Any) -> None:
    server = start(max_question=1500, max_body=2000, max_upload=500)
    page = visit(server.url)
    ask(page, "who " * 400, "word")
    assert "1,600 characters; the most is 1,500" in page.text_content("#error:visible")
    ask(page, "Who?", "ö" * 290 + "\\" * 10)
    page.wait_for_selector("#best:visible")  # an answer, or that there is none
    ask(page, "ö" * 1000, "word")  # 2,000 bytes of UTF-8, which only the server counts
    page.wait_for_selector("#error:visible:has-text('2,000 bytes')")
    assert page.is_enabled("#ask")


def test_a_server_that_is_gone_is_a_sentence(visit: Any, start: Any, passage: str) -> None:
    server = start()
    page = visit(server.url)
    ask(page, "Who was the engineer?", passage)
    page.wait_for_selector("mark")
    server.stop()
    page.click("#why-button")
    page.wait_for_selector("#error:visible:has-text('The server does not answer')")
    assert page.text_content("#reading:visible mark")  # the question was answered all the same
    page.click("#ask")
    page.wait_for_selector("#ask:enabled")
    assert page.text_content("#error:visible") == "The server does not answer. Is it still running?"
    assert page.is_hidden("#result")  # the answer there was would be taken for this one
    assert page.is_hidden("#reading")
    assert page.input_value("#passage") == passage


def test_a_busy_server_is_a_sentence(visit: Any, start: Any, held: Any, passage: str) -> None:
    page = visit(start(held, deadline=0.3).url)
    ask(page, "Who?", passage)
    page.wait_for_selector("#error:visible:has-text('No answer within 0.3 seconds')")


def test_a_key_is_asked_for_where_the_server_wants_one(visit: Any, start: Any, passage: str) -> None:
    page = visit(start(api_key="open-sesame").url)
    ask(page, "Who was the engineer?", passage)
    page.wait_for_selector("#error:visible:has-text('API key')")
    for odd in ("schlüssel€", "offen"):  # no header can hold the first
        page.fill("#key", odd)
        page.press("#key", "Enter")
        said = "only unaccented letters" if odd != "offen" else "asks for its API key"
        page.wait_for_selector(f"#error:visible:has-text('{said}')")
    page.fill("#key", " open-sesame")
    page.press("#key", "Enter")
    page.wait_for_selector("mark")


def test_attention_to_a_question_since_replaced_is_dropped(visit: Any, passage: str, questions: list[str]) -> None:
    page, kept = visit(), []
    ask(page, questions[0], passage)
    page.wait_for_selector("mark")
    page.route("**/v1/*", lambda route: kept.append(route))  # nothing passes until the test lets it
    page.click("#why-button")  # about the first question
    ask(page, "Where did it rain?", "It rained in Tarn.")
    while len(kept) < 2:
        page.wait_for_timeout(10)
    explain, answer = kept
    answer.continue_()
    page.wait_for_selector("#best:has-text('Tarn')")
    explain.continue_()
    page.wait_for_selector("#why-button:enabled")
    assert page.is_hidden("#why")
    assert page.text_content("#why-button") == "Show what it looked at"
    page.unroute("**/v1/*")
    look_inside(page)
    assert page.text_content("#question-words") == "Where did it rain?"
    assert page.text_content("#passage-words") == "It rained in Tarn."


def test_a_long_passage_shows_the_attention_round_its_answer(visit: Any, start: Any, passage: str) -> None:
    page = visit(start(max_explain=600).url)
    ask(page, "Who was the engineer?", passage * 10)
    page.wait_for_selector("mark")
    look_inside(page)
    assert re.search(r"in the \d+ characters round the answer", page.text_content("#why-note"))
    marked = "".join(
        page.eval_on_selector_all("#passage-words b.answer", "words => words.map(word => word.textContent)")
    )
    assert marked == page.text_content("mark").replace(" ", "")


def test_a_phone_never_scrolls_sideways(visit: Any) -> None:
    page = visit(viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
    page.tap("#samples button >> nth=3")
    page.wait_for_selector("mark")
    page.tap("#why-button")
    page.tap("#numbers > summary")
    page.wait_for_selector("#map:visible")
    for kind in ("interactive", "self"):
        pick(page, "kind", kind)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.tap("#passage-words b >> nth=8")
    assert (
        page.locator("#passage-words b.active").text_content() == page.locator("#passage-words b").nth(8).text_content()
    )
    small = page.evaluate("[...document.querySelectorAll('main button')].filter(b => b.offsetParent && b.id !== 'edit'"
                          " && b.getBoundingClientRect().height < 28).map(b => b.outerHTML)")  # fmt: skip
    assert small == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_colour_schemes_are_readable(visit: Any, passage: str, scheme: str) -> None:
    page = visit(color_scheme=scheme)
    page.click("#samples button >> nth=0")
    page.wait_for_selector("mark")
    card = luminance(page.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor"))
    assert (card < 0.1) == (scheme == "dark")
    for selector in ("#reading", ".quiet", "#best", "#edit", "mark", ".primary"):
        assert contrast(page, selector) >= 4.5, selector
