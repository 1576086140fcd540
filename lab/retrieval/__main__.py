"""Train the table that a search by meaning uses.

    python -m lab.retrieval prepare --data ../shared/data --out work/retrieval
    python -m lab.retrieval train --out work/retrieval --device cuda   # minutes; torch and NumPy
    python -m lab.retrieval build --out work/retrieval                 # the file that ships

``prepare`` writes questions and passages as pieces. ``train`` goes on where it was stopped, from
its last evaluation.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np

from lab.retrieval.train import Settings, Trainer

SHIPPED_TABLE = "src/rmreader/readers/shipped/retrieval/table.safetensors"


def build(model: Path, to: Path) -> None:
    """Write the file that ships."""
    from safetensors.numpy import save_file

    arrays = np.load(model)
    to.parent.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for name in ("vectors", "scale", "weights"):
        tensors[name] = np.ascontiguousarray(arrays[name])
    save_file(tensors, to, {"pieces": "pieces"})
    print(to, to.stat().st_size)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stage", choices=("prepare", "train", "build"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--everyday-texts", type=Path, default=Path("lab/everyday"))
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--out", type=Path, default=Path("work/retrieval"))
    parser.add_argument("--to", type=Path, default=Path(SHIPPED_TABLE))
    for setting in fields(Settings)[1:]:
        kind = type(setting.default)
        parser.add_argument(f"--{setting.name}", type=kind, default=setting.default)
    options = parser.parse_args(arguments)
    if options.stage == "prepare":
        # Not at the top: `train` needs torch and NumPy alone.
        from lab.retrieval.prepare import prepare

        prepare(
            options.data,
            options.everyday_texts,
            options.encoder,
            options.out,
        )
    elif options.stage == "train":
        settings = {setting.name: getattr(options, setting.name) for setting in fields(Settings)}
        Trainer(Settings(**settings)).run()
    else:
        build(options.out / f"model-{options.name}.npz", options.to)


if __name__ == "__main__":
    main()
