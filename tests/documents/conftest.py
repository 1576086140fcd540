"""A shelf of a few documents of every kind, and the reader that ships."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.documents import docx, pdf

from rmreader.reading.reader import Reader


@pytest.fixture(scope="session")
def small() -> Reader:
    """The shipped reader."""
    return Reader.load("small", threads=1)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """One document of each kind; each says something that no other does."""
    folder = tmp_path / "docs"
    (folder / "letters").mkdir(parents=True)
    (folder / "letters" / "ada.html").write_text(
        "<title>Letters</title><h1>London &amp; 1843</h1>\n<p>The letter was written by <b>Ada</b> Lovelace&nbsp;in "
        "London.\n  It was sent to Charles <i>Bab</i>bage.<p>Nothing else is known &ndash; nothing."
    )
    (folder / "rivers.md").write_text(
        "# Rivers\n\nThe **Danube** rises in the [Black Forest](https://x.org) and\nis 2,850 km long.\n\n"
        "- The Elbe ends at *Cuxhaven*.\n"
    )
    (folder / "zurich.txt").write_bytes("Zürich lies in Switzerland. Its mayor is Corine Mauch.".encode("cp1252"))
    (folder / "bridge.docx").write_bytes(
        docx([("Title", "Bridges"), ("Normal", "The bridge over the Firth was |designed by John| Fowler in 1882."),
              ("Heading1", "Cost"), ("Normal", "It cost 3.2 million pounds.")])
    )  # fmt: skip
    (folder / "report.pdf").write_bytes(
        pdf(
            [
                ["The first page says little of it."],
                ["The observatory was founded by Maria Mitchell", "in Nantucket in 1859."],
            ]
        )
    )
    return folder
