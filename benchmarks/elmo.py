#!/usr/bin/env python3
"""Speed and memory of a full-size ELMo (2 x 4096, projection 512, 2048 filters) on the CPU and, where there is, a GPU.

    python benchmarks/elmo.py [--batch 8] [--words 120]

Random weights are written in the published layout to a temporary folder and read from there, as anybody's would be.
Every line is measured in a process of its own. The floor is the arithmetic of one pass at the device's measured speed
in one large matrix product.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from rmreader.model.elmo import load_elmo

OPTIONS: dict[str, Any] = {
    "lstm": {
        "use_skip_connections": True, "projection_dim": 512, "cell_clip": 3, "proj_clip": 3, "dim": 4096, "n_layers": 2,
    },
    "char_cnn": {
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "embedding": {"dim": 16},
        "n_characters": 262,
        "max_characters_per_token": 50,
    },
}  # fmt: skip


def write_elmo(folder: Path, options: dict[str, Any]) -> None:
    """Random weights of these options under the published names."""
    cnn, lstm = options["char_cnn"], options["lstm"]
    rng = np.random.default_rng(0)
    width, dim = sum(count for _, count in cnn["filters"]), cnn["embedding"]["dim"]
    p, cell = lstm["projection_dim"], lstm["dim"]
    shapes: dict[str, tuple[int, ...]] = {
        "char_embed": (261, dim),
        "CNN_proj/W_proj": (width, p),
        "CNN_proj/b_proj": (p,),
    }
    for k, (size, count) in enumerate(cnn["filters"]):
        shapes |= {f"CNN/W_cnn_{k}": (1, size, dim, count), f"CNN/b_cnn_{k}": (count,)}
    for k in range(cnn["n_highway"]):
        for name in ("carry", "transform"):
            shapes |= {f"CNN_high_{k}/W_{name}": (width, width), f"CNN_high_{k}/b_{name}": (width,)}
    for direction in range(2):
        for k in range(lstm["n_layers"]):
            name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{k}/LSTMCell"
            shapes |= {f"{name}/W_0": (2 * p, 4 * cell), f"{name}/B": (4 * cell,), f"{name}/W_P_0": (cell, p)}
    with h5py.File(folder / "elmo_weights.hdf5", "w") as file:
        for name, shape in shapes.items():
            file[name] = rng.standard_normal(shape, np.float32) * np.float32(0.05)
    (folder / "elmo_options.json").write_text(json.dumps(options))


def flops(words: int, distinct: int) -> float:
    """Multiplications and additions of one pass."""
    cnn, lstm = OPTIONS["char_cnn"], OPTIONS["lstm"]
    width, p, cell = sum(count for _, count in cnn["filters"]), lstm["projection_dim"], lstm["dim"]
    letters = sum(size * count * (51 - size) for size, count in cnn["filters"]) * cnn["embedding"]["dim"]
    word = letters + 2 * cnn["n_highway"] * width * width + width * p
    step = 2 * lstm["n_layers"] * (2 * p * 4 * cell + cell * p)
    return 2.0 * (distinct * word + words * step)


def speed_of(device: torch.device) -> float:
    """Floating-point operations per second in one large float32 matrix product."""
    size = 8192 if device.type == "cuda" else 1024
    a, b = torch.randn(size, size, device=device), torch.randn(size, size, device=device)
    return 2.0 * size**3 / timed(lambda: a @ b, device, 3)


def timed(act: Any, device: torch.device, repeats: int) -> float:
    """The median time of an act, in seconds."""
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        act()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return float(np.median(times[1:]))


def measure(folder: Path, device_name: str, batch: int, words: int, repeats: int) -> dict[str, float]:
    """Load, run, and say how fast and how large that was."""
    device = torch.device(device_name)
    began = time.perf_counter()
    elmo = load_elmo(folder).to(device)
    load = time.perf_counter() - began
    rng = np.random.default_rng(1)
    texts = [[f"word{rng.zipf(1.3) % 5000}" for _ in range(words)] for _ in range(batch)]
    distinct = len({word for text in texts for word in text})
    seconds = timed(lambda: elmo.encode(texts), device, repeats)
    peak = (
        torch.cuda.max_memory_allocated()
        if device.type == "cuda"
        else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    )
    floor = flops(batch * (words + 2), distinct + 2) / speed_of(device)
    return {"load": load, "seconds": seconds, "words": batch * words / seconds, "peak": peak / 2**20, "floor": floor}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--words", type=int, default=120)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", nargs=2, metavar=("FOLDER", "DEVICE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        folder, device = options.measure
        print(json.dumps(measure(Path(folder), device, options.batch[0], options.words, options.repeats)))
        return
    table = Table("device", "texts of words", "load s", "pass s", "words/s", "floor s", "times the floor", "peak MiB")
    with tempfile.TemporaryDirectory() as folder:
        write_elmo(Path(folder), OPTIONS)
        size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
        for device in ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
            for batch in options.batch if device == "cpu" else [*options.batch, 64, 256]:
                command = [sys.executable, __file__, "--measure", folder, device, "--batch", str(batch)]
                command += ["--words", str(options.words), "--repeats", str(options.repeats)]
                found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
                cells = (
                    f"{found['load']:.2f}",
                    f"{found['seconds']:.3f}",
                    f"{found['words']:,.0f}",
                    f"{found['floor']:.3f}",
                )
                ratio = found["seconds"] / found["floor"]
                table.add_row(device, f"{batch} x {options.words}", *cells, f"{ratio:.1f}", f"{found['peak']:,.0f}")
    Console().print(f"weights: {size:.0f} MB of HDF5; torch {torch.__version__}, {torch.get_num_threads()} threads")
    Console().print(table)


if __name__ == "__main__":
    main()
