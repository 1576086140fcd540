"""Where a reader is that a study is given: by name, in its folder, or in the folder of a run. Without torch."""

from __future__ import annotations

from pathlib import Path

from rmreader.readers.folder import MANIFEST, find, reader_names


def reader_folder(name_or_path: str | Path) -> Path:
    """The reader of that name, in that folder, or in ``best`` of a run's folder."""
    best = Path(name_or_path) / "best"
    return best if (best / MANIFEST).is_file() else find(name_or_path)


def reader_folders(model: str) -> list[Path]:
    """The folders of a reader, or of an ensemble's members, named with commas between them."""
    return [reader_folder(name) for name in reader_names(model)]
