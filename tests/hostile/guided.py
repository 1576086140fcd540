"""Fuzzing that looks for paths nobody took: documents of every format, and an index, as atheris makes them up.

    pip install atheris
    python tests/hostile/guided.py                      # what can be fuzzed
    python tests/hostile/guided.py html 600             # one of these, for ten minutes
    python tests/hostile/guided.py html FILE            # once more, with a file that it wrote

What it learns is kept in ``build/guided``, and so is what it finds: a traceback, a place that is not in the document,
a sentence without the file's name, more than a minute, more than 2 GB. ``tests/hostile/test_guided.py`` runs each of
them for as many seconds as RMREADER_GUIDED says.
"""

from __future__ import annotations

import os
import random
import sys
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import atheris

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "guided"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

# What is imported here is measured, so none of it may be imported before.
with atheris.instrument_imports(include=["rmreader.documents"]):
    from support.documents import docx, epub, odt, pdf, pptx, sound_documents, xlsx
    from support.hostile_indexes import COLUMNS, ask_everything, content, set_value

    from rmreader.core.errors import UserError
    from rmreader.documents import sandbox
    from rmreader.documents.formats import formats
    from rmreader.documents.indexing import add
    from rmreader.documents.parse import Document, parse
    from rmreader.documents.passages import split
    from rmreader.documents.places import TextSpan
    from rmreader.documents.sqlite_index import SqliteIndex

    formats()  # imports each

SECONDS = 60  # for one input
MEMORY = 2048  # megabytes
LONGEST = 4096  # bytes of one input: mistakes of parsers are short
SOUND = {name.removeprefix("x."): content for name, content in sound_documents().items()}
# Archives with nothing in them, of which one part is made up: whatever is reached then, that part did.
BARE = {
    "docx": docx([]),
    "xlsx": xlsx([["a"]], sheet="<worksheet/>"),
    "pptx": pptx([("", [])]),
    "odt": odt([]),
    "epub": epub([""]),
}
INDEX = "index"
TEXTS = {
    "rivers.md": "# Rivers\n\nThe Danube rises in the **Black Forest**.\n\n# Mayors\n\nThe mayor is Ada Fenwick.\n",
    "ship.txt": "The ship lies in the harbour.\n\nThe observatory was founded by Tycho Brahe.\n",
}


def fuzz_document(suffix: str) -> Callable[[bytes], None]:
    """What is done with each input: it is read as a document, or refused in one sentence."""
    name = f"x.{suffix}"

    def fuzz(data: bytes) -> None:
        try:
            document = parse(name, document_of(suffix, data))
        except UserError as error:
            sentence = str(error)
            assert sentence.startswith(f"{name}: "), sentence
            assert "\n" not in sentence, sentence
            return
        # It travels between processes.
        document = sandbox._unpack(sandbox._parts(sandbox._pack(document)))
        for passage in split(document.paragraphs):
            check_places(document, passage)

    return fuzz


def document_of(suffix: str, data: bytes) -> bytes:
    """The input as a document: as it is, or, behind what packs it, as a part of one.

    No fuzzer finds the checksums of an archive, or the table at the end of a PDF.
    """
    is_whole = data.startswith(SOUND[suffix][:4])
    if is_whole or not data:
        return data
    if suffix == "pdf":
        return pdf([[]], data.decode("latin-1"))
    if suffix in BARE:
        return with_part(BARE[suffix], data[0], data[1:])
    return data


def with_part(archive: bytes, number: int, part: bytes) -> bytes:
    """An archive with another content of one of its parts."""
    written = BytesIO()
    with zipfile.ZipFile(BytesIO(archive)) as old, zipfile.ZipFile(written, "w") as new:
        names = old.namelist()
        for name in names:
            is_replaced = name == names[number % len(names)]
            new.writestr(name, part if is_replaced else old.read(name))
    return written.getvalue()


def check_places(document: Document, passage: TextSpan) -> None:
    """Every part of a passage is in the document where it says; and it is text that can be written."""
    passage.text.encode()
    passage.heading.encode()
    size = len(document.original)
    first, last = passage.span(0, len(passage.text))
    assert 0 <= first <= last <= size
    for text, origin, length in passage.pieces():
        assert 0 <= origin <= origin + length <= size
        if length == len(text):
            there = document.original[origin : origin + length]
            for ours, theirs in zip(text, there, strict=True):  # blanks may stand for others
                assert ours == theirs or ours.isspace(), (text, there)


def document_seeds(suffix: str) -> list[bytes]:
    """The sound document, and the parts that it is made of."""
    sound = SOUND[suffix]
    seeds = [sound]
    if suffix == "pdf":
        seeds.append(sound.partition(b"stream\n")[2].partition(b"\nendstream")[0])
    if suffix in BARE:
        with zipfile.ZipFile(BytesIO(sound)) as archive:
            for number, name in enumerate(archive.namelist()):
                seeds.append(bytes([number]) + archive.read(name))
    return seeds


def fuzz_index(work: Path) -> Callable[[bytes], None]:
    """What is done with each input: an index is changed by it, then asked and added to."""
    docs = work / "docs"
    docs.mkdir(parents=True, exist_ok=True)
    for name, text in TEXTS.items():
        (docs / name).write_text(text)
    good = work / "good"
    good.unlink(missing_ok=True)
    index = SqliteIndex(good)
    add(index, [docs], workers=1)
    true = set()
    for file in TEXTS:
        true |= {content(passage) for passage in index.document(docs.as_posix(), file)}
    index.close()
    sound = good.read_bytes()
    path = work / "changed"

    def fuzz(data: bytes) -> None:
        path.write_bytes(sound)
        provider = atheris.FuzzedDataProvider(data)
        is_value = provider.ConsumeBool()
        if is_value:
            change_value(path, provider)
        else:
            change_bytes(path, provider)
        os.utime(path, (1e9, 1e9))  # a young file might still be being copied, and is waited for
        before = path.read_bytes()
        passages, complaints = ask_everything(path, docs)
        assert path.read_bytes() == before, "asking changed the file"
        assert all("\n" not in complaint for complaint in complaints), complaints
        if not is_value:  # a stranger signs a value that is changed
            assert {content(passage) for passage in passages} <= true, "other texts in silence"
        index = SqliteIndex(path)
        sentence = ""
        try:
            add(index, [docs], workers=1)
        except UserError as error:
            sentence = str(error)
        finally:
            index.close()
            for suffix in ("-journal", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        assert "\n" not in sentence, sentence

    return fuzz


def change_value(path: Path, provider: atheris.FuzzedDataProvider) -> None:
    """Put any value into a column of all rows, and sign it or not."""
    table, column = COLUMNS[provider.ConsumeIntInRange(0, len(COLUMNS) - 1)]
    is_signed = provider.ConsumeBool()
    kind = provider.ConsumeIntInRange(0, 3)
    value: object
    match kind:
        case 0:
            value = provider.ConsumeInt(8)
        case 1:
            value = provider.ConsumeFloat()
        case 2:
            value = provider.ConsumeBytes(LONGEST)
        case _:
            value = provider.ConsumeUnicodeNoSurrogates(LONGEST)
    set_value(path, f"UPDATE OR IGNORE {table} SET {column} = ?", value, is_signed)


def change_bytes(path: Path, provider: atheris.FuzzedDataProvider) -> None:
    """Change some bytes of the file anywhere."""
    changed = bytearray(path.read_bytes())
    for _ in range(provider.ConsumeIntInRange(1, 20)):
        at = provider.ConsumeIntInRange(0, len(changed) - 1)
        changed[at] = provider.ConsumeIntInRange(0, 255)
    path.write_bytes(changed)


def index_seeds() -> list[bytes]:
    """Inputs of which each changes something else."""
    chance = random.Random(1)
    return [chance.randbytes(size) for size in (8, 16, 32, 64, 128, 256) for _ in range(20)]


def main() -> None:
    """Fuzz what is named on the command line; libFuzzer ends the process."""
    names = [*SOUND, INDEX]
    if len(sys.argv) != 3 or sys.argv[1] not in names:
        raise SystemExit(f"{' '.join(names)}\nname one of these, and the seconds or a file: see {__file__}")
    name, how = sys.argv[1:]
    work = WORK / name
    corpus = work / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = index_seeds() if name == INDEX else document_seeds(name)
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    fuzz = fuzz_index(work) if name == INDEX else fuzz_document(name)
    options = [f"-timeout={SECONDS}", f"-rss_limit_mb={MEMORY}", f"-artifact_prefix={work}/"]
    if how.isdigit():
        options += [
            f"-max_total_time={how}",
            f"-max_len={LONGEST}",
            "-len_control=0",
            "-print_final_stats=1",
            str(corpus),
        ]
    else:
        options.append(how)
    atheris.Setup([sys.argv[0], *options], fuzz)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
