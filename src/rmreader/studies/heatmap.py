"""A matrix between two lists of words as one SVG: the cells are a PNG inside it, so that large ones stay small."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.studies.html import text

Floats = NDArray[np.floating[Any]]

_STRENGTH = np.array([[255, 255, 255], [198, 219, 239], [66, 146, 198], [8, 48, 107]], float)  # 0 to the largest
_CHANGE = np.array([[178, 24, 43], [244, 165, 130], [255, 255, 255], [146, 197, 222], [33, 102, 172]], float)  # − to +


def colours(values: Floats, signed: bool = False) -> NDArray[np.uint8]:
    """[r, c, 3] pixels: white to dark blue for 0 to the largest, or red for less and blue for more where signed."""
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    share = np.clip((values / largest + 1) / 2 if signed else values / largest, 0, 1)
    stops = _CHANGE if signed else _STRENGTH
    place = np.linspace(0, 1, len(stops))
    return np.stack([np.interp(share, place, stops[:, k]) for k in range(3)], axis=-1).round().astype(np.uint8)


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Pixels [h, w, 3] as a PNG file."""
    height, width, _ = pixels.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)  # filter 0 a line

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def svg(
    values: Floats, rows: Sequence[str], columns: Sequence[str], title: str, signed: bool = False, cell: int = 13
) -> str:
    """The matrix [rows, columns] under its title, words along its sides; valid alone as a file and inside a page."""
    title += f" (the darkest is {np.abs(values).max(initial=0.0):.3g})"
    font = cell - 2
    left = round(0.62 * font * max(map(len, rows), default=1)) + 8
    top = round(0.62 * font * max(map(len, columns), default=1)) + 30
    width, height = left + cell * len(columns) + 8, top + cell * len(rows) + 8
    image = base64.b64encode(png(colours(np.asarray(values, float), signed))).decode("ascii")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="{font}" role="img" aria-label="{text(title)}">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="8" y="16" font-size="13" fill="#1c1c1c">{text(title)}</text>',
        f'<image x="{left}" y="{top}" width="{cell * len(columns)}" height="{cell * len(rows)}" '
        f'preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,{image}"/>',
        f'<rect x="{left}" y="{top}" width="{cell * len(columns)}" height="{cell * len(rows)}" fill="none" '
        'stroke="#999" stroke-width=".5"/>',
        '<g fill="#333">',
    ]
    for k, word in enumerate(rows):
        parts.append(f'<text x="{left - 4}" y="{top + cell * k + font}" text-anchor="end">{text(word)}</text>')
    for k, word in enumerate(columns):
        x, y = left + cell * k + font, top - 4
        parts.append(f'<text x="{x}" y="{y}" transform="rotate(-90 {x} {y})">{text(word)}</text>')
    return "".join([*parts, "</g></svg>"])
