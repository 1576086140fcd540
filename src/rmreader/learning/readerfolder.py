"""The reader folder: what a run leaves in ``best`` and what a reader is loaded from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rmreader.config import Recipe, load_recipe, save_recipe
from rmreader.errors import UserError
from rmreader.learning.checkpoint import damage, write_folder
from rmreader.learning.text_inputs import TextInputs
from rmreader.model.contextual import tuned_encoder
from rmreader.model.network import Network, Sizes
from rmreader.text.extras import ENCODER, Shape
from rmreader.text.lexicon import Lexicon

MANIFEST, WEIGHTS = "reader.json", "weights.safetensors"


def make_network(
    recipe: Recipe, lexicon: Lexicon, shape: Shape | None = None, contextual: nn.Module | None = None
) -> Network:
    """A network of the recipe's shape, as wide as its words' inputs, with random weights (but a tuned encoder's)."""
    sizes = Sizes(
        vectors=lexicon.dim,
        characters=lexicon.character_count,
        trainable=lexicon.trainable_count,
        **(shape or Shape()).sizes(),
    )
    return Network(recipe.network, recipe.inputs, sizes, contextual)


def write_reader(
    target: Path,
    weights: Mapping[str, Tensor],
    lexicon: Lexicon,
    recipe: Recipe,
    scores: Mapping[str, Mapping[str, float]],
    provenance: Mapping[str, Any],
    text_inputs: TextInputs | None = None,
    fitted: Mapping[str, Any] | None = None,
) -> None:
    """Write a reader folder in one step; ``scores`` are by name of the data set they were measured on, ``fitted`` what
    the manifest of these very weights said of a calibration."""

    def fill(folder: Path) -> dict[str, Any]:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}, folder / WEIGHTS)
        save_recipe(recipe, folder / "recipe.yaml")
        lexicon.save(folder)
        if text_inputs is not None:
            text_inputs.save(folder)
        (folder / "README.md").write_text(model_card(target.name, scores, provenance), encoding="utf-8")
        about = {"temperature": 1.0, "scores": scores, "provenance": provenance}
        return {"format": 1, "kind": "rmreader", **about, **(fitted or {})}

    write_folder(target, MANIFEST, fill, keep_previous=False)


def read_reader(folder: Path) -> tuple[dict[str, Tensor], Lexicon, Recipe, dict[str, Any]]:
    """The weights (as float32), lexicon, recipe and manifest of a reader folder, refused where it is damaged."""
    if not (folder / MANIFEST).is_file():
        raise UserError(f"{folder}: not a reader folder, it has no {MANIFEST}; a run leaves one in OUT/best.")
    if (problem := damage(folder, MANIFEST)) is not None:
        raise UserError(f"{folder}: {problem}; restore the folder or train it again.")
    about = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    recipe = load_recipe(folder / "recipe.yaml")
    return read_weights(folder / WEIGHTS), Lexicon.load(folder), recipe, about


def read_weights(path: Path) -> dict[str, Tensor]:
    """Weights as float32, whether they are stored as that, in 16 bits, or in 8 with a scale a row."""
    stored = load_file(path)
    weights = {}
    for name, tensor in stored.items():
        if name.endswith(".scale") and name.removesuffix(".scale") in stored:
            continue
        scale = stored.get(f"{name}.scale")
        weights[name] = tensor.float() if tensor.is_floating_point() or scale is not None else tensor
        if scale is not None:
            weights[name] *= scale.float().reshape(scale.shape + (1,) * (tensor.dim() - scale.dim()))
    return weights


def load_weights(network: Network, weights: Mapping[str, Tensor], where: str) -> None:
    """Put weights into a network; one sentence where they do not fit."""
    own = network.state_dict()
    for name, tensor in own.items():
        if name not in weights:
            raise UserError(f"{where}: has no weights for {name}; its network is another one than the recipe's.")
        if weights[name].shape != tensor.shape:
            shapes = f"{list(weights[name].shape)}, the recipe's {list(tensor.shape)}"
            raise UserError(f"{where}: its {name} is {shapes}; take the network and inputs it was trained with.")
    if more := sorted(set(weights) - set(own)):
        raise UserError(f"{where}: has weights for {more[0]}, which the recipe's network lacks; take its own recipe.")
    network.load_state_dict(dict(weights))


def load_network(folder: Path, device: torch.device | str = "cpu") -> tuple[Network, Lexicon, Recipe]:
    """The network of a reader folder, ready to read."""
    weights, lexicon, recipe, _ = read_reader(folder)
    tuned = recipe.inputs.contextual and recipe.inputs.contextual_mode == "tuned"
    contextual = tuned_encoder(recipe.inputs, folder / ENCODER)[0] if tuned else None
    network = make_network(recipe, lexicon, Shape.load(folder, recipe.inputs), contextual)
    load_weights(network, weights, str(folder))
    return network.to(device).eval(), lexicon, recipe


def model_card(name: str, scores: Mapping[str, Mapping[str, float]], provenance: Mapping[str, Any]) -> str:
    """What the README.md of a reader folder says: its scores, by data set, and where it comes from."""
    lines = [f"# {name}", "", "A Reinforced Mnemonic Reader (Hu et al., IJCAI 2018), trained with rmreader.", ""]
    if scores:
        lines += ["| data | EM | F1 | questions |", "|---|---|---|---|"]
        for data, score in scores.items():
            lines.append(f"| {data} | {score['exact_match']:.2f} | {score['f1']:.2f} | {score['total']} |")
        lines.append("")
    lines += [f"- {key}: {value}" for key, value in provenance.items()]
    lines += ["", "`recipe.yaml` has every setting; `reader.json` the checksum of every file. Use it:", ""]
    return "\n".join([*lines, '    rmreader ask --model FOLDER --passage passage.txt "question"', ""])
