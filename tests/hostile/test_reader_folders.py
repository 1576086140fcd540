"""Reader folders from strangers: refused in one sentence or read rightly, and nothing outside them is read."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from support import folders

from rmreader.core.errors import UserError
from rmreader.core.recipe import Inputs, NetworkConfig, Recipe
from rmreader.model.contextual import tuned_encoder
from rmreader.readers.folder import SHIPPED, open_folder
from rmreader.readers.weights import TUNED, bert_shapes, network_shapes
from rmreader.reading.export import shrink
from rmreader.reading.reader import Reader
from rmreader.text.contextual import ContextualShape
from rmreader.text.lexicon import Lexicon
from rmreader.text.tokens import tokenize
from rmreader.training.contextual import ContextualInputs
from rmreader.training.reader_folder import make_network, write_reader

FLIPS = int(os.environ.get("RMREADER_HOSTILE", "100"))  # random bits flipped in each kind of folder
EVERY = {"float": 1, "int8": 3, "tuned": 4} if "RMREADER_HOSTILE" not in os.environ else {}  # of the wrong tensors
QUESTION = "Who defeated the Panthers?"
PASSAGE = "The Denver Broncos defeated the Carolina Panthers 24–10 in Santa Clara."


def make(folder: Path, inputs: Inputs, **settings: Any) -> Path:
    network = NetworkConfig(**({"hidden": 8, "blocks": 2, "lstm": "plain"} | settings))
    recipe, lexicon = Recipe(inputs=inputs, network=network), Lexicon.build(tokenize(PASSAGE).words, inputs)
    contextual = ContextualInputs(inputs, torch.device("cpu"))
    torch.manual_seed(3)
    made = make_network(recipe, lexicon, contextual.shape, contextual.tuned)
    write_reader(folder, made.state_dict(), lexicon, recipe, {}, {"made": "by a test"}, contextual)
    return folder


@pytest.fixture(scope="module")
def glove(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("glove") / "vectors.txt"
    path.write_text("the 0.1 0.2 0.3\ndenver 1 2 3\n", encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("transformers", reason="transformers is absent")
    from support.encoders import build_bert

    return str(build_bert(tmp_path_factory.mktemp("bert")))


@pytest.fixture(scope="module")
def readers(glove: str, bert: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A reader with weights in 32 bits, one in 8, and one with a tuned encoder in 8."""
    place = tmp_path_factory.mktemp("readers")
    plain = make(place / "float", Inputs(vectors=glove, character_size=3))
    shrink(plain, place / "int8", "int8")
    tuned = Inputs(vectors="", characters=False, contextual=bert, contextual_mode="tuned")
    shrink(make(place / "whole", tuned, blocks=1, hidden=4), place / "tuned", "int8")
    return {"float": plain, "int8": place / "int8", "tuned": place / "tuned"}


def each(reader: Path, changes: Iterator[tuple[str, Any]], place: Path) -> Iterator[tuple[str, Path]]:
    """The reader's folder after every change, one at a time."""
    for what, change in changes:
        for name in ("reader", "away"):
            shutil.rmtree(place / name, ignore_errors=True)
        shutil.copytree(reader, place / "reader")
        change(place / "reader")
        yield what, place / "reader"


def refusal(folder: Path, **options: Any) -> str | None:
    """The sentence by which a folder is refused; None where it answers, with a place that is one."""
    try:
        answers = Reader.load(folder, threads=1, **options).ask(QUESTION, PASSAGE)
    except UserError as error:
        return str(error)
    assert [PASSAGE[a.start : a.end] for a in answers] == [a.text for a in answers]
    assert all(0 <= a.confidence <= 1 for a in answers)
    return None


@pytest.mark.parametrize("name", ["float", "int8", "tuned"])
def test_tensors_that_do_not_fit_are_refused_whatever_their_checksums(
    readers: dict[str, Path], name: str, tmp_path: Path
) -> None:
    count = 0
    chosen = itertools.islice(folders.wrong_tensors(readers[name]), None, None, EVERY.get(name, 1))
    for what, folder in each(readers[name], chosen, tmp_path):
        options: dict[str, Any] = {"engine": "torch"} if count % 20 == 0 else {"precision": "int8"}
        sentence = refusal(folder, **options)
        assert sentence is not None, what
        assert "\n" not in sentence
        assert "fit recipe.yaml" in sentence or "not finite" in sentence, (what, sentence)
        assert len(sentence) < 600
        count += 1
    assert count > 170


@pytest.mark.parametrize("name", ["int8", "tuned"])
def test_damaged_folders_are_refused_or_right(readers: dict[str, Path], name: str, tmp_path: Path) -> None:
    refused = count = 0
    chosen = itertools.islice(folders.damages(readers[name], FLIPS), None, None, 2 if EVERY and name == "tuned" else 1)
    for what, folder in each(readers[name], chosen, tmp_path):
        began = time.monotonic()
        sentence = refusal(folder)
        if sentence is not None:
            assert "\n" not in sentence, what
            assert len(sentence) < 1200, (what, sentence)
        if "link" in what or "names" in what or "gone" in what or "pipe" in what:
            assert sentence is not None, what
        assert time.monotonic() - began < 30, what
        refused += sentence is not None
        count += 1
    assert count > 1000
    assert refused > 0.7 * count


def test_nothing_is_read_through_a_link_or_by_a_name_that_leads_out(readers: dict[str, Path], tmp_path: Path) -> None:
    """Whether a path outside was opened, as the interpreter itself reports it."""
    shutil.copytree(readers["int8"], tmp_path / "reader")
    secret = tmp_path / "secret.json"
    secret.write_text("{}", encoding="utf-8")
    ways = {
        "recipe": lambda at: ((at / "recipe.yaml").unlink(), (at / "recipe.yaml").symlink_to(secret)),
        "vectors": lambda at: ((at / "vectors.safetensors").unlink(), (at / "vectors.safetensors").symlink_to(secret)),
        "name": folders._names("../secret.json"),
        "table": folders._set("lexicon.json", ("vectors", "table"), str(secret) + ".safetensors"),
    }
    script = (
        "import sys\nfrom rmreader.core.errors import UserError\nfrom rmreader.readers.folder import open_folder\n"
        "opened = []\nsys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' else None)\n"
        f"try:\n    open_folder({str(tmp_path / 'copy')!r})\nexcept UserError as error:\n    print(error)\n"
        "else:\n    raise SystemExit('it was opened')\n"
        "raise SystemExit(any('secret' in path for path in opened))\n"
    )
    for change in ways.values():
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(tmp_path / "reader", tmp_path / "copy")
        change(tmp_path / "copy")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("\n") == 1


def test_a_corrected_card_does_not_make_a_reader_damaged(readers: dict[str, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(readers["int8"], tmp_path / "copy"))
    (copy / "README.md").write_text("Corrected.", encoding="utf-8")
    open_folder(copy)
    about = json.loads((copy / "reader.json").read_text(encoding="utf-8"))
    assert "README.md" not in about["checksums"]
    about["checksums"]["README.md"] = "0" * 64  # as readers of before have it
    (copy / "reader.json").write_text(json.dumps(about), encoding="utf-8")
    open_folder(copy)
    (copy / "README.md").unlink()
    open_folder(copy)


def test_a_header_that_claims_the_memory_of_the_world_takes_none(readers: dict[str, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(readers["int8"], tmp_path / "copy"))
    path = copy / "weights.safetensors"
    with path.open("r+b") as file:  # sparse: a terabyte that takes no room
        file.write((1 << 39).to_bytes(8, "little"))
        file.truncate(1 << 40)
    about = json.loads((copy / "reader.json").read_text(encoding="utf-8"))
    del about["checksums"]["weights.safetensors"]  # so that no terabyte is hashed
    (copy / "reader.json").write_text(json.dumps(about), encoding="utf-8")
    with pytest.raises(UserError, match="damaged"):
        open_folder(copy)


def variants() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    networks: list[dict[str, Any]] = [
        {}, {"blocks": 1}, {"blocks": 4, "hidden": 3}, {"attention": "dot"}, {"reattention": False},
        {"fusion": "gate"}, {"fusion": "mlp"}, {"fusion_mul": False}, {"fusion_sub": False}, {"no_answer": True},
    ]  # fmt: skip
    inputs: list[dict[str, Any]] = [{}, {"characters": False}, {"exact_match": False}, {"vectors": "pieces"}]
    return [({}, network) for network in networks] + [(one, {}) for one in inputs]


@pytest.mark.parametrize(("inputs", "settings"), variants())
def test_the_shapes_expected_are_those_of_the_network(inputs: Any, settings: Any, glove: str) -> None:
    recipe = Recipe(
        inputs=Inputs(**({"vectors": glove, "character_size": 3} | inputs)),
        network=NetworkConfig(**({"hidden": 8, "blocks": 2, "lstm": "plain"} | settings)),
    )
    lexicon = Lexicon.build(tokenize(PASSAGE).words, recipe.inputs)
    network = make_network(recipe, lexicon)
    found = {name: tuple(weight.shape) for name, weight in network.state_dict().items()}
    assert network_shapes(recipe, lexicon, ContextualShape()) == found


def test_and_so_with_tags_and_encoders(glove: str, bert: str) -> None:
    inputs = Inputs(vectors=glove, tags="english", contextual=bert, contextual_mode="tuned")
    recipe = Recipe(inputs=inputs, network=NetworkConfig(hidden=8, lstm="plain"))
    lexicon = Lexicon.build(tokenize(PASSAGE).words, inputs)
    encoder, _ = tuned_encoder(inputs)
    shape = ContextualShape(("", "PERSON"), encoder.layers, encoder.size)
    network = make_network(recipe, lexicon, shape, encoder)
    config = json.loads((Path(bert) / "config.json").read_text(encoding="utf-8"))
    expected = network_shapes(recipe, lexicon, shape)
    expected |= {f"{TUNED}{name}": shape for name, shape in bert_shapes(config).items()}
    assert expected == {name: tuple(weight.shape) for name, weight in network.state_dict().items()}


def test_the_shapes_of_the_shipped_readers_are_expected() -> None:
    for path in SHIPPED.glob("*/reader.json"):
        assert open_folder(path.parent).weights()


def test_a_frozen_encoder_that_does_not_fit_is_refused(glove: str, bert: str, tmp_path: Path) -> None:
    encoder = Path(shutil.copytree(bert, tmp_path / "encoder"))
    weights = load_file(encoder / "model.safetensors")
    name = next(name for name in weights if name.endswith("attention.self.key.weight"))
    for change in ({name: weights[name][:-1]}, {name: weights[name].astype(np.int64)}):
        save_file(weights | change, encoder / "model.safetensors")
        inputs = Inputs(vectors=glove, contextual=str(encoder))
        whole = dataclasses.replace(inputs, contextual=bert)
        folder = make(tmp_path / f"reader{change[name].dtype}", whole)
        text = (folder / "recipe.yaml").read_text(encoding="utf-8").replace(bert, str(encoder))
        (folder / "recipe.yaml").write_text(text, encoding="utf-8")
        from rmreader.text.pieces import Pieces, fingerprint

        extras = json.loads((folder / "extras.json").read_text(encoding="utf-8"))
        extras["fingerprint"] = fingerprint(encoder, Pieces(encoder).window)
        (folder / "extras.json").write_text(json.dumps(extras), encoding="utf-8")
        folders.resign(folder)
        with pytest.raises(UserError, match=r"key\.weight is (float32|int64)"):
            Reader.load(folder, engine="onnx").ask(QUESTION, PASSAGE)
