"""What a file is by its first bytes, for sentences that refuse it."""

_FIRST_BYTES = {
    b"%PDF-": "a PDF document",
    b"PK\x03\x04": "a ZIP archive",
    b"\xd0\xcf\x11\xe0": "an old Office document",
    b"{\\rtf": "an RTF document",
    b"\x1f\x8b": "a gzip archive",
    b"BZh9": "a bzip2 archive",
    b"\xfd7zXZ": "an xz archive",
    b"7z\xbc\xaf": "a 7z archive",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF89a": "a GIF image",
    b"PAR1\x15": "a Parquet table",
    b"SQLite format 3": "an SQLite database",
    b"\x7fELF": "a program",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}
_ZIPPED = {
    b"word/": "a Word document (.docx)",
    b"xl/": "an Excel table (.xlsx)",
    b"ppt/": "a PowerPoint document (.pptx)",
    b"opendocument": "an OpenDocument file",
    b"epub+zip": "an EPUB book",
}


def kind_of_content(content: bytes) -> str | None:
    """What a file is by its first bytes, where it is a known format that is no plain text."""
    kind = next((name for magic, name in _FIRST_BYTES.items() if content.startswith(magic)), None)
    if kind == "a ZIP archive":
        return next((name for part, name in _ZIPPED.items() if part in content), kind)
    return kind
