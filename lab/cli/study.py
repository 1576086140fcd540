"""``python -m lab study``: the paper's tables and figures, each one command, ours beside the
paper's."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.app import app
from rmreader.cli.output import Json, emit_json, note, table
from rmreader.cli.train import Words, recipe_of, split_words

if TYPE_CHECKING:
    from lab.runs import Job
    from lab.studies.report import Report

study = typer.Typer(
    no_args_is_help=True,
    help="The paper's tables and figures, ours beside the paper's.",
)
app.add_typer(study, name="study")

# Options of the studies that train.
Train = Annotated[Path | None, typer.Option(help="Training questions, a SQuAD-format file.")]
DevOrNone = Annotated[
    Path | None,
    typer.Option("--dev", help="Questions to report on; nothing is chosen by them."),
]
Out = Annotated[
    Path,
    typer.Option(help="Folder for trainings, tables and drawings; the same command continues."),
]
Seeds = Annotated[int, typer.Option(min=1, help="Trainings of each kind, seeds 1, 2, 3 …")]
AtOnce = Annotated[int, typer.Option(min=0, help="Trainings side by side; 0 is all of them.")]
AddOneSent = Annotated[Path | None, typer.Option(help="The AddOneSent file, likewise.")]
Minutes = Annotated[
    float,
    typer.Option(min=0.0, help="Stop after so many minutes, with checkpoints."),
]
Second = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="A setting of the second stage; may be repeated."),
]
Rows = Annotated[
    str,
    typer.Option(help="Rows of Table 4, as 1,5,9; all without it. Row 0 is always there."),
]

# Options of the studies that ask readers.
Models = Annotated[
    list[str],
    typer.Argument(metavar="MODEL...", help="Readers, by name or folder (or a run's folder)."),
]
Readers = list[str] | None
Dev = Annotated[
    Path,
    typer.Option(help="Questions to report scores on; nothing is chosen by them."),
]
Data = Annotated[
    Path,
    typer.Option(help="Questions, a SQuAD-format file; no temperature was fitted on them."),
]
Results = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for the table, its data and drawings."),
]
Engine = Annotated[
    str | None,
    typer.Option("--device", help="Read in torch on cpu, cuda, cuda:1 …; else as `evaluate`."),
]

# Options of both.
Device = Annotated[
    str | None,
    typer.Option(help="cpu, cuda, cuda:1 …; the GPU by default, where there is one."),
]
Keep = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Add what was measured to this file, for `study all`."),
]
AddSent = Annotated[
    Path | None,
    typer.Option(help="The AddSent file, to score every reader on as well."),
]


@study.command()
def rl(
    init: Annotated[
        str,
        typer.Option(help="What to start from: a reader, a run, or a checkpoint of one."),
    ],
    out: Out,
    train: Train = None,
    dev: DevOrNone = None,
    words: Words = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:KEY=VALUE,…", help="A variant of DCRL; may be repeated."),
    ] = None,
    seeds: Seeds = 3,
    at_once: AtOnce = 4,
    device: Device = None,
    addsent: AddSent = None,
    addonesent: AddOneSent = None,
    keep: Keep = None,
    minutes: Minutes = 0.0,
    json: Json = False,
) -> None:
    """DCRL, SCST and more maximum likelihood from one network: table, curves, Figure 5.

    Without a RECIPE the starting network's own is taken, with the second stage's rate and schedule.
    """
    from lab.studies.trainings import study_rl

    job = _job(train, dev, out, seeds, at_once, device, addsent, addonesent, keep, minutes)
    recipe, overrides = split_words(words)
    report = study_rl(init, recipe, overrides, replace(job, curve=True), vary or ())
    _show([report], out, json)


@study.command()
def ablation(
    out: Out,
    train: Train = None,
    dev: DevOrNone = None,
    words: Words = None,
    rows: Rows = "",
    ml_only: Annotated[
        bool,
        typer.Option("--ml-only", help="Compare after maximum likelihood alone."),
    ] = False,
    more_ml: Annotated[
        bool,
        typer.Option("--more-ml", help="A row that goes on by maximum likelihood, too."),
    ] = False,
    starts_first: Annotated[
        bool,
        typer.Option("--starts-first", help="All first stages before any second stage."),
    ] = False,
    second: Second = None,
    seeds: Seeds = 3,
    at_once: AtOnce = 4,
    device: Device = None,
    addsent: AddSent = None,
    addonesent: AddOneSent = None,
    keep: Keep = None,
    minutes: Minutes = 0.0,
    json: Json = False,
) -> None:
    """Table 4: the twelve ablations, each trained in the paper's two stages."""
    from lab.studies.paper import MORE_ML, choose
    from lab.studies.trainings import study_ablation

    job = _job(train, dev, out, seeds, at_once, device, addsent, addonesent, keep, minutes)
    name = "ablation-ml" if ml_only else "ablation"
    chosen = choose(rows, ml_only)
    if more_ml:
        chosen.append(MORE_ML)
    report = study_ablation(recipe_of(words), job, chosen, name, second or (), starts_first)
    _show([report], out, json)


@study.command()
def rounds(
    out: Out,
    train: Train = None,
    dev: DevOrNone = None,
    words: Words = None,
    seeds: Seeds = 3,
    at_once: AtOnce = 4,
    device: Device = None,
    addsent: AddSent = None,
    addonesent: AddOneSent = None,
    keep: Keep = None,
    minutes: Minutes = 0.0,
    json: Json = False,
) -> None:
    """Table 1: alignment in one round, in several without memory and with it, trained by ML."""
    from lab.studies import paper
    from lab.studies.trainings import study_ablation

    job = _job(train, dev, out, seeds, at_once, device, addsent, addonesent, keep, minutes)
    report = study_ablation(recipe_of(words), job, paper.ROUNDS, "rounds")
    _show([report], out, json)


@study.command()
def squad(
    models: Models,
    dev: Dev,
    out: Results = None,
    device: Engine = None,
    keep: Keep = None,
    json: Json = False,
) -> None:
    """Table 2: exact match and F1 on SQuAD dev, of readers alone and as an ensemble."""
    from lab.studies.scores import study_scores

    report = study_scores({"dev": dev}, models, device)
    _show([report], out, json, keep)


@study.command()
def adversarial(
    models: Models,
    addsent: Annotated[Path, typer.Option(help="The AddSent file.")],
    addonesent: Annotated[Path, typer.Option(help="The AddOneSent file.")],
    out: Results = None,
    device: Engine = None,
    keep: Keep = None,
    json: Json = False,
) -> None:
    """Table 3: AddSent and AddOneSent, of readers alone and as an ensemble."""
    from lab.studies.scores import study_scores

    report = study_scores({"addsent": addsent, "addonesent": addonesent}, models, device)
    _show([report], out, json, keep)


@study.command()
def breakdown(
    models: Models,
    dev: Dev,
    addsent: AddSent = None,
    out: Results = None,
    device: Engine = None,
    keep: Keep = None,
    json: Json = False,
) -> None:
    """F1 by type of question and lengths, what attacks do, and what no reader gets right."""
    from lab.studies.scores import study_breakdown

    reports = study_breakdown(models, dev, addsent, device)
    _show(reports, out, json, keep)


@study.command()
def calibration(
    models: Models,
    data: Data,
    out: Results = None,
    device: Engine = None,
    keep: Keep = None,
    json: Json = False,
) -> None:
    """How far confidences are from the truth, before and after the temperature."""
    from lab.studies.scores import study_calibration

    report = study_calibration(models, data, device)
    _show([report], out, json, keep)


@study.command()
def attention(
    data: Data,
    without: Annotated[
        Readers,
        typer.Option(metavar="MODEL", help="Without reattention; may be repeated."),
    ] = None,
    with_: Annotated[
        Readers,
        typer.Option("--with", metavar="MODEL", help="With reattention; may be repeated."),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(min=0, help="Use only the first N questions; 0 = all."),
    ] = 0,
    ensembles: Annotated[
        int,
        typer.Option(min=1, help="Divide each list into so many ensembles."),
    ] = 1,
    out: Results = None,
    device: Device = None,
    keep: Keep = None,
    json: Json = False,
) -> None:
    """Table 5: redundancy and deficiency of attentions, without and with reattention."""
    if not without and not with_:
        raise typer.BadParameter(
            "give readers: --without MODEL, --with MODEL, or both, each once or more."
        )
    from lab.studies.attention import study_attention

    readers = {"without": without or (), "with": with_ or ()}
    report = study_attention(data, readers, device, limit, keep, ensembles)
    _show([report], out, json)


@study.command()
def reattention(
    models: Models,
    data: Data,
    limit: Annotated[
        int,
        typer.Option(min=0, help="Use only the first N questions; 0 = all."),
    ] = 0,
    gamma: Annotated[float, typer.Option(help="What every γ is set to, to compare.")] = 0.0,
    out: Results = None,
    device: Device = None,
    keep: Keep = None,
    json: Json = False,
) -> None:
    """What reattention does in trained readers: γ, the size of its terms, answers without it."""
    from lab.studies.mechanism import study_reattention

    report = study_reattention(models, data, device, limit, gamma, keep)
    _show([report], out, json)


@study.command()
def figure(
    out: Out,
    question: Annotated[str, typer.Option(help="The question; a sample without it.")] = "",
    passage: Annotated[
        Path | None,
        typer.Option(help="File with the passage (UTF-8); a sample without it."),
    ] = None,
    model: Annotated[
        str,
        typer.Option("--model", "-m", help="A reader, by name or folder."),
    ] = "small",
    device: Engine = None,
    json: Json = False,
) -> None:
    """Figures 2 and 4: the attentions of every round, and how reattention moved them."""
    if bool(question) != (passage is not None):
        raise typer.BadParameter("give both --question and --passage, or neither for a sample.")
    from lab.studies.attention import study_figure
    from rmreader.documents.passages import read_passage

    if passage is None:
        question, text = sample()
    else:
        text = read_passage(passage)
    report = study_figure(question, text, model, device)
    _show([report], out, json)


def sample() -> tuple[str, str]:
    """The question and passage that the web page begins with."""
    from importlib.resources import files
    from json import loads

    path = files("rmreader") / "server" / "page" / "samples.json"
    first = loads(path.read_text(encoding="utf-8"))[0]
    return str(first["questions"][0]), str(first["passage"])


@study.command("all")
def everything(
    out: Out,
    train: Train = None,
    dev: DevOrNone = None,
    words: Words = None,
    folder: Annotated[
        Path | None,
        typer.Option("--from", help="Make the page from the results in this folder; no training."),
    ] = None,
    rows: Rows = "",
    second: Second = None,
    price: Annotated[
        float,
        typer.Option(min=0.0, help="Price of the device per hour, to print the cost."),
    ] = 0.0,
    seeds: Seeds = 3,
    at_once: AtOnce = 4,
    device: Device = None,
    addsent: AddSent = None,
    addonesent: AddOneSent = None,
    minutes: Minutes = 0.0,
    json: Json = False,
) -> None:
    """All tables and verdicts as one page: from kept results (--from), or after every study."""
    from lab.studies.reproduction import build

    problems: list[str] = []
    if folder is None:
        from lab.studies.trainings import study_all

        job = _job(train, dev, out, seeds, at_once, device, addsent, addonesent, None, minutes)
        problems = study_all(recipe_of(words), job, rows, second or ())
        folder = out / "log"
    report = build(folder, price)
    _show([replace(report, problems=problems)], out, json)


def _job(
    train: Path | None,
    dev: Path | None,
    out: Path,
    seeds: int,
    at_once: int,
    device: str | None,
    addsent: Path | None,
    addonesent: Path | None,
    keep: Path | None,
    minutes: float,
) -> Job:
    """What all trainings of a study share."""
    from lab.runs import Job

    if train is None or dev is None:
        raise typer.BadParameter(
            "give --train and --dev (or, to `study all`, --from FOLDER with results)."
        )
    attacks = {}
    if addsent is not None:
        attacks["addsent"] = addsent
    if addonesent is not None:
        attacks["addonesent"] = addonesent
    until = time.monotonic() + 60 * minutes if minutes else math.inf
    return Job(
        train,
        dev,
        out,
        device,
        at_once,
        seeds,
        keep=keep,
        attacks=attacks,
        until=until,
    )


def _show(
    reports: Sequence[Report],
    out: Path | None,
    json: bool,
    keep: Path | None = None,
) -> None:
    """Print reports, write their files, keep them where asked; status 1 if something failed."""
    from lab.studies.report import keep_report, save

    written: list[Path] = []
    for report in reports:
        if out is not None:
            written += save(report, out)
        keep_report(keep, report)
        if not json:
            table(report.rows, report.header, report.title)
            for remark in report.notes:
                typer.echo(remark)
    if json and len(reports) == 1:
        emit_json(reports[0].data)
    elif json:
        emit_json({report.name: report.data for report in reports})
    for path in written:
        note(str(path))

    _fail_if_any(reports)


def _fail_if_any(reports: Sequence[Report]) -> None:
    """Say what failed on the way, and leave with status 1."""
    problems: list[str] = []
    for report in reports:
        problems += report.problems
    for problem in problems:
        note(f"failed: {problem}")
    if problems:
        raise typer.Exit(1)
