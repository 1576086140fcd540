"""The index: only what has changed is read, a kill at any moment harms nothing, and it is asked while it is written."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest
from support.processes import started

from rmreader.core.errors import UserError
from rmreader.documents.index import content_words
from rmreader.documents.indexing import add
from rmreader.documents.shelf import Shelf
from rmreader.documents.sqlite_file import OLD_FORMAT, OLD_SCHEMA
from rmreader.documents.sqlite_index import SqliteIndex

KILLS = int(os.environ.get("RMREADER_KILLS", "3"))


def content(path: Path) -> list[tuple[object, ...]]:
    """All that an index holds, without the numbers that depend on the order of writing."""
    base = sqlite3.connect(path)
    try:
        assert base.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        documents = base.execute("SELECT file, checksum, offsets, note, refusal FROM documents").fetchall()
        columns = "file, page, heading, text, runs"
        rows = base.execute(f"SELECT {columns} FROM passages JOIN documents ON documents.id = document").fetchall()
        words = base.execute(
            "SELECT file, count(*) FROM words JOIN passages ON passages.id = words.rowid "
            "JOIN documents ON documents.id = document WHERE words MATCH 'the OR ship OR paragraph' GROUP BY file"
        ).fetchall()
        vectors = base.execute(
            "SELECT file, source, codes, scales FROM vectors JOIN documents ON documents.id = document"
        ).fetchall()
        lost = base.execute(
            "SELECT count(*) FROM documents WHERE offsets > '' AND id NOT IN (SELECT document FROM vectors)"
        )
        assert lost.fetchone() == (0,)
        orphans = base.execute("SELECT count(*) FROM passages WHERE document NOT IN (SELECT id FROM documents)")
        assert orphans.fetchone() == (0,)
    finally:
        base.close()
    return sorted(map(tuple, [*documents, *rows, *words, *vectors]), key=repr)


def test_the_documents_are_listed_with_how_many_passages_they_have(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "b.txt").write_text("\n\n".join(["The ship left the harbour at noon. " * 20] * 3))
    (folder / "a.txt").write_text("The ship came back.")
    (folder / "c.bin").write_bytes(b"\0\1\2")
    shelf = Shelf.open(tmp_path / "one.rmindex")
    shelf.add(folder, workers=1)
    listed = shelf.index.list_documents(10)
    assert [one.file for one in listed] == ["a.txt", "b.txt"]
    assert [one.passages for one in listed] == [len(shelf.index.document(str(folder), one.file)) for one in listed]
    assert listed[1].passages > 1
    assert [one.file for one in shelf.index.list_documents(1)] == ["a.txt"]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Two hundred documents, so that several processes read them."""
    folder = tmp_path / "library"
    folder.mkdir()
    for k in range(200):
        paragraphs = (f"The paragraph {j} of ship {k} tells of harbour {k * j}. " * 12 for j in range(20))
        (folder / f"ship-{k}.txt").write_text("\n\n".join(paragraphs))
    return folder


def test_only_what_changed_is_read(docs: Path, tmp_path: Path) -> None:
    index = SqliteIndex(tmp_path / "i")
    (docs / "picture.png").write_bytes(b"\x89PNG....")
    done = add(index, [docs])
    assert (done.added, done.changed, done.removed, done.unchanged, len(done.refused)) == (5, 0, 0, 0, 1)
    assert "a PNG image" in done.refused[0]
    assert done.notes == ["zurich.txt: not UTF-8; read as cp1252."]
    before = content(tmp_path / "i")
    done = add(index, [docs])
    assert (done.added, done.changed, done.removed, done.unchanged) == (0, 0, 0, 6)
    assert len(done.refused) == 1  # it is said again
    stat = (docs / "rivers.md").stat()
    (docs / "rivers.md").write_text((docs / "rivers.md").read_text().replace("Danube", "Donau!"))
    os.utime(docs / "rivers.md", ns=(stat.st_atime_ns, stat.st_mtime_ns))  # by content, whatever the clock says
    (docs / "zurich.txt").unlink()
    (docs / "new.txt").write_text("The Rhine ends at Rotterdam.")
    done = add(index, [docs])
    assert (done.added, done.changed, done.removed, done.unchanged) == (1, 1, 1, 4)
    for gone in ("Danube", "Mauch"):
        assert all(gone not in passage.text for passage in index.search(gone, 20))
    assert index.search("donau", 5)[0].file == "rivers.md"
    shutil.rmtree(docs / "letters")
    add(index, [docs])
    assert all("Lovelace" not in passage.text for passage in index.search("lovelace", 20))
    assert content(tmp_path / "i") != before
    add(fresh := SqliteIndex(tmp_path / "fresh"), [docs])
    assert content(tmp_path / "i") == content(tmp_path / "fresh")
    assert fresh.size() == index.size() == 4


def test_an_index_is_one_file_that_moves(docs: Path, tmp_path: Path) -> None:
    shelf = Shelf.open(docs / "own.rmindex")  # which is no document, though it lies among them
    assert not shelf.add(docs).refused
    assert isinstance(shelf.index, SqliteIndex)
    shelf.index.close()
    assert [path.name for path in docs.iterdir() if "rmindex" in path.name] == ["own.rmindex"]
    moved = tmp_path / "elsewhere" / "moved"
    moved.parent.mkdir()
    (docs / "own.rmindex").rename(moved)
    shutil.rmtree(docs)
    moved.chmod(0o444)
    moved.parent.chmod(0o555)
    try:
        found = SqliteIndex(moved).search("Where does the Danube rise?", 1)
        assert found[0].file == "rivers.md"
        assert [one.text for one in SqliteIndex(moved).document(found[0].root, "rivers.md")] == [found[0].text]
    finally:
        moved.parent.chmod(0o755)


def test_links_and_hidden_files_are_left_alone(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("The password is swordfish.")
    (docs / "loop").symlink_to(docs)
    (docs / "link.txt").symlink_to(tmp_path / "secret.txt")
    (docs / ".hidden.txt").write_text("The password is swordfish.")
    os.mkfifo(docs / "pipe.txt")
    index = SqliteIndex(tmp_path / "i")
    assert add(index, [docs]).added == 5
    assert all("swordfish" not in passage.text for passage in index.search("password swordfish", 20))


def test_a_name_that_is_no_unicode_is_refused(docs: Path, tmp_path: Path) -> None:
    try:
        with open(os.fsencode(docs) + b"/caf\xe9.txt", "wb") as file:
            file.write(b"text")
    except OSError:
        pytest.skip("this file system has no such names")
    done = add(SqliteIndex(tmp_path / "i"), [docs])
    assert done.added == 5
    assert "rename it" in done.refused[0]


def test_a_folder_whose_name_is_no_unicode_is_one_sentence(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    try:
        os.mkdir(folder)
    except OSError:
        pytest.skip("this file system has no such names")
    Path(os.fsdecode(folder), "a.txt").write_text("Ada wrote it.")
    index = SqliteIndex(tmp_path / "i")
    with pytest.raises(UserError, match=r"caf.*: a name in this path is not UTF-8; rename that folder"):
        add(index, [Path(os.fsdecode(folder))])
    done = add(index, [tmp_path])  # as a part of a folder it is left out by name
    assert any("rename it" in sentence for sentence in done.refused)


@pytest.mark.parametrize("damage", ["text", "cut", "trigger", "other", "noise"])
def test_a_file_that_is_no_index_is_one_sentence(docs: Path, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "i"
    index = SqliteIndex(path)
    add(index, [docs])
    index.close()
    whole = path.read_bytes()
    if damage == "text":
        path.write_text("Ada wrote it." * 100)
    elif damage == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif damage == "noise":
        path.write_bytes(whole[:8192] + random.Random(1).randbytes(len(whole) - 8192))
    else:
        base = sqlite3.connect(path if damage == "trigger" else tmp_path / "other")
        base.execute(
            "CREATE TRIGGER evil AFTER INSERT ON passages BEGIN DELETE FROM documents; END"
            if damage == "trigger"
            else "CREATE TABLE x (y)"
        )
        base.close()
        path = path if damage == "trigger" else tmp_path / "other"

    def use() -> None:
        SqliteIndex(path).search("Where does the Danube rise?", 5)
        SqliteIndex(path).document(docs.as_posix(), "rivers.md")
        SqliteIndex(path).known(docs.as_posix())

    with pytest.raises(UserError, match=r"make it anew: rmreader index\.$"):
        use()


def test_where_no_index_can_be_is_said_with_its_remedy(docs: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("Ada wrote it." * 100)
    with pytest.raises(UserError, match=r"docs: a folder; make an index of it and ask that: rmreader index .*docs"):
        SqliteIndex(docs).search("Who?", 5)
    with pytest.raises(UserError, match=r"docs: a folder; give the file to write\."):
        add(SqliteIndex(docs), [docs])
    with pytest.raises(UserError, match=r"text: no index of rmreader"):
        add(SqliteIndex(text), [docs])
    with pytest.raises(UserError, match=r"text is a file, not a folder; choose another place"):
        add(SqliteIndex(text / "i"), [docs])
    add(SqliteIndex(tmp_path / "new" / "folder" / "i"), [docs])
    assert SqliteIndex(tmp_path / "new" / "folder" / "i").size() == 5


def test_a_full_disk_is_said_and_loses_nothing(docs: Path, library: Path, tmp_path: Path) -> None:
    index = SqliteIndex(tmp_path / "i")
    add(index, [docs])
    base = index.file._local.writer
    base.execute(f"PRAGMA max_page_count = {base.execute('PRAGMA page_count').fetchone()[0] + 10}")
    with pytest.raises(UserError, match="the disk is full; make room, and index again"):
        add(index, [library], workers=1)
    assert index.size() == 5
    base.execute("PRAGMA max_page_count = 1000000")
    add(index, [library], workers=1)
    assert index.size() == 205


def make_old(index: Path, path: Path) -> None:
    """The same documents in an index as it was before checksums: with a log beside it, refusals in the notes."""
    base = sqlite3.connect(path, isolation_level=None)
    base.execute("PRAGMA journal_mode = WAL")
    for statement in OLD_SCHEMA:
        base.execute(statement)
    base.execute(f"PRAGMA application_id = {OLD_FORMAT}")
    base.execute("ATTACH ? AS new", (str(index),))
    note = "CASE WHEN refusal > '' THEN 'refused: ' || refusal ELSE note END"
    base.execute(f"INSERT INTO documents SELECT id, root, file, checksum, offsets, {note} FROM new.documents")
    base.execute("INSERT INTO passages SELECT id, document, page, heading, text, runs FROM new.passages")
    base.execute("INSERT INTO words (rowid, text, about) SELECT id, text, heading FROM new.passages")
    base.close()


def test_an_old_index_is_asked_and_upgraded_by_the_next_run(docs: Path, tmp_path: Path) -> None:
    (docs / "picture.png").write_bytes(b"\x89PNG....")
    new = SqliteIndex(tmp_path / "new")
    add(new, [docs])
    make_old(tmp_path / "new", tmp_path / "old")
    old = SqliteIndex(tmp_path / "old")
    assert old.size() == 5
    before = old.search("Where does the Danube rise?", 1)
    assert before[0].stretch == new.search("Where does the Danube rise?", 1)[0].stretch
    done = add(SqliteIndex(tmp_path / "old"), [docs])  # while the other one still has it open
    assert (done.added, done.changed, done.unchanged, len(done.refused)) == (0, 0, 6, 1)
    assert old.search("Where does the Danube rise?", 1)[0].stretch == before[0].stretch
    assert content(tmp_path / "old") == content(tmp_path / "new")
    assert {path.name for path in tmp_path.iterdir()} == {"docs", "new", "old"}


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such index; make it: rmreader index"):
        SqliteIndex(tmp_path / "i").search("Who?", 5)
    with pytest.raises(UserError, match="no such folder"):
        add(SqliteIndex(tmp_path / "i"), [tmp_path / "nowhere"])


@pytest.mark.parametrize("question", ["", "?!", 'x" OR "', "NEAR(", "a* -b ^c : {d}", "\0", "😀", "the", "x" * 10_000])
def test_any_question_can_be_searched(docs: Path, tmp_path: Path, question: str) -> None:
    index = SqliteIndex(tmp_path / "i")
    add(index, [docs])
    assert isinstance(index.search(question, 5), list)


def test_common_words_are_left_out() -> None:
    assert content_words("Who was the mayor of Zürich?") == ["mayor", "zürich"]
    assert content_words("Who was it?") == ["who", "was", "it"]


def start(library: Path, path: Path) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "rmreader", "index", library, "--out", path, "--workers", "2"]
    return started(command, stderr=subprocess.DEVNULL)


def written(path: Path) -> int:
    """Documents that an index which is being made already has."""
    try:
        return SqliteIndex(path).size()
    except UserError:  # it is not there yet, or has no tables yet
        return -1


def test_interrupted_it_says_so_in_a_word(library: Path, tmp_path: Path) -> None:
    for number in range(200, 1000):
        shutil.copyfile(library / f"ship-{number % 200}.txt", library / f"ship-{number}.txt")
    command = [sys.executable, "-m", "rmreader", "index", str(library), "--out", str(tmp_path / "i"), "--workers", "2"]
    with started(command, stderr=subprocess.PIPE, text=True) as process:
        while written(tmp_path / "i") < 1 and process.poll() is None:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to every process
        assert process.communicate(timeout=60)[1] == "interrupted\n"
    assert process.returncode == 130
    assert 0 < SqliteIndex(tmp_path / "i").size() < 1000


@pytest.mark.slow
def test_killed_at_any_moment_it_opens_answers_and_is_completed(
    library: Path, tmp_path: Path, still_there: Callable[[Sequence[psutil.Process]], list[psutil.Process]]
) -> None:
    began = time.monotonic()
    with start(library, tmp_path / "whole") as process:
        assert process.wait() == 0
    took, whole = time.monotonic() - began, content(tmp_path / "whole")
    rng, cut_short = random.Random(), 0
    for number in range(KILLS):
        path = tmp_path / f"killed-{number}"
        with start(library, path) as process:
            deadline = time.monotonic() + 60
            if number % 3:  # while it writes, from some document on
                wanted = rng.randrange(190)
                while written(path) <= wanted and process.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.002)
                time.sleep(rng.uniform(0, 0.05))
            else:  # at any moment
                time.sleep(rng.uniform(0, took))
            children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.kill()
            process.wait()
            assert still_there(children) == []
        if path.exists() and path.stat().st_size:
            index = SqliteIndex(path)
            there = len(index.known(library.as_posix()))
            cut_short += 0 < there < 200
            assert len(index.search("ship paragraph harbour", 10)) == (10 if there else 0)
            index.close()
        with start(library, path) as process:
            assert process.wait() == 0
        assert content(path) == whole
    print(f"{KILLS} kills, {cut_short} of them with a part of the documents written")


def test_it_is_asked_while_it_is_written(library: Path, tmp_path: Path) -> None:
    index = SqliteIndex(tmp_path / "i")
    add(index, [library / "ship-0.txt"])
    (failed, asked, stop) = ([], [0], threading.Event())

    def ask() -> None:
        own = SqliteIndex(tmp_path / "i")
        try:
            while not stop.is_set():
                assert own.search("ship 0 harbour", 5)
                asked[0] += 1
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        with start(library, tmp_path / "i") as process:
            assert process.wait() == 0
        for k in range(20):  # and by this process too, document by document
            (library / f"ship-{k}.txt").write_text(f"The paragraph of ship {k}, changed. " * 40)
            add(index, [library / f"ship-{k}.txt"])
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failed == []
    assert asked[0] > 10
    assert index.size() == 200


def test_two_that_write_at_once_end_in_the_same(library: Path, tmp_path: Path) -> None:
    with start(library, tmp_path / "i") as one, start(library, tmp_path / "i") as other:
        assert (one.wait(), other.wait()) == (0, 0)
    with start(library, tmp_path / "alone") as process:
        assert process.wait() == 0
    assert content(tmp_path / "i") == content(tmp_path / "alone")
