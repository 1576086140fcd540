"""Between a reader folder and torch: the device, its network, and its weights as tensors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rmreader.core.errors import UserError, user_error_on
from rmreader.core.recipe import Recipe, save_recipe
from rmreader.model.contextual import tuned_encoder
from rmreader.model.network import Network, Sizes
from rmreader.readers.folder import RECIPE, Folder, open_folder
from rmreader.readers.weights import network_shapes
from rmreader.readers.write import write_reader as write_reader_folder
from rmreader.text.contextual import ENCODER, ContextualShape
from rmreader.text.lexicon import Lexicon
from rmreader.training.contextual import ContextualInputs


def pick_device(name: str | None) -> torch.device:
    """The device of that name; by default the GPU, where there is one."""
    wrong = f"--device {name}: no such device to train on; take cpu, cuda or cuda:N."
    with user_error_on(wrong, RuntimeError):
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    if device.type not in ("cpu", "cuda"):
        raise UserError(wrong)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"--device {name}: PyTorch sees no GPU here; take cpu.")
    return device


def make_network(
    recipe: Recipe,
    lexicon: Lexicon,
    shape: ContextualShape | None = None,
    contextual: nn.Module | None = None,
) -> Network:
    """A network of the recipe's shape, as wide as its words' inputs, with random weights (but a
    tuned encoder's)."""
    sizes = Sizes(
        vectors=lexicon.dim,
        characters=lexicon.character_count,
        trainable=lexicon.trainable_count,
        **(shape or ContextualShape()).sizes(),
    )
    return Network(recipe.network, recipe.inputs, sizes, contextual)


def write_reader(
    target: Path,
    weights: Mapping[str, Tensor],
    lexicon: Lexicon,
    recipe: Recipe,
    scores: Mapping[str, Mapping[str, Any]],
    provenance: Mapping[str, Any],
    contextual: ContextualInputs | None = None,
    temperature: float = 1.0,
) -> None:
    """Write a reader folder in one step; ``scores`` are by name of the data set they were measured
    on."""

    def fill(folder: Path) -> None:
        save_recipe(recipe, folder / RECIPE)
        lexicon.save(folder)
        if contextual is not None:
            contextual.save(folder)

    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in weights.items()}
    about = {"temperature": temperature, "scores": scores, "provenance": provenance}
    write_reader_folder(target, arrays, recipe, about, fill)


def check_weights(
    network: Network, recipe: Recipe, lexicon: Lexicon, shape: ContextualShape
) -> None:
    """Refuse a network whose weights a reader's folder could not be checked by, before it is
    trained."""
    expected = network_shapes(recipe, lexicon, shape)
    own = {
        name: tuple(tensor.shape)
        for name, tensor in network.state_dict().items()
        if not name.startswith("contextual.")
    }
    for name in own.keys() | expected.keys():
        if own.get(name) != expected.get(name):
            raise UserError(
                f"{name}: {own.get(name)} in the network, {expected.get(name)} in "
                "readers/weights.py; both must say the same before such a network is trained."
            )


def read_weights(folder: Folder) -> dict[str, Tensor]:
    """A reader's weights as tensors."""
    return {name: torch.from_numpy(array) for name, array in folder.weights().items()}


def load_weights(network: Network, weights: Mapping[str, Tensor], where: str) -> None:
    """Put weights into a network; one sentence where they do not fit."""
    remedy = "take the network and inputs it was trained with."
    with user_error_on(
        f"{where}: its weights are not those of the recipe's network ({{why}}); {remedy}",
        RuntimeError,
    ):
        network.load_state_dict(dict(weights))


def load_network(
    reader: Path | Folder, device: torch.device | str = "cpu"
) -> tuple[Network, Lexicon, Recipe]:
    """The network of a reader folder, ready to read."""
    folder = reader if isinstance(reader, Folder) else open_folder(reader)
    weights = read_weights(folder)
    inputs = folder.recipe.inputs
    tuned = inputs.contextual and inputs.contextual_mode == "tuned"
    contextual = tuned_encoder(inputs, folder.path / ENCODER)[0] if tuned else None
    network = make_network(folder.recipe, folder.lexicon, folder.contextual, contextual)
    load_weights(network, weights, str(folder.path))
    return network.to(device).eval(), folder.lexicon, folder.recipe
