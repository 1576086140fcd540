"""The operators in C under AddressSanitizer and UndefinedBehaviorSanitizer, fuzzed through the reader folder.

    python tests/hostile/sanitise.py [FOLDERS] [SEED]

The C part is compiled with both sanitizers; then readers of random recipes with random weights, half of them spoiled
under right checksums, are opened and asked, in a process that stops at the first bad access. Every folder must be
refused in a sentence or answer with finite scores, the same in C as in ONNX Runtime's operators up to rounding.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
FLAGS = ["-g1", "-std=gnu11", "-ffp-contract=off", "-Wno-psabi", "-fPIC", "-shared", "-fno-omit-frame-pointer"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
PASSAGE = "The Denver Broncos defeated the Carolina Panthers 24–10 to earn their third title in Santa Clara . "


def build(folder: Path, level: str) -> tuple[Path, list[str]] | None:
    """The library with its checks and what must be loaded before it; None without a compiler that has them."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return None
    from rmreader.reading.engine import native

    sources = sorted((Path(native.__file__).parent / "c").glob("*.c"))
    library = folder / "sanitised.so"
    command = [compiler, level, *FLAGS, *SANITIZERS, *map(str, sources), "-o", str(library)]
    if not library.exists() and subprocess.run(command, capture_output=True, check=False).returncode:
        return None
    names = [subprocess.run([compiler, f"-print-file-name=lib{name}.so"], capture_output=True, text=True).stdout.strip()
             for name in ("asan", "ubsan")]  # fmt: skip
    return (library, names) if all(Path(name).exists() for name in names) else None


def fuzz(
    count: int, seed: int, folder: Path, planted: bool = False, quiet: bool = True
) -> subprocess.CompletedProcess[str] | None:
    """Run this file again as the process under the sanitizers; None where they cannot be had. ``planted``: no shape is
    checked, and one that is known to be read out of bounds is given, so that something must be found."""
    made = build(folder, "-O0" if count < 100 else "-O1")  # for a few, compiling takes longer than reading
    if made is None:
        return None
    library, runtimes = made
    environment = {
        **os.environ,
        "LD_PRELOAD": ":".join(runtimes),
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99:detect_odr_violation=0",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "OMP_NUM_THREADS": "1",
    }
    way = "--planted" if planted else "--within"
    words = [sys.executable, str(Path(__file__)), way, str(library), str(count), str(seed), str(folder)]
    return subprocess.run(words, env=environment, capture_output=quiet, text=True)


def random_reader(folder: Path, draw: random.Random) -> None:
    """A reader of a random recipe, its weights at random, in 8 bits."""
    from rmreader.core.recipe import Inputs, NetworkConfig, Recipe, save_recipe
    from rmreader.readers.weights import network_shapes
    from rmreader.readers.write import write_reader
    from rmreader.text.contextual import ContextualShape
    from rmreader.text.lexicon import Lexicon

    glove = folder.with_name("vectors.txt")
    dim = draw.randint(1, 9)
    glove.write_text(f"the {' '.join(['0.3'] * dim)}\n", encoding="utf-8")
    network: dict[str, Any] = {
        "hidden": draw.choice([1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 48]),
        "blocks": draw.randint(1, 4),
        "attention": draw.choice(["relu", "relu", "dot"]),
        "reattention": draw.random() < 0.8,
        "diagonal": draw.choice(["zero", "mask", "none"]),
        "fusion": draw.choice(["highway", "highway", "gate", "mlp"]),
        "fusion_mul": draw.random() < 0.8,
        "fusion_sub": draw.random() < 0.8,
    }
    inputs = Inputs(
        vectors=str(glove), characters=draw.random() < 0.8, character_size=draw.randint(1, 9), exact_match=True
    )
    recipe, lexicon = Recipe(inputs=inputs, network=NetworkConfig(**network)), Lexicon.build(PASSAGE.split(), inputs)
    numbers = np.random.default_rng(draw.randrange(1 << 30))
    shapes = network_shapes(recipe, lexicon, ContextualShape())
    weights = {  # as large as a network begins with, so that roundings are not blown up
        name: (numbers.normal(0, 1, shape) / np.sqrt(max((1, *shape[-1:])))).astype(np.float32)
        for name, shape in shapes.items()
    }

    def fill(new: Path) -> None:
        save_recipe(recipe, new / "recipe.yaml")
        lexicon.save(new)

    about = {"temperature": 1.0, "scores": {}, "provenance": {}, "precision": "int8"}
    write_reader(folder, weights, recipe, about, fill, draw.choice(["float32", "float16", "int8"]))  # type: ignore[arg-type]


def spoil(folder: Path, draw: random.Random, folders: Any) -> str:
    """One tensor made wrong under a right checksum."""
    changes = list(folders.wrong_tensors(folder))
    what, change = draw.choice(changes)
    change(folder)
    return str(what)


def within(library: Path, count: int, seed: int, place: Path) -> None:
    """Under the sanitizers: make, spoil, open and ask; prints how many were refused and how many answered."""
    from rmreader.core.errors import UserError
    from rmreader.core.files import atomic, manifest
    from rmreader.reading.engine import native
    from rmreader.reading.reader import Reader

    native.library = lambda: library  # type: ignore[assignment]
    assert native.why_not() is None, native.why_not()
    atomic.sync = manifest.sync = lambda path: None  # nothing here must outlive a power cut
    sys.path.insert(0, str(HERE.parent))
    from support import folders

    refused = right = 0
    for number in range(count):
        if number and number % 100 == 0:
            print(f"{number} folders so far: {refused} refused, {right} right", file=sys.stderr, flush=True)
        draw = random.Random(seed * 1_000_003 + number)
        native.limit(draw.choice([None, 1]))  # as this processor can, and as one with AVX2 alone
        shutil.rmtree(place / "reader", ignore_errors=True)
        random_reader(place / "reader", draw)
        spoiled = spoil(place / "reader", draw, folders) if draw.random() < 0.5 else ""
        words = PASSAGE.split() * 4
        passage = " ".join(words[: draw.choice([1, 2, 5, 6, 7, 15, 16, 17, 33, 70])])
        question = " ".join(words[: draw.choice([1, 2, 7, 16])])
        try:
            asked = [
                Reader.load(place / "reader", engine="onnx", precision=precision, threads=1).ask(question, passage)[0]
                for precision in ("int8", "float")
            ]
        except UserError:
            if not spoiled:
                raise
            refused += 1
            continue
        assert not spoiled, spoiled
        assert np.isfinite([answer.score for answer in asked]).all()
        assert abs(asked[0].score - asked[1].score) < 0.5 + 0.2 * abs(asked[1].score), (number, asked)
        right += 1
    print(f"{count} folders: {refused} refused, {right} right")


def planted(library: Path, place: Path) -> None:
    """A reader whose evidence reads vectors of one number, opened as if shapes were not compared."""
    from rmreader.readers import folder as opening
    from rmreader.reading.engine import native
    from rmreader.reading.reader import Reader

    native.library = lambda: library  # type: ignore[assignment]
    opening.misfit = lambda *given: None
    from safetensors.numpy import load_file, save_file

    draw, name = random.Random(1), "aligner.blocks.0.evidence.weight_ih"
    shape: tuple[int, ...] = (0, 0, 0)
    while shape[1] < 128:  # of a hidden size that fills a register
        shutil.rmtree(place / "reader", ignore_errors=True)
        random_reader(place / "reader", draw)
        weights = load_file(place / "reader" / "weights.safetensors")
        shape = weights[name].shape if weights[name].dtype != np.int8 else (0, 0, 0)
    save_file(weights | {name: weights[name][:, :, :1].copy()}, place / "reader" / "weights.safetensors")
    about = json.loads((place / "reader" / "reader.json").read_text(encoding="utf-8"))
    del about["checksums"]["weights.safetensors"]
    (place / "reader" / "reader.json").write_text(json.dumps(about), encoding="utf-8")
    Reader.load(place / "reader", engine="onnx", precision="int8", threads=1).ask("Who won the title ?", PASSAGE * 3)


def main() -> None:
    if sys.argv[1:2] in (["--within"], ["--planted"]):
        library, count, seed, place = sys.argv[2:]
        if sys.argv[1] == "--planted":
            planted(Path(library), Path(place))
        else:
            within(Path(library), int(count), int(seed), Path(place))
        return
    count, seed = (int(word) for word in (*sys.argv[1:], *("10000", "1")[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as place:
        done = fuzz(count, seed, Path(place), quiet=False)
    if done is None:
        sys.exit("no compiler with the sanitizers (gcc, libasan, libubsan)")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
