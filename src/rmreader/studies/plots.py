"""Every drawing of the studies, by matplotlib (the extra ``plots``), which is imported here alone and when needed."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.files import write_whole
from rmreader.studies.report import visible

Curve = Mapping[str, Sequence[Sequence[float]]]
"""By name of the measure: (step, value)."""
Bars = Mapping[str, Sequence[float]]
"""By row: a value and half the width of its error bar."""

_PANELS = (
    ("selection F1", {"selection F1": "-"}),
    ("dev F1", {"dev F1": "-"}),
    ("mean reward (greedy: line, sample: dashes)", {"reward_greedy": "-", "reward_sample": "--"}),
    ("share of questions with a suppressed true position", {"suppressed": "-"}),
)
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "rmreader", "text.parse_math": False, "font.size": 9}


@contextmanager
def drawing(rows: int = 1, columns: int = 1, size: tuple[float, float] = (6, 4), **more: Any) -> Iterator[Any]:
    """A figure and its axes [rows, columns], closed at the end; words of any script are left to the viewer's fonts."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with warnings.catch_warnings(), matplotlib.rc_context({**_SETTINGS, "axes.grid": True, "grid.alpha": 0.25}):
        warnings.filterwarnings("ignore", message=".*[Gg]lyph")
        figure, axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained", **more)
        yield figure, axes
        pyplot.close(figure)


def _file(figure: Any, kind: str, **more: Any) -> bytes:
    """The figure as a file, the same bytes for the same figure."""
    file = io.BytesIO()
    figure.savefig(file, format=kind, metadata={"Date": None} if kind == "svg" else None, **more)
    return file.getvalue()


def panel(content: bytes | None, name: str, fits: bool = True) -> str:
    """An SVG file inside a page; nothing of none."""
    source = base64.b64encode(content or b"").decode("ascii")
    image = f'<img alt="{name}" src="data:image/svg+xml;base64,{source}">'
    return f'<div class="{"panel fits" if fits else "panel"}" id="{name}">{image}</div>' if content else ""


def heatmap(values: NDArray[Any], rows: Sequence[str], columns: Sequence[str], title: str, signed: bool) -> bytes:
    """A matrix between two lists of words; white to blue for 0 to the largest, or red for less and blue for more."""
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    cell = 0.18 if values.size <= 8000 else 0.14  # inches
    sides = [cell * len(words) + 0.07 * max(map(len, words)) + 0.5 for words in (columns, rows)]
    with drawing(size=(sides[0] + 0.5, sides[1] + 0.5)) as (figure, axes):
        axis, colours = axes[0, 0], "RdBu" if signed else "Blues"
        axis.grid(visible=False)
        axis.imshow(values, cmap=colours, vmin=-largest if signed else 0, vmax=largest, interpolation="none")
        axis.set_xticks(range(len(columns)), [visible(word) for word in columns], rotation=90, fontsize=8)
        axis.set_yticks(range(len(rows)), [visible(word) for word in rows], fontsize=8)
        axis.xaxis.tick_top()
        axis.tick_params(length=0)
        axis.set_title(f"{title} (the darkest is {largest:.3g})", loc="left", fontsize=10)
        return _file(figure, "svg")


def curves(groups: Mapping[str, Sequence[Curve]], starts: Mapping[str, float]) -> tuple[bytes, bytes]:
    """Curves of trainings as PNG and SVG: a line per group, the mean of its curves, in a band from least to most.

    ``starts`` are the values at step 0, where they are known.
    """
    known = {name for found in groups.values() for curve in found for name in curve}
    panels = [one for one in _PANELS if known & one[1].keys()] or [_PANELS[0]]
    with drawing(1, len(panels), (5 * len(panels), 3.8)) as (figure, axes):
        for axis, (title, lines) in zip(axes[0], panels, strict=True):
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
                    axis.fill_between(steps, values.min(0), values.max(0), color=f"C{colour}", alpha=0.15, linewidth=0)
            axis.set(title=title, xlabel="step")
            if axis.lines:
                axis.legend(fontsize=8)
        return _file(figure, "png", dpi=150), _file(figure, "svg")


def together(found: Sequence[Sequence[Sequence[float]]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The steps that all curves have, and their values there [curves, steps]."""
    if not found:
        return np.empty(0, int), np.empty((0, 0))
    tables = [{int(step): value for step, value in curve} for curve in found]
    shared = sorted(set.intersection(*map(set, tables)))
    return np.array(shared), np.array([[table[step] for step in shared] for table in tables])


def bars(sides: Mapping[str, Bars], label: str) -> bytes | None:
    """Bars with their errors, those of one row together, as SVG; None of none."""
    sides = {name: values for name, values in sides.items() if values}
    rows = list(dict.fromkeys(row for values in sides.values() for row in values))
    if not rows:
        return None
    with drawing(size=(8, 1 + 0.16 * len(rows) * (len(sides) + 1))) as (figure, axes):
        axis = axes[0, 0]
        for number, (side, values) in enumerate(sides.items()):
            where = [rows.index(row) + 0.8 * ((number + 0.5) / len(sides) - 0.5) for row in values]
            middles, errors = zip(*values.values(), strict=True)
            axis.barh(where, middles, 0.7 / len(sides), xerr=errors, label=side, error_kw={"linewidth": 1})
        axis.set_yticks(range(len(rows)), [visible(row) for row in rows])
        axis.invert_yaxis()
        axis.set_xlabel(label)
        axis.grid(visible=False, axis="y")
        axis.legend(fontsize=8)
        return _file(figure, "svg")


def reliability(title: str, found: Mapping[str, Any], confidences: Mapping[str, NDArray[Any]], out: Path) -> Path:
    """Accuracy against confidence before and after a temperature, and how often each is given, as a PNG file."""
    with drawing(2, 1, (5.2, 5.8), sharex=True, height_ratios=(3, 1)) as (figure, axes):
        plot, counts = axes[:, 0]
        plot.plot([0, 1], [0, 1], color="grey", linestyle=":", linewidth=1, label="as sure as right")
        for (stage, sure), colour, marker in zip(confidences.items(), ("C1", "C0"), ("s", "o"), strict=True):
            one = found[stage]
            bins = [(each["confidence"], each["accuracy"]) for each in one["bins"] if each["count"]]
            label = f"{stage}, T = {one['temperature']:.2f}: error {one['expected_calibration_error']:.3f}"
            plot.plot(*zip(*bins, strict=True), color=colour, marker=marker, markersize=5, label=label)
            counts.hist(sure, bins=np.linspace(0, 1, 11).tolist(), histtype="step", color=colour, linewidth=1.5)
        plot.set(title=title, ylabel="mean F1", xlim=(0, 1), ylim=(0, 1))
        plot.legend(loc="upper left")
        counts.set(xlabel="confidence", ylabel="questions")
        write_whole(out, _file(figure, "png", dpi=120))
    return out
