"""Every drawing of the studies, by matplotlib (the extra ``lab``), which is imported here alone
and when needed."""

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.studies.significance import summary
from rmreader.core.errors import printable

Curve = Mapping[str, Sequence[Sequence[float]]]  # by name of the measure: (step, value)
Bars = dict[str, dict[str, tuple[float, float]]]  # by side and row: a mean and its spread
_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "rmreader",
    "text.parse_math": False,
    "font.size": 9,
}


@contextmanager
def _drawing(
    file: io.BytesIO, size: tuple[float, float], kind: str = "svg", **more: Any
) -> Iterator[Any]:
    """Axes that become a file, the same bytes for the same drawing; words are left to the
    viewer's fonts."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with (
        warnings.catch_warnings(),
        matplotlib.rc_context({**_SETTINGS, "axes.grid": True, "grid.alpha": 0.25}),
    ):
        warnings.filterwarnings("ignore", message=".*[Gg]lyph")
        figure, axes = pyplot.subplots(figsize=size, squeeze=False, layout="constrained", **more)
        yield axes.ravel()
        figure.savefig(
            file, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None
        )
        pyplot.close(figure)


def heatmap(
    values: NDArray[Any], rows: Sequence[str], columns: Sequence[str], title: str, signed: bool
) -> bytes:
    """A matrix between two lists of words; white to blue for 0 to the largest, or red for less
    and blue for more."""
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    cell = 0.18 if values.size <= 8000 else 0.14  # inches
    width, height = (
        cell * len(words) + 0.07 * max(map(len, words)) + 1 for words in (columns, rows)
    )
    with _drawing(file := io.BytesIO(), (width, height)) as (axis,):
        axis.grid(visible=False)
        colours, least = ("RdBu", -largest) if signed else ("Blues", 0)
        axis.imshow(values, cmap=colours, vmin=least, vmax=largest, interpolation="none")
        axis.set_xticks(
            range(len(columns)), [visible(word) for word in columns], rotation=90, fontsize=8
        )
        axis.set_yticks(range(len(rows)), [visible(word) for word in rows], fontsize=8)
        axis.xaxis.tick_top()
        axis.tick_params(length=0)
        axis.set_title(f"{title} (the darkest is {largest:.3g})", loc="left", fontsize=10)
    return file.getvalue()


def curves(
    groups: Mapping[str, Sequence[Curve]], panels: Mapping[str, Sequence[str]], kind: str = "svg"
) -> bytes:
    """Curves of trainings: a line per group, the mean of its curves, in a band from least to most.

    A panel shows the measures named, the second one dashed; one that nothing is known of is left
    out.
    """
    known = {name for found in groups.values() for curve in found for name in curve}
    panels = {title: names for title, names in panels.items() if known & {*names}} or {"": []}
    with _drawing(file := io.BytesIO(), (5 * len(panels), 3.8), kind, ncols=len(panels)) as axes:
        for axis, (title, names) in zip(axes, panels.items(), strict=True):
            for k, (group, found) in enumerate(groups.items()):
                for name, style in zip(names, ("-", "--"), strict=False):
                    steps, values = together([curve[name] for curve in found if name in curve])
                    if len(steps):
                        label = group if style == "-" else None
                        axis.plot(
                            steps, values.mean(0), style, color=f"C{k}", label=label, marker="."
                        )
                        axis.fill_between(
                            steps,
                            values.min(0),
                            values.max(0),
                            color=f"C{k}",
                            alpha=0.15,
                            linewidth=0,
                        )
            axis.set(title=title, xlabel="step")
            if axis.lines:
                axis.legend(fontsize=8)
    return file.getvalue()


def reattention(lines: Sequence[Mapping[str, Any]]) -> bytes:
    """γ of every reader, and how much γẼ differs within a column beside the logits."""
    with _drawing(file := io.BytesIO(), (9, 3.6), ncols=2) as (left, right):
        names = [visible(Path(line["row"]).name) for line in lines]
        for matrix in lines[0]["gammas"]:
            values = [line["gammas"].get(matrix) for line in lines]
            left.plot(names, values, marker="o", label=f"γ of {matrix}")
        left.axhline(0, color="black", linewidth=0.8)
        left.axhline(3, color="black", linewidth=0.8, linestyle=":")
        left.set_title("γ after training; it starts at 3", fontsize=9)
        left.tick_params(axis="x", rotation=30)
        left.legend(fontsize=8)

        last = lines[-1]
        matrices = list(last["sizes"])
        places = np.arange(len(matrices))
        logits = [last["sizes"][name]["logits"] for name in matrices]
        added = [last["sizes"][name]["added"] for name in matrices]
        right.bar(places - 0.2, logits, 0.4, label="logits")
        right.bar(places + 0.2, added, 0.4, label="γ · overlap")
        right.set_yscale("log")
        right.yaxis.set_major_formatter("{x:g}")
        right.set_xticks(places, matrices)
        right.set_title(f"range within a column, {names[-1]}", fontsize=9)
        right.legend(fontsize=8, loc="lower right")
    return file.getvalue()


def together(found: Sequence[Sequence[Sequence[float]]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The steps that all curves have, and their values there [curves, steps]."""
    tables = [{int(step): value for step, value in curve} for curve in found]
    shared = sorted(set.intersection(*map(set, tables))) if tables else []
    return np.array(shared), np.array([[table[step] for step in shared] for table in tables])


def known(records: Sequence[Mapping[str, Any]], sides: Mapping[str, str]) -> Bars:
    """What of the records can be drawn as bars: by side, each with the key of its values."""
    found: Bars = {side: {} for side in sides}
    for record, (side, key) in product(records, sides.items()):
        value = record.get(key)
        value = (
            value
            if isinstance(value, Mapping)
            else summary([value] if isinstance(value, float) else value or [])
        )
        if value["mean"] is not None:
            found[side][visible(record["name"])] = value["mean"], value["spread"] or 0.0
    return {side: values for side, values in found.items() if values}


def bars(label: str, sides: Bars) -> bytes:
    """Means with their spread as bars, those of a row together."""
    rows = list(dict.fromkeys(row for values in sides.values() for row in values))
    with _drawing(file := io.BytesIO(), (8, 1 + 0.16 * len(rows) * (len(sides) + 1))) as (axis,):
        for number, (side, values) in enumerate(sides.items()):
            where = [rows.index(row) + 0.8 * ((number + 0.5) / len(sides) - 0.5) for row in values]
            means, spreads = zip(*values.values(), strict=True)
            axis.barh(
                where, means, 0.7 / len(sides), xerr=spreads, label=side, error_kw={"linewidth": 1}
            )
        axis.set(xlabel=label, yticks=range(len(rows)), yticklabels=rows)
        axis.invert_yaxis()
        axis.grid(visible=False, axis="y")
        axis.legend(fontsize=8)
    return file.getvalue()


def reliability(title: str, stages: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Accuracy against confidence before and after a temperature, and how often each is given,
    as a PNG file."""
    shape = {"nrows": 2, "sharex": True, "height_ratios": (3, 1)}
    with _drawing(file := io.BytesIO(), (5.2, 5.8), "png", **shape) as (plot, counts):
        plot.plot(
            [0, 1], [0, 1], color="grey", linestyle=":", linewidth=1, label="as sure as right"
        )
        for (stage, one), colour, marker in zip(
            stages.items(), ("C1", "C0"), ("s", "o"), strict=True
        ):
            bins = [(each["confidence"], each["accuracy"]) for each in one["bins"] if each["count"]]
            label = f"{stage}, T = {one['temperature']:.2f}: error {one['expected_calibration_error']:.3f}"
            plot.plot(
                *zip(*bins, strict=True), color=colour, marker=marker, markersize=5, label=label
            )
            edges = [0, *(each["high"] for each in one["bins"])]
            counts.stairs(
                [each["count"] for each in one["bins"]], edges, color=colour, linewidth=1.5
            )
        plot.set(title=title, ylabel="mean F1", xlim=(0, 1), ylim=(0, 1))
        plot.legend(loc="upper left")
        counts.set(xlabel="confidence", ylabel="questions")
    return file.getvalue()


def visible(value: Any) -> Any:
    """A text with U+FFFD for lone surrogates and control characters, which no XML file may hold."""
    if not isinstance(value, str):
        return value
    return printable(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
