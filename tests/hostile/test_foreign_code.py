"""An encoder's folder may bring Python of its own, or point elsewhere: it is refused by name, and nothing is run."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rmreader.cli import app
from rmreader.core.errors import UserError
from rmreader.model.transformer import load_transformer
from rmreader.readers.folder import MANIFEST, SHIPPED
from rmreader.text.pieces import Pieces, encoder_config

ENCODER = SHIPPED / "base" / "encoder"
CONTEXT = "Ada wrote the first program."


@pytest.fixture
def planted(tmp_path: Path) -> tuple[Path, Path]:
    """A folder whose config.json names a module beside it that writes a file, and that file."""
    folder, trace = tmp_path / "encoder", tmp_path / "it-ran"
    folder.mkdir()
    shutil.copyfile(ENCODER / "tokenizer.json", folder / "tokenizer.json")
    (folder / "config.json").write_text(
        json.dumps({"model_type": "stranger", "auto_map": {"AutoConfig": "code.C", "AutoModel": "code.M"}})
    )
    (folder / "code.py").write_text(
        f"open({str(trace)!r}, 'w').close()\n"
        "from transformers import BertConfig, BertModel\n"
        "class C(BertConfig):\n    model_type = 'stranger'\n"
        "class M(BertModel):\n    config_class = C\n"
    )
    return folder, trace


def refused(words: list[str], trace: Path) -> None:
    """Run a command whose prompts, if any, are all answered with yes."""
    result = CliRunner().invoke(app, words, input="y\n" * 20)
    assert not trace.exists()
    assert result.exit_code == 1, result.output
    assert "Do you wish" not in result.output
    (sentence,) = result.stderr.splitlines()
    assert sentence.startswith("error: ")
    assert "config.json: 'auto_map' asks for code" in sentence


def test_a_readers_folder_runs_no_python(planted: tuple[Path, Path], tmp_path: Path) -> None:
    folder, trace = planted
    reader, passage = tmp_path / "reader", tmp_path / "passage.txt"
    shutil.copytree(SHIPPED / "base", reader)
    shutil.copytree(folder, reader / "encoder", dirs_exist_ok=True)
    about = json.loads((reader / MANIFEST).read_text())
    for name in about["checksums"]:  # its maker knows how to make a folder whole
        about["checksums"][name] = hashlib.sha256((reader / name).read_bytes()).hexdigest()
    (reader / MANIFEST).write_text(json.dumps(about))
    passage.write_text(CONTEXT)
    refused(["ask", "Who wrote it?", "--passage", str(passage), "--model", str(reader)], trace)


@pytest.mark.parametrize("mode", ["frozen", "tuned"])
def test_training_runs_no_python_of_an_encoders(planted: tuple[Path, Path], tmp_path: Path, mode: str) -> None:
    folder, trace = planted
    rows = [{"id": "q", "question": "Who wrote it?", "answers": [{"text": "Ada", "answer_start": 0}]}]
    data, recipe = tmp_path / "data.json", tmp_path / "recipe.yaml"
    data.write_text(json.dumps({"data": [{"paragraphs": [{"context": CONTEXT, "qas": rows}]}]}))
    recipe.write_text(
        f"inputs: {{contextual: {folder}, contextual_mode: {mode}}}\ntraining: {{holdout: 0, schedule: anneal}}\n"
    )
    words = ["train", str(recipe), "--train", str(data), "--out", str(tmp_path / "out"), "--device", "cpu"]
    refused(words, trace)


@pytest.mark.parametrize("read", [encoder_config, Pieces, load_transformer])
@pytest.mark.parametrize(
    "setting",
    [
        {"auto_map": {"AutoModel": "code.M"}},
        {"auto_map": {"AutoModel": "someone/else--code.M"}},
        {"quantization_config": {"quant_method": "hqq"}},
        {"transformers_weights": "../../elsewhere.safetensors"},
        {"backbone": "someone/else", "use_pretrained_backbone": True},
        {"attn_implementation": "someone/kernel"},
        {"_attn_implementation": "someone/kernel:run"},
    ],
)
def test_what_asks_for_code_or_files_from_elsewhere_is_refused(
    tmp_path: Path, setting: dict[str, Any], read: Callable[[Path], object]
) -> None:
    shutil.copytree(ENCODER, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    assert encoder_config(tmp_path) == config  # as it ships it is good
    (tmp_path / "config.json").write_text(json.dumps(config | setting))
    with pytest.raises(UserError, match=rf"config\.json: '{next(iter(setting))}' asks for code or files"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"}}, "of no kind"),
        ({"normalizer": {"type": "Replace", "pattern": {"Regex": "(x|x)*y"}, "content": ""}}, "of no kind"),
        ({"model": {"max_input_chars_per_word": 10**9}}, "words of 1000000000 letters"),
        ({"normalizer": {"type": "Sequence", "normalizers": [{"Regex": ["(a+)+$"]}]}}, "unhashable"),
    ],
)
def test_a_tokenizer_that_could_take_for_ever_is_refused(tmp_path: Path, part: dict[str, Any], why: str) -> None:
    shutil.copytree(ENCODER, tmp_path, dirs_exist_ok=True)
    tree = json.loads((tmp_path / "tokenizer.json").read_text())
    part = {name: tree[name] | value if isinstance(tree.get(name), dict) else value for name, value in part.items()}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tree | part))
    with pytest.raises(UserError, match=rf"tokenizer\.json: not a tokenizer .*{why}") as refused:
        Pieces(tmp_path)
    assert str(refused.value).count("\n") == 0


def test_the_expressions_of_published_tokenizers_are_known(tmp_path: Path) -> None:
    shutil.copytree(ENCODER, tmp_path, dirs_exist_ok=True)
    tree = json.loads((tmp_path / "tokenizer.json").read_text())
    tree["normalizer"] = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tree))
    assert len(Pieces(tmp_path).table(["dog"]).ids) >= 1


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("adapter_config.json", {"base_model_name_or_path": "/somewhere/else"}, "adapters are not read"),
        ("model.safetensors.index.json", {"weight_map": {"a": "../other.safetensors"}}, "names weights outside"),
        ("model.safetensors.index.json", {"weight_map": {"a": "/etc/other.safetensors"}}, "names weights outside"),
        ("model.safetensors.index.json", [], "names weights outside"),
    ],
)
def test_weights_of_another_folder_are_not_followed(tmp_path: Path, name: str, content: Any, sentence: str) -> None:
    shutil.copytree(ENCODER, tmp_path, dirs_exist_ok=True)
    (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(UserError, match=sentence):
        load_transformer(tmp_path)


@pytest.mark.parametrize(
    "size", [{"num_hidden_layers": 10**7}, {"hidden_size": 12 * 10**5}, {"vocab_size": 10**12}, {"x": 10**999}]
)
def test_an_encoder_larger_than_any_takes_no_memory(tmp_path: Path, size: dict[str, int]) -> None:
    shutil.copytree(ENCODER, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | size))
    with pytest.raises(UserError, match=r"more than the [\d,]+ (of any encoder|that may be read)"):
        load_transformer(tmp_path, weights=False)
