"""How far a run has come."""

from dataclasses import dataclass, field
from typing import Any

from rmreader.training.schedule import Selection


@dataclass
class State:
    """How far a run has come; with the learner's tensors, all that a checkpoint holds."""

    step: int = 0
    """Steps done."""
    evaluated: int = 0
    """The step of the last evaluation."""
    selection: Selection = field(default_factory=Selection)
    selected: dict[str, dict[str, float]] = field(default_factory=dict)
    """Scores of the reader in ``best``."""
    bad: int = 0
    """Steps skipped because loss or gradient was not finite."""
    counted: int = 0
    """Good steps since the last evaluation."""
    sums: dict[str, float] = field(default_factory=dict)
    """Of every measure over those steps: rewards, entropies, losses."""
    unlogged: int = 0
    """Good steps since the last line of the log."""
    unlogged_sums: dict[str, float] = field(default_factory=dict)
    """Of every measure over those steps."""
    ended: bool = False
    """Nothing is left to learn: all steps done, or stopped early."""

    @staticmethod
    def from_tree(tree: dict[str, Any]) -> "State":
        """What a checkpoint holds; ``dataclasses.asdict`` is the inverse."""
        return State(**{**tree, "selection": Selection(**tree["selection"])})

    def count(self, measures: dict[str, float]) -> None:
        """Add the measures of a good step."""
        self.counted += 1
        self.unlogged += 1
        for name, value in measures.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
            self.unlogged_sums[name] = self.unlogged_sums.get(name, 0.0) + value

    def logged(self) -> dict[str, int]:
        """By event, the last step whose event is past; a resumed run lives through later ones
        again."""
        return {
            "train": self.step,
            "evaluation": self.evaluated,
            "bad": self.step - 1,
            "end": self.step if self.ended else -1,
        }
