"""What a reader's folder says of its extra inputs: tags and contextual vectors."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from rmreader.core.errors import user_error_on
from rmreader.core.files.reading import read_json
from rmreader.core.recipe import Inputs
from rmreader.text.tags import POS

# In the reader's folder: what is kept here, and a tuned encoder's configuration and tokenizer.
FILE = "extras.json"
ENCODER = "encoder"


@dataclass(frozen=True)
class ContextualShape:
    """The sizes of a reader's extra inputs, which its network is built from, and their identity."""

    entities: tuple[str, ...] = ()  # entity labels in the order of their ids
    layers: int = 0  # layers of the encoder
    size: int = 0  # width of the contextual vectors
    fingerprint: str = ""  # of a frozen encoder

    def sizes(self) -> dict[str, int]:
        """Return the network's ``Sizes`` as far as they are decided here."""
        sizes = {"contextual_layers": self.layers, "contextual_size": self.size}
        if self.entities:
            sizes["pos_tags"] = len(POS)
            sizes["ner_tags"] = len(self.entities)
        return sizes

    def save(self, reader: Path) -> None:
        """Write it to a reader's folder."""
        (reader / FILE).write_text(json.dumps(dataclasses.asdict(self)) + "\n", encoding="utf-8")

    @staticmethod
    def load(reader: Path, inputs: Inputs) -> ContextualShape:
        """Read it from a reader's folder; empty where the recipe asks for no extra inputs."""
        if not (inputs.tags or inputs.contextual):
            return ContextualShape()
        path = reader / FILE
        wrong = (OSError, ValueError, KeyError, TypeError, OverflowError)
        refusal = f"{path}: missing or damaged ({{why}}); restore the reader's folder."
        with user_error_on(refusal, *wrong):
            tree = read_json(path, "restore the reader's folder", limit=1 << 20)
            layers = int(tree["layers"])
            size = int(tree["size"])
            if not (0 <= layers <= 1000 and 0 <= size <= 1 << 20):
                raise ValueError(f"{layers} layers of {size}")
            return ContextualShape(
                entities=tuple(map(str, tree["entities"])),
                layers=layers,
                size=size,
                fingerprint=str(tree["fingerprint"]),
            )
