"""What reattention does to attentions: Table 5, as KL divergences, and Figures 2 and 4, drawn."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from lab.results import Line, keep
from lab.studies import plots
from lab.studies.divergences import Moved, divergences, moved, pairs_of, spread, strongest
from lab.studies.readers import load, reader_folder
from lab.studies.report import Report, page, report
from lab.studies.tables import attention_table
from rmreader.core.errors import UserError
from rmreader.core.files.manifest import file_sha256
from rmreader.core.version import commit
from rmreader.readers.folder import Folder, open_folder
from rmreader.reading.engine.engines import EncoderInput
from rmreader.reading.ensemble import Ensemble
from rmreader.reading.reader import Reader
from rmreader.text.tokens import tokenize

Readers = Mapping[str, Sequence[str]]  # ``without`` reattention and ``with`` it

# What is drawn of each matrix of a round, by field of `Moved`.
PANELS = {
    "attention": "softmax({X}): what each passage word (column) sees of the words on the left",
    "past": ("overlap of the attentions of the round before, γ times of which is added to {X}"),
    "change": "what that changed in softmax({X}): blue is more, red is less",
}


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
    pairs = pairs_of(data, limit)
    shared = {
        "kind": "attention",
        "study": "attention",
        "setting": f"{data.name} {file_sha256(data)[:10]}, {len(pairs):,} questions",
        "questions": len(pairs),
    }
    lines = []
    for kind, names in readers.items():
        folders = {name: open_folder(reader_folder(name)) for name in names}
        for name, folder in folders.items():
            if folder.recipe.network.reattention != (kind == "with"):
                raise UserError(
                    f"{name}: listed as a reader {kind} reattention, "
                    "but its recipe says otherwise; swap it."
                )
        for k in range(ensembles):
            ensemble = dict(list(folders.items())[k::ensembles])
            if ensemble:
                line = {**shared, "row": kind, **_ensemble_line(ensemble, pairs, device)}
                lines.append(line)
    keep(keep_to, lines)
    return attention_table(lines)


def _ensemble_line(
    folders: Mapping[str, Folder], pairs: Sequence[EncoderInput], device: str | None
) -> Line:
    """What is kept of an ensemble: its readers, and each divergence over the questions."""
    rows = {}
    for name, values in divergences(list(folders.values()), pairs, device).items():
        mean, deviation = spread(values.mean(axis=0))  # over questions, of the mean reader
        rows[name] = {
            "mean": mean,
            "deviation": deviation,
            "readers": values.mean(axis=1).tolist(),
        }
    return {
        "readers": [_label(name) for name in folders],
        "seeds": [folder.recipe.training.seed for folder in folders.values()],
        "commit": commit(),
        "rows": rows,
    }


def _label(name: str) -> str:
    """The end of a reader's path, without its place on this machine."""
    parts = [part for part in Path(name).parts if part != "best"]
    return "/".join(parts[-2:])


def study_figure(question: str, passage: str, model: str, device: str | None = None) -> Report:
    """Figures 2 and 4: ``figure.html`` with every round of a question, and each panel as SVG."""
    question_words = tokenize(question).words
    passage_words = tokenize(passage).words
    if not question_words or not passage_words:
        raise UserError("the question or the passage has no word; give both.")
    reader = load(model, device)
    if isinstance(reader, Ensemble):
        raise UserError(
            f"{model}: an ensemble has no attention of its own to draw; give one reader."
        )
    answer = reader.ask(question, passage)[0]
    marked = (
        ("", passage[: answer.start]),
        ("answer", answer.text),
        ("", passage[answer.end :]),
    )

    sections = [Report("", "", passage=marked)]
    changes: list[dict[str, Any]] = []
    pair = EncoderInput(question, passage, question_words, passage_words)
    for number, matrices in enumerate(movements(reader, pair), 1):
        records = _strongest_changes(number, matrices[0], pair)
        changes += records
        table = report("figure", records, {}, question="", answer="")
        section = dataclasses.replace(table, title=f"Round {number}")
        section.files.update(_panels(number, matrices, pair))
        sections.append(section)

    facts = {"question": question, "answer": answer.text}
    made = report("figure", changes, {**facts, "moved": changes}, **facts)
    made.files["figure.html"] = partial(page, question, sections, wide=True)
    for section in sections:
        made.files.update(section.files)
    if not changes:
        made.notes.append("This reader has no reattention, so nothing is moved.")
    return made


def _strongest_changes(number: int, E: Moved, pair: EncoderInput) -> list[dict[str, Any]]:
    """The pairs of words whose attention a round changed most."""
    records: list[dict[str, Any]] = []
    if E.past is None or E.change is None:
        return records
    for i, j in strongest(E):
        after = float(E.attention[i, j])
        record = {
            "round": f"E{number}",
            "i": pair.question_words[i],
            "j": pair.context_words[j],
            "past": float(E.past[i, j]),
            "before": after - float(E.change[i, j]),
            "after": after,
        }
        records.append(record)
    return records


def _panels(number: int, matrices: Sequence[Moved], pair: EncoderInput) -> dict[str, Any]:
    """The drawings of a round's E and B, by file name."""
    files = {}
    for letter, matrix, rows in zip(
        "EB", matrices, (pair.question_words, pair.context_words), strict=True
    ):
        for kind, title in PANELS.items():
            values = getattr(matrix, kind)
            if values is None:
                continue
            draw = partial(
                plots.heatmap,
                values,
                rows,
                pair.context_words,
                title.format(X=f"{letter}{number}"),
                signed=kind == "change",
            )
            files[f"{letter}{number}-{kind}.svg"] = cache(draw)
    return files


def movements(reader: Reader, pair: EncoderInput) -> list[list[Moved]]:
    """What reattention did to E and B of every round of a question."""
    network = reader.folder.recipe.network
    weights = reader.folder.weights()
    gammas = []
    if network.reattention:
        for block in range(1, network.blocks):
            names = [f"aligner.blocks.{block}.gamma_{letter}" for letter in "EB"]
            gammas.append([float(weights[name]) for name in names])
    return moved(reader.engine.attend(pair), gammas, network.diagonal)
