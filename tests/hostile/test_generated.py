"""Files as strangers may make them, by generators with seeds: each is read or refused in one sentence.

``RMREADER_HOSTILE`` sets how many (1,000 unless told); ``RMREADER_HOSTILE_SEED`` the first seed. A failure names its
kind and seed: ``RMREADER_HOSTILE=1 RMREADER_HOSTILE_SEED=… pytest tests/hostile/test_generated.py -k KIND``.
"""

from __future__ import annotations

import copy
import gzip
import json
import os
import random
import re
import shutil
import signal
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmreader.core.errors import UserError
from rmreader.core.recipe import load_recipe, recipe_from
from rmreader.data.encode import encode_file
from rmreader.data.examples import check_file
from rmreader.data.squad import read_squad
from rmreader.model.elmo import load_elmo
from rmreader.model.transformer import load_transformer
from rmreader.predict.predict import predict
from rmreader.predict.rows import read_rows
from rmreader.reading.reader import Reader
from rmreader.scoring.squad import read_predictions
from rmreader.text.glove import read_glove
from rmreader.text.pieces import Pieces
from rmreader.text.vectors import SubwordTable

COUNT = int(os.environ.get("RMREADER_HOSTILE", "1000"))
SEED = int(os.environ.get("RMREADER_HOSTILE_SEED", "0"))
SECONDS = 30  # for one file, on a machine however busy
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
CONTEXT = "Ada Lovelace, born in 1815, wrote the first program. Her father was Lord Byron."

Rng = random.Random

STRANGE: list[Any] = [
    None, True, False, 0, -1, 1, 7, 2**31, 2**63, 10**30, -(10**30), 0.5, 1e308, float("nan"), float("inf"), "", " ",
    "0", "\x1b[31m", "\x00", "\ud800", "é" * 50, "x" * 5000, "../../outside/mine", "/etc/passwd",
    "!!python/object", [], {}, [[]], [None], [0] * 50, {"": None}, {"a": {"b": {}}}, [{}], [[1, 2], [3]],
]  # fmt: skip


def strange(rng: Rng) -> Any:
    """Any value, now and then a deep one."""
    value = copy.deepcopy(rng.choice(STRANGE))
    if rng.random() < 0.05:
        for _ in range(rng.choice([50, 500, 3000])):
            value = [value]
    return value


def written(value: Any) -> str:
    """A value as text, where it is not too deep for that."""
    try:
        return str(value)
    except RecursionError:
        return "[" * 3000


def spoil_tree(rng: Rng, tree: Any) -> Any:
    """One to three values, anywhere in the tree, replaced, removed or doubled."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice([1, 1, 2, 3])):
        here, places = tree, []
        while isinstance(here, dict | list) and here:
            key = rng.choice(sorted(here) if isinstance(here, dict) else range(len(here)))
            places.append((here, key))
            here = here[key]
        if not places:
            return strange(rng)
        parent, key = rng.choice(places)
        match rng.randrange(4):
            case 0:
                parent.pop(key)
            case 1 if isinstance(parent, list):
                parent.append(copy.deepcopy(parent[key]))
            case 1:
                parent[written(strange(rng))] = parent[key]
            case _:
                parent[key] = strange(rng)
    return tree


def spoil_bytes(rng: Rng, content: bytes) -> bytes:
    """Bits turned over, pieces cut out, doubled or put in."""
    data = bytearray(content)
    for _ in range(rng.choice([0, 1, 1, 2, 8])):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0:
                del data[at:]
            case 1 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 2:
                del data[at : at + rng.randrange(1, 40)]
            case 3:
                data[at:at] = data[at : at + rng.randrange(1, 200)]
            case _:
                data[at:at] = rng.choice(
                    [b"\0", b"\xff\xfe", b"\x1b[31m", b'"', b"[" * 3000, b"\n", b"9" * 5000, b"\r"]
                )
    return bytes(data)


def as_json(rng: Rng, tree: Any) -> bytes:
    """A tree spoilt, then now and then its text too, now and then compressed."""
    try:
        content = json.dumps(spoil_tree(rng, tree)).encode()
    except RecursionError:
        content = b"[" * 5000
    content = spoil_bytes(rng, content) if rng.random() < 0.4 else content
    return spoil_bytes(rng, gzip.compress(content)) if rng.random() < 0.2 else content


ROW = {"id": "q1", "question": "Who wrote it?", "answers": [{"text": "Ada", "answer_start": 0}], "is_impossible": False}
NONE = {"id": 7, "question": "Who was her mother?", "answers": [], "is_impossible": True}
DATA = {"version": "v2.0", "data": [{"title": "Ada", "paragraphs": [{"context": CONTEXT, "qas": [ROW, NONE]}]}]}


def data(rng: Rng, folder: Path) -> None:
    path = folder / "data.json"
    path.write_bytes(as_json(rng, DATA))
    check_file(path)
    read_squad(path, answers_needed=False)
    encode_file(path, folder / "cache", workers=1)


def predictions(rng: Rng, folder: Path) -> None:
    path = folder / "predictions.json"
    path.write_bytes(as_json(rng, {"q1": "Ada", "q2": "1815", "q3": ""}))
    read_predictions(path)


RECIPE = """inputs: {vectors: pieces, character_size: 4, tags: '', contextual: ''}
network:
  hidden: 8
  blocks: 2
  fusion: gate
  dropout: 0.1
training: {epochs: 2, batch_size: 4, holdout: 0.25, betas: [0.9, 0.99], rate: 1e-3, seed: 3}
decoding: {max_length: 15}
"""


def recipe(rng: Rng, folder: Path) -> None:
    import yaml

    path = folder / "recipe.yaml"
    if rng.random() < 0.6:
        path.write_bytes(as_json(rng, yaml.safe_load(RECIPE)))  # JSON is YAML
    else:
        path.write_bytes(spoil_bytes(rng, rng.choice(["", "x: &a [*a]\n", "<<: {a: 1}\n"]).encode() + RECIPE.encode()))
    words = [
        f"{rng.choice(['network.blocks', 'training.betas', 'a', 'x.y'])}={written(strange(rng))}"[:5000]
        for _ in range(2)
    ]
    if rng.random() < 0.2:
        recipe_from(strange(rng), words[: rng.randrange(2)])
    load_recipe(path, words if rng.random() < 0.2 else [])


def vectors(rng: Rng, folder: Path) -> None:
    words = ["the", "Ada", "New York", "1815", "é"]
    lines = [f"{word} {' '.join(f'{rng.gauss(0, 1):.4f}' for _ in range(5))}" for word in words]
    lines[rng.randrange(5)] += rng.choice(["", " nan", " 1e999", " x", "\t1", " \x1b[31m", "  "])
    content = spoil_bytes(rng, ("\n".join(lines) + "\n").encode())
    path = folder / "glove.txt.gz"
    path.write_bytes(gzip.compress(content) if rng.random() < 0.3 else content)
    read_glove(path, ["the", "ada", "york", "\ud800"])


def table(rng: Rng, folder: Path) -> None:
    pieces = "\n".join(["[UNK]", "ada", "##s", "a", "##b"]).encode()
    blobs = {"vectors": ("I8", [5, 4], bytes(20)), "scale": ("F32", [5], struct.pack("<5f", *[0.1] * 5))}
    blobs["pieces"] = ("U8", [len(pieces)], pieces)
    header, body = {}, b""
    for name, (kind, shape, content) in blobs.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(body), len(body) + len(content)]}
        body += content
    text = as_json(rng, header) if rng.random() < 0.7 else json.dumps(header).encode()
    content = len(text).to_bytes(8, "little") + text + body
    path = folder / "table.safetensors"
    path.write_bytes(spoil_bytes(rng, content) if rng.random() < 0.6 else content)
    SubwordTable.load(path).look_up(["Ada", "abab", "\ud800", "x" * 200, ""])


CONFIG = {
    "model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8,
    "vocab_size": 30, "max_position_embeddings": 128, "pad_token_id": 0, "type_vocab_size": 2, "hidden_act": "gelu",
    "layer_norm_eps": 1e-12, "architectures": ["BertModel"],
}  # fmt: skip
VOCABULARY = {piece: k for k, piece in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij", *"0123456789"])}
TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
    "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                   "lowercase": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
    "decoder": None,
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 100, "vocab": VOCABULARY},
}  # fmt: skip


def encoder(rng: Rng, folder: Path) -> None:
    strangers = {"auto_map": {"AutoModel": "code.M"}} if rng.random() < 0.1 else {}
    for name, tree in (("config.json", CONFIG | strangers), ("tokenizer.json", TOKENIZER)):
        good = json.dumps(tree).encode()
        (folder / name).write_bytes(as_json(rng, tree) if rng.random() < 0.6 else good)
    (folder / "code.py").write_text(f"open({str(folder.parent / 'outside' / 'it-ran')!r}, 'w')")
    try:
        Pieces(folder).table(["ada", "\ud800", "x" * 300, ""])
    except UserError:
        if rng.random() < 0.5:
            raise
    load_transformer(folder, weights=False)


def elmo(rng: Rng, folder: Path) -> None:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("hostile_elmo", Path(__file__).with_name("test_elmo_files.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.make(folder)
    if rng.random() < 0.5:
        (folder / "options.json").write_bytes(as_json(rng, module.OPTIONS))
    if rng.random() < 0.7:
        weights = folder / "weights.hdf5"
        weights.write_bytes(spoil_bytes(rng, weights.read_bytes()))
    load_elmo(folder).encode([["a", "word", "\ud800"]])


def rows(rng: Rng, folder: Path) -> None:
    names = rng.sample(["id", "question", "passage", "context", "more"], k=rng.randrange(2, 6))
    trees = [{name: rng.choice(["Who wrote it?", CONTEXT, "7", strange(rng)]) for name in names} for _ in range(4)]
    kind = rng.choice(["csv", "tsv", "jsonl", "parquet"])
    path = folder / f"rows.{kind}"
    if kind == "jsonl":
        path.write_bytes(b"\n".join(as_json(rng, tree) if rng.random() < 0.5 else b"{}" for tree in trees))
    elif kind == "parquet":
        import pyarrow
        import pyarrow.parquet

        texts = {
            name: [written(tree[name]).encode("utf-8", "replace")[:200].decode() for tree in trees] for name in names
        }
        pyarrow.parquet.write_table(pyarrow.table(texts), path)
        path.write_bytes(spoil_bytes(rng, path.read_bytes()) if rng.random() < 0.7 else path.read_bytes())
    else:
        cut = "," if kind == "csv" else "\t"
        lines = [cut.join(names), *(cut.join(written(tree[name]) for name in names) for tree in trees)]
        path.write_bytes(spoil_bytes(rng, "\n".join(lines).encode("utf-8", "surrogatepass")))
    out = folder / "out.jsonl"
    resume = rng.random() < 0.3
    if resume:
        line = {"id": "7", "answers": [{"text": "Ada", "start": 0, "end": 3, "score": 1.0, "confidence": 0.5}]}
        out.write_bytes(as_json(rng, line) + b"\n")
    predict(small(), read_rows(path), out, resume=resume)


_small: list[Reader] = []


def small() -> Reader:
    """The shipped reader, loaded once."""
    if not _small:
        _small.append(Reader.load("small"))
    return _small[0]


# in hundredths of all
KINDS: dict[Callable[[Rng, Path], None], int] = {
    data: 25, predictions: 10, recipe: 20, vectors: 12, table: 12, encoder: 6, elmo: 7, rows: 8,
}  # fmt: skip


@contextmanager
def within(seconds: int) -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError(f"not read within {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_strangers_files_are_read_or_refused(kind: Callable[[Rng, Path], None], tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_text("precious")
    refused = 0
    count = max(1, COUNT * KINDS[kind] // 100)
    if kind is rows:
        small()
    for seed in range(SEED, SEED + count):
        folder = tmp_path / "given"
        folder.mkdir()
        rng = random.Random(f"{kind.__name__} {seed}")
        try:
            with within(SECONDS), warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                kind(rng, folder)
        except UserError as error:
            refused += 1
            sentence = str(error)
        except Exception as error:
            raise AssertionError(f"{kind.__name__}, seed {seed}: {type(error).__name__}: {error}") from error
        else:
            sentence = ""
        assert not RAW.search(sentence), (seed, sentence)
        assert "\n" not in sentence, (seed, sentence)
        assert len(sentence) < 5000, (seed, sentence)
        assert (outside / "mine").read_text() == "precious", seed
        assert sorted(os.listdir(outside)) == ["mine"], seed
        assert sorted(os.listdir(tmp_path)) == ["given", "outside"], seed
        shutil.rmtree(folder)
    if count > 20:
        assert 0 < refused < count  # some of them are as good as any
