"""A page of a PDF document as a picture: drawn in the sandbox, the answer's rectangles where its letters are."""

from __future__ import annotations

import io
from array import array
from collections.abc import Iterator
from typing import Any

import pytest
from support.documents import pdf

from rmreader.core.errors import UserError
from rmreader.documents.document import read_document
from rmreader.documents.formats import pdf as pdf_format
from rmreader.documents.page_image import PagePlace, draw_page
from rmreader.documents.passages import split
from rmreader.documents.sandbox import Sandbox

pytest.importorskip("pypdfium2", reason="pypdfium2, which comes with the extra `pdf`, is not installed")
PAGES = [["The canal was dug in 1791."], ["Its engineer was Josiah Penn,", "who had never built one before."]]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    one = Sandbox()
    yield one
    one.close()


def dark(image: Any, area: Any) -> float:
    """The share of the ink of a page that is in an area."""
    pillow = pytest.importorskip("PIL.Image", reason="Pillow, which comes with the extra `lab`, is not installed")
    picture = pillow.open(io.BytesIO(image.png)).convert("L").point(lambda value: 255 if value < 128 else 0)
    assert picture.size == (image.width, image.height)
    whole = sum(picture.histogram()[128:])
    box = (area.left * image.width - 2, area.top * image.height - 2, area.right * image.width + 2)
    part = picture.crop((*map(round, box), round(area.bottom * image.height + 2)))
    return float(sum(part.histogram()[128:]) / whole)


def place_of(content: bytes, words: str) -> PagePlace:
    """Where some words of a document are, by the passage that has them."""
    for passage in split(read_document("a.pdf", content).paragraphs):
        if words in passage.text:
            at = passage.text.index(words)
            return PagePlace.of(passage, at, at + len(words))
    raise AssertionError(words)


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_the_page_has_its_ink_where_the_areas_are(sandbox: Sandbox, turn: int) -> None:
    content = pdf(PAGES).replace(b"/Type /Page ", b"/Type /Page /Rotate %d " % turn)
    areas = []
    for line in PAGES[1]:
        image = sandbox.draw_page("a.pdf", content, place_of(content, line))
        assert (image.page, len(image.areas)) == (2, 1)
        areas += image.areas
    assert (image.width > image.height) == (turn in (90, 270))
    assert sum(dark(image, area) for area in areas) > 0.95  # all the ink of the page
    (area,) = sandbox.draw_page("a.pdf", content, place_of(content, "Josiah")).areas
    assert 0 < dark(image, area) < 0.3


def test_an_answer_over_two_lines_has_two_areas(sandbox: Sandbox) -> None:
    content = pdf(PAGES)
    passage = next(split(list(read_document("a.pdf", content).paragraphs)[1:]))
    image = sandbox.draw_page("a.pdf", content, PagePlace.of(passage, 0, len(passage.text)))
    assert len(image.areas) == 2
    assert sum(dark(image, area) for area in image.areas) > 0.95


def test_of_two_equal_lines_the_one_that_is_meant_is_marked(sandbox: Sandbox) -> None:
    content = pdf([["Same again."], ["First part.", "Same again.", "Last part.", "Same again."]])
    passage = list(split(read_document("a.pdf", content).paragraphs))[1]
    ends = []
    for at in (passage.text.index("Same"), passage.text.rindex("Same")):
        (area,) = sandbox.draw_page("a.pdf", content, PagePlace.of(passage, at, at + 4)).areas
        ends.append(area.top)
    assert ends[1] > ends[0] + 0.02


def test_a_passage_that_is_not_on_its_page_is_not_marked(sandbox: Sandbox) -> None:
    place = place_of(pdf(PAGES), "Josiah")
    image = sandbox.draw_page("a.pdf", pdf([["Something else."], ["Something else."]]), place)
    assert (image.page, list(image.areas)) == (2, [])
    with pytest.raises(UserError, match="page 2 cannot be read"):
        sandbox.draw_page("a.pdf", pdf([["Only one page."]]), place)


@pytest.mark.parametrize("size", ["0 0 1000000 1000000", "0 0 0.001 0.001", "5 5 5 5", "-900000 0 900000 1"])
def test_a_page_of_any_size_is_a_picture_of_a_bounded_one(sandbox: Sandbox, size: str) -> None:
    content = pdf(PAGES).replace(b"0 0 612 792", size.encode())
    assert size.encode() in content
    image = sandbox.draw_page("a.pdf", content, place_of(pdf(PAGES), "1791"))
    assert 1 <= image.width <= 1_600
    assert 1 <= image.height <= 1_600
    assert len(image.png) < 10_000_000


def test_only_the_page_itself_is_read(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    monkeypatch.setattr(pdf_format, "_characters", lambda page: read.append(1) or ([], array("f")))
    draw_page("a.pdf", pdf(PAGES * 50), PagePlace(60, [("Josiah", 4_000, 6)], 4_000, 4_006))
    assert len(read) == 1


def test_damage_is_a_sentence_and_the_next_page_is_drawn(sandbox: Sandbox) -> None:
    whole = pdf(PAGES)
    place = place_of(whole, "1791")
    with pytest.raises(UserError, match=r"a\.pdf"):
        sandbox.draw_page("a.pdf", whole[: len(whole) // 4], place)
    sandbox.close()
    with pytest.raises(UserError, match="takes more than 0 s"):  # it has yet to start
        sandbox.draw_page("a.pdf", whole, place, seconds=0)
    assert sandbox.draw_page("a.pdf", whole, place).page == 1
