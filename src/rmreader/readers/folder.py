"""The reader folder, without torch: opened and verified, written and signed; its card, from recipe and manifest."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError, reason, user_error_on
from rmreader.core.files.atomic import write_whole
from rmreader.core.files.manifest import CARD, damage, read_manifest, sign, write_folder
from rmreader.core.recipe import Inputs, NetworkConfig, Recipe, load_recipe
from rmreader.readers.weights import (
    TUNED,
    Storage,
    Weights,
    bert_shapes,
    is_scale,
    misfit,
    network_shapes,
    quantised,
    restored,
)
from rmreader.text.contextual import ENCODER, FILE, ContextualShape
from rmreader.text.lexicon import Lexicon
from rmreader.text.vectors import map_safetensors

SHIPPED = Path(__file__).resolve().parent / "shipped"
MANIFEST, WEIGHTS, RECIPE = "reader.json", "weights.safetensors", "recipe.yaml"
FORMAT, ENSEMBLE = 1, "ensemble"
_REMEDY = "restore the folder, or reinstall rmreader if it came with it."
_LARGEST = {RECIPE: 1 << 20, FILE: 1 << 20, f"{ENCODER}/config.json": 1 << 20, "lexicon.json": 1 << 27}  # bytes
_BITS = {"float32": "32", "float16": "16", "int8": "8"}
# what parsing a file that somebody else wrote may end in
_WRONG = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError)


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
        """The weights as they are in the file, whether or not they fit."""
        path = self.path / WEIGHTS
        with user_error_on(f"{path}: damaged ({{why}}); {_REMEDY}", *_WRONG):
            return map_safetensors(path)

    def check(self) -> dict[str, NDArray[Any]]:
        """The stored weights, refused unless name, shape and type of each are what the recipe says."""
        stored = self.stored()
        try:
            why = self._misfit(stored)
        except _WRONG as error:
            why = reason(error)
        if why is not None:
            raise UserError(f"{self.path}: the weights do not fit {RECIPE} ({why}); restore the folder.")
        return stored

    def _misfit(self, stored: Mapping[str, NDArray[Any]]) -> str | None:
        inputs, unknown = self.recipe.inputs, None
        if self.recipe.network.blocks > len(stored):  # a number that is not worth counting to
            return f"{self.recipe.network.blocks} blocks, but {len(stored)} weights"
        expected = network_shapes(self.recipe, self.lexicon, self.contextual)
        if inputs.contextual and inputs.contextual_mode == "tuned":
            config = json.loads((self.path / ENCODER / "config.json").read_text(encoding="utf-8"))
            if config.get("model_type") != "bert":
                unknown = TUNED  # ``training/reader_folder.py`` compares these with the network that torch makes
            elif config.get("num_hidden_layers") != self.contextual.layers - 1 or self.contextual.layers > len(stored):
                return f"{config.get('num_hidden_layers')} layers in {ENCODER}, {self.contextual.layers - 1} in {FILE}"
            else:
                expected |= {f"{TUNED}{name}": shape for name, shape in bert_shapes(config).items()}
                if config["hidden_size"] != self.contextual.size:
                    return (
                        f"vectors of {config['hidden_size']} numbers in {ENCODER}, of {self.contextual.size} in {FILE}"
                    )
        return misfit(stored, expected, unknown)

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """The network's weights as float32, by the names of its state dict."""
        with user_error_on(f"{self.path / WEIGHTS}: damaged ({{why}}); {_REMEDY}", ValueError):
            return dict(restored(self.check()))

    def copy_to(self, new: Path) -> None:
        """Copy every file that is under a checksum, but the weights."""
        for name in self.about["checksums"]:
            if name not in (WEIGHTS, CARD):
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.path / name, new / name)


def find(name_or_path: str | Path) -> Path:
    """The folder of a reader given by its shipped name or by its path."""
    if not str(name_or_path).strip():
        raise UserError("the name of the reader is empty; give a shipped reader's name or a reader's folder.")
    for path in (Path(name_or_path), SHIPPED / str(name_or_path)):
        if (path / MANIFEST).is_file():
            return path
    if Path(name_or_path).exists():
        raise UserError(
            f"{name_or_path}: not a reader's folder, it has no {MANIFEST}; training leaves one in OUT/best."
        )
    names = ", ".join(sorted(path.parent.name for path in SHIPPED.glob(f"*/{MANIFEST}"))) or "none"
    raise UserError(f"{name_or_path}: no such reader; shipped are: {names}; or give a reader's folder.")


def reader_names(given: str | Path) -> list[str]:
    """The readers of an ensemble, given with commas between them; one alone is a list of one."""
    text = str(given)
    if text.strip() and Path(text).exists():  # whatever its name holds
        return _members(text)
    names = [name.strip() for name in text.split(",")]
    if len(names) > 1 and not all(names):
        raise UserError(f"{text!r}: a name is missing before or after a comma; give each reader's name or folder.")
    if (twice := next((name for place, name in enumerate(names) if name in names[:place]), None)) is not None:
        raise UserError(f"{text!r}: {twice} is there twice; an ensemble has each reader once.")
    return [member for name in names for member in _members(name)]


def _members(name: str) -> list[str]:
    """The readers in an ensemble's folder; of any other name, itself."""
    path = next((path for path in (Path(name), SHIPPED / name) if name and (path / MANIFEST).is_file()), None)
    try:
        about = read_manifest(path / MANIFEST) if path else {}
    except (OSError, ValueError):
        return [name]  # whoever opens it says what is wrong
    if path is None or about.get("kind") != ENSEMBLE:
        return [name]
    _stays_inside(path)
    members = about.get("members")
    if not isinstance(members, list) or not members or not all(isinstance(member, str) for member in members):
        raise UserError(f"{path / MANIFEST}: damaged (it names no members); {_REMEDY}")
    if (problem := damage(path, MANIFEST)) is not None:
        raise UserError(f"{path}/{problem}; {_REMEDY}")
    if stray := next((member for member in members if Path(member).name != member), None):
        raise UserError(f"{path / MANIFEST}: damaged (the member {stray[:80]!r} is no folder in it); {_REMEDY}")
    return [str(path / member) for member in members]


def open_folder(name_or_path: str | Path) -> Folder:
    """Open a reader's folder, refused in one sentence where anything in it is missing, damaged or does not fit."""
    folder = verify(find(name_or_path))
    folder.check()
    return folder


def verify(path: Path) -> Folder:
    """The same without comparing the weights with the recipe."""
    _stays_inside(path)
    with user_error_on(f"{path / MANIFEST}: damaged ({{why}}); {_REMEDY}", *_WRONG):
        about = read_manifest(path / MANIFEST)
        if about.get("kind") == ENSEMBLE:
            raise UserError(f"{path}: an ensemble, where one reader is wanted; give one of the folders in it.")
        if about["format"] != FORMAT:
            raise UserError(f"{path / MANIFEST}: made by another version (format {about['format']}); update rmreader.")
        _check_manifest(about)
    problem = damage(path, MANIFEST)
    for name in (RECIPE, WEIGHTS, "lexicon.json"):
        if problem is None and not (path / name).is_file():
            problem = f"{name}: missing"
    for name, largest in _LARGEST.items():
        if problem is None and (path / name).is_file() and (path / name).stat().st_size > largest:
            problem = f"{name}: larger than {largest >> 20} MiB"
    if problem is not None:
        raise UserError(f"{path}/{problem}; {_REMEDY}")
    with user_error_on(f"{path}: a file in it is damaged ({{why}}); {_REMEDY}", *_WRONG):
        recipe = load_recipe(path / RECIPE)
        return Folder(path, recipe, about, Lexicon.load(path), ContextualShape.load(path, recipe.inputs))


def _stays_inside(path: Path) -> None:
    """Refuse a folder with a link that leads out of it, or with anything that is neither file nor folder."""
    root = os.path.realpath(path)
    for at, folders, files in os.walk(path):
        for name in (*folders, *files):
            entry = os.path.join(at, name)
            real = os.path.realpath(entry)
            if not real.startswith(root + os.sep):
                raise UserError(f"{entry}: a link that leads out of the reader's folder; put the file itself there.")
            if not (os.path.isfile(real) or os.path.isdir(real)):
                raise UserError(f"{entry}: neither a file nor a folder; {_REMEDY}")


def _check_manifest(about: Mapping[str, Any]) -> None:
    temperature = about.get("temperature", 1.0)
    if type(temperature) not in (int, float) or not 0 < float(temperature) < np.inf:
        raise ValueError(f"the temperature is {temperature!r}")
    if about.get("precision", "float") not in ("float", "int8"):
        raise ValueError(f"the precision is {about['precision']!r}")
    scores, provenance = about.get("scores", {}), about.get("provenance", {})
    if not isinstance(provenance, dict) or not isinstance(scores, dict):
        raise ValueError("scores and provenance are objects")
    if not all(isinstance(score, dict) for score in scores.values()):
        raise ValueError("a score is an object")


def write_reader(
    target: Path,
    weights: Weights,
    recipe: Recipe,
    about: Mapping[str, Any],
    fill: Callable[[Path], None],
    storage: Storage = "float32",
    measure: Callable[[Path], Mapping[str, Any]] | None = None,
) -> None:
    """Write a reader's folder in one step: weights, card, manifest, and what ``fill`` puts beside them. ``measure`` is
    given the folder before it is in its place; what it returns the manifest says too."""

    def everything(new: Path) -> dict[str, Any]:
        from safetensors.numpy import save_file

        fill(new)
        save_file(dict(quantised(weights, storage)), new / WEIGHTS)
        whole = {"format": FORMAT, "kind": "rmreader", **about, "weights": storage}
        if measure is not None:
            sign(new, MANIFEST, whole)
            whole |= measure(new)
        count = sum(int(weight.size) for weight in weights.values())
        with user_error_on(f"{target}: what its manifest would say cannot be read ({{why}}).", *_WRONG):
            text = card(target.name, recipe, whole, count)
        (new / CARD).write_text(text, encoding="utf-8")
        return whole

    write_folder(target, MANIFEST, everything)


def write_ensemble(target: Path, readers: Mapping[str, Folder], costs: Mapping[str, float]) -> None:
    """Write a folder that holds readers, by name, and loads as their ensemble; ``costs`` in ms per question."""

    def fill(new: Path) -> dict[str, Any]:
        lines = [f"# {target.name}\n\nThe ensemble of {len(readers)} readers: the mean of their probabilities.\n"]
        lines += ["| member | MB | ms per question |", "|---|---|---|"]
        sizes = {}
        for name, reader in readers.items():
            shutil.copytree(reader.path, new / name)
            sizes[name] = sum(path.stat().st_size for path in (new / name).rglob("*") if path.is_file()) / 1e6
            lines.append(f"| {name} | {sizes[name]:.1f} | {costs[name]:.1f} |")
        lines.append(f"| all | {sum(sizes.values()):.1f} | {sum(costs.values()):.1f} |")
        (new / CARD).write_text("\n".join([*lines, ""]), encoding="utf-8")
        about = {"megabytes": sizes, "milliseconds": dict(costs)}
        return {"format": FORMAT, "kind": ENSEMBLE, "members": list(readers), **about}

    write_folder(target, MANIFEST, fill)


def update(folder: Path, **changes: Any) -> None:
    """Change what a reader's manifest and card say about it."""
    about = read_manifest(folder / MANIFEST) | changes
    stored = map_safetensors(folder / WEIGHTS)
    count = sum(int(array.size) for name, array in stored.items() if not is_scale(name, stored))
    text = card(_title(folder), load_recipe(folder / RECIPE), about, count)
    write_whole(folder / MANIFEST, (json.dumps(about, indent=1) + "\n").encode())
    write_whole(folder / CARD, text.encode())


def _title(folder: Path) -> str:
    """The name that a reader's card has; without a card, its folder's."""
    path = folder / CARD
    first_line = path.read_text(encoding="utf-8").partition("\n")[0] if path.is_file() else ""
    return first_line.removeprefix("# ") or folder.name


def card(name: str, recipe: Recipe, about: Mapping[str, Any], count: int) -> str:
    """The card of a reader of ``count`` weights."""
    return "\n".join([*_lines(name, recipe, about, count), ""])


def _lines(name: str, recipe: Recipe, about: Mapping[str, Any], count: int) -> Iterator[str]:
    yield f"# {name}\n\nA Reinforced Mnemonic Reader (Hu et al., IJCAI 2018), trained with rmreader.\n"
    if summary := about.get("summary"):
        yield f"{summary}\n"
    yield "- **Reads** a question and a passage and points at the answer in the passage. " + (
        "It can say that the passage holds none;" if recipe.network.no_answer else "It always points somewhere;"
    )
    yield "  its confidence says how sure it is."
    yield f"- **Inputs**: {', '.join(_inputs(recipe.inputs))}."
    bits = _BITS.get(str(about.get("weights")), "32")
    products = ", read with 8-bit products" if about.get("precision") == "int8" else ""
    yield f"- **Network**: {_network(recipe.network)}; {count:,} weights in {bits} bits{products}."
    yield f"- **Temperature** of the confidence: {float(about.get('temperature', 1.0)):.3f}."
    for key, value in about.get("provenance", {}).items():
        if key == "average_of":
            value = f"the mean of {len(value)} readers: {', '.join(str(member['reader']) for member in value)}"
            key = "weights"
        yield f"- {key}: {value}"
    if engines := about.get("engines"):
        yield (
            f"- With and without torch its log-probabilities differ by at most "
            f"{engines['difference']:.0e} ({engines['questions']} questions compared, in float)."
        )
    if shrunk := about.get("shrunk"):
        yield (
            f"- Fewer bits changed F1 from {shrunk['before']:.2f} to {shrunk['after']:.2f} on {shrunk['data']}, "
            f"{shrunk['questions']:,} questions."
        )
    yield ""
    if scores := about.get("scores"):
        yield "| data | EM | F1 | questions |\n|---|---|---|---|"
        for data, score in scores.items():
            yield f"| {data} | {score['exact_match']:.2f} | {score['f1']:.2f} | {score['total']:,} |"
        yield "\nMeasured with `rmreader evaluate`, by these files where the manifest says so, else in training.\n"
    else:
        yield "Its scores are not measured.\n"
    yield "What it is not good at: passages that contradict themselves on purpose, numbers that must be computed,"
    yield "languages that it was not trained on. `recipe.yaml` has every setting, `reader.json` the checksum of every"
    yield 'file but this one.\n\n    rmreader ask --model FOLDER --passage passage.txt "question"'


def _inputs(inputs: Inputs) -> Iterator[str]:
    if inputs.contextual:
        pairing = "question and passage as one pair" if inputs.contextual_pairing == "together" else "each text alone"
        # by its last name: where the encoder was on somebody's machine is nobody's business
        yield f"the encoder {inputs.contextual.rstrip('/').split('/')[-1]}, {inputs.contextual_mode}, on {pairing}"
    if inputs.vectors:
        yield f"the word vectors {inputs.vectors.split('/')[-1]}"
    if inputs.characters:
        yield f"a character BiLSTM of size {inputs.character_size}"
    if inputs.exact_match:
        yield "exact match"
    if inputs.tags:
        yield f"the tags of {inputs.tags.rstrip('/').split('/')[-1]}"


def _network(config: NetworkConfig) -> str:
    again = "with" if config.reattention else "without"
    return f"hidden size {config.hidden}, {config.blocks} aligning blocks {again} reattention, {config.fusion} fusion"
