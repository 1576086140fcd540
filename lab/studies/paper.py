"""What the paper printed, from ``paper.yaml``, to show ours beside it: a score is EM and F1 in
percent."""

from importlib.resources import files
from typing import Any, NamedTuple

import yaml

from rmreader.core.errors import UserError

Score = tuple[float, float]
Published = tuple[
    str, Score | None, Score | None
]  # a row of Table 2 or 3; None where the paper has a dash


class Ablation(NamedTuple):
    """A row of Table 4: overrides of the recipe, and the objective of the second stage, empty
    where there is none."""

    number: int
    name: str
    network: str
    second: str
    score: Score | None

    @property
    def first(self) -> str:
        """Name of its first stage's trainings: what is changed in the network."""
        return (
            "-".join(word.partition(".")[2].replace("=", "-") for word in self.network.split())
            or "full"
        )

    @property
    def slug(self) -> str:
        """Name of its trainings: how they continue after maximum likelihood, and what is changed."""
        return f"{self.second}-{self.first}" if self.second else self.first


_PRINTED: dict[str, Any] = yaml.safe_load(
    (files("lab.studies") / "paper.yaml").read_text(encoding="utf-8")
)
TABLE_1: list[tuple[str, int, int, str]] = _PRINTED["table_1"]
SINGLE, ENSEMBLE, HUMAN, TABLE_3 = (
    _PRINTED[key] for key in ("single", "ensemble", "human", "table_3")
)
TABLE_4, ROUNDS = ([Ablation(*row) for row in _PRINTED[key]] for key in ("table_4", "rounds"))
MORE_ML = Ablation(*_PRINTED["more_ml"])
TABLE_5: dict[str, tuple[Score, Score]] = _PRINTED["table_5"]


def gain(first: int, second: int) -> Score:
    """EM and F1 by which one row of Table 4 is above another."""
    one, other = TABLE_4[first].score or (0, 0), TABLE_4[second].score or (0, 0)
    return round(one[0] - other[0], 1), round(one[1] - other[1], 1)


def choose(rows: str, ml_only: bool) -> list[Ablation]:
    """The rows of Table 4 asked for, as ``1,5,9``, after the one they are compared with; all of
    them for nothing.

    After maximum likelihood alone the full network is row 2, the one without reattention row 3, and
    4 is none.
    """
    parts = [part.strip() for part in rows.split(",") if part.strip()] or [
        str(row.number) for row in TABLE_4
    ]
    if wrong := [part for part in parts if part not in {str(row.number) for row in TABLE_4}]:
        raise UserError(
            f"--rows {rows}: there is no row {wrong[0]!r}; the rows are 0 to {len(TABLE_4) - 1}."
        )
    numbers = {0, *map(int, parts)}
    if ml_only:
        numbers = {{0: 2, 1: 3}.get(number, number) for number in numbers} - {4}
    return [row for row in TABLE_4 if row.number in numbers]
