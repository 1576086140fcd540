"""One reader made of several that were trained from the same start: the mean of their weights, which often reads better
than each of them and costs no more than one (a "model soup": Wortsman et al., ICML 2022)."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError
from rmreader.core.files.outputs import folder_to_write
from rmreader.core.version import provenance
from rmreader.readers.folder import WEIGHTS, Folder, verify
from rmreader.readers.write import write_reader
from rmreader.reading.export import compare
from rmreader.text.contextual import ENCODER, FILE

_REMEDY = "average only readers that were trained from one start, with the same inputs, network, decoding and words."


def average(folders: Sequence[Path], target: Path) -> float:
    """Write the mean of readers, as float32, with the first one's recipe; returns its temperature, their mean."""
    if len(folders) < 2:
        raise UserError(f"{', '.join(map(str, folders))}: an average needs at least two readers; name another one.")
    folder_to_write(target, *folders)
    readers = [verify(folder) for folder in folders]
    first = _traits(readers[0])
    for reader in readers[1:]:
        own = _traits(reader)
        for trait in {**first, **own}:
            if (here := own.get(trait, "absent")) != (there := first.get(trait, "absent")):
                raise UserError(f"{reader.path}: {trait} is {here} here and {there} in {folders[0]}; {_REMEDY}")
    sums: dict[str, NDArray[np.float64]] = {}
    for reader in readers:
        for name, weight in reader.weights().items():
            sums[name] = sums.get(name, 0) + weight.astype(np.float64)
    members = [
        {"reader": "/".join(reader.path.resolve().parts[-2:]), "weights_sha256": reader.about["checksums"].get(WEIGHTS)}
        | {key: reader.about.get(key) for key in ("temperature", "scores", "provenance")}
        for reader in readers
    ]
    temperature = sum(reader.temperature for reader in readers) / len(readers)
    each = [reader.about.get("provenance", {}) for reader in readers]
    shared = {key: value for key, value in each[0].items() if all(other.get(key) == value for other in each)}
    origin = {**shared, **provenance(), "average_of": members}
    about = {"temperature": temperature, "scores": {}, "provenance": origin}
    mean = {name: (total / len(readers)).astype(np.float32) for name, total in sums.items()}
    recipe = readers[0].recipe
    write_reader(target, mean, recipe, about, readers[0].copy_to, measure=compare)
    return temperature


def _traits(reader: Folder) -> dict[str, str]:
    """All in which readers must agree, from what people set to what follows from it."""
    tree = dataclasses.asdict(reader.recipe)
    parts = "inputs", "network", "decoding"
    settings = {f"{part}.{key}": repr(value) for part in parts for key, value in tree[part].items()}
    sums = reader.about["checksums"].items()
    files = {name: checksum[:16] for name, checksum in sums if name == FILE or name.startswith(f"{ENCODER}/")}
    shapes = {
        f"the shape of {name}": str(list(array.shape))
        for name, array in reader.stored().items()
        if not name.endswith(".scale")
    }
    return {**settings, "the lexicon": reader.lexicon.fingerprint[:16], **files, **shapes}
