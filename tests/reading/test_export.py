"""Export: one file for other runtimes, equal to the network or not written; and smaller folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmreader.core.errors import UserError
from rmreader.core.recipe import Inputs
from rmreader.readers.folder import open_folder
from rmreader.reading import export
from rmreader.reading.engine.runtime import ort
from rmreader.reading.export import export_onnx, shrink
from rmreader.reading.reader import Reader
from rmreader.text.lexicon import Lexicon
from rmreader.text.tokens import tokenize

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


def test_the_file_alone_gives_what_the_reader_gives(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "reader.onnx"
    assert export_onnx(folder, out) <= 1e-4
    lexicon, session = Lexicon.load(folder), ort.InferenceSession(out, providers=["CPUExecutionProvider"])
    question, passage = tokenize(QUESTION).words, tokenize(PASSAGE).words
    distinct = list(dict.fromkeys([*question, *passage]))
    table = lexicon.look_up(distinct)
    feeds = {
        "question": np.array([distinct.index(w) + 1 for w in question], np.int32),
        "context": np.array([distinct.index(w) + 1 for w in passage], np.int32),
        **{name: getattr(table, name) for name in ("vectors", "characters", "lengths", "keys")},
    }
    found = dict(zip([value.name for value in session.get_outputs()], session.run(None, feeds), strict=True))
    assert found.keys() == {"log_p1", "log_p2", "E1", "B1", "E2", "B2"}
    assert np.exp(found["log_p1"]).sum() == pytest.approx(1, abs=1e-5)
    (answer,) = Reader.load(folder).ask(QUESTION, PASSAGE)
    m = len(passage)
    best = max(found["log_p1"][i] + found["log_p2"][j] for i in range(m) for j in range(i, min(m, i + 15)))
    assert answer.score == pytest.approx(float(best), abs=1e-4)
    assert [path.name for path in out.parent.iterdir()] == ["reader.onnx"]


def test_with_trained_vectors_and_without_characters(make_reader: Any, tmp_path: Path) -> None:
    glove = tmp_path / "vectors.txt"
    glove.write_text("the 0.1 0.2 0.3\n", encoding="utf-8")
    for number, settings in enumerate(({}, {"characters": False}, {"exact_match": False})):
        reader = make_reader(inputs=Inputs(vectors=str(glove), character_size=3, **settings))
        assert export_onnx(reader, tmp_path / f"{number}.onnx") <= 1e-4


def test_a_graph_that_differs_from_the_network_is_not_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = open_folder(folder).weights()
    weights["aligner.blocks.1.gamma_E"] = weights["aligner.blocks.1.gamma_E"] + 1
    whole = export.whole_graph

    class Meddled:
        def __init__(self, opened: Any) -> None:
            self.recipe = opened.recipe

        def weights(self) -> Any:
            return weights

    monkeypatch.setattr(export, "whole_graph", lambda opened: whole(Meddled(opened)))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="differs from the network by"):
        export_onnx(folder, tmp_path / "reader.onnx")
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
