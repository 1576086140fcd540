"""Figures 2 and 4: the attentions of every round for one question, and how reattention moved them.

What reattention did is the difference between the attention as it is and the one the same block would have had without
the term γẼ of Eq. 4 (γB̃ of Eq. 5), everything before it unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rmreader.data.encode import encode_pairs
from rmreader.errors import UserError
from rmreader.learning.setup import pick_device
from rmreader.model.aligner import AligningBlock
from rmreader.model.attention import column_attention, overlap, without_diagonal
from rmreader.model.network import Network, Round
from rmreader.studies import heatmap, html
from rmreader.studies.readers import Found, Pointed, decode, open_reader
from rmreader.studies.report import Report
from rmreader.text.tokens import tokenize

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Moved:
    """One matrix of a round, E [n, m] or B [m, m]: each column a distribution over the rows."""

    attention: Floats
    past: Floats | None = None
    """Ẽ or B̃, the overlap of the round before's attentions; None where nothing is read again."""
    change: Floats | None = None
    """The attention less what it would have been without them."""


@dataclass(frozen=True)
class Shown:
    """Both matrices of a round."""

    E: Moved
    B: Moved


def sample() -> tuple[str, str]:
    """The question and passage that the web page begins with."""
    first = json.loads((files("rmreader") / "serving" / "page" / "samples.json").read_text(encoding="utf-8"))[0]
    return str(first["questions"][0]), str(first["passage"])


@torch.no_grad()
def study_figure(question: str, passage: str, model: str, out: Path, device: str | None = None) -> Report:
    """Write ``figure.html`` and every panel as an SVG file of its own."""
    asked, read = tokenize(question).words, tokenize(passage).words
    if not asked or not read:
        raise UserError("the question or the passage has no word; give both.")
    encoded = encode_pairs([(question, passage)])
    network, feed, recipe = open_reader(model, encoded, pick_device(device), keep=False)
    ((_, batch),) = feed.batches([np.arange(1)])
    pointers = network.eval()(feed.fill(batch), keep_attention=True)
    pointed = Pointed([pointers.log_p1[0].cpu().numpy()], [pointers.log_p2[0].cpu().numpy()])
    answer = decode(pointed, encoded, recipe.decoding.max_length)[0]
    rounds = moved(network, pointers.rounds)
    pairs = {
        f"E{t + 1}": strongest(shown.E, asked, read) for t, shown in enumerate(rounds) if shown.E.change is not None
    }
    panels = list(_panels(rounds, asked, read))
    out.mkdir(parents=True, exist_ok=True)
    written = [out / "figure.html", *(out / f"{name}.svg" for name, _, _ in panels)]
    written[0].write_text(_page(question, passage, answer, panels, pairs), encoding="utf-8")
    for path, (_, _, drawing) in zip(written[1:], panels, strict=True):
        path.write_text(drawing, encoding="utf-8")
    rows = [(name, *map(str, row)) for name, found in pairs.items() for row in found]
    return Report(
        name="figure",
        title=f"Figure 2: what reattention moved · {question} · {answer.text}",
        header=("round", "question word", "passage word", "overlap of past attentions", "attention before", "after"),
        rows=rows,
        data={
            "question": question,
            "answer": answer.text,
            "moved": {k: [list(r) for r in v] for k, v in pairs.items()},
        },
        notes=[] if rows else ["This reader has no reattention, so nothing is moved."],
        files=written,
    )


@torch.no_grad()
def moved(network: Network, rounds: Sequence[Round]) -> list[Shown]:
    """The rounds of one question (unpadded), as attentions and what reattention did to them."""
    shown = []
    for t, (block, made) in enumerate(zip(network.aligner.blocks, rounds, strict=True)):
        assert isinstance(block, AligningBlock)
        n, m = made.E.shape[1:]
        question, context = (torch.ones(1, size, dtype=torch.bool, device=made.E.device) for size in (n, m))
        if not block.reattention or t == 0:
            shown.append(Shown(*(Moved(_attention(X, true)) for X, true in ((made.E, question), (made.B, context)))))
            continue
        past = rounds[t - 1]
        past_self = column_attention(past.B, context)
        E_past, B_past = overlap(past.E, past_self, context), overlap(past.B, past_self, context)
        E_plain = made.E - block.gamma_E * E_past
        B_plain = made.B - without_diagonal(block.gamma_B * B_past, "none" if block.diagonal == "none" else "zero")
        shown.append(Shown(_moved(made.E, E_plain, E_past, question), _moved(made.B, B_plain, B_past, context)))
    return shown


def _attention(logits: Tensor, rows: Tensor) -> Floats:
    return np.asarray(column_attention(logits, rows)[0].float().cpu().numpy())


def _moved(logits: Tensor, plain: Tensor, past: Tensor, rows: Tensor) -> Moved:
    attention = _attention(logits, rows)
    return Moved(attention, np.asarray(past[0].float().cpu().numpy()), attention - _attention(plain, rows))


Pair = tuple[str, str, str, str, str]
"""Question word, passage word, overlap of past attentions, attention before and after."""


def strongest(moved: Moved, question: Sequence[str], passage: Sequence[str], *, count: int = 6) -> list[Pair]:
    """The pairs of words whose attention reattention changed most, up or down."""
    assert moved.change is not None
    assert moved.past is not None
    order = np.argsort(-np.abs(moved.change), axis=None, kind="stable")[:count]
    found = []
    for i, j in zip(*np.unravel_index(order, moved.change.shape), strict=True):
        after, before = moved.attention[i, j], moved.attention[i, j] - moved.change[i, j]
        found.append((question[i], passage[j], f"{moved.past[i, j]:.3f}", f"{before:.3f}", f"{after:.3f}"))
    return found


def _panels(rounds: Sequence[Shown], question: Sequence[str], passage: Sequence[str]) -> Any:
    """(file name, round, SVG) of every panel."""
    for t, shown in enumerate(rounds, 1):
        for letter, moved, rows in (("E", shown.E, question), ("B", shown.B, passage)):
            cell = 13 if len(rows) * len(passage) <= 8000 else 10
            what = "question words" if letter == "E" else "other passage words"
            drawings = [
                (
                    "attention",
                    moved.attention,
                    False,
                    f"softmax({letter}{t}): what each passage word sees of the {what}",
                )
            ]
            if moved.past is not None and moved.change is not None:
                drawings += [
                    (
                        "past",
                        moved.past,
                        False,
                        f"overlap of the attentions of round {t - 1}, γ times of which is added",
                    ),
                    (
                        "change",
                        moved.change,
                        True,
                        f"what that changed in softmax({letter}{t}): blue is more, red is less",
                    ),
                ]
            for name, values, signed, title in drawings:
                yield f"{letter}{t}-{name}", t, heatmap.svg(values, rows, passage, title, signed, cell)


_STYLE = "body { max-width: none; } .panel { overflow-x: auto; margin: .8rem 0; } .answer { color: var(--true); }"


def _page(question: str, passage: str, answer: Found, panels: Any, pairs: dict[str, list[Pair]]) -> str:
    before, after = passage[: answer.start], passage[answer.end :]
    body = [f'<p>{html.text(before)}<b class="answer">{html.text(answer.text)}</b>{html.text(after)}</p>']
    last = 0
    for name, t, drawing in panels:
        if t != last:
            body.append(f"<h2>Round {t}</h2>")
            body += [_pairs_html(pairs[f"E{t}"])] if f"E{t}" in pairs else []
            last = t
        body.append(f'<div class="panel" id="{name}">{drawing}</div>')
    return html.page(question, "\n".join(body), _STYLE)


def _pairs_html(pairs: Sequence[Pair]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("question word", "passage word", "past overlap", "before", "after"))
    rows = "".join("<tr>" + "".join(f"<td>{html.text(cell)}</td>" for cell in pair) + "</tr>" for pair in pairs)
    return f"<p>The pairs of words that reattention moved most:</p><table><tr>{head}</tr>{rows}</table>"
