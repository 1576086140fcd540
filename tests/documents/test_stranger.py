"""A stranger's index, or a damaged one: one sentence or the true text, never a traceback, a hang or a change."""

from __future__ import annotations

import os
import sqlite3
import time
from collections import Counter
from pathlib import Path

import pytest
from support.hostile_indexes import QUESTIONS, TRIGGERS, ask_everything, content, hostile_index, run

from rmreader.core.errors import UserError
from rmreader.documents.indexing import add
from rmreader.documents.sqlite_index import SqliteIndex

CASES = int(os.environ.get("RMREADER_HOSTILE", "150"))
SLOWEST = 30.0  # seconds for everything that is done with one index, on a busy machine


@pytest.fixture
def good(docs: Path, tmp_path: Path) -> Path:
    for number in range(12):
        text = f"The ship {number} lies in harbour {number * 7}. It carries {number} tons of grain. " * 20
        (docs / f"ship-{number}.txt").write_text(text)
    path = tmp_path / "good.rmindex"
    index = SqliteIndex(path)
    add(index, [docs], workers=1)
    index.close()
    return path


@pytest.mark.slow
def test_hostile_indexes(good: Path, docs: Path, tmp_path: Path) -> None:
    true = {content(passage) for file in SqliteIndex(good).known(docs.as_posix()) for passage in
            SqliteIndex(good).document(docs.as_posix(), file)}  # fmt: skip
    outcomes: Counter[str] = Counter()
    for seed in range(CASES):
        folder = tmp_path / f"case-{seed}"
        folder.mkdir()
        path = folder / "i"
        change = hostile_index(good, path, seed)
        before = path.read_bytes()
        began = time.monotonic()
        passages, complaints = ask_everything(path, docs)
        assert path.read_bytes() == before or change == "journal left", f"{seed}: {change}: asking changed the file"
        for complaint in complaints:
            assert "\n" not in complaint, f"{seed}: {change}"
            assert complaint.endswith(("rmreader index.", "try again.")), f"{seed}: {change}: {complaint}"
        if change != "odd value":  # which a stranger signs as the text that it is now
            assert {content(passage) for passage in passages} <= true, f"{seed}: {change}: other texts in silence"
        outcomes["refused" if complaints else "answered"] += 1
        try:
            index = SqliteIndex(path)
            add(index, [docs], workers=1)
            index.search(QUESTIONS[0], 1)
            outcomes["indexed again"] += 1
        except UserError:
            outcomes["not indexed"] += 1
        took = time.monotonic() - began
        assert took < SLOWEST, f"{seed}: {change}: {took:.0f} s"
        index.close()
    print(f"{CASES} hostile indexes: {dict(outcomes)}")


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_schema_that_is_not_ours_is_refused(good: Path, docs: Path, trigger: str) -> None:
    run(good, trigger.format(n="x"))
    before = good.read_bytes()
    for use_it in (lambda: SqliteIndex(good).search("Danube", 1), lambda: add(SqliteIndex(good), [docs])):
        with pytest.raises(UserError, match="no index of rmreader"):
            use_it()
    assert good.read_bytes() == before


def test_a_changed_letter_is_noticed(good: Path) -> None:
    base = sqlite3.connect(good)
    base.execute("UPDATE passages SET text = replace(text, 'Black', 'Blank')")
    base.commit()
    base.close()
    with pytest.raises(UserError, match="a passage is not as it was written"):
        SqliteIndex(good).search("Where does the Danube rise?", 1)


@pytest.mark.parametrize("column", ["checksum", "refusal", "offsets"])
def test_an_odd_value_of_a_document_is_one_sentence(good: Path, docs: Path, column: str) -> None:
    run(good, f"UPDATE documents SET {column} = x'ff00'")
    index = SqliteIndex(good)

    def add_and_search() -> None:
        add(index, [docs])
        index.search("Where does the Danube rise?", 1)

    with pytest.raises(UserError, match="a text is not a text"):
        add_and_search()


def test_asking_cannot_write(good: Path) -> None:
    index = SqliteIndex(good)
    with pytest.raises(UserError, match="readonly"):
        index.file.read(lambda base: base.execute("DELETE FROM passages"))
    assert index.search("Danube", 1)


def test_asking_takes_no_longer_than_its_limit(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmreader.documents.sqlite_file._READ_LIMIT", 0.2)
    endless = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT max(x) FROM r"
    os.utime(good, (1e9, 1e9))
    with pytest.raises(UserError, match="takes more than"):
        SqliteIndex(good).file.read(lambda base: base.execute(endless).fetchall())


def test_an_index_shrinks(good: Path, docs: Path) -> None:
    index = SqliteIndex(good)
    add(index, [docs])
    small = good.stat().st_size
    for number in range(150):
        text = "\n\n".join(f"Paragraph {k} of crate {number} holds {k * number} bolts. " * 10 for k in range(40))
        (docs / f"crate-{number}.txt").write_text(text)
    add(index, [docs], workers=1)
    large = good.stat().st_size
    for number in range(150):
        (docs / f"crate-{number}.txt").unlink()
    add(index, [docs], workers=1)
    assert large > 10 * small
    assert good.stat().st_size < 2 * small
    assert index.search("Danube", 1)
    assert all("bolts" not in passage.text for passage in index.search("crate bolts", 20))
