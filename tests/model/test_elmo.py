"""ELMo against the published fixture, and its promises about padding, batches and bad files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from rmreader.core.errors import UserError
from rmreader.model.elmo import Elmo, ElmoOptions, ProjectedBiLSTM, character_ids, load_elmo

TOLERANCE = 2e-6


@pytest.fixture(scope="module")
def fixture(real_data: Path) -> Path:
    return real_data / "elmo-fixture"


@pytest.fixture(scope="module")
def elmo(fixture: Path) -> Elmo:
    return load_elmo(fixture)


@pytest.fixture(scope="module")
def streams(fixture: Path) -> list[list[list[str]]]:
    tree = json.loads((fixture / "sentences.json").read_text(encoding="utf-8"))
    return [[sentence.split() for sentence in stream] for stream in tree]


def expected(fixture: Path, stream: int, sentence: int) -> torch.Tensor:
    """[T, 2p]: forward and backward of the top layer."""
    with h5py.File(fixture / f"lm_embeddings_{stream}.hdf5") as file:
        forward, backward = file[str(sentence)][...]
    return torch.from_numpy(np.concatenate([forward, backward], axis=-1))


def test_token_layer_equals_the_published_vectors(fixture: Path, elmo: Elmo) -> None:
    words = (fixture / "vocab_test.txt").read_text(encoding="utf-8").splitlines()
    with h5py.File(fixture / "elmo_token_embeddings.hdf5") as file:
        published = torch.from_numpy(file["embedding"][...])
    assert len(words) == len(published) == 458
    layers = elmo.encode([[word] for word in words])
    assert layers.shape == (458, 1, 3, 32)
    for half in layers[:, 0, 0].chunk(2, dim=-1):
        assert (half - published).abs().max() < TOLERANCE


def test_it_equals_the_published_vectors_on_first_sentences(
    fixture: Path, elmo: Elmo, streams: list[list[list[str]]]
) -> None:
    for stream, sentences in enumerate(streams):
        layers = elmo.encode([sentences[0]])
        assert (layers[0, :, 2] - expected(fixture, stream, 0)).abs().max() < TOLERANCE


def test_no_dependence_on_batch_mates_or_padding(elmo: Elmo, streams: list[list[list[str]]]) -> None:
    texts = [sentence for stream in streams for sentence in stream] + [["alone"]]
    together = elmo.encode(texts)
    for k, text in enumerate(texts):
        alone = elmo.encode([text])
        assert (together[k, : len(text)] - alone[0]).abs().max() < TOLERANCE
        assert together[k, len(text) :].abs().sum() == 0


def test_both_layouts_of_the_character_table_give_the_same(fixture: Path, elmo: Elmo, tmp_path: Path) -> None:
    copy_fixture(fixture, tmp_path)
    with h5py.File(tmp_path / "lm_weights.hdf5", "r+") as file:
        table = file["char_embed"][...]
        del file["char_embed"]
        file["char_embed"] = np.concatenate([np.zeros_like(table[:1]), table])
    texts = [["Both", "layouts", "naïve", "読"]]
    assert torch.equal(load_elmo(tmp_path).encode(texts), elmo.encode(texts))


def test_character_ids_follow_the_published_convention() -> None:
    ids = character_ids(["a", "é", "x" * 80, "\ud800"])
    assert ids.shape == (4, 50)
    assert ids[0, :4].tolist() == [259, 98, 260, 261]
    assert ids[1, :5].tolist() == [259, 0xC3 + 1, 0xA9 + 1, 260, 261]
    assert ids[2, 0] == 259
    assert set(ids[2, 1:49].tolist()) == {ord("x") + 1}
    assert ids[2, 49] == 260
    assert (ids > 0).all()  # 0 is never part of a word


def test_clipping_is_applied_at_every_step() -> None:
    options = ElmoOptions(4, ((1, 8),), 1, "tanh", 50, 6, 6, 1, 0.01, 0.002, True)
    torch.manual_seed(0)
    lstm = ProjectedBiLSTM(options)
    for parameter in lstm.parameters():
        torch.nn.init.normal_(parameter, std=2.0)
    x = torch.randn(2, 4, 3, 6)
    with torch.no_grad():
        assert lstm(x).abs().max() == pytest.approx(0.002)

        # What the cells hold, with nothing between them and the output.
        lstm.projection_clip = 1.0
        lstm.project.copy_(torch.eye(6).expand(2, 6, 6))
        assert 0.005 < lstm(x).abs().max() <= 0.01


def copy_fixture(fixture: Path, folder: Path) -> None:
    shutil.copyfile(fixture / "options.json", folder / "options.json")
    shutil.copyfile(fixture / "lm_weights.hdf5", folder / "lm_weights.hdf5")


def test_truncated_weights_are_named(fixture: Path, tmp_path: Path) -> None:
    copy_fixture(fixture, tmp_path)
    weights = tmp_path / "lm_weights.hdf5"
    whole = weights.read_bytes()
    for size in (0, 100, len(whole) // 2, len(whole) - 1000):
        weights.write_bytes(whole[:size])
        with pytest.raises(UserError, match=r"lm_weights\.hdf5"):
            load_elmo(tmp_path)


def test_weights_of_another_model_are_refused(fixture: Path, tmp_path: Path) -> None:
    copy_fixture(fixture, tmp_path)
    tree = json.loads((tmp_path / "options.json").read_text())
    tree["lstm"]["dim"] = 32
    (tmp_path / "options.json").write_text(json.dumps(tree))
    with pytest.raises(UserError, match=r"LSTMCell/W_0 has shape \(32, 256\)"):
        load_elmo(tmp_path)
    tree["lstm"].update(dim=64, n_layers=3)
    (tmp_path / "options.json").write_text(json.dumps(tree))
    with pytest.raises(UserError, match="Cell2/LSTMCell/W_0 is missing"):
        load_elmo(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"lstm": 3, "char_cnn": {}}', '{"lstm": {"dim": "x"}}'])
def test_bad_options_are_named(fixture: Path, tmp_path: Path, text: str) -> None:
    copy_fixture(fixture, tmp_path)
    (tmp_path / "options.json").write_text(text)
    with pytest.raises(UserError, match=r"options\.json: .*not the options"):
        load_elmo(tmp_path)


def test_a_folder_without_elmo_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        load_elmo(tmp_path / "absent")
    with pytest.raises(UserError, match=r"one \*options\.json"):
        load_elmo(tmp_path)
