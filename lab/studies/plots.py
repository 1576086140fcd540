"""Every drawing of the studies, by matplotlib (the extra ``lab``), imported here alone."""

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.studies.significance import summary
from rmreader.core.errors import printable

Curve = Mapping[str, Sequence[Sequence[float]]]  # by name of the measure: (step, value)
Bars = dict[str, dict[str, tuple[float, float]]]  # by side and row: a mean and its spread

# The same drawing is the same bytes, and words are left to the viewer's fonts.
_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "rmreader",
    "text.parse_math": False,
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.25,
}


@contextmanager
def _drawing(
    file: io.BytesIO, size: tuple[float, float], kind: str = "svg", **more: Any
) -> Iterator[Any]:
    """Give axes to draw on, and write them into a file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with warnings.catch_warnings(), matplotlib.rc_context(_SETTINGS):
        warnings.filterwarnings("ignore", message=".*[Gg]lyph")
        figure, axes = pyplot.subplots(
            figsize=size,
            squeeze=False,
            layout="constrained",
            **more,
        )
        yield axes.ravel()
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(
            file,
            format=kind,
            dpi=150,
            metadata=metadata,
        )
        pyplot.close(figure)


def heatmap(
    values: NDArray[Any],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    signed: bool,
) -> bytes:
    """A matrix between two lists of words.

    White to blue is 0 to the largest; a ``signed`` one has red for less and blue for more.
    """
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    cell = 0.18 if values.size <= 8000 else 0.14  # inches
    file = io.BytesIO()
    size = (_inches(columns, cell), _inches(rows, cell))
    with _drawing(file, size) as (axis,):
        axis.grid(visible=False)
        axis.imshow(
            values,
            cmap="RdBu" if signed else "Blues",
            vmin=-largest if signed else 0,
            vmax=largest,
            interpolation="none",
        )
        labels = [visible(word) for word in columns]
        axis.set_xticks(
            range(len(columns)),
            labels,
            rotation=90,
            fontsize=8,
        )
        labels = [visible(word) for word in rows]
        axis.set_yticks(range(len(rows)), labels, fontsize=8)
        axis.xaxis.tick_top()
        axis.tick_params(length=0)
        axis.set_title(f"{title} (the darkest is {largest:.3g})", loc="left", fontsize=10)
    return file.getvalue()


def _inches(words: Sequence[str], cell: float) -> float:
    """The size of a side with these words: a cell for each, and room for the longest."""
    return cell * len(words) + 0.07 * max(map(len, words)) + 1


def curves(
    groups: Mapping[str, Sequence[Curve]],
    panels: Mapping[str, Sequence[str]],
    kind: str = "svg",
) -> bytes:
    """Curves of trainings: a line per group, the mean of its curves, in a band from least to most.

    A panel shows the measures named, the second one dashed; one that nothing is known of is left
    out.
    """
    measured: set[str] = set()
    for members in groups.values():
        for curve in members:
            measured.update(curve)
    drawn = {title: names for title, names in panels.items() if measured.intersection(names)}
    if not drawn:
        drawn = {"": []}

    file = io.BytesIO()
    with _drawing(
        file,
        (5 * len(drawn), 3.8),
        kind,
        ncols=len(drawn),
    ) as axes:
        for axis, (title, names) in zip(axes, drawn.items(), strict=True):
            _draw_panel(axis, groups, names)
            axis.set(title=title, xlabel="step")
            if axis.lines:
                axis.legend(fontsize=8)
    return file.getvalue()


def _draw_panel(axis: Any, groups: Mapping[str, Sequence[Curve]], names: Sequence[str]) -> None:
    """Draw each group's mean and band, in a colour of its own."""
    for k, (group, members) in enumerate(groups.items()):
        for name, style in zip(names, ("-", "--"), strict=False):
            steps, values = together([curve[name] for curve in members if name in curve])
            if not len(steps):
                continue
            axis.plot(
                steps,
                values.mean(0),
                style,
                color=f"C{k}",
                label=group if style == "-" else None,
                marker=".",
            )
            axis.fill_between(
                steps,
                values.min(0),
                values.max(0),
                color=f"C{k}",
                alpha=0.15,
                linewidth=0,
            )


def reattention(lines: Sequence[Mapping[str, Any]]) -> bytes:
    """γ of every reader, and how much γẼ differs within a column beside the logits."""
    file = io.BytesIO()
    names = [visible(Path(line["row"]).name) for line in lines]
    with _drawing(file, (9, 3.6), ncols=2) as (left, right):
        for matrix in lines[0]["gammas"]:
            values = [line["gammas"].get(matrix) for line in lines]
            left.plot(
                names,
                values,
                marker="o",
                label=f"γ of {matrix}",
            )
        left.axhline(0, color="black", linewidth=0.8)
        left.axhline(
            3,
            color="black",
            linewidth=0.8,
            linestyle=":",
        )
        left.set_title("γ after training; it starts at 3", fontsize=9)
        left.tick_params(axis="x", rotation=30)
        left.legend(fontsize=8)

        sizes = lines[-1]["sizes"]
        places = np.arange(len(sizes))
        logits = [size["logits"] for size in sizes.values()]
        added = [size["added"] for size in sizes.values()]
        right.bar(
            places - 0.2,
            logits,
            0.4,
            label="logits",
        )
        right.bar(
            places + 0.2,
            added,
            0.4,
            label="γ · overlap",
        )
        right.set_yscale("log")
        right.yaxis.set_major_formatter("{x:g}")
        right.set_xticks(places, list(sizes))
        right.set_title(f"range within a column, {names[-1]}", fontsize=9)
        right.legend(fontsize=8, loc="lower right")
    return file.getvalue()


def together(curves: Sequence[Sequence[Sequence[float]]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The steps that all curves have, and their values there [curves, steps]."""
    tables = [{int(step): value for step, value in curve} for curve in curves]
    shared: list[int] = []
    if tables:
        shared = sorted(set.intersection(*map(set, tables)))
    values = [[table[step] for step in shared] for table in tables]
    return np.array(shared), np.array(values)


def known(records: Sequence[Mapping[str, Any]], sides: Mapping[str, str]) -> Bars:
    """What of the records can be drawn as bars: by side, each with the key of its values."""
    bars: Bars = {side: {} for side in sides}
    for record in records:
        for side, key in sides.items():
            value = _as_summary(record.get(key))
            if value["mean"] is not None:
                spread = value["spread"] or 0.0
                bars[side][visible(record["name"])] = (value["mean"], spread)
    return {side: values for side, values in bars.items() if values}


def _as_summary(value: Any) -> Mapping[str, Any]:
    """A number, several, none or a summary, as a summary."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, float):
        return summary([value])
    return summary(value or [])


def bars(label: str, sides: Bars) -> bytes:
    """Means with their spread as bars, those of a row together."""
    rows = list(dict.fromkeys(row for values in sides.values() for row in values))
    height = 1 + 0.16 * len(rows) * (len(sides) + 1)
    file = io.BytesIO()
    with _drawing(file, (8, height)) as (axis,):
        for number, (side, values) in enumerate(sides.items()):
            # A row is 1 high, and its bars share 0.8 of that.
            shift = 0.8 * ((number + 0.5) / len(sides) - 0.5)
            axis.barh(
                [rows.index(row) + shift for row in values],
                [mean for mean, _ in values.values()],
                0.7 / len(sides),
                xerr=[spread for _, spread in values.values()],
                label=side,
                error_kw={"linewidth": 1},
            )
        axis.set(xlabel=label, yticks=range(len(rows)), yticklabels=rows)
        axis.invert_yaxis()
        axis.grid(visible=False, axis="y")
        axis.legend(fontsize=8)
    return file.getvalue()


def reliability(title: str, stages: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Accuracy against confidence before and after a temperature, and how often each is given.

    A PNG file.
    """
    file = io.BytesIO()
    shape = {
        "nrows": 2,
        "sharex": True,
        "height_ratios": (3, 1),
    }
    with _drawing(
        file,
        (5.2, 5.8),
        "png",
        **shape,
    ) as (plot, counts):
        plot.plot(
            [0, 1], [0, 1], color="grey", linestyle=":", linewidth=1, label="as sure as right"
        )
        styles = {"before": ("C1", "s"), "after": ("C0", "o")}
        for stage, about in stages.items():
            colour, marker = styles[stage]
            bins = about["bins"]
            given = [each for each in bins if each["count"]]
            error = about["expected_calibration_error"]
            plot.plot(
                [each["confidence"] for each in given],
                [each["accuracy"] for each in given],
                color=colour,
                marker=marker,
                markersize=5,
                label=f"{stage}, T = {about['temperature']:.2f}: error {error:.3f}",
            )
            counts.stairs(
                [each["count"] for each in bins],
                [0, *(each["high"] for each in bins)],
                color=colour,
                linewidth=1.5,
            )
        plot.set(
            title=title,
            ylabel="mean F1",
            xlim=(0, 1),
            ylim=(0, 1),
        )
        plot.legend(loc="upper left")
        counts.set(xlabel="confidence", ylabel="questions")
    return file.getvalue()


def visible(value: Any) -> Any:
    """A text with U+FFFD for lone surrogates and control characters, which no XML file may hold."""
    if not isinstance(value, str):
        return value
    return printable(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
