"""The page with texts from elsewhere: files, links, questions asked before, and texts longer than the window."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from support.page import ask, drop, told

from rmreader.core.errors import UserError

pytestmark = pytest.mark.browser


def packed(tree: Any) -> str:
    squeezed = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = squeezed.compress(json.dumps(tree).encode()) + squeezed.flush()
    return "#q=" + base64.urlsafe_b64encode(data).decode().rstrip("=")


def test_a_file_is_opened_or_dropped_and_asked(visit: Any, reader: Any, passage: str, tmp_path: Path) -> None:
    page = visit()
    file = tmp_path / "canal.txt"
    file.write_bytes(("\ufeff" + passage).encode())
    with page.expect_file_chooser() as chooser:
        page.click("#file-button")
    chooser.value.set_files(file)
    page.wait_for_function("() => document.getElementById('passage').value.length > 0")
    assert page.input_value("#passage") == passage
    assert page.evaluate("document.activeElement.id") == "question"  # what there is to do next
    page.keyboard.insert_text("Who was the engineer?")
    page.keyboard.press("Enter")
    page.wait_for_selector("mark")
    assert page.text_content("mark") == reader.ask("Who was the engineer?", passage)[0].text
    other = "It rained in Tarn — all day."
    drop(page, "rain.txt", other.encode("utf-16"))
    page.wait_for_selector("#passage:visible")
    assert page.input_value("#passage") == other
    assert page.is_hidden("#result")  # it was the answer to another text
    assert page.locator(".passage.over").count() == 0


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.pdf", b"%PDF-1.7 ...", "a.pdf: this is a PDF document, but"),
        ("a.docx", b"PK\x03\x04....", "a.docx: "),
        ("a.bin", b"\x00\x01\x02", "a.bin: this is binary data"),
        ("a.txt", b"x" * 401, "“a.txt” has 401 bytes; the most is 400"),
    ],
)
def test_a_file_that_is_no_text_is_a_sentence_and_no_answer_is_under_it(
    visit: Any, start: Any, name: str, content: bytes, sentence: str
) -> None:
    page = visit(start(max_upload=400).url)
    ask(page, "Where did it rain?", "It rained in Tarn.")
    page.wait_for_selector("mark")
    drop(page, name, content)
    page.wait_for_selector("#error:visible")
    assert sentence in page.text_content("#error")
    for stale in ("#result", "#reading", "#why"):
        assert page.is_hidden(stale)
    assert page.input_value("#passage") == "It rained in Tarn."


def test_questions_asked_before_can_be_asked_again_with_their_text(visit: Any, passage: str) -> None:
    page = visit()
    ask(page, "Who was the engineer?", passage)
    page.wait_for_selector("mark")
    assert page.is_hidden("#history")  # there is no earlier one
    first = page.text_content("mark")
    for _ in range(2):  # a question asked twice is there once
        ask(page, "Where did it rain?", "It rained in Tarn.")
        page.wait_for_selector("#best:has-text('Tarn')")
        page.wait_for_selector("#ask:enabled")
    page.focus("#history summary")
    page.keyboard.press("Enter")
    assert page.locator("#earlier button").all_text_contents() == [f"Who was the engineer? {first}"]
    page.click("#earlier button >> nth=0")
    page.wait_for_selector(f"#best:has-text({first!r})")
    assert page.input_value("#question") == "Who was the engineer?"
    assert page.text_content("#reading") == passage
    assert page.locator("#earlier button").all_text_contents() == ["Where did it rain? Tarn"]


def test_a_link_asks_the_question_again_and_no_server_sees_it(visit: Any, start: Any, passage: str) -> None:
    server = start()
    page, seen = visit(server.url), []
    page.on("request", lambda request: seen.append((request.url, request.headers.get("referer"))))
    text = f"😀 {passage}"
    ask(page, "Who was the engineer?", text)
    page.wait_for_selector("mark")
    page.wait_for_selector("#link[href^='#q=']")
    answer, link = page.text_content("mark"), page.evaluate("document.getElementById('link').href")
    page.focus("#link")
    page.keyboard.press("Enter")
    page.wait_for_selector("#link-note:not(:empty)")
    assert page.url == link
    assert page.text_content("mark") == answer
    assert page.is_visible("#result")  # following it to where one is changes nothing

    other = visit(link)
    other.wait_for_selector("mark")
    assert other.text_content("mark") == answer
    assert other.text_content("#reading") == text
    assert other.input_value("#question") == "Who was the engineer?"
    ask(other, "Where did it rain?", "It rained in Tarn.")
    other.wait_for_selector("#best:has-text('Tarn')")
    other.wait_for_function("() => location.hash === ''")  # the address never names another question than the one shown
    assert all("#" not in url and "engineer" not in url and not referer for url, referer in seen if "/v1/" not in url)


@pytest.mark.parametrize("kind", ["cut off", "no question", "bomb", "shelf"])
def test_a_damaged_link_is_a_sentence(visit: Any, server: Any, kind: str) -> None:
    trees = {"no question": [1], "bomb": {"question": "?", "passage": "x" * 70_000_000}, "shelf": {"question": "Who?"}}
    link = packed(trees.get(kind, {"question": "Who?", "passage": "Ada."}))
    page = visit(server.url + (link[:-9] if kind == "cut off" else link))
    page.wait_for_selector("#error:visible")
    said = "this server has none" if kind == "shelf" else "damaged or cut off"
    assert said in page.text_content("#error")
    assert page.is_hidden("#result")


@pytest.mark.parametrize("phone", [False, True])
def test_a_long_text_is_scrolled_to_its_answer(visit: Any, reader: Any, phone: bool) -> None:
    filler = "The committee met on a Tuesday and talked about the roof, the drains and the price of coal. "
    text = filler * 60 + "The new bridge was designed by Ada Fenwick of Leeds. " + filler * 60
    page = visit(viewport={"width": 360, "height": 740} if phone else {"width": 1180, "height": 900}, is_mobile=phone)
    ask(page, "Who designed the new bridge?", text)
    page.wait_for_selector("mark")
    (best,) = reader.ask("Who designed the new bridge?", text)
    assert page.text_content("#best") == told(reader.ask("Who designed the new bridge?", text), best)
    place, box = page.locator("mark").bounding_box(), page.locator("#reading").bounding_box()
    assert box["y"] <= place["y"] <= box["y"] + box["height"] - 20
    assert page.evaluate("document.getElementById('reading').scrollTop") > 500
    shown = page.locator("#best").bounding_box()  # and the answer itself is on the screen
    assert shown["y"] >= 0
    assert shown["y"] + shown["height"] <= page.viewport_size["height"] + 1


def test_candidates_are_different_answers(visit: Any, passage: str) -> None:
    page = visit()
    for question in ("Who was the engineer?", "When was the canal dug?", "Which river does the canal join?"):
        ask(page, question, passage * 2)
        page.wait_for_selector("#ask:enabled")
        page.wait_for_selector("#best:visible")
        texts = [text.lower() for text in page.locator("#answers .text").all_text_contents()]
        assert len(texts) == len(set(texts))
        assert all(any(one.isalnum() for one in text) for text in texts)


def test_a_question_may_have_as_many_words_as_ask_takes(visit: Any, server: Any, reader: Any, passage: str) -> None:
    page, words = visit(), "Who was the engineer? " + "of it " * 1_500
    ask(page, words, passage)
    page.wait_for_selector("#best:visible", timeout=60_000)
    words = "who " * 10_001
    with pytest.raises(UserError, match="10,001 words") as refused:
        reader.ask(words, passage)
    ask(page, words, passage)
    page.wait_for_selector("#error:visible", timeout=60_000)
    assert page.text_content("#error") == str(refused.value)
