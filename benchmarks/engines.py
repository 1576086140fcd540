"""One question of a 150-word passage in every engine there is, beside a network of DistilBERT's size, in one run.

    python benchmarks/engines.py [--model small] [--data dev-v1.1.json.gz] [--rounds 4] [--each 10] [--no-compile]

Ours is timed from text to text; the other (6 layers, 768 wide, random weights) from piece ids to logits, as many as the
texts have on average, its tokenizer left out in its favour. Engines take turns, so that all of them meet the same
machine; read the ratios. A turn is ``each`` questions in a row, all of them counted. With ``--each 1`` ours starts
every question with its weights out of the cache, while the other's, larger than the cache, never stay there.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from _reader import arguments, interleaved, reader_folder, show, texts

from rmreader.reading.engine.runtime import ort

BATCHES = (1, 4, 8)  # of the other, for throughput
Call = Callable[[int], object]


def ours(model: str, pairs: list[tuple[str, str]], compiling: bool) -> dict[str, Call]:
    """``ask`` in each engine."""
    import torch

    from rmreader import Reader

    calls: dict[str, Call] = {}

    def add(name: str, reader: Reader) -> None:
        for pair in pairs:
            reader.ask(*pair)  # words met before are remembered, as in real use
        calls[name] = lambda k: reader.ask(*pairs[k % len(pairs)])

    eager = Reader.load(model, engine="torch")
    add("PyTorch, eager", eager)
    if compiling:
        try:
            compiled = Reader.load(model, engine="torch")
            compiled.engine.network = torch.compile(compiled.engine.network, dynamic=True)  # type: ignore[attr-defined]
            add("PyTorch, torch.compile", compiled)
        except Exception as error:  # it needs a C compiler, and much else
            print(f"torch.compile: not here ({type(error).__name__})")
    precisions: tuple[Literal["float", "int8"], ...] = ("float", "int8")
    for precision in precisions:
        for threads in sorted({1, min(2, len(os.sched_getaffinity(0)))}):
            reader = Reader.load(model, precision=precision, threads=threads)
            add(f"ONNX Runtime, {precision}, {'1 thread' if threads == 1 else '1 or 2 threads, as is faster'}", reader)
    return calls


def distilbert(folder: Path, threads: int, pieces: int) -> tuple[dict[str, Call], dict[str, Any]]:
    """The other network in each engine, and its ONNX sessions of one thread for throughput."""
    import onnx
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers import optimizer
    from transformers import DistilBertConfig, DistilBertForQuestionAnswering

    torch.manual_seed(1)
    network = DistilBertForQuestionAnswering(DistilBertConfig(attn_implementation="eager")).eval()
    ids = torch.randint(1000, 30000, (1, pieces))
    mask = torch.ones_like(ids)
    plain, fused, int8 = (str(folder / f"{name}.onnx") for name in ("plain", "fused", "int8"))
    axes = {name: {0: "batch", 1: "pieces"} for name in ("input_ids", "attention_mask")}
    shape: dict[str, Any] = {"input_names": list(axes), "output_names": ["start", "end"], "dynamic_axes": axes}
    torch.onnx.export(network, (ids, mask), plain, dynamo=False, opset_version=17, **shape)
    optimizer.optimize_model(plain, "bert", num_heads=12, hidden_size=768).save_model_to_file(fused)
    kept = {"DefaultTensorType": onnx.TensorProto.FLOAT}
    quantize_dynamic(fused, int8, weight_type=QuantType.QInt8, per_channel=True, extra_options=kept)

    def eager(k: int) -> object:
        with torch.inference_mode():
            return network(ids, mask)

    linear8: Any = torch.ao.quantization.quantize_dynamic
    integers = linear8(network, {torch.nn.Linear}, dtype=torch.qint8)

    def eager_int8(k: int) -> object:
        with torch.inference_mode():
            return integers(ids, mask)

    calls: dict[str, Call] = {"PyTorch, eager": eager, "PyTorch, int8": eager_int8}
    alone: dict[str, Any] = {}
    for name, path in (("float", fused), ("int8", int8)):
        for count in sorted({1, threads}):
            options = ort.SessionOptions()
            options.intra_op_num_threads = count
            options.add_session_config_entry("session.force_spinning_stop", "1")  # lest it disturb the next engine
            session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            kinds = {"tensor(int32)": np.int32, "tensor(int64)": np.int64}
            feeds = {
                value.name: (ids if "ids" in value.name else mask).numpy().astype(kinds[value.type])
                for value in session.get_inputs()
            }
            calls[f"ONNX Runtime, {name}, {count} thread{'s' * (count > 1)}"] = running(session, feeds)
            if count == 1:
                for batch in BATCHES:
                    many = {key: np.repeat(value, batch, axis=0) for key, value in feeds.items()}
                    alone[f"{name}, batch {batch}"] = partial(run_batch, session, many, batch)
    return calls, alone


def pieces_of(pairs: list[tuple[str, str]]) -> int:
    """Pieces of BERT's vocabulary in a question and its passage, on average, and the three marks around them."""
    from rmreader.text.tokens import tokenize
    from rmreader.text.vectors import SubwordTable, table_path

    table = SubwordTable.load(table_path("pieces"))
    words = [word for pair in pairs for text in pair for word in tokenize(text).words]
    return 3 + round(sum(len(table.split(word)) for word in words) / len(pairs))


def running(session: Any, feeds: dict[str, Any]) -> Call:
    """A call that reads one question."""
    return lambda k: session.run(None, feeds)


def run_batch(session: Any, feeds: dict[str, Any], size: int) -> int:
    """Run a batch; the number of questions in it."""
    session.run(None, feeds)
    return size


def throughput(call: Callable[[], int], threads: int, seconds: float = 3.0) -> float:
    """Questions per second of one-threaded calls side by side; each gives the number it answered."""
    done = [0] * threads
    began = time.perf_counter()

    def work(mine: int) -> None:
        while time.perf_counter() < began + seconds:
            done[mine] += call()

    workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(done) / (time.perf_counter() - began)


def main() -> None:
    more: dict[str, dict[str, object]] = {
        "rounds": {"type": int, "default": 4},
        "each": {"type": int, "default": 10},
        "words": {"type": int, "default": 150},
    }
    more["no_compile"] = {"action": "store_true", "help": "leave out torch.compile, which takes minutes to compile"}
    options = arguments(__doc__, **more)
    warnings.simplefilter("ignore")
    import torch

    threads = min(2, len(os.sched_getaffinity(0)))
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = reader_folder(options.model, folder)
        pairs = texts(options.data, options.words, 64)
        mine = {f"rmreader: {name}": call for name, call in ours(model, pairs, not options.no_compile).items()}
        pieces = pieces_of(pairs)
        calls, alone = distilbert(folder, threads, pieces)
        theirs = {f"DistilBERT-size: {name}": call for name, call in calls.items()}
        print(f"{threads} processors used, load {os.getloadavg()[0]:.1f}; the other reads {pieces} pieces\n")
        found = {name: 1000 * times for name, times in interleaved(mine | theirs, options.rounds, options.each).items()}
        best = min(float(np.median(found[name])) for name in theirs)
        rows = []
        for name, times in found.items():
            p50, p95 = (float(x) for x in np.percentile(times, [50, 95]))
            rows.append((name, p50, p95, best / p50))
        show(("engine", "p50 ms", "p95 ms", "times as fast as the fastest of the other"), rows)

        from rmreader import Reader

        rates: dict[str, float] = {}
        for precision in ("float", "int8"):
            reader = Reader.load(model, precision=precision, threads=threads)
            list(reader.ask_many(pairs))
            key = f"rmreader: predict, {precision}"
            for _ in range(3):  # the best of three, taking turns with the other's batches
                began = time.perf_counter()
                answered = sum(1 for _ in reader.ask_many(pairs * 4))
                rates[key] = max(rates.get(key, 0.0), answered / (time.perf_counter() - began))
                for name, call in alone.items():
                    if name.startswith(precision) and (precision == "int8" or name.endswith(" 1")):
                        other = f"DistilBERT-size: {name}, {threads} side by side"
                        rates[other] = max(rates.get(other, 0.0), throughput(call, threads))
        best = max(rate for name, rate in rates.items() if name.startswith("Distil"))
        show(("throughput", "questions/s", "times the best of the other"), [(n, r, r / best) for n, r in rates.items()])


if __name__ == "__main__":
    main()
