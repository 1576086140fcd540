"""What a notebook shows of answers and explanations: well-formed HTML that no text can break out of."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from rmreader.reading.answers import Answer, Answers
from rmreader.reading.reader import Reader

PASSAGE = "It was raining. The letter was written by Ada Lovelace in 1843."
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "</details></div></mark><h1>",
    "<!-- --><style>*{display:none}</style>",
    "&lt;b&gt; &amp;&#x3c;",
    "javascript:alert(1)",
    "\x00\x1b[31m\ud800\u202e‮",
]


class Tags(HTMLParser):
    """Every tag, attribute and text there is; closing what was not opened is a mistake."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.text = ""
        html.encode()  # a lone surrogate would not go through the notebook's socket
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def check(html: str) -> Tags:
    found = Tags(html)
    known = {"p", "em", "ol", "li", "strong", "small", "br", "mark", "div", "details", "summary", "span"}
    assert found.names <= known
    assert found.attributes <= {"style", "title", "open"}
    return found


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader.load("small")


def test_an_answer_is_marked_in_its_sentence(reader: Reader) -> None:
    answers = reader.ask("Who wrote the letter?", PASSAGE, top=2)
    html = answers._repr_html_()
    assert check(html).text.startswith("Ada Lovelace (")
    assert ">Ada Lovelace</mark> in 1843." in html
    assert html.count("<li>") == 2
    assert answers[0]._repr_html_() in html
    art = Answer("art", 23, 26, -1.0, 0.5, "The party of art.", 10)
    assert "The party of <mark" in art._repr_html_()


def test_of_two_equal_words_the_right_one_is_marked() -> None:
    first = Answer("Ada", 0, 3, -1.0, 0.5, "Ada met Ada.", 0)
    second = Answer("Ada", 8, 11, -1.0, 0.5, "Ada met Ada.", 0)
    assert first._repr_html_().endswith("Ada</mark> met Ada.")
    assert ">Ada met <mark" in second._repr_html_()
    assert second._repr_html_().endswith("Ada</mark>.")


def test_doubt_is_shown_as_doubt(reader: Reader) -> None:
    answers = reader.ask("How many windows does the castle have?", PASSAGE)
    assert check(answers._repr_html_()).text.startswith("not in this passage")
    assert check(Answers()._repr_html_()).text == "no answer"


def test_an_explanation_shows_every_round_the_last_first(reader: Reader) -> None:
    explanation = reader.explain("Who wrote the letter?", PASSAGE)
    html = explanation._repr_html_()
    text = check(html).text
    assert [text.index(f"round {number}") for number in (3, 2, 1)] == sorted(
        text.index(f"round {n}") for n in (1, 2, 3)
    )
    assert html.count("<details open>") == 1
    assert html.count("<span ") == 3 * len(explanation.passage.words)
    assert check(reader.explain("Who?", "")._repr_html_()).text == "Who ?nothing to read"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(reader: Reader, text: str) -> None:
    passage = f"{text} wrote the letter. {text} {text}"
    for found in (reader.ask(text, passage, top=5, always=True), reader.explain(text, passage)):
        check(found._repr_html_())
    answer = Answer(text, 0, len(text), -1.0, 0.5, f"{text} {text}", 0)
    shown = check(answer._repr_html_())
    if text.isprintable():
        assert shown.text.count(text) == 3
    check(Answers(no_answer=0.9, guess=answer, absent=True)._repr_html_())
