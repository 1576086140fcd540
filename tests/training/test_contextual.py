"""Tags and contextual vectors in whole runs: learned from, kept with the reader, and the same however they come."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rmreader.core.errors import UserError
from rmreader.data.batch import FrozenLayers, LayerRows, WordRows
from rmreader.data.batches import Padding
from rmreader.data.encode import encode_file
from rmreader.readers.folder import open_folder
from rmreader.reading.engine.engines import OnnxEngine
from rmreader.reading.export import shrink
from rmreader.reading.reader import Reader
from rmreader.training import reader_folder
from rmreader.training.contextual import ContextualInputs
from rmreader.training.engine import TorchEngine
from rmreader.training.evaluate import evaluate
from rmreader.training.feed import Feed
from rmreader.training.run_folder import Stop, load_checkpoint
from rmreader.training.trainer import Run, train

CPU = torch.device("cpu")
MODES = {
    "frozen": ("inputs.contextual_mode=frozen",),
    "apart": ("inputs.contextual_mode=tuned", "inputs.contextual_layer_dropout=0.1"),
    "together": ("inputs.contextual_mode=tuned", "inputs.contextual_pairing=together"),
}


def losses(out: Path) -> list[float]:
    lines = (out / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [line["loss"] for line in map(json.loads, lines) if "loss" in line]


def run(tiny: Any, out: Path, *overrides: str, resume: bool = False) -> Any:
    recipe = tiny.recipe("training.epochs=1", *overrides)
    files = tiny.folder / "train.json", tiny.folder / "dev.json"
    return train(recipe, *files, out, resume=resume, device="cpu", cache_dir=out.parent / "cache")


def same_without_torch(best: Path, tmp_path: Path) -> None:
    """ONNX Runtime and torch answer alike: short texts, and texts longer than the encoder's window."""
    short, long = "In Oslo, Emmy made three maps. In Lima, Noor slept.", "Emmy made three maps, Ada two. " * 40
    pairs = [("Who made three maps?", short), ("Who slept " + "in Lima or in Oslo " * 30 + "?", long), ("Who?", "Ada")]
    ours, theirs = Reader.load(best), Reader.load(best, engine="torch")
    assert isinstance(ours.engine, OnnxEngine)
    for pair, found in zip(pairs, ours.ask_many(pairs, top=3), strict=True):
        for one, other in zip(found, theirs.ask(*pair, top=3), strict=True):
            assert (one.text, one.start) == (other.text, other.start)
            assert abs(one.score - other.score) < 1e-3
    for one, other in zip(ours.explain(*pairs[0]).rounds, theirs.explain(*pairs[0]).rounds, strict=True):
        np.testing.assert_allclose(one.interactive, other.interactive, atol=1e-3)
    assert open_folder(best).about["engines"]["difference"] < 1e-3


@pytest.mark.parametrize("mode", MODES)
def test_a_reader_with_an_encoder_is_trained_kept_and_read(tiny: Any, bert: Path, tmp_path: Path, mode: str) -> None:
    result = run(tiny, tmp_path / "run", f"inputs.contextual={bert}", *MODES[mode])
    assert all(np.isfinite(losses(tmp_path / "run")))
    best = tmp_path / "run" / "best"
    network, lexicon, recipe = reader_folder.load_network(best)
    contextual = ContextualInputs(recipe.inputs, CPU, tmp_path / "cache", reader=best)
    dev = encode_file(tiny.folder / "dev.json", tiny.folder)
    assert evaluate(network, Feed(dev, lexicon, CPU, contextual=contextual), recipe.decoding.max_length) == result.dev
    same_without_torch(best, tmp_path)


def test_a_reader_with_elmo_and_tags_is_trained_kept_and_read(tiny: Any, real_data: Path, tmp_path: Path) -> None:
    pytest.importorskip("spacy", reason="spaCy is absent")
    settings = f"inputs.contextual=elmo:{real_data / 'elmo-fixture'}", "inputs.tags=english"
    result = run(tiny, tmp_path / "run", *settings)
    best = tmp_path / "run" / "best"
    network, lexicon, recipe = reader_folder.load_network(best)
    assert network.encoder.mix.weights.shape == (3,)
    assert network.encoder.ner.weight.shape == (5, recipe.inputs.tag_size)
    contextual = ContextualInputs(recipe.inputs, CPU, tmp_path / "cache", reader=best)
    dev = encode_file(tiny.folder / "dev.json", tiny.folder)
    assert evaluate(network, Feed(dev, lexicon, CPU, contextual=contextual), recipe.decoding.max_length) == result.dev
    assert isinstance(Reader.load(best).engine, TorchEngine)
    assert Reader.load(best).ask("Who made three maps?", "In Oslo, Emmy made three maps.")[0].text
    assert "engines" not in open_folder(best).about  # it has but one
    shrink(best, tmp_path / "small")
    assert "engines" not in open_folder(tmp_path / "small").about


def test_a_reader_with_tags_reads_without_torch(tiny: Any, tmp_path: Path) -> None:
    pytest.importorskip("spacy", reason="spaCy is absent")
    run(tiny, tmp_path / "run", "inputs.tags=english")
    same_without_torch(tmp_path / "run" / "best", tmp_path)


def test_a_machine_without_spacy_learns_from_tags_of_another(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("spacy", reason="spaCy is absent")
    run(tiny, tmp_path / "with", "inputs.tags=english")
    assert "after" in open_folder(tmp_path / "with" / "best").about["calibration"]

    carried = tmp_path / "there" / "cache"
    shutil.copytree(tmp_path / "cache" / "tags", carried / "tags")
    monkeypatch.setitem(sys.modules, "spacy", None)  # as if it were not installed
    without = tmp_path / "there" / "without"
    run(tiny, without, "inputs.tags=english")
    assert losses(without) == losses(tmp_path / "with")
    about = open_folder(without / "best").about
    assert "spaCy" in about["calibration"]["skipped"]
    assert "engines" not in about

    # Without the carried tags it is refused before the first step.
    with pytest.raises(UserError, match="tags need spaCy"):
        run(tiny, tmp_path / "elsewhere" / "run", "inputs.tags=english")


@pytest.mark.parametrize("mode", ["apart", "together"])
def test_the_encoder_learns_at_its_own_rate(tiny: Any, bert: Path, tmp_path: Path, mode: str) -> None:
    setting = (f"inputs.contextual={bert}", *MODES[mode], "training.ema=0")
    before = ContextualInputs(tiny.recipe(*setting).inputs, CPU).tuned
    assert before is not None
    moved = {}
    for rate in (0.0, 1e-3):
        out = tmp_path / str(rate)
        run(tiny, out, *setting, f"training.contextual_rate={rate}")
        after = reader_folder.load_network(out / "best")[0].contextual
        assert after is not None
        pairs = zip(before.parameters(), after.parameters(), strict=True)
        moved[rate] = max(float((one - other).detach().abs().max()) for one, other in pairs)
    assert moved[0.0] == 0
    assert moved[1e-3] > 1e-4


def test_tuning_starts_from_a_reader_with_frozen_vectors(tiny: Any, bert: Path, tmp_path: Path) -> None:
    run(tiny, tmp_path / "frozen", f"inputs.contextual={bert}")
    frozen, _, _ = reader_folder.load_network(tmp_path / "frozen" / "best")
    settings = (f"inputs.contextual={bert}", *MODES["apart"], f"training.init={tmp_path / 'frozen'}")
    setup = tiny.setup(tmp_path / "tuned", *settings)
    ours = setup.network.state_dict()
    assert all(torch.equal(ours[name], tensor) for name, tensor in frozen.state_dict().items())
    pretrained = ContextualInputs(setup.recipe.inputs, CPU).tuned
    assert pretrained is not None
    assert all(torch.equal(ours[f"contextual.{name}"], w) for name, w in pretrained.state_dict().items())
    # read apart, without dropout, the two are the same network
    contextual = ContextualInputs(tiny.recipe(f"inputs.contextual={bert}").inputs, CPU, tmp_path / "cache")
    feeds = setup.train, Feed(setup.train.encoded, setup.lexicon, CPU, None, 400, contextual)
    tuned, same = (feed.fill(next(feed.batches([np.array([0, 5])]))[1]) for feed in feeds)
    gap = setup.network.eval()(tuned).log_p1 - frozen(same).log_p1
    assert gap.abs().max() < 0.02  # frozen vectors are kept in half precision


@pytest.mark.parametrize("mode", MODES)
def test_stopped_and_resumed_runs_end_in_the_same_bits(
    tiny: Any, bert: Path, tmp_path: Path, stop_after: Callable[[int], Any], mode: str
) -> None:
    settings = ("training.epochs=1", f"inputs.contextual={bert}", *MODES[mode])
    assert Run(tiny.setup(tmp_path / "whole", *settings)).go(Stop()).finished
    for looks in (7, 10**6):
        result = Run(tiny.setup(tmp_path / "parts", *settings, resume=True)).go(stop_after(looks))
    assert result.finished
    whole, parts = (load_checkpoint(tmp_path / name / "last")[0] for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_runs_have_the_same_loss_curve_wherever_vectors_are_kept(tiny: Any, bert: Path, tmp_path: Path) -> None:
    settings = f"inputs.contextual={bert}", "training.max_context=20", "training.epochs=3"
    for kind in ("none", "memory", "disk"):
        run(tiny, tmp_path / kind, *settings, f"inputs.contextual_cache={kind}")
        assert (tmp_path / "cache" / "contextual").exists() == (kind == "disk")
    assert len(losses(tmp_path / "disk")) >= 3
    assert losses(tmp_path / "disk") == losses(tmp_path / "memory") == losses(tmp_path / "none")


def test_cut_passages_get_the_vectors_and_pieces_of_their_own_words(tiny: Any, bert: Path, tmp_path: Path) -> None:
    encoded = encode_file(tiny.folder / "train.json", tiny.folder)
    inputs = replace(tiny.recipe().inputs, contextual=str(bert))
    setup = tiny.setup(tmp_path / "run")
    index = np.array([3, 9, 20])
    whole = Feed(encoded, setup.lexicon, CPU, contextual=ContextualInputs(inputs, CPU, tmp_path))
    cut = Feed(encoded, setup.lexicon, CPU, max_context=15, contextual=ContextualInputs(inputs, CPU, tmp_path))
    ((_, full),), ((_, part),) = whole.batches([index]), cut.batches([index])
    assert part.context.shape[1] == 15
    for k, first in enumerate(part.source.offset.tolist()):
        assert torch.equal(part.contextual.context[k], full.contextual.context[k, first : first + 15])
    tuned = replace(inputs, contextual_mode="tuned")
    contextual = ContextualInputs(tuned, CPU, tmp_path)
    ((_, laid),) = Feed(encoded, setup.lexicon, CPU, max_context=15, contextual=contextual).batches([index])
    table = contextual.pieces.table(encoded.vocabulary)
    for k, (i, first) in enumerate(zip(index.tolist(), laid.source.offset.tolist(), strict=True)):
        words = encoded.context_tokens(i)[first : first + 15]
        found = laid.contextual.pieces.flatten()[laid.contextual.context_pieces[k].long()]
        assert found.tolist() == table.ids[table.offsets[words]].tolist()


def test_rows_filled_in_on_the_device_are_the_vectors_gathered_on_the_host(
    tiny: Any, bert: Path, tmp_path: Path
) -> None:
    encoded = encode_file(tiny.folder / "train.json", tiny.folder)
    contextual = ContextualInputs(replace(tiny.recipe().inputs, contextual=str(bert)), CPU, tmp_path)
    lexicon = tiny.setup(tmp_path / "run").lexicon
    batches = []
    for resident in (False, True):
        feed = Feed(encoded, lexicon, CPU, Padding(8, 16, 64), 15, contextual)
        assert feed._more is not None
        feed._more.resident = resident  # as it is where the vectors lie on a GPU
        ((_, batch),) = feed.batches([np.array([3, 9, 20])])
        assert isinstance(batch.contextual, LayerRows if resident else FrozenLayers)
        assert isinstance(batch.words, WordRows)
        assert batch.words.rows.dtype == torch.int64
        batches.append(feed.fill(batch))
    for name in ("question", "context"):
        assert torch.equal(*(getattr(batch.contextual, name) for batch in batches))
        assert getattr(batches[0].contextual, name).dtype == torch.float16


def test_batches_of_repeating_shapes_list_the_letters_of_their_words(tiny: Any, tmp_path: Path) -> None:
    setup = tiny.setup(tmp_path / "run")
    for pad in (None, Padding(8, 16, 64)):
        feed = Feed(setup.train.encoded, setup.lexicon, CPU, pad)
        ((_, batch),) = feed.batches([np.array([3, 9, 20])])
        words = feed.fill(batch).words
        assert (batch.letters is None) == (pad is None)
    word, place = batch.letters
    each = [row[:length] for row, length in zip(words.characters, words.lengths, strict=True)]
    assert torch.equal(words.characters[word, place][: words.lengths.sum()], torch.cat(each))


def test_a_reader_refuses_another_encoder(tiny: Any, bert: Path, tmp_path: Path) -> None:
    run(tiny, tmp_path / "run", f"inputs.contextual={bert}")
    best = tmp_path / "run" / "best"
    inputs = replace(reader_folder.load_network(best)[2].inputs, contextual=str(other_window(bert, tmp_path / "other")))
    with pytest.raises(UserError, match="another encoder"):
        ContextualInputs(inputs, CPU, reader=best)


def other_window(bert: Path, folder: Path) -> Path:
    folder.mkdir()
    for path in bert.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    tree = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**tree, "layer_norm_eps": 1e-3}))
    return folder


def test_frozen_encoders_read_no_pairs(tiny: Any, bert: Path) -> None:
    with pytest.raises(UserError, match="only a tuned encoder reads pairs"):
        tiny.recipe(f"inputs.contextual={bert}", "inputs.contextual_pairing=together")


@pytest.mark.parametrize("source", ["", "best", "last"])
def test_a_tuned_encoder_is_tuned_further_without_another_copy_of_it(
    tiny: Any, bert: Path, tmp_path: Path, stop_after: Callable[[int], Any], source: str
) -> None:
    copied = tmp_path / "copy"
    shutil.copytree(bert, copied)
    settings = (f"inputs.contextual={copied}", *MODES["together"], "training.epochs=1")
    first = tiny.finished(tmp_path / "first", *settings)
    shutil.rmtree(copied)
    again = (*settings, f"training.init={tmp_path / 'first' / source}")
    second = Run(tiny.setup(tmp_path / "second", *again))
    kept = first.learner.averaged.state_dict()
    assert all(torch.equal(tensor, kept[name]) for name, tensor in second.learner.network.state_dict().items())
    second.go(stop_after(8))
    shutil.rmtree(tmp_path / "first")
    assert Run(tiny.setup(tmp_path / "second", *again, resume=True)).go(Stop()).finished
    Reader.load(tmp_path / "second" / "best", engine="torch").ask("Who?", "Ada made it.")


def test_questions_are_counted_by_the_pieces_that_a_tuned_encoder_reads(tiny: Any, bert: Path, tmp_path: Path) -> None:
    words = (f"inputs.contextual={bert}", "inputs.contextual_mode=tuned")
    feed = tiny.setup(tmp_path / "run", *words, "inputs.contextual_pairing=together", "training.max_context=9").train
    lengths = feed.lengths(9)
    around = 3  # [CLS], and [SEP] after each text
    for number, counted in enumerate(lengths.tolist()):
        batch = next(iter(feed.batches([np.array([number])])))[1]
        assert batch.contextual.piece_mask.sum() == counted + around
