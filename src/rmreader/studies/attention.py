"""Table 5: how redundant and how deficient the attentions are, without and with reattention, as KL divergences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rmreader.console import progress
from rmreader.data.encode import encode_file
from rmreader.data.encoded import Encoded
from rmreader.errors import UserError
from rmreader.learning.evaluate import in_order
from rmreader.learning.feed import Feed
from rmreader.model.network import Network, Round
from rmreader.scoring.attention import deficiency, redundancy, spread
from rmreader.studies.paper import TABLE_5
from rmreader.studies.readers import open_reader
from rmreader.studies.report import DASH, Report

Values = dict[str, NDArray[np.float64]]
"""By row of the table: [readers, examples]."""


def study_attention(
    data: Path, without: Sequence[str], with_: Sequence[str], device: torch.device, limit: int = 0
) -> Report:
    """Table 5 on the questions of a file (the first ``limit`` of them, where given), from two lists of readers."""
    encoded = encode_file(data)
    if limit:
        encoded = encoded.subset(np.arange(min(limit, len(encoded))))
    if not in_order(encoded, 1):
        raise UserError(f"{data}: has no questions that can be read, to compare attentions on; give other data.")
    lists = {"without": list(without), "with": list(with_)}
    found = {
        name: divergences(readers, encoded, device, name == "with") if readers else {}
        for name, readers in lists.items()
    }
    names = list(TABLE_5) + [name for values in found.values() for name in values if name not in TABLE_5]
    rows: list[tuple[str, ...]] = []
    result: dict[str, Any] = {"questions": len(encoded), "readers": lists, "rows": {}}
    for name in dict.fromkeys(names):
        cells, kept = [], {}
        for kind, values in found.items():
            if name not in values:
                cells.append(DASH)
                continue
            over = spread(values[name].mean(axis=0))
            cells.append(f"{over.mean:.3f} ± {over.deviation:.3f}")
            kept[kind] = {"mean": over.mean, "deviation": over.deviation, "readers": values[name].mean(axis=1).tolist()}
        printed = (f"{m:.3f} ± {d:.3f}" for m, d in TABLE_5[name]) if name in TABLE_5 else (DASH, DASH)
        rows.append((name, *cells, *printed))
        result["rows"][name] = kept
    return Report(
        name="attention",
        title="Table 5: KL divergences of attentions",
        header=("KL divergence", "− reattention", "+ reattention", "paper −", "paper +"),
        rows=rows,
        data=result,
        notes=[
            "X1 to X2 is D(softmax(X1) ‖ softmax(X2)) of adjacent blocks, higher is less redundant; E2 to E2* is "
            "D(mean attention of the list's readers ‖ a reader's), lower is less deficient, and needs two readers.",
            f"The mean over a passage's words and over the readers of a list; ± its standard deviation over "
            f"{len(encoded):,} questions.",
        ],
    )


@torch.no_grad()
def divergences(
    readers: Sequence[str], encoded: Encoded, device: torch.device, reattention: bool, batch_size: int = 32
) -> Values:
    """Redundancy of each reader, and deficiency of each against the mean of all, on every question."""
    opened: list[tuple[Network, Feed]] = []
    for name in readers:
        network, feed, recipe = open_reader(name, encoded, device)
        if recipe.network.reattention != reattention:
            kind = "with" if reattention else "without"
            raise UserError(f"{name}: listed as a reader {kind} reattention, but its recipe says otherwise; swap it.")
        opened.append((network, feed))
    found: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
    what = f"attention {'with' if reattention else 'without'} reattention"
    with progress(what, total=len(encoded), unit="questions") as advance:
        streams = [feed.batches(in_order(encoded, batch_size)) for _, feed in opened]
        for batches in zip(*streams, strict=True):
            index = batches[0][0]
            members = [
                [_numpy(made) for made in network(feed.fill(batch), keep_attention=True).rounds]
                for (network, feed), (_, batch) in zip(opened, batches, strict=True)
            ]
            for name, values in _of_batch(members, encoded.question_lengths[index], encoded.context_lengths[index]):
                found[name].append(values)
            advance(len(index))
    return {name: np.concatenate(parts, axis=1) for name, parts in found.items()}


def _of_batch(
    members: Sequence[Sequence[tuple[Any, Any]]], questions: NDArray[np.int32], contexts: NDArray[np.int32]
) -> list[tuple[str, NDArray[np.float64]]]:
    """(row of the table, [readers, examples]) for one batch; ``members`` hold (E, B) of every round."""
    shared = min(len(rounds) for rounds in members)  # rounds that every reader has
    E = [redundancy([E for E, _ in rounds[:shared]], questions, contexts) for rounds in members]
    B = [redundancy([B for _, B in rounds[:shared]], contexts, contexts) for rounds in members]
    found = [(f"E{t + 1} to E{t + 2}", np.stack([one[t] for one in E])) for t in range(shared - 1)]
    found += [(f"B{t + 1} to B{t + 2}", np.stack([one[t] for one in B])) for t in range(shared - 1)]
    if len(members) > 1:
        for t in range(1, shared):
            lacking = deficiency([rounds[t][0] for rounds in members], questions, contexts)
            found.append((f"E{t + 1} to E{t + 1}*", np.stack(lacking)))
    return found


def _numpy(made: Round) -> tuple[Any, Any]:
    return made.E.float().cpu().numpy(), made.B.float().cpu().numpy()
