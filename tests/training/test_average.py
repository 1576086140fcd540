"""The mean of several readers: its weights, what comes along with them, and what has no mean."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from rmreader.cli import app
from rmreader.core.errors import UserError
from rmreader.readers import write as module
from rmreader.readers.folder import open_folder
from rmreader.reading.engine.engines import OnnxEngine
from rmreader.reading.export import shrink
from rmreader.reading.reader import Reader
from rmreader.text.lexicon import Lexicon
from rmreader.training.average import average
from rmreader.training.reader_folder import load_network, write_reader
from rmreader.training.trainer import train

ASKED = "Who made three maps?", "In Oslo, Emmy made three maps. In Lima, Noor slept."


def write(tiny: Any, out: Path, *overrides: str, seed: int = 1, **changes: Any) -> Path:
    """A reader with random weights, of the tiny data's words (some of them trained)."""
    setup = tiny.setup(out.with_name(f"{out.name}-run"), *overrides)
    torch.manual_seed(seed)
    weights = {name: torch.randn(weight.shape) / 4 for name, weight in setup.network.state_dict().items()}
    made = {"weights": weights, "lexicon": setup.lexicon, "recipe": setup.recipe} | changes
    scores = {"dev": {"exact_match": 50.0, "f1": 60.0 + seed, "total": 20}}
    write_reader(out, **made, scores=scores, provenance={"seed": seed}, contextual=setup.contextual)
    shutil.rmtree(out.with_name(f"{out.name}-run"), ignore_errors=True)
    return out


def set_temperature(folder: Path, temperature: float) -> Path:
    about = json.loads((folder / "reader.json").read_text())
    (folder / "reader.json").write_text(json.dumps({**about, "temperature": temperature}))
    return folder


def assert_mean(out: Path, folders: list[Path]) -> None:
    """Every weight is the mean, told by the other way there is to read weights."""
    found, each = open_folder(out).weights(), [open_folder(folder).weights() for folder in folders]
    assert all(weights.keys() == found.keys() for weights in each)
    for name, weight in found.items():
        mean = np.mean([weights[name].astype(np.float64) for weights in each], axis=0)
        np.testing.assert_array_equal(weight, mean.astype(np.float32), err_msg=name)


def test_every_weight_is_the_mean_however_weights_are_stored(tiny: Any, tmp_path: Path) -> None:
    folders = [write(tiny, tmp_path / f"reader{seed}", seed=seed) for seed in (1, 2, 3)]
    for number, kind in ((1, "float16"), (2, "int8")):
        shrink(folders[number], tmp_path / kind, kind)  # type: ignore[arg-type]
        folders[number] = tmp_path / kind
    for folder, temperature in zip(folders, (1.0, 1.5, 2.3), strict=True):
        set_temperature(folder, temperature)
    assert average(folders, tmp_path / "deep" / "mean") == pytest.approx(1.6)
    out = tmp_path / "deep" / "mean"
    assert_mean(out, folders)
    weights = open_folder(out).weights()
    assert weights["encoder.words.weight"].shape[0] > 2  # words with trained vectors
    assert all(np.abs(weights[name] - other).max() > 1e-3 for name, other in open_folder(folders[0]).weights().items())
    assert (out / "recipe.yaml").read_bytes() == (folders[0] / "recipe.yaml").read_bytes()
    assert Lexicon.load(out).fingerprint == Lexicon.load(folders[0]).fingerprint
    about = open_folder(out).about
    assert (about["scores"], about["temperature"]) == ({}, pytest.approx(1.6))
    members = about["provenance"]["average_of"]
    assert [member["reader"] for member in members] == [f"{tmp_path.name}/{folder.name}" for folder in folders]
    sums = [open_folder(folder).about["checksums"]["weights.safetensors"] for folder in folders]
    assert [member["weights_sha256"] for member in members] == sums
    assert [member["scores"]["dev"]["f1"] for member in members] == [61, 62, 63]
    card = (out / "README.md").read_text()
    assert "the mean of 3 readers" in card
    assert "not measured" in card
    assert Reader.load(out).ask(*ASKED)
    assert [path.name for path in out.parent.iterdir()] == ["mean"]


def test_a_reader_averaged_with_itself_answers_as_before(tiny: Any, tmp_path: Path) -> None:
    one = set_temperature(write(tiny, tmp_path / "one"), 1.7)
    for copies in (2, 3):
        out = tmp_path / f"mean{copies}"
        average([one] * copies, out)
        assert (out / "weights.safetensors").read_bytes() == (one / "weights.safetensors").read_bytes()
        ours, its = (Reader.load(folder).ask(*ASKED, top=5) for folder in (out, one))
        assert [(a.text, a.score) for a in ours] == [(a.text, a.score) for a in its]
        assert [a.confidence for a in ours] == pytest.approx([a.confidence for a in its])


def test_tuned_encoders_that_started_from_one_reader_have_a_mean(tiny: Any, bert: Path, tmp_path: Path) -> None:
    def run(name: str, *overrides: str) -> Path:
        recipe = tiny.recipe("training.epochs=1", "training.ema=0", f"inputs.contextual={bert}", *overrides)
        return train(recipe, tiny.folder / "train.json", None, tmp_path / name, device="cpu", cache_dir=tmp_path).best

    start = ("inputs.contextual_mode=tuned", f"training.init={run('frozen')}", "training.holdout_seed=1")
    folders = [run(f"seed-{seed}", *start, f"training.seed={seed}", "training.contextual_rate=0.01") for seed in (1, 2)]
    average(folders, tmp_path / "mean")
    assert_mean(tmp_path / "mean", folders)
    one, other = (open_folder(folder).weights() for folder in folders)
    assert any(np.abs(one[name] - other[name]).max() > 1e-3 for name in one if name.startswith("contextual."))
    for name in ("extras.json", "encoder/config.json", "encoder/tokenizer.json"):
        assert (tmp_path / "mean" / name).read_bytes() == (folders[0] / name).read_bytes()
    names = [member["reader"] for member in open_folder(tmp_path / "mean").about["provenance"]["average_of"]]
    assert names == ["seed-1/best", "seed-2/best"]
    load_network(tmp_path / "mean")  # every weight has its place
    ours, theirs = Reader.load(tmp_path / "mean"), Reader.load(tmp_path / "mean", engine="torch")
    assert isinstance(ours.engine, OnnxEngine)
    answers = [reader.ask(*ASKED)[0] for reader in (ours, theirs)]
    assert answers[0].text == answers[1].text
    assert answers[0].score == pytest.approx(answers[1].score, abs=1e-3)


def test_tags_come_along(tiny: Any, tmp_path: Path) -> None:
    pytest.importorskip("spacy", reason="spaCy is absent")
    folders = [write(tiny, tmp_path / f"reader{seed}", "inputs.tags=english", seed=seed) for seed in (1, 2)]
    average(folders, tmp_path / "mean")
    assert_mean(tmp_path / "mean", folders)
    assert Reader.load(tmp_path / "mean").ask(*ASKED)


DIFFERENCES = {
    "inputs.exact_match is False here and True": "inputs.exact_match=false",
    "network.blocks is 3 here and 2": "network.blocks=3",
    "network.dropout is 0.1 here": "network.dropout=0.1",
    "decoding.max_length is 9 here and 15": "decoding.max_length=9",
}


@pytest.mark.parametrize("sentence", DIFFERENCES)
def test_readers_with_other_settings_have_no_mean(tiny: Any, tmp_path: Path, sentence: str) -> None:
    folders = [write(tiny, tmp_path / "one"), write(tiny, tmp_path / "other", DIFFERENCES[sentence])]
    refused(folders, tmp_path, sentence)


def test_readers_of_other_words_or_weights_have_no_mean(tiny: Any, tmp_path: Path) -> None:
    one = write(tiny, tmp_path / "one")
    inputs = tiny.recipe().inputs
    words = write(tiny, tmp_path / "words", lexicon=Lexicon.build(["Ada", "zzyzx"], inputs))
    refused([one, words], tmp_path, "the lexicon is")
    weights = load_network(one)[0].state_dict()
    name = next(iter(weights))
    less = write(tiny, tmp_path / "less", weights={key: weights[key] for key in weights if key != name})
    refused([one, less], tmp_path, f"the shape of {name} is absent here and [")
    refused([less, one], tmp_path, "here and absent in")
    wide = write(tiny, tmp_path / "wide", weights=weights | {name: torch.zeros(2, 3)})
    refused([one, one, wide], tmp_path, f"the shape of {name} is [2, 3] here and [")


def test_readers_of_other_encoders_have_no_mean(tiny: Any, bert: Path, tmp_path: Path) -> None:
    tuned = f"inputs.contextual={bert}", "inputs.contextual_mode=tuned"
    one = write(tiny, tmp_path / "one", *tuned)
    tree = json.loads((bert / "config.json").read_text())
    (bert / "config.json").write_text(json.dumps({**tree, "layer_norm_eps": 1e-3}))
    other = write(tiny, tmp_path / "other", *tuned, seed=2)
    (bert / "config.json").write_text(json.dumps(tree))
    refused([one, other], tmp_path, "encoder/config.json is")


def refused(folders: list[Path], tmp_path: Path, sentence: str) -> None:
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UserError) as error:
        average(folders, tmp_path / "mean")
    assert str(error.value).startswith(f"{folders[-1]}: ")
    assert sentence in str(error.value)
    assert f"in {folders[0]}; average only readers that were trained from one start" in str(error.value)
    assert sorted(tmp_path.iterdir()) == before


def test_a_kill_while_writing_leaves_nothing_in_the_readers_place(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = write(tiny, tmp_path / "one")

    def die(*_: Any) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "card", die)
        with pytest.raises(KeyboardInterrupt):
            average([one, one], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()
    average([one, one], tmp_path / "mean")  # over what the other left
    assert {path.name for path in tmp_path.iterdir()} == {"one", "mean"}


def test_on_the_command_line(tiny: Any, tmp_path: Path) -> None:
    one, other = (str(write(tiny, tmp_path / f"reader{seed}", seed=seed)) for seed in (1, 2))
    out = tmp_path / "mean"

    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["export", "average", *words, "--out", str(out)])
        assert done.stdout == ""
        return done.exit_code, done.stderr

    status, alone = run(one)
    assert (status, "at least two readers" in alone, alone.count("\n"), out.exists()) == (1, True, 1, False)
    status, missing = run(one, str(tmp_path / "absent"))
    assert (status, "absent: no such reader" in missing, out.exists()) == (1, True, False)
    status, said = run(one, other, other)
    assert status == 0, said
    assert "the mean of 3 readers" in said
    assert "rmreader calibrate" in said
    assert_mean(out, [Path(one), Path(other), Path(other)])
    before = {path: path.read_bytes() for path in out.iterdir()}
    status, again = run(one, other)
    assert (status, "there already" in again) == (1, True)
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    shutil.rmtree(out)
    weights = Path(other) / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    status, damaged = run(one, other)
    assert (status, f"{weights}: damaged" in damaged, damaged.count("\n"), out.exists()) == (1, True, 1, False)
    with pytest.raises(UserError, match="damaged"):
        average([Path(one), Path(other)], out)
    assert not out.exists()
