"""What reattention does to attentions: Table 5, as KL divergences, and Figures 2 and 4, drawn
for one question."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from lab.results import Line, keep
from lab.studies import plots
from lab.studies.divergences import Moved, divergences, moved, pairs_of, spread, strongest
from lab.studies.readers import load, reader_folder
from lab.studies.report import WORDS, Report, page, report
from lab.studies.tables import attention_table
from rmreader.core.errors import UserError
from rmreader.core.files.manifest import file_sha256
from rmreader.core.version import commit
from rmreader.readers.folder import open_folder
from rmreader.reading.engine.engines import EncoderInput
from rmreader.reading.ensemble import Ensemble
from rmreader.reading.reader import Reader
from rmreader.text.tokens import tokenize

Readers = Mapping[str, Sequence[str]]  # ``without`` reattention and ``with`` it


def study_attention(
    data: Path,
    readers: Readers,
    device: str | None,
    limit: int = 0,
    keep_to: Path | None = None,
    ensembles: int = 1,
) -> Report:
    """Table 5 on the questions of a file (the first ``limit`` of them, where given).

    Each list of readers is divided into so many ``ensembles``, each with a line of its own.
    """
    pairs, lines = pairs_of(data, limit), list[Line]()
    setting = f"{data.name} {file_sha256(data)[:10]}, {len(pairs):,} questions"
    shared = {
        "kind": "attention",
        "study": "attention",
        "setting": setting,
        "questions": len(pairs),
    }
    for kind, names in readers.items():
        folders = {name: open_folder(reader_folder(name)) for name in names}
        for name in (
            name
            for name, one in folders.items()
            if one.recipe.network.reattention != (kind == "with")
        ):
            raise UserError(
                f"{name}: listed as a reader {kind} reattention, but its recipe says otherwise; swap it."
            )
        for some in filter(None, (list(folders)[k::ensembles] for k in range(ensembles))):
            rows = {}
            for name, each in divergences([folders[name] for name in some], pairs, device).items():
                mean, deviation = spread(
                    each.mean(axis=0)
                )  # over questions, each the mean of its readers
                rows[name] = {
                    "mean": mean,
                    "deviation": deviation,
                    "readers": each.mean(axis=1).tolist(),
                }
            labels = [
                "/".join([part for part in Path(name).parts if part != "best"][-2:])
                for name in some
            ]
            seeds = [folders[name].recipe.training.seed for name in some]
            about = {
                "row": kind,
                "readers": labels,
                "seeds": seeds,
                "commit": commit(),
            }  # no place on this machine
            lines.append({**shared, **about, "rows": rows})
    keep(keep_to, lines)
    return attention_table(lines)


def study_figure(question: str, passage: str, model: str, device: str | None = None) -> Report:
    """Figures 2 and 4: ``figure.html`` with every round of a question, and each panel as an SVG
    file of its own."""
    asked, read = tokenize(question).words, tokenize(passage).words
    if not asked or not read:
        raise UserError("the question or the passage has no word; give both.")
    reader = load(model, device)
    if isinstance(reader, Ensemble):
        raise UserError(
            f"{model}: an ensemble has no attention of its own to draw; give one reader."
        )
    answer = reader.ask(question, passage)[0]
    pieces = ("", passage[: answer.start]), ("answer", answer.text), ("", passage[answer.end :])
    sections, strong = [Report("", "", passage=pieces)], list[dict[str, Any]]()
    for t, both in enumerate(movements(reader, EncoderInput(question, passage, asked, read)), 1):
        E, pairs = both[0], list[dict[str, Any]]()
        for i, j in strongest(E):
            values = {name: float(X[i, j]) for name, X in vars(E).items()}
            before = values["attention"] - values["change"]
            words = {"round": f"E{t}", "i": asked[i], "j": read[j]}
            pairs.append(
                {**words, "past": values["past"], "before": before, "after": values["attention"]}
            )
        sections.append(
            dataclasses.replace(
                report("figure", pairs, {}, question="", answer=""), title=f"Round {t}"
            )
        )
        strong += pairs
        for letter, one, rows in zip("EB", both, (asked, read), strict=True):
            for kind, title in WORDS["panels"].items():
                if (X := getattr(one, kind)) is not None:
                    draw = partial(
                        plots.heatmap,
                        X,
                        rows,
                        read,
                        title.format(X=f"{letter}{t}"),
                        kind == "change",
                    )
                    sections[-1].files[f"{letter}{t}-{kind}.svg"] = cache(draw)
    facts = {"question": question, "answer": answer.text}
    made = report("figure", strong, {**facts, "moved": strong}, **facts)
    made.files["figure.html"] = partial(page, question, sections, wide=True)
    made.files.update(file for one in sections for file in one.files.items())
    made.notes.extend([] if strong else ["This reader has no reattention, so nothing is moved."])
    return made


def movements(reader: Reader, pair: EncoderInput) -> list[list[Moved]]:
    """What reattention did to E and B of every round of a question."""
    network, weights = reader.folder.recipe.network, reader.folder.weights()
    later = range(1, network.blocks) if network.reattention else ()
    gammas = [[float(weights[f"aligner.blocks.{t}.gamma_{X}"]) for X in "EB"] for t in later]
    return moved(reader.engine.attend(pair), gammas, network.diagonal)
