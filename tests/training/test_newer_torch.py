"""A torch without the parts that it never promised to keep trains the same reader, more slowly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from rmreader.kernels import beyond
from rmreader.training.trainer import train


def test_without_the_parts_that_may_go_a_reader_is_trained(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained(name: str) -> dict[str, Any]:
        recipe = tiny.recipe("training.epochs=1")
        data = tiny.folder / "train.json"
        run = train(recipe, data, None, tmp_path / name, device="cpu", cache_dir=tmp_path)
        return load_file(run.best / "weights.safetensors")

    usual = trained("usual")
    monkeypatch.setattr(beyond, "FOREACH", False)
    monkeypatch.setattr(beyond, "LSTM", False)
    monkeypatch.setattr(beyond, "_shapes_work", lambda: False)
    plain = trained("plain")
    assert set(plain) == set(usual)
    for name, weight in usual.items():
        np.testing.assert_allclose(plain[name], weight, rtol=1e-3, atol=1e-4)
