"""One reader made of several that were trained from the same start: the mean of their weights.

It often reads better than each of them and costs no more than one (a "model soup": Wortsman et al.,
ICML 2022).
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError
from rmreader.core.files.outputs import folder_to_write
from rmreader.core.version import provenance
from rmreader.readers.folder import WEIGHTS, Folder, verify
from rmreader.readers.write import write_reader
from rmreader.reading.export import compare
from rmreader.text.contextual import ENCODER, FILE

_REMEDY = (
    "average only readers that were trained from one start, with the same inputs, network, "
    "decoding and words."
)


def average(folders: Sequence[Path], target: Path) -> float:
    """Write the mean of readers, as float32, with the first one's recipe.

    Returns its temperature, their mean.
    """
    if len(folders) < 2:
        named = ", ".join(map(str, folders))
        raise UserError(f"{named}: an average needs at least two readers; name another one.")

    folder_to_write(target, *folders)
    readers = [verify(folder) for folder in folders]
    _check_alike(readers)
    sums: dict[str, NDArray[np.float64]] = {}
    for reader in readers:
        for name, weight in reader.weights().items():
            sums[name] = sums.get(name, 0) + weight.astype(np.float64)

    mean = {name: (total / len(readers)).astype(np.float32) for name, total in sums.items()}
    temperature = sum(reader.temperature for reader in readers) / len(readers)
    about = {"temperature": temperature, "scores": {}, "provenance": _origin(readers)}
    first = readers[0]
    write_reader(target, mean, first.recipe, about, first.copy_to, measure=compare)

    return temperature


def _check_alike(readers: Sequence[Folder]) -> None:
    """Refuse readers that differ in more than their weights."""
    first = _traits(readers[0])
    for reader in readers[1:]:
        own = _traits(reader)
        for trait in {**first, **own}:
            here = own.get(trait, "absent")
            there = first.get(trait, "absent")
            if here != there:
                raise UserError(
                    f"{reader.path}: {trait} is {here} here and {there} in {readers[0].path}; "
                    f"{_REMEDY}"
                )


def _origin(readers: Sequence[Folder]) -> dict[str, Any]:
    """Where the mean comes from: what all readers have in common, and each of them."""
    members = []
    for reader in readers:
        members.append(
            {
                "reader": "/".join(reader.path.resolve().parts[-2:]),
                "weights_sha256": reader.about["checksums"].get(WEIGHTS),
                "temperature": reader.about.get("temperature"),
                "scores": reader.about.get("scores"),
                "provenance": reader.about.get("provenance"),
            }
        )

    origins = [reader.about.get("provenance", {}) for reader in readers]
    shared = {}
    for key, value in origins[0].items():
        if all(other.get(key) == value for other in origins):
            shared[key] = value

    return {**shared, **provenance(), "average_of": members}


def _traits(reader: Folder) -> dict[str, str]:
    """All in which readers must agree, from what people set to what follows from it."""
    traits = {}
    tree = dataclasses.asdict(reader.recipe)
    for section in ("inputs", "network", "decoding"):
        for key, value in tree[section].items():
            traits[f"{section}.{key}"] = repr(value)

    traits["the lexicon"] = reader.lexicon.fingerprint[:16]
    for name, checksum in reader.about["checksums"].items():
        if name == FILE or name.startswith(f"{ENCODER}/"):
            traits[name] = checksum[:16]

    for name, array in reader.stored().items():
        if not name.endswith(".scale"):
            traits[f"the shape of {name}"] = str(list(array.shape))

    return traits
