"""F1 on SQuAD 1.1's dev against CPU time: the readers that ship beside 8-bit networks of well-known shapes, in one run.

    python benchmarks/frontier.py --data dev-v1.1.json.gz [--rounds 4] [--each 10] [--picture docs/images/frontier.svg]

Ours is the whole `ask`, from text to text, on one thread, of every reader that ships (or of `--readers`). The others
are networks of the published shapes with random weights, in 8 bits by ONNX Runtime on one thread, from piece ids to
logits: their tokenizer, their decoding and what 8 bits cost them are left out, in their favour. Time is that of the
processor, so that other programs matter little, and all take turns, so that they meet the same machine; read the
ratios. Our scores are those of the files, from their manifest; theirs were published, where the table says. Who
published none on 1.1's dev is in the table, not in the drawing.
"""

from __future__ import annotations

import logging
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _reader import arguments, interleaved, show, texts
from engines import pieces_of, running

from rmreader.reading.engine.runtime import ort


@dataclass(frozen=True)
class Shape:
    """A network that others published: its shape, what it scored, and where that is printed."""

    name: str
    layers: int
    width: int
    inner: int
    f1: float | None
    f1_with_none: float | None
    source: str
    is_mobile: bool = False


SHAPES = (
    Shape("TinyBERT-4", 4, 312, 1200, 82.1, None, "airaria/TextBrewer, README"),
    Shape("MiniLM-L6", 6, 384, 1536, None, 75.6, "microsoft/unilm, minilm/README"),
    Shape("MiniLM-L12", 12, 384, 1536, None, 81.7, "microsoft/unilm, minilm/README"),
    Shape("DistilBERT", 6, 768, 3072, 87.0, None, "distilbert-base-uncased-distilled-squad, verified card"),
    Shape("MobileBERT", 24, 512, 512, 90.0, 79.2, "Sun et al. 2020, abstract", is_mobile=True),
    Shape("BERT-base", 12, 768, 3072, 88.5, 76.8, "Devlin et al. 2019; neuralmagic's teacher"),
)


def network_of(shape: Shape) -> tuple[Any, int]:
    """The network with random weights, and the number of its heads."""
    from transformers import (
        BertConfig,
        BertForQuestionAnswering,
        MobileBertConfig,
        MobileBertForQuestionAnswering,
    )

    if shape.is_mobile:
        return MobileBertForQuestionAnswering(MobileBertConfig(attn_implementation="eager")), 4
    config = BertConfig(
        num_hidden_layers=shape.layers,
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_attention_heads=12,
        attn_implementation="eager",
    )
    return BertForQuestionAnswering(config), 12


def exported(shape: Shape, folder: Path, pieces: int) -> tuple[Callable[[int], object], float]:
    """A call that reads one question in 8 bits on one thread, and the megabytes of the file."""
    import onnx
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers import optimizer

    torch.manual_seed(1)
    network, heads = network_of(shape)
    ids = torch.randint(1000, 30000, (1, pieces))
    mask = torch.ones_like(ids)
    plain, fused, int8 = (str(folder / f"{shape.name}-{kind}.onnx") for kind in ("plain", "fused", "int8"))
    names = ["input_ids", "attention_mask"]
    torch.onnx.export(network.eval(), (ids, mask), plain, dynamo=False, opset_version=17, input_names=names)
    optimizer.optimize_model(plain, "bert", num_heads=heads, hidden_size=shape.width).save_model_to_file(fused)
    kept = {"DefaultTensorType": onnx.TensorProto.FLOAT}
    quantize_dynamic(fused, int8, weight_type=QuantType.QInt8, per_channel=True, extra_options=kept)

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(int8, options, providers=["CPUExecutionProvider"])
    kinds = {"tensor(int32)": np.int32, "tensor(int64)": np.int64}
    feeds = {}
    for value in session.get_inputs():
        tensor = ids if "ids" in value.name else mask
        feeds[value.name] = tensor.numpy().astype(kinds[value.type])
    return running(session, feeds), Path(int8).stat().st_size / 1e6


@dataclass(frozen=True)
class Row:
    """A reader or a network in the table."""

    name: str
    f1: float | None
    f1_with_none: float | None
    megabytes: float
    source: str
    is_ours: bool


def shipped() -> list[str]:
    """The names of the readers that ship."""
    from rmreader.readers.folder import MANIFEST, SHIPPED

    return sorted(path.parent.name for path in SHIPPED.glob(f"*/{MANIFEST}"))


def score(scores: dict[str, Any], data: str) -> float | None:
    """The F1 of a card, with its decision on where the data has questions without an answer."""
    if data not in scores:
        return None
    about = scores[data]
    return float(about.get("no_answer", about)["f1"])


def reading(name: str, pairs: list[tuple[str, str]]) -> tuple[Callable[[int], object], Row]:
    """A call that asks one of our readers, and what its card says."""
    from rmreader import Reader
    from rmreader.readers.folder import find, open_folder
    from rmreader.text.vectors import table_path

    reader = Reader.load(name, threads=1)
    for pair in pairs:
        reader.ask(*pair)  # words met before are remembered, as in real use
    folder = find(name)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    about = open_folder(folder)
    if about.recipe.inputs.vectors:
        size += table_path(about.recipe.inputs.vectors).stat().st_size
    scores = about.about.get("scores", {})
    f1 = score(scores, "SQuAD 1.1 dev")
    f1_with_none = score(scores, "SQuAD 2.0 dev")
    row = Row(folder.name, f1, f1_with_none, size / 1e6, "its card", is_ours=True)
    return lambda k: reader.ask(*pairs[k % len(pairs)]), row


def draw(rows: list[Row], times: dict[str, float], path: Path) -> None:
    """F1 against time; a line joins those that nothing beats in both."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.6))
    drawn = [(times[row.name], row.f1, row) for row in rows if row.f1 is not None]
    best = 0.0
    front = []
    for milliseconds, f1, _ in sorted(drawn, key=lambda point: point[:2]):
        if f1 > best:
            best = f1
            front.append((milliseconds, f1))
    axes.step(*zip(*front, strict=True), where="post", color="0.7", linewidth=1)
    for milliseconds, f1, row in drawn:
        axes.plot(milliseconds, f1, "o" if row.is_ours else "s", color="tab:blue" if row.is_ours else "0.4")
        axes.annotate(row.name, (milliseconds, f1), textcoords="offset points", xytext=(6, -10), fontsize=8)
    axes.set_xscale("log")
    axes.set_xlabel("CPU time of a question, ms (one thread)")
    axes.set_ylabel("F1 on SQuAD 1.1 dev")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    options = arguments(
        __doc__,
        rounds={"type": int, "default": 4},
        each={"type": int, "default": 10},
        words={"type": int, "default": 150},
        readers={"nargs": "*", "default": None, "help": "these of ours, by name or folder"},
        picture={"type": Path, "default": None, "help": "draw it into this file"},
    )
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)  # the quantiser advises what was done
    pairs = texts(options.data, options.words, 64)
    pieces = pieces_of(pairs)
    rows = []
    calls: dict[str, Callable[[int], object]] = {}
    with tempfile.TemporaryDirectory() as name:
        for shape in SHAPES:
            calls[shape.name], size = exported(shape, Path(name), pieces)
            rows.append(Row(shape.name, shape.f1, shape.f1_with_none, size, shape.source, is_ours=False))
        for reader in options.readers or shipped():
            call, row = reading(reader, pairs)
            calls[row.name] = call
            rows.append(row)
        seconds = interleaved(calls, options.rounds, options.each, time.thread_time)

    times = {name: 1000 * float(np.median(some)) for name, some in seconds.items()}
    print(f"{pieces} pieces a question; ONNX Runtime's threads and ours: one\n")
    table = []
    for row in sorted(rows, key=lambda row: times[row.name]):
        scores = [f"{score:.1f}" if score is not None else "" for score in (row.f1, row.f1_with_none)]
        ratio = times[row.name] / times["MiniLM-L6"]
        table.append((row.name, *scores, times[row.name], ratio, row.megabytes, row.source))
    show(("reader", "F1, 1.1 dev", "F1, 2.0 dev", "ms", "times MiniLM-L6", "MB", "score from"), table)
    if options.picture is not None:
        draw(rows, times, options.picture)


if __name__ == "__main__":
    main()
