"""Table 5: how redundant and how deficient the attentions are, without and with reattention, as KL divergences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rmreader.config import Recipe
from rmreader.console import progress
from rmreader.data.encode import encode_file
from rmreader.data.encoded import Encoded
from rmreader.errors import UserError
from rmreader.files import file_sha256
from rmreader.learning.evaluate import in_order
from rmreader.learning.feed import Feed
from rmreader.learning.readerfolder import load_network
from rmreader.learning.text_inputs import TextInputs
from rmreader.model.network import Network
from rmreader.scoring.attention import deficiency, redundancy, spread
from rmreader.studies.kept import Line, commit, keep
from rmreader.studies.paper import TABLE_5
from rmreader.studies.readers import reader_folder
from rmreader.studies.report import DASH, Report, report

Values = dict[str, NDArray[np.float64]]
"""By row of the table: [readers, examples]."""


def study_attention(
    data: Path,
    without: Sequence[str],
    with_: Sequence[str],
    device: torch.device,
    limit: int = 0,
    keep_to: Path | None = None,
) -> Report:
    """Table 5 on the questions of a file (the first ``limit`` of them, where given), from two lists of readers."""
    encoded = encode_file(data)
    if limit:
        encoded = encoded.subset(np.arange(min(limit, len(encoded))))
    if not in_order(encoded, 1):
        raise UserError(f"{data}: has no questions that can be read, to compare attentions on; give other data.")
    setting = f"{data.name} {file_sha256(data)[:10]}, {len(encoded):,} questions"
    shared = {"kind": "attention", "study": "attention", "setting": setting}
    lines: list[Line] = []
    for kind, names in (("without", without), ("with", with_)):
        if names:
            values, seeds = divergences(names, encoded, device, kind == "with")
            rows = {}
            for name, each in values.items():
                over = spread(each.mean(axis=0))  # over questions, each the mean of its readers
                rows[name] = {"mean": over.mean, "deviation": over.deviation, "readers": each.mean(axis=1).tolist()}
            about = {**shared, "row": kind, "readers": [_label(name) for name in names], "seeds": seeds}
            lines.append({**about, "commit": commit(), "questions": len(encoded), "rows": rows})
    keep(keep_to, lines)
    return attention_table(lines)


def _label(name: str) -> str:
    """A reader without the place of its folder on this machine."""
    parts = [part for part in Path(name).parts if part != "best"]
    return "/".join(parts[-2:])


def attention_table(lines: Sequence[Line]) -> Report:
    """The table from kept lines, one for each ensemble; of several of a kind the mean, and their spread."""
    kinds = {kind: [line for line in lines if line["row"] == kind] for kind in ("without", "with")}
    names = dict.fromkeys([*TABLE_5, *(name for line in lines for name in line["rows"])])
    rows: list[tuple[str, ...]] = []
    data: dict[str, Any] = {
        "questions": max((line["questions"] for line in lines), default=0),
        "readers": {kind: [name for line in found for name in line["readers"]] for kind, found in kinds.items()},
        "rows": {name: {} for name in names},
    }
    for name in names:
        cells = []
        for kind, found in kinds.items():
            values = [line["rows"][name] for line in found if name in line["rows"]]
            cells.append(DASH)
            if values:
                mean, deviation = (float(np.mean([one[key] for one in values])) for key in ("mean", "deviation"))
                apart = f" (ensembles ± {np.std([v['mean'] for v in values], ddof=1):.3f})" if len(values) > 1 else ""
                cells[-1] = f"{mean:.3f} ± {deviation:.3f}{apart}"
                readers = [value for one in values for value in one["readers"]]
                data["rows"][name][kind] = {"mean": mean, "deviation": deviation, "readers": readers}
        printed = (f"{m:.3f} ± {d:.3f}" for m, d in TABLE_5[name]) if name in TABLE_5 else (DASH, DASH)
        rows.append((name, *cells, *printed))
    return report("attention", rows, data, questions=f"{data['questions']:,}")


@torch.no_grad()
def divergences(
    readers: Sequence[str], encoded: Encoded, device: torch.device, reattention: bool, batch_size: int = 32
) -> tuple[Values, list[int]]:
    """Redundancy of each reader, and deficiency of each against the mean of all, on every question; and their seeds."""
    opened = [open_network(name, encoded, device) for name in readers]
    for name, (_, _, recipe) in zip(readers, opened, strict=True):
        if recipe.network.reattention != reattention:
            kind = "with" if reattention else "without"
            raise UserError(f"{name}: listed as a reader {kind} reattention, but its recipe says otherwise; swap it.")
    found: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
    what = f"attention {'with' if reattention else 'without'} reattention"
    with progress(what, total=len(encoded), unit="questions") as advance:
        streams = [feed.batches(in_order(encoded, batch_size)) for _, feed, _ in opened]
        for batches in zip(*streams, strict=True):
            index = batches[0][0]
            members = [
                [
                    (made.E.float().cpu().numpy(), made.B.float().cpu().numpy())
                    for made in network(feed.fill(batch), keep_attention=True).rounds
                ]
                for (network, feed, _), (_, batch) in zip(opened, batches, strict=True)
            ]
            for name, values in _of_batch(members, encoded.question_lengths[index], encoded.context_lengths[index]):
                found[name].append(values)
            advance(len(index))
    seeds = [recipe.training.seed for _, _, recipe in opened]
    return {name: np.concatenate(parts, axis=1) for name, parts in found.items()}, seeds


def _of_batch(
    members: Sequence[Sequence[tuple[Any, Any]]], questions: NDArray[np.int32], contexts: NDArray[np.int32]
) -> list[tuple[str, NDArray[np.float64]]]:
    """(row of the table, [readers, examples]) for one batch; ``members`` hold (E, B) of every round."""
    shared = min(len(rounds) for rounds in members)  # rounds that every reader has
    found: list[tuple[str, NDArray[np.float64]]] = []
    for k, (letter, rows) in enumerate((("E", questions), ("B", contexts))):
        each = [redundancy([made[k] for made in rounds[:shared]], rows, contexts) for rounds in members]
        names = [f"{letter}{t} to {letter}{t + 1}" for t in range(1, shared)]
        found += zip(names, map(np.stack, zip(*each, strict=True)), strict=True)
    if len(members) > 1:
        for t in range(1, shared):
            lacking = deficiency([rounds[t][0] for rounds in members], questions, contexts)
            found.append((f"E{t + 1} to E{t + 1}*", np.stack(lacking)))
    return found


def open_network(name_or_path: str | Path, encoded: Encoded, device: torch.device) -> tuple[Network, Feed, Recipe]:
    """A reader's network, the data as it reads them, and its recipe."""
    folder = reader_folder(name_or_path)
    network, lexicon, recipe = load_network(folder, device)
    text_inputs = TextInputs(recipe.inputs, device, reader=folder)
    return network.eval(), Feed(encoded, lexicon, device, text_inputs=text_inputs), recipe
