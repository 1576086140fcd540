"""The reader folder, opened and verified, without torch."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError, reason, user_error_on
from rmreader.core.files.manifest import CARD, damage, read_manifest
from rmreader.core.recipe import Recipe, load_recipe
from rmreader.readers.elsewhere import bring, is_elsewhere
from rmreader.readers.weights import TUNED, bert_shapes, misfit, network_shapes, restored
from rmreader.text.contextual import ENCODER, FILE, ContextualShape
from rmreader.text.lexicon import Lexicon
from rmreader.text.vectors import map_safetensors

SHIPPED = Path(__file__).resolve().parent / "shipped"
FORMAT = 1
MANIFEST = "reader.json"
WEIGHTS = "weights.safetensors"
RECIPE = "recipe.yaml"
ENSEMBLE = "ensemble"

WRONG = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)
"""What parsing a file that somebody else wrote may end in."""

_REMEDY = "restore the folder, or reinstall rmreader if it came with it."

# Bytes that a file may have.
_LARGEST = {
    RECIPE: 1 << 20,
    FILE: 1 << 20,
    f"{ENCODER}/config.json": 1 << 20,
    "lexicon.json": 1 << 27,
}


@dataclass(frozen=True)
class Folder:
    """A reader's folder, whole: every file is as its checksum says, and none leads out of it."""

    path: Path
    recipe: Recipe
    about: dict[str, Any]  # reader.json
    lexicon: Lexicon
    contextual: ContextualShape

    @property
    def temperature(self) -> float:
        """What scores are divided by before they become confidences."""
        return float(self.about.get("temperature", 1.0))

    @property
    def precision(self) -> str:
        """'int8' where the reader is meant to be run with 8-bit products, else 'float'."""
        return str(self.about.get("precision", "float"))

    def stored(self) -> dict[str, NDArray[Any]]:
        """Return the weights as they are in the file, whether or not they fit."""
        path = self.path / WEIGHTS
        with user_error_on(f"{path}: damaged ({{why}}); {_REMEDY}", *WRONG):
            return map_safetensors(path)

    def check(self) -> dict[str, NDArray[Any]]:
        """Return the stored weights; refused unless all names, shapes and types fit the recipe."""
        stored = self.stored()
        try:
            why = self._misfit(stored)
        except WRONG as error:
            why = reason(error)
        if why is not None:
            raise UserError(
                f"{self.path}: the weights do not fit {RECIPE} ({why}); restore the folder."
            )
        return stored

    def _misfit(self, stored: Mapping[str, NDArray[Any]]) -> str | None:
        """Say what of the stored weights does not fit; None where all do."""
        blocks = self.recipe.network.blocks
        if blocks > len(stored):  # a number that is not worth counting to
            return f"{blocks} blocks, but {len(stored)} weights"
        expected = network_shapes(self.recipe, self.lexicon, self.contextual)
        inputs = self.recipe.inputs
        if not inputs.contextual or inputs.contextual_mode != "tuned":
            return misfit(stored, expected, None)
        config = json.loads((self.path / ENCODER / "config.json").read_text(encoding="utf-8"))
        if config.get("model_type") != "bert":
            # ``training/reader_folder.py`` compares these with the network that torch makes.
            return misfit(stored, expected, TUNED)
        layers = self.contextual.layers
        if config.get("num_hidden_layers") != layers - 1 or layers > len(stored):
            return f"{config.get('num_hidden_layers')} layers in {ENCODER}, {layers - 1} in {FILE}"
        for name, shape in bert_shapes(config).items():
            expected[f"{TUNED}{name}"] = shape
        size = config["hidden_size"]
        if size != self.contextual.size:
            return f"vectors of {size} numbers in {ENCODER}, of {self.contextual.size} in {FILE}"
        return misfit(stored, expected, None)

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """Return the network's weights as float32, by the names of its state dict."""
        with user_error_on(f"{self.path / WEIGHTS}: damaged ({{why}}); {_REMEDY}", ValueError):
            return dict(restored(self.check()))

    def copy_to(self, new: Path) -> None:
        """Copy every file that is under a checksum, but the weights."""
        for name in self.about["checksums"]:
            if name not in (WEIGHTS, CARD):
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.path / name, new / name)


def find(name_or_path: str | Path) -> Path:
    """Find the folder of a reader by its shipped name or by its path.

    One on the hub or in an archive is brought into the cache first (``elsewhere.py``).
    """
    if not str(name_or_path).strip():
        raise UserError(
            "the name of the reader is empty; give a shipped reader's name or a reader's folder."
        )
    path = _find(name_or_path)
    if path is not None:
        return path
    if Path(name_or_path).exists():
        raise UserError(
            f"{name_or_path}: not a reader's folder, it has no {MANIFEST}; "
            "training leaves one in OUT/best."
        )
    names = ", ".join(sorted(path.parent.name for path in SHIPPED.glob(f"*/{MANIFEST}"))) or "none"
    raise UserError(
        f"{name_or_path}: no such reader; shipped are: {names}; or give a reader's folder, its "
        "archive, or hf://ORGANISATION/NAME."
    )


def _find(name_or_path: str | Path) -> Path | None:
    if is_elsewhere(str(name_or_path)):
        return bring(str(name_or_path))
    for path in (Path(name_or_path), SHIPPED / str(name_or_path)):
        if (path / MANIFEST).is_file():
            return path
    return None


def reader_names(given: str | Path) -> list[str]:
    """Return the readers of an ensemble, given with commas between them; one is a list of one."""
    text = str(given)
    if text.strip() and Path(text).exists():  # whatever its name holds
        return _members(text)
    names = [name.strip() for name in text.split(",")]
    if len(names) > 1 and not all(names):
        raise UserError(
            f"{text!r}: a name is missing before or after a comma; "
            "give each reader's name or folder."
        )
    members = []
    seen = set()
    for name in names:
        if name in seen:
            raise UserError(f"{text!r}: {name} is there twice; an ensemble has each reader once.")
        seen.add(name)
        members += _members(name)
    return members


def _members(name: str) -> list[str]:
    """Return the readers in an ensemble's folder; of any other name, itself."""
    path = _find(name) if name else None
    if path is None:
        return [name]
    if is_elsewhere(name):
        name = str(path)  # where it has been brought to, so that it is not brought again
    manifest = path / MANIFEST
    try:
        about = read_manifest(manifest)
    except (OSError, ValueError):
        return [name]  # whoever opens it says what is wrong
    if about.get("kind") != ENSEMBLE:
        return [name]
    return _members_of(path, about)


def _members_of(path: Path, about: Mapping[str, Any]) -> list[str]:
    """Return the readers in an ensemble's folder, whole."""
    manifest = path / MANIFEST
    _check_links(path)
    members = about.get("members")
    if not isinstance(members, list) or not members:
        raise UserError(f"{manifest}: damaged (it names no members); {_REMEDY}")
    if not all(isinstance(member, str) for member in members):
        raise UserError(f"{manifest}: damaged (it names no members); {_REMEDY}")
    problem = damage(path, MANIFEST)
    if problem is not None:
        raise UserError(f"{path}/{problem}; {_REMEDY}")
    for member in members:
        if Path(member).name != member:
            raise UserError(
                f"{manifest}: damaged (the member {member[:80]!r} is not a folder in it); {_REMEDY}"
            )
    return [str(path / member) for member in members]


def open_folder(name_or_path: str | Path) -> Folder:
    """Open a reader's folder.

    Refused in one sentence where anything in it is missing, damaged or does not fit.
    """
    folder = verify(find(name_or_path))
    folder.check()
    return folder


def verify(path: Path) -> Folder:
    """Open a reader's folder without comparing the weights with the recipe."""
    _check_links(path)
    manifest = path / MANIFEST
    with user_error_on(f"{manifest}: damaged ({{why}}); {_REMEDY}", *WRONG):
        about = read_manifest(manifest)
        if about.get("kind") == ENSEMBLE:
            raise UserError(
                f"{path}: an ensemble, where one reader is wanted; give one of the folders in it."
            )
        if about["format"] != FORMAT:
            raise UserError(
                f"{manifest}: made by another version (format {about['format']}); update rmreader."
            )
        _check_manifest(about)
    problem = damage(path, MANIFEST) or _wrong_file(path)
    if problem is not None:
        raise UserError(f"{path}/{problem}; {_REMEDY}")
    with user_error_on(f"{path}: a file in it is damaged ({{why}}); {_REMEDY}", *WRONG):
        recipe = load_recipe(path / RECIPE)
        lexicon = Lexicon.load(path)
        contextual = ContextualShape.load(path, recipe.inputs)
    return Folder(path, recipe, about, lexicon, contextual)


def _wrong_file(path: Path) -> str | None:
    """Say which file is missing or too large; None where all are as they should be."""
    for name in (RECIPE, WEIGHTS, "lexicon.json"):
        if not (path / name).is_file():
            return f"{name}: missing"
    for name, largest in _LARGEST.items():
        file = path / name
        if file.is_file() and file.stat().st_size > largest:
            return f"{name}: larger than {largest >> 20} MiB"
    return None


def _check_links(path: Path) -> None:
    """Refuse a link that leads out of the folder, and anything that is neither file nor folder."""
    root = os.path.realpath(path)
    for place, folders, files in os.walk(path):
        for name in (*folders, *files):
            entry = os.path.join(place, name)
            real = os.path.realpath(entry)
            if not real.startswith(root + os.sep):
                raise UserError(
                    f"{entry}: a link that leads out of the reader's folder; "
                    "put the file itself there."
                )
            if not (os.path.isfile(real) or os.path.isdir(real)):
                raise UserError(f"{entry}: neither a file nor a folder; {_REMEDY}")


def _check_manifest(about: Mapping[str, Any]) -> None:
    temperature = about.get("temperature", 1.0)
    if type(temperature) not in (int, float) or not 0 < float(temperature) < np.inf:
        raise ValueError(f"the temperature is {temperature!r}")
    if about.get("precision", "float") not in ("float", "int8"):
        raise ValueError(f"the precision is {about['precision']!r}")
    scores = about.get("scores", {})
    provenance = about.get("provenance", {})
    if not isinstance(provenance, dict) or not isinstance(scores, dict):
        raise ValueError("scores and provenance are objects")
    if not all(isinstance(score, dict) for score in scores.values()):
        raise ValueError("a score is an object")
