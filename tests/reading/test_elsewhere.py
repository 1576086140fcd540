"""Readers from the hub, from an address, from an archive: fetched once, checked, and nothing outside their folder."""

from __future__ import annotations

import io
import json
import shutil
import socket
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.hub import Hub, hub_of
from typer.testing import CliRunner

from rmreader.cli import app
from rmreader.core.errors import UserError
from rmreader.core.files.manifest import file_sha256, sign
from rmreader.readers.archive import MOST_FILES
from rmreader.readers.folder import MANIFEST, find, reader_names
from rmreader.reading.reader import Reader

QUESTION, PASSAGE = "Who wrote it?", "The letter was written by Ada Lovelace in 1843."
RUN = CliRunner()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RMREADER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def reader(tmp_path: Path) -> Path:
    """A copy of a whole reader, under another name."""
    return Path(shutil.copytree(find("small"), tmp_path / "mine"))


@pytest.fixture
def hub(reader: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub_of(reader) as one:
        monkeypatch.setenv("HF_ENDPOINT", one.url)
        yield one


def unpacked(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.rglob(MANIFEST))


def refused(name: str | Path, *words: str) -> None:
    with pytest.raises(UserError) as error:
        Reader.load(name)
    assert all(word in str(error.value) for word in words), error.value


def test_a_reader_on_the_hub_is_fetched_once_and_reads(hub: Hub, cache: Path) -> None:
    expected = Reader.load("small").ask(QUESTION, PASSAGE)[0]
    answer = Reader.load("hf://org/reader").ask(QUESTION, PASSAGE)[0]
    assert (answer.text, answer.confidence) == (expected.text, expected.confidence)
    assert any(path.startswith("/cdn/") for path in hub.asked)
    hub.asked.clear()
    assert Reader.load("hf://org/reader@v1").ask(QUESTION, PASSAGE)[0].text == expected.text
    assert not [path for path in hub.asked if "/api/" not in path]  # a word about the tag, and no file
    hub.asked.clear()
    Reader.load(f"hf://org/reader@{hub.commit}")
    assert hub.asked == []
    assert len(unpacked(cache)) == 1


def test_the_hub_s_newest_is_fetched_and_the_old_one_kept(hub: Hub, cache: Path, reader: Path) -> None:
    Reader.load("hf://org/reader")
    hub.commit = "a" * 40
    sign(reader, MANIFEST, json.loads((reader / MANIFEST).read_text()) | {"summary": "The second."})
    assert Reader.load("hf://org/reader").folder.about["summary"] == "The second."
    assert len(unpacked(cache)) == 2


def test_where_the_hub_cannot_be_asked_the_cache_does(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused_words = ("hf://org/reader", "not in the cache", "give its folder")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    refused("hf://org/reader", "HF_HUB_OFFLINE", *refused_words)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    assert hub.asked == []
    Reader.load("hf://org/reader")
    hub.status = 503
    assert Reader.load("hf://org/reader").ask(QUESTION, PASSAGE)[0].text == "Ada Lovelace"
    assert "the one in the cache is read" in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{nobody.getsockname()[1]}")
    refused("hf://org/other", "cannot be reached", "not in the cache")
    assert Reader.load("hf://org/reader").ask(QUESTION, PASSAGE)[0].text == "Ada Lovelace"


def test_a_cut_connection_is_taken_up_where_it_broke(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    hub.cut_after = 1_000_000
    assert Reader.load("hf://org/reader").ask(QUESTION, PASSAGE)[0].text == "Ada Lovelace"
    assert hub.cut_after is None
    assert len([path for path in hub.asked if path.startswith("/cdn/weights")]) == 2


def test_what_the_hub_has_is_compared_with_its_checksums(hub: Hub, reader: Path, cache: Path) -> None:
    (reader / "lexicon.json").write_bytes((reader / "lexicon.json").read_bytes()[:-1] + b" ")
    refused("hf://org/reader", "lexicon.json", "sha256")
    assert not list(cache.rglob(f"reader/{MANIFEST}"))


@pytest.mark.parametrize(
    "name", ["../../outside", "/etc/outside", "a/../../outside", "a\\outside", "C:outside", "a//b"]
)
def test_a_manifest_on_the_hub_names_nothing_outside(name: str, hub: Hub, reader: Path, tmp_path: Path) -> None:
    about = json.loads((reader / MANIFEST).read_text())
    about["checksums"][name] = "0" * 64
    (reader / MANIFEST).write_text(json.dumps(about))
    refused("hf://org/reader", "not a name within a reader's folder")
    assert not list(tmp_path.rglob("outside"))


def test_what_is_no_reader_on_the_hub_is_refused_in_a_sentence(hub: Hub, reader: Path) -> None:
    for name in ("hf://org", "hf://org/a/b", "hf://org/..", "hf://../reader", "hf://org/reader@", "hf:///reader"):
        refused(name, "not a name on the hub")
    refused("hf://org/nothing", "404", "look at the name")
    (reader / MANIFEST).unlink()
    refused("hf://org/reader", f"has no {MANIFEST}")


def pack_zip(folder: Path, target: Path, top: str = "") -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in folder.rglob("*"):
            archive.write(path, f"{top}{path.relative_to(folder).as_posix()}")
    return target


def pack_tar(folder: Path, target: Path, top: str = "") -> Path:
    with tarfile.open(target, "w" if target.suffix == ".tar" else "w:gz") as archive:
        archive.add(folder, top or ".")
    return target


@pytest.mark.parametrize("top", ["", "theirs/"])
@pytest.mark.parametrize(
    ("name", "pack"),
    [("a.zip", pack_zip), ("a.tar.gz", pack_tar), ("a.tgz", pack_tar), ("a.tar", pack_tar)],
)
def test_an_archive_reads_as_its_folder(
    name: str, pack: Callable[..., Path], top: str, reader: Path, tmp_path: Path, cache: Path
) -> None:
    packed = pack(reader, tmp_path / name, top)
    for _ in range(2):
        loaded = Reader.load(packed)
        assert loaded.ask(QUESTION, PASSAGE)[0].text == "Ada Lovelace"
        assert loaded.folder.path.name == (top.strip("/") or "a")
    assert len(unpacked(cache)) == 1
    assert [path.name for path in (cache / "readers" / "archives").iterdir()] == [file_sha256(packed)]


def test_an_archive_comes_from_an_address_with_its_digest(hub: Hub, reader: Path, tmp_path: Path) -> None:
    packed = pack_zip(reader, tmp_path / "packed.zip")
    digest = file_sha256(packed)
    shutil.move(packed, reader / "packed.zip")
    address = f"{hub.url}/cdn/packed.zip"
    assert Reader.load(f"{address}#sha256={digest}").ask(QUESTION, PASSAGE)[0].text == "Ada Lovelace"
    hub.asked.clear()
    Reader.load(f"{address}#sha256={digest}")
    assert hub.asked == []
    refused(address, "https", "sha256")
    refused(f"{address}#sha256={'0' * 64}", "not the published")
    refused(f"{address}#md5=0", "64 hexadecimal digits")
    refused(f"{hub.url}/cdn/none.zip#sha256={digest[::-1]}", "404")


def hostile_zip(target: Path, name: str, content: bytes = b"x", mode: int = 0) -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        entry = zipfile.ZipInfo(name)
        entry.external_attr = mode << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, content)
    return target


def hostile_tar(target: Path, name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> Path:
    with tarfile.open(target, "w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname, entry.size = kind, link, 1 if kind == tarfile.REGTYPE else 0
        archive.addfile(entry, io.BytesIO(b"x") if kind == tarfile.REGTYPE else None)
    return target


def test_no_archive_writes_outside_its_folder(tmp_path: Path, cache: Path) -> None:
    for name in ("../outside", "/outside", "a/../../outside", "..\\outside", "a\noutside"):
        refused(hostile_zip(tmp_path / "a.zip", name), "not a name within a reader's folder")
        refused(hostile_tar(tmp_path / "a.tar.gz", name), "not a name within a reader's folder")
    refused(hostile_zip(tmp_path / "a.zip", "link", b"/etc/passwd", stat.S_IFLNK | 0o777), "a link or a device")
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
        refused(hostile_tar(tmp_path / "a.tar.gz", "link", kind, "/etc/passwd"), "a link or a device")
    assert not list(tmp_path.rglob("*outside*"))
    assert not list((cache / "readers" / "archives").iterdir())


def test_no_archive_unfolds_without_end(tmp_path: Path, cache: Path) -> None:
    refused(hostile_zip(tmp_path / "a.zip", "weights.safetensors", bytes(70 << 20)), "unfolds to far more")
    many = tmp_path / "many.zip"
    with zipfile.ZipFile(many, "w") as archive:
        for number in range(MOST_FILES + 1):
            archive.writestr(f"{number}", b"")
    refused(many, "more than 1,000 files")
    assert not list((cache / "readers" / "archives").iterdir())


def test_a_damaged_archive_and_one_without_a_reader_are_refused(reader: Path, tmp_path: Path, cache: Path) -> None:
    for packed in (pack_zip(reader, tmp_path / "a.zip"), pack_tar(reader, tmp_path / "a.tar.gz")):
        content = packed.read_bytes()
        packed.write_bytes(content[: len(content) // 2])
        refused(packed, str(packed), "damaged")
    refused(hostile_zip(tmp_path / "b.zip", "readme.txt"), "0 readers")
    (reader / "lexicon.json").write_text("{}")
    refused(pack_zip(reader, tmp_path / "c.zip"), "lexicon.json", "checksum")
    assert not list((cache / "readers" / "archives").iterdir())


def test_an_ensemble_comes_as_an_archive_too(reader: Path, tmp_path: Path) -> None:
    both = tmp_path / "both"
    for name in ("one", "two"):
        shutil.copytree(reader, both / name)
    sign(both, MANIFEST, {"format": 1, "kind": "ensemble", "members": ["one", "two"]})
    names = reader_names(str(pack_tar(both, tmp_path / "both.tar.gz", "both")))
    assert [Path(name).name for name in names] == ["one", "two"]


def test_verify_compares_every_reader_with_its_checksums(reader: Path, tmp_path: Path, cache: Path) -> None:
    Reader.load(pack_zip(reader, tmp_path / "a.zip"))
    done = RUN.invoke(app, ["readers", "--verify", "--json"])
    assert done.exit_code == 0, done.output
    states = {row["name"]: row["state"] for row in json.loads(done.stdout)}
    assert {"small", "base", "a", "vectors/pieces", "retrieval/table"} <= set(states)
    assert states["a"] == states["small"] == states["base"] == "whole"
    (broken,) = cache.rglob("weights.safetensors")
    with broken.open("r+b") as file:
        file.write(b"\0\0\0")
    done = RUN.invoke(app, ["readers", "--verify"])
    assert done.exit_code == 1
    assert "weights.safetensors: damaged" in done.stdout
    assert str(broken.parent) in done.stderr
    assert RUN.invoke(app, ["readers", "small", "--verify"]).exit_code == 0
