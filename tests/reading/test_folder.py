"""Damaged and missing files: one sentence that names the file and the remedy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from rmreader.core.errors import UserError
from rmreader.core.files.manifest import file_sha256
from rmreader.readers.folder import open_folder
from rmreader.reading.reader import Reader


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def resign(folder: Path) -> None:
    """Make the manifest true again after a file was changed on purpose."""
    about = json.loads((folder / "reader.json").read_text())
    about["checksums"] = {name: file_sha256(folder / name) for name in about["checksums"]}
    (folder / "reader.json").write_text(json.dumps(about))


@pytest.mark.parametrize("name", ["weights.safetensors", "recipe.yaml", "lexicon.json"])
def test_a_changed_file_is_refused(copy: Path, name: str) -> None:
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"{name}: damaged .*; restore the folder"):
        Reader.load(copy)


@pytest.mark.parametrize("name", ["weights.safetensors", "recipe.yaml", "lexicon.json", "vectors.safetensors"])
def test_a_missing_file_is_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(UserError, match=f"{name}: missing"):
        Reader.load(copy)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"format": 1}',
        '{"format": 1, "checksums": 5}',
        '{"format":1,"checksums":{},"temperature":0}',
    ],
)
def test_a_damaged_manifest_is_one_sentence(copy: Path, content: str) -> None:
    (copy / "reader.json").write_text(content)
    with pytest.raises(UserError, match=r"reader\.json: damaged") as caught:
        Reader.load(copy)
    assert "\n" not in str(caught.value)


def test_another_version_is_named(copy: Path) -> None:
    (copy / "reader.json").write_text('{"format": 99, "checksums": {}}')
    with pytest.raises(UserError, match="format 99"):
        Reader.load(copy)


def test_no_such_reader_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such reader; shipped are"):
        Reader.load("neverheard")
    with pytest.raises(UserError, match=r"not a reader's folder, it has no reader\.json"):
        Reader.load(tmp_path)


def test_a_cut_weights_file_is_one_sentence_even_where_its_checksum_was_mended(copy: Path) -> None:
    path = copy / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    resign(copy)
    with pytest.raises(UserError, match=r"weights\.safetensors: damaged") as caught:
        Reader.load(copy)
    assert "\n" not in str(caught.value)


def test_weights_of_another_network_are_refused_in_a_sentence(copy: Path) -> None:
    weights = load_file(copy / "weights.safetensors")
    del weights["aligner.blocks.1.fusion_H.weight"]
    save_file(weights, copy / "weights.safetensors")
    resign(copy)
    with pytest.raises(UserError, match=r"do not fit recipe\.yaml \(.*fusion_H\.weight"):
        Reader.load(copy)


@pytest.mark.parametrize("storage", ["float16", "int8"])
def test_weights_may_be_stored_in_fewer_bits(copy: Path, folder: Path, storage: str) -> None:
    exact = open_folder(folder).weights()
    stored: dict[str, np.ndarray] = {}  # type: ignore[type-arg]
    for name, weight in exact.items():
        if storage == "float16" or weight.ndim < 2:
            stored[name] = weight.astype(np.float16)
        else:
            scale = np.abs(weight).max(axis=-1) / 127 + 1e-12
            stored[name] = np.rint(weight / scale[..., None]).astype(np.int8)
            stored[f"{name}.scale"] = scale.astype(np.float32)
    save_file(stored, copy / "weights.safetensors")
    resign(copy)
    read = open_folder(copy).weights()
    assert read.keys() == exact.keys()
    for name, weight in exact.items():
        assert read[name].dtype == np.float32
        np.testing.assert_allclose(read[name], weight, atol=0.01 * np.abs(weight).max() + 1e-6)
