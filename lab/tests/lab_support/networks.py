"""A reader's network as the trainer has it, to hold what studies find against."""

from __future__ import annotations

from pathlib import Path

import torch

from lab.studies.readers import reader_folder
from rmreader.core.recipe import Recipe
from rmreader.data.encoded import Encoded
from rmreader.model.network import Network
from rmreader.training.contextual import ContextualInputs
from rmreader.training.feed import Feed
from rmreader.training.reader_folder import load_network


def open_network(
    name: str | Path, encoded: Encoded, device: torch.device
) -> tuple[Network, Feed, Recipe]:
    """The network, the data as it reads them, and its recipe."""
    folder = reader_folder(name)
    network, lexicon, recipe = load_network(folder, device)
    contextual = ContextualInputs(recipe.inputs, device, reader=folder)
    return network.eval(), Feed(encoded, lexicon, device, contextual=contextual), recipe
