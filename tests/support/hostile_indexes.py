"""Indexes that a stranger made, or a disk damaged: each is a good one, changed by a seeded generator."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

from rmreader.core.errors import UserError
from rmreader.documents.index import Passage
from rmreader.documents.places import TextSpan
from rmreader.documents.sqlite_index import SqliteIndex, passage_checksum

PAGE = 4096
QUESTIONS = ["Where does the Danube rise?", "Who is the mayor?", "Who founded the observatory?", "ship harbour"]
ODD_VALUES = [0, -1, 2**62, 1.5, "", "\0", "x" * 100_000, b"", b"\xff\xfe", bytes(300), "é" * 50, "../x", "/etc/x"]
ODD_RUNS = [
    "", "null", "[]", "{}", "[[0,0]]", "[[0,0,1e999]]", "[[0,0,NaN]]", "[[0,-5,3]]", "[[1,0,3]]", '["abc"]',
    "[[0,0,1],[0,0,1]]", "[" * 5000, f"[[0,0,{'9' * 5000}]]", "[[0,0,3],[99999,1,1]]", "[[true,0,1]]", "[[0.0,0,1]]",
]  # fmt: skip
COLUMNS = [
    *(("documents", name) for name in ("root", "file", "checksum", "offsets", "note", "refusal", "id")),
    *(("passages", name) for name in ("document", "page", "heading", "text", "runs", "checksum", "id")),
    *(("vectors", name) for name in ("document", "first", "source", "codes", "scales", "checksum")),
]
TRIGGERS = [
    "CREATE TRIGGER words_{n} AFTER INSERT ON passages BEGIN UPDATE passages SET text = 'evil'; END",
    "CREATE TRIGGER words_{n} AFTER DELETE ON documents BEGIN DELETE FROM passages; END",
    "CREATE TRIGGER t{n} BEFORE INSERT ON documents BEGIN SELECT (WITH RECURSIVE r(x) AS "
    "(SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT max(x) FROM r); END",
    "CREATE VIEW words_{n} AS SELECT * FROM documents",
    "CREATE VIEW v{n} AS WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT max(x) FROM r",
    "CREATE TABLE words_{n} (x)",
    "CREATE INDEX words_{n} ON passages (text)",
    "CREATE UNIQUE INDEX i{n} ON documents (id, root)",
]
VIEWS = [
    "CREATE VIEW passages AS WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT x AS id FROM r",
    "CREATE VIEW documents AS SELECT 1 AS id",
    "CREATE TABLE passages (id INTEGER PRIMARY KEY, text TEXT DEFAULT (randomblob(1000000000)))",
]


def hostile_index(good: Path, path: Path, seed: int) -> str:
    """Write the hostile index of this seed to ``path``; returns what was done to it."""
    rng = random.Random(seed)
    shutil.copyfile(good, path)
    name, change = rng.choice(CHANGES)
    change(path, rng)
    # As old as a file from elsewhere: a young one might still be being copied, and is waited for.
    os.utime(path, (1e9, 1e9))
    return name


def flip_bytes(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice([1, 1, 2, 5, 20, 100])):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def damage_text(path: Path, rng: random.Random) -> None:
    """A letter of a passage changes; nothing in SQLite notices."""
    content = bytearray(path.read_bytes())
    letters = [at for at, byte in enumerate(content) if 97 <= byte <= 122 and at > 2 * PAGE]
    for at in rng.sample(letters, 20):
        content[at] = rng.randrange(97, 123)
    path.write_bytes(content)


def cut(path: Path, rng: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])


def shuffle_pages(path: Path, rng: random.Random) -> None:
    content = path.read_bytes()
    pages = [content[at : at + PAGE] for at in range(0, len(content), PAGE)]
    first, second = rng.sample(range(len(pages)), 2)
    change = rng.choice(["swap", "copy", "zero", "noise"])
    if change == "swap":
        pages[first], pages[second] = pages[second], pages[first]
    elif change == "copy":
        pages[first] = pages[second]
    elif change == "zero":
        pages[first] = bytes(PAGE)
    else:
        pages[first] = rng.randbytes(PAGE)
    path.write_bytes(b"".join(pages))


def damage_header(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(rng.randrange(1, 6)):
        content[rng.randrange(16, 100)] = rng.randrange(256)
    path.write_bytes(content)


def add_objects(path: Path, rng: random.Random) -> None:
    run(path, rng.choice(TRIGGERS).format(n=rng.choice(["x", "data2", "config_", "z" * 200])))


def replace_tables(path: Path, rng: random.Random) -> None:
    view = rng.choice(VIEWS)
    table = "documents" if "VIEW documents" in view else "passages"
    run(path, f"DROP TABLE {table}", view)


def rewrite_schema(path: Path, rng: random.Random) -> None:
    old, new = rng.choice(
        [
            ("text TEXT NOT NULL", "text TEXT DEFAULT (randomblob(999999999))"),
            ("NOT NULL, UNIQUE", "NOT NULL CHECK (abs(id) < 0), UNIQUE"),
            ("text TEXT NOT NULL", "text TEXT GENERATED ALWAYS AS (heading) STORED"),
            ("porter unicode61", "unicode61"),
            ("content=''", "content='documents'"),
            ("document INTEGER NOT NULL", "document REAL NOT NULL"),
        ]
    )
    run(path, "PRAGMA writable_schema = ON", f'UPDATE sqlite_schema SET sql = replace(sql, "{old}", "{new}")')


def odd_value(path: Path, rng: random.Random) -> None:
    """A value of any type in any column; the checksum is made to fit, as a stranger would."""
    table, column = rng.choice(COLUMNS)
    value = rng.choice(ODD_RUNS if column == "runs" else ODD_VALUES)
    some = rng.choice(["", " WHERE rowid % 2"])
    set_value(path, f"UPDATE OR IGNORE {table} SET {column} = ?{some}", value, rng.random() < 0.7)


def set_value(path: Path, statement: str, value: object, is_signed: bool) -> None:
    """Run a statement with one value; where it is signed, passages get the checksums of what they are now."""
    base = sqlite3.connect(path)
    try:
        base.execute(statement, (value,))
        if is_signed:
            sign_again(base)
        base.commit()
    except sqlite3.Error:  # no row of this table takes such a value
        base.rollback()
    finally:
        base.close()


def sign_again(base: sqlite3.Connection) -> None:
    rows = base.execute(
        "SELECT passages.id, root, file, offsets, page, heading, text, runs FROM passages "
        "JOIN documents ON documents.id = document"
    ).fetchall()
    for id, root, file, offsets, page, heading, text, runs in rows:
        if all(isinstance(value, str) for value in (root, file, offsets, heading, text, runs)):
            checksum = passage_checksum((root, file), offsets, TextSpan(text, (), page, heading), runs)
            base.execute("UPDATE passages SET checksum = ? WHERE id = ?", (checksum, id))


def damage_words(path: Path, rng: random.Random) -> None:
    """The search index itself: its blocks, its sizes, its settings."""
    blob = rng.choice([b"", bytes(10), rng.randbytes(40), rng.randbytes(4000)])
    statement, values = rng.choice(
        [
            ("UPDATE words_data SET block = ? WHERE id = 1", (blob,)),
            ("UPDATE words_data SET block = ? WHERE id = 10", (blob,)),
            ("UPDATE words_data SET block = ? WHERE id > 10", (blob,)),
            ("UPDATE words_docsize SET sz = ?", (blob,)),
            ("DELETE FROM words_docsize", ()),
            ("DELETE FROM words_idx", ()),
            ("UPDATE words_config SET v = ?", (rng.choice([0, 5, 99, "x", 2**40]),)),
            ("INSERT INTO words_config VALUES ('rank', ?)", ("bm25(10.0)); DROP TABLE documents",)),
            ("INSERT INTO words_config VALUES ('pgsz', ?)", (rng.choice([-1, 2**31, 0]),)),
        ]
    )
    base = sqlite3.connect(path)
    base.execute("PRAGMA writable_schema = ON")
    try:
        base.execute(statement, values)
        base.commit()
    finally:
        base.close()


def change_format(path: Path, rng: random.Random) -> None:
    run(path, f"PRAGMA application_id = {rng.choice([0, 1, 0x524D5231, 0x524D5233, -1])}")


def leave_journal(path: Path, rng: random.Random) -> None:
    """Files beside the index that SQLite would take for its own."""
    magic = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
    for suffix in ("-journal", "-wal"):
        content = rng.choice([b"", magic + rng.randbytes(5000), rng.randbytes(5000)])
        path.with_name(path.name + suffix).write_bytes(content)


def run(path: Path, *statements: str) -> None:
    base = sqlite3.connect(path)
    try:
        for statement in statements:
            base.execute(statement)
        base.commit()
    finally:
        base.close()


CHANGES: list[tuple[str, Callable[[Path, random.Random], None]]] = [
    ("bytes flipped", flip_bytes),
    ("text damaged", damage_text),
    ("cut", cut),
    ("pages shuffled", shuffle_pages),
    ("header damaged", damage_header),
    ("objects added", add_objects),
    ("tables replaced", replace_tables),
    ("schema rewritten", rewrite_schema),
    ("odd value", odd_value),
    ("odd value", odd_value),
    ("words damaged", damage_words),
    ("format changed", change_format),
    ("journal left", leave_journal),
]


def content(passage: Passage) -> tuple[object, ...]:
    """All that an answer from a passage depends on."""
    return passage.root, passage.file, passage.offsets, passage.stretch


def ask_everything(path: Path, root: Path) -> tuple[list[Passage], list[str]]:
    """Everything that asking does with an index: the passages it gave, and its complaints."""
    index = SqliteIndex(path)
    passages: list[Passage] = []
    complaints: list[str] = []
    for question in QUESTIONS:
        try:
            passages += index.search(question, 10)
        except UserError as error:
            complaints.append(str(error))
    try:
        index.size()
        passages += index.document(root.as_posix(), "rivers.md")
        passages += index.around("3", 10)
    except UserError as error:
        complaints.append(str(error))
    index.close()
    return passages, complaints
