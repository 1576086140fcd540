"""Curves of a study's trainings: selection and dev F1, rewards, and how much was suppressed, by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Curve = dict[str, list[tuple[int, float]]]
"""By name of the measure: (step, value)."""

MEASURES = ("reward_sample", "reward_greedy", "suppressed", "sample_better", "sigma_a", "sigma_b", "loss")


def read(events: Sequence[Mapping[str, Any]]) -> Curve:
    """The curves in a run's evaluations."""
    found: Curve = {}
    for event in events:
        values = {f"{data} F1": score["f1"] for data, score in event.get("scores", {}).items()}
        values |= {f"{data} EM": score["exact_match"] for data, score in event.get("scores", {}).items()}
        values |= {name: event[name] for name in MEASURES if name in event}
        for name, value in values.items():
            found.setdefault(name, []).append((int(event["step"]), float(value)))
    return found


PANELS = (
    ("selection F1", {"selection F1": "-"}),
    ("dev F1", {"dev F1": "-"}),
    ("mean reward (greedy: line, sample: dashes)", {"reward_greedy": "-", "reward_sample": "--"}),
    ("share of questions with a suppressed true position", {"suppressed": "-"}),
)


def draw(groups: Mapping[str, Sequence[Curve]], starts: Mapping[str, float], out: Path) -> list[Path]:
    """Draw ``curves.png`` and ``curves.svg``: a line a group, the mean of its curves, in a band from least to most.

    ``starts`` are the values at step 0, where they are known.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = [
        panel for panel in PANELS if any(name in curve for g in groups.values() for curve in g for name in panel[1])
    ]
    figure, axes = pyplot.subplots(1, max(1, len(panels)), figsize=(5 * max(1, len(panels)), 3.8), squeeze=False)
    for axis, (title, lines) in zip(axes[0], panels, strict=False):
        for colour, (group, found) in enumerate(groups.items()):
            for name, style in lines.items():
                steps, values = together([curve[name] for curve in found if name in curve])
                if not len(steps):
                    continue
                if name in starts:
                    steps = np.concatenate([[0], steps])
                    values = np.concatenate([np.full((len(values), 1), starts[name]), values], axis=1)
                label = group if style == "-" else None
                axis.plot(steps, values.mean(0), style, color=f"C{colour}", label=label, marker=".")
                if len(values) > 1:
                    axis.fill_between(steps, values.min(0), values.max(0), color=f"C{colour}", alpha=0.15, linewidth=0)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("step")
        axis.grid(alpha=0.25)
        axis.legend(fontsize=8)
    figure.tight_layout()
    out.mkdir(parents=True, exist_ok=True)
    files = [out / "curves.png", out / "curves.svg"]
    for path in files:
        figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return files


def together(curves: Sequence[Sequence[tuple[int, float]]]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The steps that all curves have, and their values there [curves, steps]."""
    if not curves:
        return np.empty(0, int), np.empty((0, 0))
    shared = sorted(set.intersection(*({step for step, _ in curve} for curve in curves)))
    return np.array(shared), np.array([[dict(curve)[step] for step in shared] for curve in curves])
