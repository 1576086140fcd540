"""``rmreader doctor``: what is here, what is missing, and how to get it."""

from __future__ import annotations

import hashlib
import json
import platform
from importlib import metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rmreader.cli import app, doctor
from rmreader.readers.folder import find, open_folder
from rmreader.reading.engine import native

RUN = CliRunner()


def test_the_diagnosis_is_json_on_request() -> None:
    done = RUN.invoke(app, ["doctor", "--json"])
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["versions"]["python"] == platform.python_version()
    assert found["versions"]["numpy"] == metadata.version("numpy")
    assert found["devices"][0].startswith("cpu")
    assert {extra["name"] for extra in found["extras"]} >= {"train", "serve", "elmo", "tags", "transformer"}
    assert set(found["folders"]) == {"package", "cache"}
    assert found["kernels"]["lstm"]
    assert found["kernels"]["8-bit readers"].startswith(("in C (", "float by ONNX Runtime"))
    assert found["devices"][0].endswith("threads")


def test_it_says_which_path_reads_and_why_not_a_faster_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMREADER_NATIVE", "0")
    assert doctor.reading_path() == "float by ONNX Runtime, slower than in C: RMREADER_NATIVE is 0"
    monkeypatch.delenv("RMREADER_NATIVE")
    if native.library() is None or native.best() == 0:
        pytest.skip("the operators in C do not run here")
    try:
        for kind, name in enumerate(native.KINDS[: native.best() + 1][:3]):
            native.limit(kind)
            wanted = f"in C ({name}; {native.KINDS[-1]} would be faster)"
            assert doctor.reading_path() == wanted
    finally:
        native.limit()


def test_the_table_says_the_same() -> None:
    done = RUN.invoke(app, ["doctor"])
    assert done.exit_code == 0
    for line in ("rmreader", "numpy", "onnxruntime", "torch", "kernel lstm", "extra train", "folder cache"):
        assert line in done.stdout


def test_the_cache_folder_is_where_the_user_put_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RMREADER_CACHE", str(tmp_path))
    assert doctor.folders()["cache"] == str(tmp_path)


def test_missing_extras_come_with_the_line_that_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    known = metadata.version

    def without_torch(name: str) -> str:
        if name in ("torch", "prometheus-client"):
            raise metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(metadata, "version", without_torch)
    found = {extra.name: extra for extra in doctor.extras()}
    assert "torch" in found["train"].missing
    assert found["train"].get == "pip install 'rmreader[train]'"
    assert found["serve"].missing == ("prometheus-client",)
    assert doctor.pip_line("prometheus_client") == "pip install 'rmreader[serve]'"
    assert doctor.pip_line("h5py._hl") == "pip install 'rmreader[elmo]'"
    assert doctor.pip_line("nonsense") is None
    assert "torch" in doctor.kernels()["lstm"]
    diagnosis = RUN.invoke(app, ["doctor"])
    assert diagnosis.exit_code == 0
    assert "pip install 'rmreader[train]'" in diagnosis.stdout


def reader(folder: Path) -> Path:
    """The files of a reader, with their checksums."""
    folder.mkdir()
    (folder / "weights.safetensors").write_bytes(b"w" * 1000)
    checksum = hashlib.sha256(b"w" * 1000).hexdigest()
    (folder / "reader.json").write_text(json.dumps({"checksums": {"weights.safetensors": checksum}}))
    return folder


def test_shipped_readers_are_listed_with_their_state(tmp_path: Path) -> None:
    reader(tmp_path / "whole")
    (reader(tmp_path / "changed") / "weights.safetensors").write_bytes(b"v" * 1000)
    (reader(tmp_path / "partial") / "weights.safetensors").unlink()
    (reader(tmp_path / "scrambled") / "reader.json").write_text("[]")
    (tmp_path / "vectors").mkdir()  # no reader
    found = {r.name: r for r in doctor.shipped_readers(tmp_path)}
    assert list(found) == ["changed", "partial", "scrambled", "whole"]
    assert found["whole"].state == "whole"
    assert found["whole"].bytes > 1000
    assert found["changed"].state.startswith("damaged: weights.safetensors")
    assert found["partial"].state.startswith("incomplete: weights.safetensors")
    assert found["scrambled"].state.startswith("damaged: reader.json")


def test_every_reader_in_the_package_is_whole() -> None:
    assert {r.name: r.state for r in doctor.shipped_readers() if r.state != "whole"} == {}


def test_readers_are_listed_and_their_cards_printed() -> None:
    listed = RUN.invoke(app, ["readers"]).stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["reader", "base", "small"]
    scores = open_folder("small").about["scores"]["SQuAD 1.1 dev"]
    assert f"{scores['exact_match']:.3f}" in listed[2]
    card = RUN.invoke(app, ["readers", "small"]).stdout
    assert card.startswith("# small\n")  # without the head, which is for the hub
    assert (find("small") / "README.md").read_text(encoding="utf-8").strip().endswith(card.strip())
    trees = json.loads(RUN.invoke(app, ["readers", "--json"]).stdout)
    assert {name: Path(tree["card"]).is_file() for name, tree in trees.items()} == {"base": True, "small": True}
    wrong = RUN.invoke(app, ["readers", "none"])
    assert (wrong.exit_code, wrong.stdout) == (1, "")


def test_a_package_whose_module_has_another_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wants = [
        "opensearch-py<4,>=2.6; extra == 'opensearch'",
        "ray[client,data]<3; extra == 'ray'",
        "jinja2; extra == 'a'",
    ]
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: [*wants, "jinja2; extra == 'b'"])
    assert doctor.pip_line("opensearchpy") == "pip install 'rmreader[opensearch]'"
    assert doctor.pip_line("ray") == "pip install 'rmreader[ray]'"
    assert doctor.pip_line("jinja2.nodes") == "pip install 'rmreader[a]'"
