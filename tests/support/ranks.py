"""One process of a tiny training under torchrun: its weights at the end, or the sentence it ends with.

    torchrun --standalone --nproc-per-node 2 -m support.ranks FOLDER OUT [--resume] [--double] [section.key=value ...]

FOLDER holds the data (``tiny_run.write_data``). OUT gets the run, ``OUT-ranks`` each process's id (``0.pid``) and
all that its learner changed (``0.safetensors``). With --double it learns in 64 bits: sums in another order differ in
their last bit, which a rectifier at its kink and Adam make large where a unit is hardly ever active. With --slow a step
takes a while.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

from rmreader.core.errors import UserError
from rmreader.training import trainer
from support.tiny_run import tiny_recipe


def run(folder: Path, out: Path, *rest: str) -> int:
    rank, ranks = os.environ.get("RANK", "0"), out.parent / f"{out.name}-ranks"
    ranks.mkdir(parents=True, exist_ok=True)
    (ranks / f"{rank}.pid").write_text(str(os.getpid()))
    finish = trainer.Run._finish

    def keep(self: trainer.Run) -> trainer.TrainResult:
        save_file(
            {name: t.detach().clone() for name, t in self.learner.tensors().items()}, ranks / f"{rank}.safetensors"
        )
        return finish(self)

    trainer.Run._finish = keep  # type: ignore[method-assign]
    if "--slow" in rest:
        change = trainer.Learner.update
        trainer.Learner.update = lambda *given: (time.sleep(0.1), change(*given))[1]  # type: ignore[method-assign]
    if "--double" in rest:
        torch.set_default_dtype(torch.float64)
    recipe = tiny_recipe(folder, *(word for word in rest if not word.startswith("--")))
    data = folder / "train.json", folder / "dev.json"
    try:
        result = trainer.train(recipe, *data, out, resume="--resume" in rest, device="cpu", cache_dir=folder)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    return 0 if result.finished else 130


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(run(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]))
