"""A reader that the engine without torch would read otherwise is refused where it is written and where
it is loaded: here an attention that only the network in torch knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from rmreader.core.errors import UserError
from rmreader.core.recipe import NetworkConfig
from rmreader.model import aligner
from rmreader.readers import weights
from rmreader.readers.folder import open_folder
from rmreader.reading.engine.layers import Layers
from rmreader.reading.export import shrink
from rmreader.reading.reader import Reader
from rmreader.training.trainer import train

LINEAR = "network.attention=linear"
UNKNOWN = r"^network\.attention=linear: the engine without torch cannot compute it"


class LinearSimilarity(nn.Module):
    """W₁a·W₂b, without relu."""

    def __init__(self, size: int, function: str) -> None:
        super().__init__()
        assert function == "linear"
        self.weight = nn.Parameter(torch.empty(2, size, size))
        nn.init.xavier_uniform_(self.weight.data.flatten(0, 1))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return (a @ self.weight[0].T) @ (b @ self.weight[1].T).mT


@pytest.fixture
def linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a contributor adds first: a value of the setting, and the network in torch."""
    monkeypatch.setitem(NetworkConfig.__annotations__, "attention", Literal["relu", "dot", "linear"])
    monkeypatch.setattr(aligner, "Similarity", LinearSimilarity)


@pytest.fixture
def linear_weights(linear: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes next: which weights a reader's folder then holds."""
    monkeypatch.setattr(weights, "_similarity", lambda name, size, config: {f"{name}.weight": (2, size, size)})


def run(tiny: Any, out: Path, *overrides: str) -> Any:
    recipe = tiny.recipe("training.epochs=1", *overrides)
    return train(recipe, tiny.folder / "train.json", None, out, device="cpu", cache_dir=tiny.folder)


@pytest.mark.usefixtures("linear")
def test_weights_that_a_folder_cannot_check_are_refused_before_training(tiny: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^network\.attention=linear: .* readers/weights\.py must list its weights"):
        run(tiny, tmp_path / "run", LINEAR)
    assert not (tmp_path / "run" / "best").exists()


@pytest.mark.usefixtures("linear_weights")
def test_an_attention_of_torch_alone_is_refused_by_train_load_and_export(tiny: Any, tmp_path: Path) -> None:
    best = tmp_path / "run" / "best"
    with pytest.raises(UserError, match=UNKNOWN):
        run(tiny, tmp_path / "run", LINEAR)
    assert open_folder(best).recipe.network.attention == "linear"  # whole: torch reads it
    assert Reader.load(best, engine="torch").ask("Who made three maps?", "In Oslo, Emmy made three maps.")
    for precision in ("float", "int8"):
        with pytest.raises(UserError, match=UNKNOWN):
            Reader.load(best, precision=precision)
    with pytest.raises(UserError, match=UNKNOWN):
        shrink(best, tmp_path / "small")
    assert not (tmp_path / "small").exists()


@pytest.mark.usefixtures("linear_weights")
def test_an_engine_that_computes_another_network_is_noticed_when_training_ends(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def guessed(self: Layers, config: NetworkConfig, *rest: Any) -> Any:
        return self._relu_similarity(*rest)

    monkeypatch.setattr(Layers, "similarity", guessed)
    with pytest.raises(UserError, match="the engine without torch differs from the network in torch by"):
        run(tiny, tmp_path / "run", LINEAR)


def test_what_a_trained_reader_was_compared_on_is_in_its_manifest(tiny: Any, tmp_path: Path) -> None:
    run(tiny, tmp_path / "run")
    best = tmp_path / "run" / "best"
    engines = open_folder(best).about["engines"]
    assert engines["questions"] == 4
    assert 0 < engines["difference"] < 1e-4
    assert "With and without torch" in (best / "README.md").read_text(encoding="utf-8")
