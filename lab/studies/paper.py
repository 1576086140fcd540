"""What the paper printed, from ``paper.yaml``, to show ours beside it.

A score is EM and F1 in percent.
"""

from importlib.resources import files
from typing import Any, NamedTuple

import yaml

from rmreader.core.errors import UserError

Score = tuple[float, float]
Published = tuple[str, Score | None, Score | None]
"""A row of Table 2 or 3; None where the paper has a dash."""


class Ablation(NamedTuple):
    """A row of Table 4: overrides of the recipe, and the objective of the second stage.

    The objective is empty where there is no second stage.
    """

    number: int
    name: str
    network: str
    second: str
    score: Score | None

    @property
    def first(self) -> str:
        """Name of its first stage's trainings: what is changed in the network."""
        changes = [override.partition(".")[2] for override in self.network.split()]
        return "-".join(changes).replace("=", "-") or "full"

    @property
    def slug(self) -> str:
        """Name of its trainings: how they continue after the first stage, and what is changed."""
        return f"{self.second}-{self.first}" if self.second else self.first


_PRINTED: dict[str, Any] = yaml.safe_load(
    (files("lab.studies") / "paper.yaml").read_text(encoding="utf-8")
)
TABLE_1: list[tuple[str, int, int, str]] = _PRINTED["table_1"]
SINGLE: list[Published] = _PRINTED["single"]
ENSEMBLE: list[Published] = _PRINTED["ensemble"]
HUMAN: list[Published] = _PRINTED["human"]
TABLE_3: list[Published] = _PRINTED["table_3"]
TABLE_4 = [Ablation(*row) for row in _PRINTED["table_4"]]
ROUNDS = [Ablation(*row) for row in _PRINTED["rounds"]]
MORE_ML = Ablation(*_PRINTED["more_ml"])
TABLE_5: dict[str, tuple[Score, Score]] = _PRINTED["table_5"]


def gain(first: int, second: int) -> Score:
    """EM and F1 by which one row of Table 4 is above another."""
    more = TABLE_4[first].score or (0, 0)
    less = TABLE_4[second].score or (0, 0)
    return round(more[0] - less[0], 1), round(more[1] - less[1], 1)


def choose(rows: str, ml_only: bool) -> list[Ablation]:
    """The rows of Table 4 asked for, as ``1,5,9``, after row 0; all of them for nothing.

    After maximum likelihood alone the full network is row 2, the one without reattention row 3, and
    4 is none.
    """
    last = len(TABLE_4) - 1
    numbers = {0}
    for part in rows.split(","):
        text = part.strip()
        if not text:
            continue
        if text not in {str(row.number) for row in TABLE_4}:
            raise UserError(f"--rows {rows}: there is no row {text!r}; the rows are 0 to {last}.")
        numbers.add(int(text))
    if not rows.strip(" ,"):
        numbers = set(range(len(TABLE_4)))
    if ml_only:
        same = {0: 2, 1: 3}
        numbers = {same.get(number, number) for number in numbers if number != 4}
    return [row for row in TABLE_4 if row.number in numbers]
