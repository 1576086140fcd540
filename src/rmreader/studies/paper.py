"""What the paper printed, from ``paper.yaml``, to show ours beside it."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, NamedTuple

import yaml

Score = tuple[float, float]
"""EM and F1 in percent."""


class Architecture(NamedTuple):
    """A row of Table 1; 0 rounds where there are none."""

    model: str
    interactive: int
    self_aligning: int
    attention: str


class Published(NamedTuple):
    """A row of Table 2 or 3: two pairs of EM and F1, None where the paper has a dash."""

    model: str
    first: Score | None
    second: Score | None


class Ablation(NamedTuple):
    """A row of Table 4: overrides of the recipe, and the objective of the second stage, empty where there is none."""

    number: int
    name: str
    network: str
    second: str
    score: Score | None

    @property
    def slug(self) -> str:
        """Name of its trainings: how they continue after maximum likelihood, and what is changed."""
        return "-".join([*([self.second] if self.second else []), changed(self.network)])


def changed(network: str) -> str:
    """Name of the first stage's trainings."""
    return "-".join(word.partition(".")[2].replace("=", "-") for word in network.split()) or "full"


_PRINTED: dict[str, Any] = yaml.safe_load((files("rmreader") / "studies" / "paper.yaml").read_text(encoding="utf-8"))
TABLE_1 = [Architecture(*row) for row in _PRINTED["table_1"]]
SINGLE, ENSEMBLE, TABLE_3 = ([Published(*row) for row in _PRINTED[key]] for key in ("single", "ensemble", "table_3"))
HUMAN = Published(*_PRINTED["human"])
TABLE_4, ROUNDS = ([Ablation(*row) for row in _PRINTED[key]] for key in ("table_4", "rounds"))
TABLE_5: dict[str, tuple[Score, Score]] = _PRINTED["table_5"]


def gain(first: int, second: int) -> Score:
    """EM and F1 by which one row of Table 4 is above another."""
    one, other = TABLE_4[first].score or (0, 0), TABLE_4[second].score or (0, 0)
    return round(one[0] - other[0], 1), round(one[1] - other[1], 1)
