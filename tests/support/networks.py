"""A reader's network as the trainer has it, to hold what studies find against."""

from __future__ import annotations

from pathlib import Path

import torch

from rmreader.config import Recipe
from rmreader.data.encoded import Encoded
from rmreader.learning.feed import Feed
from rmreader.learning.readerfolder import load_network
from rmreader.learning.text_inputs import TextInputs
from rmreader.model.network import Network
from rmreader.studies.readers import reader_folder


def open_network(name: str | Path, encoded: Encoded, device: torch.device) -> tuple[Network, Feed, Recipe]:
    """The network, the data as it reads them, and its recipe."""
    folder = reader_folder(name)
    network, lexicon, recipe = load_network(folder, device)
    text_inputs = TextInputs(recipe.inputs, device, reader=folder)
    return network.eval(), Feed(encoded, lexicon, device, text_inputs=text_inputs), recipe
