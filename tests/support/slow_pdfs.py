"""PDF documents that are made to be slow or large, by number: each kind in growing sizes."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable

from support.documents import pdf


def _file(objects: list[bytes]) -> bytes:
    """A PDF file of numbered objects; the first is the catalogue."""
    out = b"%PDF-1.5\n"
    places = []
    for number, content in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n" % number + content + b"\nendobj\n"
    table = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    table += b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(out))
    return out + table + end


def _stream(content: bytes, more: bytes = b"") -> bytes:
    packed = zlib.compress(content)
    head = b"<< /Length %d /Filter /FlateDecode " % len(packed)
    return head + more + b" >>\nstream\n" + packed + b"\nendstream"


def _page(content: bytes, resources: bytes, *others: bytes) -> bytes:
    """One page with a packed content and some other objects, which begin at number 5."""
    return _file(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << "
            + resources
            + b" >> >>",
            _stream(content),
            *others,
        ]
    )


def _paths(size: int) -> bytes:
    return _page(b"0 0 m 9 9 l S " * size, b"")


def _states(size: int) -> bytes:
    return _page(b"q " * size, b"")


def _letters(size: int) -> bytes:
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    return _page(b"BT /F1 1 Tf " + b"(a) Tj " * size + b"ET", b"/Font << /F1 5 0 R >>", font)


def _one_place(size: int) -> bytes:
    """Every letter on the same spot, which a reader of columns compares with all others."""
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    content = b"BT /F1 9 Tf " + b"1 0 0 1 50 50 Tm (ab) Tj " * size + b"ET"
    return _page(content, b"/Font << /F1 5 0 R >>", font)


def _forms(size: int) -> bytes:
    """Forms that draw the next one twice: two to the power of their number."""
    depth = 4 + size % 30
    forms = []
    for number in range(depth):
        following = b"/X Do /X Do" if number + 1 < depth else b"0 0 m 9 9 l S"
        resources = b"/Resources << /XObject << /X %d 0 R >> >>" % (6 + number)
        forms.append(_stream(following, b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] " + resources))
    return _page(b"/X Do", b"/XObject << /X 5 0 R >>", *forms)


def _itself(size: int) -> bytes:
    """A form that draws itself."""
    resources = b"/Resources << /XObject << /X 5 0 R >> >>"
    form = _stream(b"/X Do " * (1 + size % 50), b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] " + resources)
    return _page(b"/X Do", b"/XObject << /X 5 0 R >>", form)


def _pages(size: int) -> bytes:
    """Many pages that are one object."""
    kids = b"3 0 R " * size
    return _file(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Count %d /Kids [" % size + kids + b"] >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R >>",
            _stream(b"0 0 m 9 9 l S " * 50),
        ]
    )


def _ring(size: int) -> bytes:
    """A tree of pages in which a branch leads back to the root."""
    kids = b"2 0 R 3 0 R " * (1 + size % 200)
    return _file(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Count 99999 /Kids [" + kids + b"] >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] >>",
        ]
    )


def _deep(size: int) -> bytes:
    """Arrays in arrays."""
    deep = b"[" * size + b"]" * size
    return _page(deep + b" TJ", b"/Font " + deep[: 2 * size])


def _unfolding(size: int) -> bytes:
    """A small file that unfolds to a large one, twice packed."""
    packed = zlib.compress(zlib.compress(b" " * (size * 500)))
    content = b"<< /Length %d /Filter [/FlateDecode /FlateDecode] >>\nstream\n" % len(packed)
    return _file(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R >>",
            content + packed + b"\nendstream",
        ]
    )


def _pattern(size: int) -> bytes:
    """A tiling pattern of tiny steps over a huge page."""
    pattern = _stream(
        b"0 0 1 1 re f",
        b"/Type /Pattern /PatternType 1 /PaintType 1 /TilingType 1 /BBox [0 0 1 1] "
        b"/XStep 0.01 /YStep 0.01 /Resources << >>",
    )
    content = b"/Pattern cs /P scn " + b"0 0 99999 99999 re f " * (1 + size % 100)
    return _page(content, b"/Pattern << /P 5 0 R >>", pattern)


def _lines(size: int) -> bytes:
    return pdf([[f"line {number} of a long page" for number in range(size // 20)]])


KINDS: tuple[Callable[[int], bytes], ...] = (
    _paths, _states, _letters, _one_place, _forms, _itself, _pages, _ring, _deep, _unfolding, _pattern, _lines,
)  # fmt: skip


def slow_pdf(number: int) -> tuple[str, bytes]:
    """A document, by its number, and what kind it is."""
    kind = KINDS[number % len(KINDS)]
    chance = random.Random(number)
    size = int(10 ** chance.uniform(2, 5.3))
    return f"{kind.__name__.strip('_')} {size:,}", kind(size)
