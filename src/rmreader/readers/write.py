"""Reader folders written in one step: weights, card and manifest; ensembles; changes of both."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rmreader.core.errors import user_error_on
from rmreader.core.files.atomic import write_whole
from rmreader.core.files.manifest import CARD, read_manifest, sign, write_folder
from rmreader.core.recipe import Recipe, load_recipe
from rmreader.readers.card import card
from rmreader.readers.folder import ENSEMBLE, FORMAT, MANIFEST, RECIPE, WEIGHTS, WRONG, Folder
from rmreader.readers.head import without_head
from rmreader.readers.weights import Storage, Weights, is_scale, quantised
from rmreader.text.vectors import map_safetensors


def write_reader(
    target: Path,
    weights: Weights,
    recipe: Recipe,
    about: Mapping[str, Any],
    fill: Callable[[Path], None],
    storage: Storage = "float32",
    measure: Callable[[Path], Mapping[str, Any]] | None = None,
) -> None:
    """Write a reader's folder in one step: weights, card, manifest, and what ``fill`` adds.

    ``measure`` is given the folder before it is in its place; the manifest says what it returns.
    """

    def everything(new: Path) -> dict[str, Any]:
        from safetensors.numpy import save_file

        fill(new)
        save_file(dict(quantised(weights, storage)), new / WEIGHTS)
        whole = {"format": FORMAT, "kind": "rmreader", **about, "weights": storage}
        if measure is not None:
            sign(new, MANIFEST, whole)
            whole |= measure(new)
        count = sum(int(weight.size) for weight in weights.values())
        refusal = f"{target}: what its manifest would say cannot be read ({{why}})."
        with user_error_on(refusal, *WRONG):
            text = card(target.name, recipe, whole, count)
        (new / CARD).write_text(text, encoding="utf-8")
        return whole

    write_folder(target, MANIFEST, everything)


def write_ensemble(
    target: Path,
    readers: Mapping[str, Folder],
    costs: Mapping[str, float],
) -> None:
    """Write a folder that holds readers, by name, and loads as their ensemble.

    ``costs`` are in ms per question.
    """

    def fill(new: Path) -> dict[str, Any]:
        lines = [
            f"# {target.name}\n",
            f"The ensemble of {len(readers)} readers: the mean of their probabilities.\n",
            "| member | MB | ms per question |",
            "|---|---|---|",
        ]
        sizes = {}
        for name, reader in readers.items():
            shutil.copytree(reader.path, new / name)
            sizes[name] = _size(new / name) / 1e6
            lines.append(f"| {name} | {sizes[name]:.1f} | {costs[name]:.1f} |")
        lines.append(f"| all | {sum(sizes.values()):.1f} | {sum(costs.values()):.1f} |")
        (new / CARD).write_text("\n".join([*lines, ""]), encoding="utf-8")
        return {
            "format": FORMAT,
            "kind": ENSEMBLE,
            "members": list(readers),
            "megabytes": sizes,
            "milliseconds": dict(costs),
        }

    write_folder(target, MANIFEST, fill)


def _size(folder: Path) -> int:
    """Return how many bytes the files of a folder have."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def update(folder: Path, **changes: Any) -> None:
    """Change what a reader's manifest and card say about it."""
    about = read_manifest(folder / MANIFEST) | changes
    stored = map_safetensors(folder / WEIGHTS)
    count = sum(int(array.size) for name, array in stored.items() if not is_scale(name, stored))
    text = card(_title(folder), load_recipe(folder / RECIPE), about, count)
    manifest = json.dumps(about, indent=1) + "\n"
    write_whole(folder / MANIFEST, manifest.encode())
    write_whole(folder / CARD, text.encode())


def _title(folder: Path) -> str:
    """Return the name that a reader's card has; without a card, its folder's."""
    path = folder / CARD
    if not path.is_file():
        return folder.name
    first_line = without_head(path.read_text(encoding="utf-8")).partition("\n")[0]
    return first_line.removeprefix("# ") or folder.name
