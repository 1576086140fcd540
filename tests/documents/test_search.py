"""Search by words and by meaning: vectors are kept with their passages, and found out if they are not."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmreader.core.errors import UserError
from rmreader.documents.embedding import shipped_encoder
from rmreader.documents.index import Entry
from rmreader.documents.indexing import add
from rmreader.documents.shelf import Shelf
from rmreader.documents.sqlite_index import SqliteIndex
from rmreader.documents.sqlite_vectors import read_vectors

TEXTS = {
    "contract.txt": "You report to the team lead, Carla Voss. Your working hours are nine to five.",
    "recipe.txt": "Beat the eggs with sugar, then fold in the flour and bake the cake for an hour.",
    "lease.txt": "The tenant pays a deposit of two monthly rents when the keys are handed over.",
    "trip.txt": "The coach leaves the market square at seven in the morning and is back by noon.",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def index(folder: Path, tmp_path: Path) -> SqliteIndex:
    index = SqliteIndex(tmp_path / "i")
    add(index, [folder])
    return index


@pytest.mark.parametrize(
    ("question", "file"),
    [
        ("Who would be my boss?", "contract.txt"),
        ("How do I make dessert?", "recipe.txt"),
        ("What does the renter owe at the start?", "lease.txt"),
        ("When does the bus go?", "trip.txt"),
    ],
)
def test_what_is_said_in_other_words_is_found(index: SqliteIndex, question: str, file: str) -> None:
    assert index.search(question, 1)[0].file == file


def test_every_passage_has_its_vector(index: SqliteIndex, folder: Path) -> None:
    (folder / "contract.txt").write_text("\n\n".join(f"Clause {k} of the contract. " * 30 for k in range(9)))
    (folder / "trip.txt").unlink()
    add(index, [folder])
    encoder = shipped_encoder()
    stored = index.file.read(lambda base: read_vectors(base, encoder))
    rows = index.file.read(lambda base: base.execute("SELECT id FROM passages ORDER BY id").fetchall())
    assert stored.ids.tolist() == [id for (id,) in rows]
    assert len(rows) > 3


def test_vectors_follow_every_change(index: SqliteIndex, folder: Path) -> None:
    other = SqliteIndex(index.path)
    assert other.search("Who would be my boss?", 1)[0].file == "contract.txt"
    (folder / "contract.txt").unlink()
    (folder / "note.txt").write_text("The head of the department, to whom you answer, is Ms Ito.")
    add(index, [folder])
    assert other.search("Who would be my boss?", 1)[0].file == "note.txt"


def test_a_damaged_vector_is_noticed(index: SqliteIndex) -> None:
    index.close()
    base = sqlite3.connect(index.path)
    base.execute("UPDATE vectors SET codes = zeroblob(length(codes))")
    base.commit()
    base.close()
    with pytest.raises(UserError, match="vectors are not as they were written"):
        SqliteIndex(index.path).search("Who would be my boss?", 1)


def test_vectors_of_another_table_are_made_anew(index: SqliteIndex, folder: Path) -> None:
    index.close()
    base = sqlite3.connect(index.path)
    base.execute("UPDATE vectors SET source = 'another'")
    base.commit()
    base.close()
    again = SqliteIndex(index.path)
    assert again.search("bake a cake", 1)[0].file == "recipe.txt"  # by its words
    assert add(again, [folder]).unchanged == len(TEXTS)
    assert again.search("Who would be my boss?", 1)[0].file == "contract.txt"


def test_an_entry_without_vectors_gets_them(index: SqliteIndex) -> None:
    passages = [passage.stretch for passage in index.search("deposit", 1)]
    index.put([Entry(("/r", "copy.txt"), "c", passages, "text")])
    assert {passage.file for passage in index.search("What does the renter owe?", 2)} == {"lease.txt", "copy.txt"}


def test_threads_search_at_once(index: SqliteIndex) -> None:
    expected = [passage.file for passage in index.search("Who would be my boss?", 3)]
    results: list[list[str]] = []

    def search() -> None:
        results.append([passage.file for passage in index.search("Who would be my boss?", 3)])
        index.close()

    threads = [threading.Thread(target=search) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 8


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=200))
def test_any_text_has_a_vector_of_length_one_or_none(text: str) -> None:
    vectors = shipped_encoder().encode_texts([text])
    length = float(np.linalg.norm(vectors.codes[0].astype(np.float32) * vectors.scales[0]))
    assert length == pytest.approx(1, abs=0.02) or length == 0
    assert np.isfinite(shipped_encoder().encode_question(text)).all()


def test_the_similarity_is_the_cosine() -> None:
    encoder = shipped_encoder()
    vectors = encoder.encode_texts(list(TEXTS.values()))
    question = encoder.encode_question("Who would be my boss?")
    exact = (vectors.codes.astype(np.float64) * vectors.scales[:, None]) @ question
    assert vectors.similarity(question) == pytest.approx(exact, abs=1e-5)


def test_a_copy_with_other_line_ends_is_found_once(tmp_path: Path) -> None:
    text = "The renter pays a deposit of two months, and the landlord keeps it in a bank."
    (tmp_path / "lease.txt").write_text(text)
    (tmp_path / "copy.txt").write_text(text.replace(" of ", "\nof ").replace(" and ", "  and "))
    shelf = Shelf.open(tmp_path / "i.rmindex")
    shelf.add(tmp_path, include=["*.txt"])
    assert len(shelf.index.search("What is the deposit?", 10)) == 2
    assert len(shelf.search("What is the deposit?", 10)) == 1
