"""A page of a PDF document as a picture: drawn in the sandbox, the answer's rectangles where its letters are."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from support.documents import pdf

from rmreader.core.errors import UserError
from rmreader.documents.document import read_document
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


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_the_page_has_its_ink_where_the_areas_are(sandbox: Sandbox, turn: int) -> None:
    content = pdf(PAGES).replace(b"/Type /Page ", b"/Type /Page /Rotate %d " % turn)
    original = read_document("a.pdf", content).original
    start = original.index("\f") + 1
    end = original.rindex("\f")
    image = sandbox.draw_page("a.pdf", content, start, end)
    assert (image.page, len(image.areas)) == (2, 2)
    assert (image.width > image.height) == (turn in (90, 270))
    assert sum(dark(image, area) for area in image.areas) > 0.95  # all the ink of the page
    word = original.index("Josiah")
    (area,) = sandbox.draw_page("a.pdf", content, word, word + len("Josiah")).areas
    assert 0 < dark(image, area) < 0.3


def test_a_span_without_letters_shows_the_page_that_is_named(sandbox: Sandbox) -> None:
    image = sandbox.draw_page("a.pdf", pdf(PAGES), 0, 0, 2)
    assert (image.page, image.areas) == (2, [])
    with pytest.raises(UserError, match="no page 3"):
        sandbox.draw_page("a.pdf", pdf(PAGES), 0, 0, 3)


@pytest.mark.parametrize("size", ["0 0 1000000 1000000", "0 0 0.001 0.001", "5 5 5 5", "-900000 0 900000 1"])
def test_a_page_of_any_size_is_a_picture_of_a_bounded_one(sandbox: Sandbox, size: str) -> None:
    content = pdf(PAGES).replace(b"0 0 612 792", size.encode())
    assert size.encode() in content
    image = sandbox.draw_page("a.pdf", content, 0, 3, 1)
    assert 1 <= image.width <= 1_600
    assert 1 <= image.height <= 1_600
    assert len(image.png) < 10_000_000


def test_damage_is_a_sentence_and_the_next_page_is_drawn(sandbox: Sandbox) -> None:
    whole = pdf(PAGES)
    with pytest.raises(UserError, match=r"a\.pdf"):
        sandbox.draw_page("a.pdf", whole[: len(whole) // 4], 0, 3)
    sandbox.close()
    with pytest.raises(UserError, match="takes more than 0 s"):  # it has yet to start
        sandbox.draw_page("a.pdf", whole, 0, 3, seconds=0)
    assert sandbox.draw_page("a.pdf", whole, 0, 3).page == 1
