"""Export: smaller folders, whose engines agree or they are not written."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from rmreader.core.errors import UserError
from rmreader.core.recipe import NetworkConfig
from rmreader.readers.folder import open_folder
from rmreader.reading import export
from rmreader.reading.engine.layers import Layers
from rmreader.reading.export import shrink
from rmreader.reading.reader import Reader

QUESTION, PASSAGE = "Which team did the Broncos defeat?", "The Denver Broncos defeated the Carolina Panthers 24–10."


def squad(path: Path, count: int = 12) -> Path:
    """Questions whose answers are anything at all."""
    qas = [
        {
            "id": f"{k}",
            "question": f"Which team was it {k}?",
            "answers": [{"text": "Denver Broncos", "answer_start": 4}],
        }
        for k in range(count)
    ]
    path.write_text(
        json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": PASSAGE, "qas": qas}]}]})
    )
    return path


def test_what_is_written_was_compared_with_torch(folder: Path, tmp_path: Path) -> None:
    shrink(folder, tmp_path / "samples")
    shrink(folder, tmp_path / "questions", "int8", data=squad(tmp_path / "dev.json"))
    for name in ("samples", "questions"):
        engines = open_folder(tmp_path / name).about["engines"]
        assert engines["questions"] == 4
        assert 0 < engines["difference"] < 1e-4
        assert "With and without torch" in (tmp_path / name / "README.md").read_text(encoding="utf-8")


def test_a_reader_that_the_engine_reads_otherwise_is_not_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Layers.similarity

    def without_relu(self: Layers, config: NetworkConfig, *rest: Any) -> Any:
        return plain(self, dataclasses.replace(config, attention="dot"), *rest)

    monkeypatch.setattr(Layers, "similarity", without_relu)
    with pytest.raises(UserError, match="differs from the network in torch by"):
        shrink(folder, tmp_path / "small")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("weights", "size"), [("float32", 1.01), ("float16", 0.56), ("int8", 0.40)])
def test_smaller_folders_are_whole_readers(folder: Path, tmp_path: Path, weights: Any, size: float) -> None:
    out = tmp_path / "small"
    loss = shrink(folder, out, weights, data=squad(tmp_path / "dev.json"))
    assert loss is not None
    assert loss.questions == 12
    file = "weights.safetensors"
    assert (out / file).stat().st_size < size * (folder / file).stat().st_size + 2000
    exact, small = Reader.load(folder).ask(QUESTION, PASSAGE), Reader.load(out).ask(QUESTION, PASSAGE)
    assert small[0].score == pytest.approx(exact[0].score, abs=0.3)
    assert open_folder(out).about["provenance"] == open_folder(folder).about["provenance"]
    with pytest.raises(UserError, match="there already"):
        shrink(folder, out)


def test_8_bit_products_are_never_taken_unmeasured(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="need --data"):
        shrink(folder, tmp_path / "out", precision="int8")
    data = squad(tmp_path / "dev.json")
    monkeypatch.setattr(export, "ALLOWED_LOSS", -1e-9)  # even no loss at all is too much
    with pytest.raises(UserError, match=r"F1 falls from .* nothing is written"):
        shrink(folder, tmp_path / "out", "int8", "int8", data)
    assert {path.name for path in tmp_path.iterdir()} == {"dev.json"}
    monkeypatch.setattr(export, "ALLOWED_LOSS", 100.0)
    shrink(folder, tmp_path / "out", "int8", "int8", data)
    assert open_folder(tmp_path / "out").precision == "int8"
    assert Reader.load(tmp_path / "out").ask(QUESTION, PASSAGE)
