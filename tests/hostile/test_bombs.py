"""Small files that unfold to gigabytes, texts that nest for ever: one sentence, in bounded memory and time."""

from __future__ import annotations

import gzip
import json
import os
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rmreader.core.errors import UserError
from rmreader.core.files.reading import read_json
from rmreader.core.recipe import load_recipe, recipe_from
from rmreader.data.encode import encode_file
from rmreader.data.squad import read_squad
from rmreader.predict.rows import read_rows
from rmreader.scoring.squad import read_predictions
from rmreader.text.contextual import ContextualShape
from rmreader.text.glove import read_glove
from rmreader.text.lexicon import Lexicon
from rmreader.text.pieces import Pieces, encoder_config
from rmreader.text.tags import Tagger
from rmreader.text.vectors import SubwordTable, map_safetensors

UNFOLDED = 256 << 20
MOST_MEMORY, MOST_SECONDS = 256 << 20, 60.0


@pytest.fixture
def bounded() -> Iterator[None]:
    """Fail where what runs meanwhile takes much memory or time."""
    tracemalloc.start()
    began = time.monotonic()
    yield
    spent, (_, peak) = time.monotonic() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MOST_MEMORY
    assert spent < MOST_SECONDS


def bomb(path: Path, block: bytes) -> Path:
    """A gzip file of less than a megabyte that holds 256."""
    member = gzip.compress(block * ((32 << 20) // len(block)))
    path.write_bytes(member * (UNFOLDED // (32 << 20)))
    assert path.stat().st_size < 1 << 20
    return path


BOMBS: dict[str, tuple[bytes, Callable[[Path], Any]]] = {
    "data": (b" ", read_squad),
    "encoded data": (b"[", lambda p: encode_file(p, p.parent / "cache")),
    "vectors in one line": (b"0", lambda p: read_glove(p, ["a"])),
    "vectors": (b"a 1 2 3\n", lambda p: read_glove(p, ["b"])),
    "predictions": (b" ", read_predictions),
    "JSON lines": (b"\n", lambda p: list(read_rows(p, kind="jsonl"))),
    "JSON in one line": (b" ", lambda p: list(read_rows(p, kind="jsonl"))),
    "CSV": (b"question,passage\n" + b"\n" * 4096, lambda p: list(read_rows(p, kind="csv"))),
    "SQuAD to predict": (b" ", lambda p: list(read_rows(p, kind="squad"))),
}


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("kind", BOMBS)
def test_a_gzip_bomb_is_one_sentence(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmreader.core.files.reading._RATIO", 2)  # the same bound, met sooner
    monkeypatch.setattr("rmreader.core.files.reading._FREE", 1 << 20)
    block, read = BOMBS[kind]
    path = bomb(tmp_path / "data.gz", block)
    with pytest.raises(UserError, match=r"data\.gz: (the gzip data unfolds|line 1: malformed vector)"):
        read(path)


def test_honest_files_may_unfold_a_hundred_times(tmp_path: Path) -> None:
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"a": "word " * 10_000_000}).encode()))
    assert path.stat().st_size < 500_000  # a hundred times smaller, but small
    assert len(read_json(path, "")["a"]) == 50_000_000
    with pytest.raises(UserError, match="more than the 1,000 bytes that it may have"):
        read_json(path, "", limit=1000)


DEEP = {"lists": b"[" * 100_000, "objects": b'{"a":' * 100_000, "closed": b"[" * 100_000 + b"]" * 100_000}
JSON_READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "data": ("data.json", read_squad),
    "predictions": ("p.json", read_predictions),
    "lexicon": ("lexicon.json", lambda p: Lexicon.load(p.parent)),
    "extras": (
        "extras.json",
        lambda p: ContextualShape.load(p.parent, recipe_from({"inputs": {"tags": "english"}}).inputs),
    ),
    "encoder": ("config.json", lambda p: encoder_config(p.parent)),
    "tokenizer": ("tokenizer.json", lambda p: Pieces(p.parent)),
    "tags": ("meta.json", lambda p: Tagger(str(p.parent))),
}


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("what", DEEP)
@pytest.mark.parametrize("reader", JSON_READERS)
def test_deep_json_is_one_sentence(tmp_path: Path, reader: str, what: str) -> None:
    name, read = JSON_READERS[reader]
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "config.cfg").write_text("")
    (tmp_path / name).write_bytes(DEEP[what])
    with pytest.raises(UserError, match=rf"{name.replace('.', '[.]')}.*JSON"):
        read(tmp_path / name)


def test_rows_of_deep_json_are_named(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes(b"\n".join(DEEP.values()))
    assert [(row.place, row.what[:14]) for row in read_rows(path)] == [  # type: ignore[union-attr]
        (f"{path}: line {k}", "not valid JSON") for k in (1, 2, 3)
    ]


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("header", [*DEEP.values(), b"[]", b"3", b'{"a": 3}', b'{"a": {"dtype": [], "shape": 1}}'])
def test_a_table_with_a_strange_header_is_one_sentence(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "t.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 64)
    with pytest.raises(ValueError):
        map_safetensors(path)
    with pytest.raises(UserError, match="not a subword table"):
        SubwordTable.load(path)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [4], "data_offsets": [-16, 64]},
        {"dtype": "F32", "shape": [4], "data_offsets": [0, 4096]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [1 << 70], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [5], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [4], "data_offsets": [16, 0]},
        {"dtype": "Q7", "shape": [4], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [4], "data_offsets": "ab"},
        {"dtype": "F32", "shape": "ab", "data_offsets": [0, 16]},
    ],
)
def test_an_array_that_is_not_in_its_file_is_refused(tmp_path: Path, entry: dict[str, Any]) -> None:
    header = json.dumps({"vectors": entry}).encode()
    path = tmp_path / "t.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 64)
    with pytest.raises(ValueError):
        map_safetensors(path)


LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGED = "a: &a {x: 1}\n" + "".join(
    f"{b}: &{b} {{<<: [{','.join([f'*{a}'] * 9)}]}}\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(LAUGHS, id="aliases"),
        pytest.param(f"network: {{blocks: *i}}\n{LAUGHS}", id="unknown alias"),
        pytest.param(MERGED, id="merged"),
        pytest.param("network: &a [*a]", id="circle"),
        pytest.param("[" * 60_000, id="deep lists"),
        pytest.param("{a: " * 15_000, id="deep objects"),
        pytest.param("\n".join(" " * k + "a:" for k in range(300)), id="deep blocks"),
        pytest.param("- " * 30_000, id="deep dashes"),
        pytest.param("a: " + "x" * 100_000, id="long"),
        pytest.param("network: {hidden: 0x" + "f" * 50_000 + "}", id="long number"),
        pytest.param("network: {blocks: " + "9" * 50_000 + "}", id="longer number"),
        pytest.param("network: {blocks: " + ":".join(["59"] * 9000) + "}", id="base 60"),
    ],
)
def test_a_recipe_that_unfolds_or_nests_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"r\.yaml: ") as caught:
        load_recipe(path)
    assert len(str(caught.value)) < 600
    with pytest.raises(UserError) as caught:
        recipe_from({}, [f"network.blocks={text}"])
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("planted", ["link", "dangling", "hard link", "folder", "pipe"])
def test_a_download_follows_nothing_that_was_planted(tmp_path: Path, planted: str) -> None:
    from rmreader.data.download import File, fetch

    folder, outside = tmp_path / "data", tmp_path / "mine"
    folder.mkdir()
    place = folder / "data.bin.part"
    outside.write_bytes(b"precious")
    match planted:
        case "link":
            place.symlink_to(outside)
        case "dangling":
            place.symlink_to(tmp_path / "new")
        case "hard link":
            os.link(outside, place)
        case "folder":
            place.mkdir()
        case "pipe":
            os.mkfifo(place)
    with pytest.raises(UserError, match="a link, or not an ordinary file, where the download is kept"):
        fetch(File("data.bin", "http://127.0.0.1:9/", 8), folder, attempts=1, pause=0)
    assert outside.read_bytes() == b"precious"
    assert not (tmp_path / "new").exists()
