"""Figures 2 and 4: the attentions of every round for one question, and how reattention moved them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from rmreader.errors import UserError
from rmreader.files import write_whole
from rmreader.reading.answering.ensemble import Ensemble
from rmreader.reading.answering.reader import Reader
from rmreader.reading.running.engines import Pair
from rmreader.scoring.attention import Moved, moved
from rmreader.studies import plots
from rmreader.studies.readers import load
from rmreader.studies.report import Report, grid, page, report, text
from rmreader.text.tokens import tokenize


def sample() -> tuple[str, str]:
    """The question and passage that the web page begins with."""
    first = json.loads((files("rmreader") / "serving" / "page" / "samples.json").read_text(encoding="utf-8"))[0]
    return str(first["questions"][0]), str(first["passage"])


def study_figure(question: str, passage: str, model: str, out: Path, device: str | None = None) -> Report:
    """Write ``figure.html`` and every panel as an SVG file of its own."""
    asked, read = tokenize(question).words, tokenize(passage).words
    if not asked or not read:
        raise UserError("the question or the passage has no word; give both.")
    reader = load(model, device)
    if isinstance(reader, Ensemble):
        raise UserError(f"{model}: an ensemble has no attention of its own to draw; give one reader.")
    answer = reader.ask(question, passage)[0]
    records: list[dict[str, Any]] = []
    before, after = passage[: answer.start], passage[answer.end :]
    body = [f'<p>{text(before)}<b class="answer">{text(answer.text)}</b>{text(after)}</p>']
    drawings = []
    for t, both in enumerate(movements(reader, Pair(question, passage, asked, read)), 1):
        body.append(f"<h2>Round {t}</h2>")
        if both[0].change is not None:
            pairs = [{"round": f"E{t}", **pair} for pair in strongest(both[0], asked, read)]
            made, records = report("figure", pairs, {}, question="", answer=""), records + pairs
            rows = [row[1:] for row in made.rows]
            body.append("<p>The pairs of words that reattention moved most:</p>" + grid(made.header[1:], rows))
        for letter, one, words in zip("EB", both, (asked, read), strict=True):
            what = "question words" if letter == "E" else "other passage words"
            titles = {
                "attention": f"softmax({letter}{t}): what each passage word sees of the {what}",
                "past": f"overlap of the attentions of round {t - 1}, γ times of which is added",
                "change": f"what that changed in softmax({letter}{t}): blue is more, red is less",
            }
            for kind, title in titles.items():
                if (values := getattr(one, kind)) is not None:
                    drawing = plots.heatmap(values, words, read, title, signed=kind == "change")
                    drawings.append(out / f"{letter}{t}-{kind}.svg")
                    write_whole(drawings[-1], drawing)
                    body.append(plots.panel(drawing, f"{letter}{t}-{kind}", fits=False))
    write_whole(out / "figure.html", page(question, body, wide=True).encode())
    facts = {"question": question, "answer": answer.text}
    made = report("figure", records, {**facts, "moved": records}, **facts)
    made.files.extend([out / "figure.html", *drawings])
    if not records:
        made.notes.append("This reader has no reattention, so nothing is moved.")
    return made


def movements(reader: Reader, pair: Pair) -> list[list[Moved]]:
    """What reattention did to E and B of every round of a question."""
    network, weights = reader.folder.recipe.network, reader.folder.weights()
    later = range(1, network.blocks) if network.reattention else ()
    gammas = [[float(weights[f"aligner.blocks.{t}.gamma_{X}"]) for X in "EB"] for t in later]
    return moved(reader.engine.attend(pair), gammas, network.diagonal)


def strongest(shown: Moved, question: Sequence[str], passage: Sequence[str], *, count: int = 6) -> list[dict[str, Any]]:
    """The pairs of words whose attention reattention changed most, up or down."""
    assert shown.change is not None
    assert shown.past is not None
    order = np.argsort(-np.abs(shown.change), axis=None, kind="stable")[:count]
    found = []
    for i, j in zip(*np.unravel_index(order, shown.change.shape), strict=True):
        past, now, change = (float(X[i, j]) for X in (shown.past, shown.attention, shown.change))
        found.append({"i": question[i], "j": passage[j], "past": past, "before": now - change, "after": now})
    return found
