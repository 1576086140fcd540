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
from rmreader.studies.readers import reader_folder
from rmreader.studies.report import Report
from rmreader.studies.tables import attention_table

Values = dict[str, NDArray[np.float64]]
"""By row of the table: [readers, examples]."""


def study_attention(
    data: Path,
    without: Sequence[str],
    with_: Sequence[str],
    device: torch.device,
    limit: int = 0,
    keep_to: Path | None = None,
    ensembles: int = 1,
) -> Report:
    """Table 5 on the questions of a file (the first ``limit`` of them, where given), from two lists of readers.

    Each list is divided into so many ``ensembles``, each with a line of its own.
    """
    encoded = encode_file(data)
    if limit:
        encoded = encoded.subset(np.arange(min(limit, len(encoded))))
    if not in_order(encoded, 1):
        raise UserError(f"{data}: has no questions that can be read, to compare attentions on; give other data.")
    setting = f"{data.name} {file_sha256(data)[:10]}, {len(encoded):,} questions"
    shared = {"kind": "attention", "study": "attention", "setting": setting, "questions": len(encoded)}
    lines: list[Line] = []
    for kind, names in (("without", without), ("with", with_)):
        for some in filter(None, (names[k::ensembles] for k in range(ensembles))):
            values, seeds = divergences(some, encoded, device, kind == "with")
            rows = {}
            for name, each in values.items():
                over = spread(each.mean(axis=0))  # over questions, each the mean of its readers
                rows[name] = {"mean": over.mean, "deviation": over.deviation, "readers": each.mean(axis=1).tolist()}
            labels = ["/".join([part for part in Path(name).parts if part != "best"][-2:]) for name in some]
            about = {"row": kind, "readers": labels, "seeds": seeds, "commit": commit()}  # no place on this machine
            lines.append({**shared, **about, "rows": rows})
    keep(keep_to, lines)
    return attention_table(lines)


@torch.no_grad()
def divergences(
    readers: Sequence[str], encoded: Encoded, device: torch.device, reattention: bool, batch_size: int = 32
) -> tuple[Values, list[int]]:
    """Redundancy of each reader, and deficiency of each against the mean of all, on every question; and their seeds."""
    opened = [open_network(name, encoded, device) for name in readers]
    kind = "with" if reattention else "without"
    for name, (_, _, recipe) in zip(readers, opened, strict=True):
        if recipe.network.reattention != reattention:
            raise UserError(f"{name}: listed as a reader {kind} reattention, but its recipe says otherwise; swap it.")
    found: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
    with progress(f"attention {kind} reattention", total=len(encoded), unit="questions") as advance:
        streams = [feed.batches(in_order(encoded, batch_size)) for _, feed, _ in opened]
        for batches in zip(*streams, strict=True):
            index = batches[0][0]
            members = []
            for (network, feed, _), (_, batch) in zip(opened, batches, strict=True):
                rounds = network(feed.fill(batch), keep_attention=True).rounds
                members.append([[X.float().cpu().numpy() for X in (made.E, made.B)] for made in rounds])
            for name, values in _of_batch(members, encoded.question_lengths[index], encoded.context_lengths[index]):
                found[name].append(values)
            advance(len(index))
    seeds = [recipe.training.seed for _, _, recipe in opened]
    return {name: np.concatenate(parts, axis=1) for name, parts in found.items()}, seeds


def _of_batch(
    members: Sequence[Sequence[Sequence[Any]]], questions: NDArray[np.int32], contexts: NDArray[np.int32]
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
