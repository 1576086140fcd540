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

FILE, ENCODER = "extras.json", "encoder"  # in the reader's folder; the second holds a tuned encoder's shape and pieces


@dataclass(frozen=True)
class ContextualShape:
    """What a reader keeps of its extra inputs: enough to build its network, and to know them again."""

    entities: tuple[str, ...] = ()  # entity labels in the order of their ids
    layers: int = 0  # layers of the encoder
    size: int = 0  # width of the contextual vectors
    fingerprint: str = ""  # of a frozen encoder

    def sizes(self) -> dict[str, int]:
        """The network's ``Sizes`` as far as they are decided here."""
        tags = {"pos_tags": len(POS), "ner_tags": len(self.entities)} if self.entities else {}
        return {**tags, "contextual_layers": self.layers, "contextual_size": self.size}

    def save(self, reader: Path) -> None:
        """Keep it in a reader's folder."""
        (reader / FILE).write_text(json.dumps(dataclasses.asdict(self)) + "\n", encoding="utf-8")

    @staticmethod
    def load(reader: Path, inputs: Inputs) -> ContextualShape:
        """The shape kept in a reader's folder; empty where its recipe asks for no extra inputs."""
        if not (inputs.tags or inputs.contextual):
            return ContextualShape()
        wrong = OSError, ValueError, KeyError, TypeError, OverflowError
        with user_error_on(f"{reader / FILE}: missing or damaged ({{why}}); restore the reader's folder.", *wrong):
            tree = read_json(reader / FILE, "restore the reader's folder", limit=1 << 20)
            layers, size = int(tree["layers"]), int(tree["size"])
            if not (0 <= layers <= 1000 and 0 <= size <= 1 << 20):
                raise ValueError(f"{layers} layers of {size}")
            return ContextualShape(tuple(map(str, tree["entities"])), layers, size, str(tree["fingerprint"]))
