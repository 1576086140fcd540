"""ELMo's two files from a stranger: shapes, kinds, links and digests are checked; each fault is one sentence."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from rmreader.core.errors import UserError
from rmreader.data import download as downloads
from rmreader.model.elmo import load_elmo

OPTIONS = {
    "lstm": {
        "use_skip_connections": True,
        "projection_dim": 2,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 3,
        "n_layers": 1,
    },
    "char_cnn": {
        "activation": "relu",
        "filters": [[1, 2], [2, 3]],
        "n_highway": 1,
        "embedding": {"dim": 4},
        "max_characters_per_token": 10,
    },
}


def arrays() -> dict[str, tuple[int, ...]]:
    """Name and shape of every array that these options ask for."""
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (261, 4), "CNN_proj/W_proj": (5, 2), "CNN_proj/b_proj": (2,)}
    for k, (width, count) in enumerate([(1, 2), (2, 3)]):
        shapes |= {f"CNN/W_cnn_{k}": (1, width, 4, count), f"CNN/b_cnn_{k}": (count,)}
    for part in ("carry", "transform"):
        shapes |= {f"CNN_high_0/W_{part}": (5, 5), f"CNN_high_0/b_{part}": (5,)}
    for direction in (0, 1):
        cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell0/LSTMCell"
        shapes |= {f"{cell}/W_0": (4, 12), f"{cell}/B": (12,), f"{cell}/W_P_0": (3, 2)}
    return shapes


def make(folder: Path) -> Path:
    """A whole small ELMo."""
    (folder / "options.json").write_text(json.dumps(OPTIONS))
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, shape in arrays().items():
            file.create_dataset(name, data=np.full(shape, 0.1, np.float32))
    return folder


def replaced(name: str, put: Callable[[Any, str, Path], object]) -> Callable[[Path], None]:
    """Take an array out of the file and put something else in its place."""

    def spoil(folder: Path) -> None:
        with h5py.File(folder / "weights.hdf5", "a") as file:
            del file[name]
            put(file, name, folder)

    return spoil


def external_link(file: Any, name: str, folder: Path) -> None:
    with h5py.File(folder.parent / "outside.hdf5", "w") as other:
        other["x"] = np.zeros((5, 2), np.float32)
    file[name] = h5py.ExternalLink(str(folder.parent / "outside.hdf5"), "x")


def external_storage(file: Any, name: str, folder: Path) -> None:
    (folder.parent / "secret").write_bytes(b"0" * 40)
    file.create_dataset(name, (5, 2), np.float32, external=[(str(folder.parent / "secret"), 0, 40)])


def virtual(file: Any, name: str, folder: Path) -> None:
    layout = h5py.VirtualLayout((5, 2), np.float32)
    layout[:] = h5py.VirtualSource(str(folder.parent / "outside.hdf5"), "x", (5, 2))
    file.create_virtual_dataset(name, layout)


P = "CNN_proj/W_proj"
SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (replaced(P, lambda *_: None), "is missing"),
    "a group": (replaced(P, lambda f, n, _: f.create_group(n)), "not an array of numbers"),
    "the embedding a group": (replaced("char_embed", lambda f, n, _: f.create_group(n)), "not an array of numbers"),
    "a single number": (replaced("char_embed", lambda f, n, _: f.create_dataset(n, data=1.0)), "has shape"),
    "texts": (replaced(P, lambda f, n, _: f.create_dataset(n, data=["a"])), "not an array of numbers"),
    "whole numbers": (replaced(P, lambda f, n, _: f.create_dataset(n, data=[1])), "not an array of numbers"),
    "a wrong shape": (replaced(P, lambda f, n, _: f.create_dataset(n, data=np.zeros((2, 5), "f4"))), r"shape \(2, 5\)"),
    "empty": (replaced(P, lambda f, n, _: f.create_dataset(n, data=h5py.Empty("f4"))), "ELMo|HDF5|shape|array"),
    "not finite": (replaced(P, lambda f, n, _: f.create_dataset(n, data=np.full((5, 2), np.nan, "f4"))), "infinite"),
    "a bomb": (
        replaced(P, lambda f, n, _: f.create_dataset(n, (1 << 20, 1 << 20), "f4", chunks=(1 << 10, 1 << 10))),
        "claims more numbers than the file holds",
    ),
    "a link": (replaced(P, lambda f, n, _: f.__setitem__(n, h5py.SoftLink("/char_embed"))), "not an array of numbers"),
    "a link outside": (replaced(P, external_link), "not an array of numbers"),
    "numbers outside": (replaced(P, external_storage), "not an array of numbers"),
    "a view outside": (replaced(P, virtual), "not an array of numbers"),
    "another digest": (
        lambda f: (f / "weights.hdf5.sha256").write_text(f"{'0' * 64}  weights.hdf5\n"),
        "its SHA-256 is not the one in weights.hdf5.sha256",
    ),
    "options deep": (lambda f: (f / "options.json").write_text("[" * 100_000), "JSON"),
    "options huge": (
        lambda f: (f / "options.json").write_text(json.dumps(OPTIONS).replace('"dim": 3', '"dim": 1000000000')),
        "a size is out of range",
    ),
    "options infinite": (
        lambda f: (f / "options.json").write_text(json.dumps(OPTIONS).replace('"dim": 3', '"dim": 1e999')),
        "not the options",
    ),
    "options without clip": (
        lambda f: (f / "options.json").write_text(json.dumps(OPTIONS).replace('"cell_clip": 3', '"cell_clip": NaN')),
        "a size is out of range",
    ),
}


def test_a_whole_one_is_read(tmp_path: Path) -> None:
    digest = hashlib.sha256((make(tmp_path) / "weights.hdf5").read_bytes()).hexdigest()
    (tmp_path / "weights.hdf5.sha256").write_text(f"{digest}  weights.hdf5\n")
    layers = load_elmo(tmp_path).encode([["a", "word"]])
    assert layers.shape == (1, 2, 2, 4)


@pytest.mark.parametrize("how", SPOILT)
def test_a_spoilt_one_is_one_sentence(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "elmo"
    folder.mkdir()
    spoil, sentence = SPOILT[how]
    spoil(make(folder))
    with pytest.raises(UserError, match=sentence) as caught:
        load_elmo(folder)
    assert str(folder) in str(caught.value)


def test_the_download_leaves_a_digest_and_takes_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(tmp_path)
    files = tuple(
        downloads.File(name, "http://127.0.0.1:9/", (made / name).stat().st_size)
        for name in ("options.json", "weights.hdf5")
    )
    monkeypatch.setitem(downloads.SETS, "elmo", files)
    target = tmp_path / "data" / "elmo"
    target.mkdir(parents=True)
    shutil.copyfile(made / "options.json", target / "options.json")
    shutil.copyfile(made / "weights.hdf5", target / "weights.hdf5.part")  # all of it has come, nothing is checked yet
    right = hashlib.sha256((made / "weights.hdf5").read_bytes()).hexdigest()
    with pytest.raises(UserError, match="it is the 64 digits"):
        downloads.download("elmo", tmp_path / "data", "abc")
    assert downloads.download("elmo", tmp_path / "data")[1] == target / "weights.hdf5"
    assert (target / "weights.hdf5.sha256").read_text() == f"{right}  weights.hdf5\n"
    assert downloads.download("elmo", tmp_path / "data", right)[1] == target / "weights.hdf5"
    with pytest.raises(UserError, match=r"its sha256 is .* and not the published 0000"):
        downloads.download("elmo", tmp_path / "data", "0" * 64)
