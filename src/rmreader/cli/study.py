"""``rmreader study``: the paper's tables and figures, each one command, ours beside the paper's."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rmreader.cli.app import app
from rmreader.cli.learn import Words, recipe_of, split_words
from rmreader.cli.output import Json, emit_json, note, table

if TYPE_CHECKING:
    from rmreader.studies.report import Report

study = typer.Typer(no_args_is_help=True, help="The paper's tables and figures, ours beside the paper's.")
app.add_typer(study, name="study")

Train = Annotated[Path, typer.Option(help="Training questions, a SQuAD-format file.")]
Dev = Annotated[Path, typer.Option(help="Questions to report scores on; nothing is chosen by them.")]
Out = Annotated[
    Path, typer.Option(help="Folder for trainings, table and drawings; a study that stopped continues in it.")
]
Results = Annotated[Path | None, typer.Option("--out", help="Folder to write the table and its data to.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …; the GPU by default, where there is one.")]
Engine = Annotated[
    str | None, typer.Option("--device", help="Read in torch on cpu, cuda, cuda:1 …; else as `evaluate` does.")
]
Seeds = Annotated[int, typer.Option(min=1, help="Trainings of each kind, seeds 1, 2, 3 …")]
AtOnce = Annotated[int, typer.Option(min=0, help="Trainings side by side; 0 is all of them.")]
Keep = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Keep what was measured as lines of this file, for `study all`.")
]
Minutes = Annotated[
    float, typer.Option(min=0.0, help="Stop after so many minutes, with checkpoints; the same command continues.")
]
Second = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of the second stage; may be given again.")
]
Rows = Annotated[str, typer.Option(help="Rows of Table 4, as 1,5,9; all without it. Row 0 is always there.")]
AddSent = Annotated[Path | None, typer.Option(help="The AddSent file, to score every reader on as well.")]
AddOneSent = Annotated[Path | None, typer.Option(help="The AddOneSent file, likewise.")]
Models = Annotated[
    list[str], typer.Argument(metavar="MODEL...", help="Readers, by name or folder (or a run's folder).")
]


@study.command()
def rl(
    init: Annotated[Path, typer.Option(help="What to start from: a reader folder, a run, or a checkpoint of one.")],
    train: Train,
    dev: Dev,
    out: Out,
    words: Words = None,
    seeds: Seeds = 3,
    at_once: AtOnce = 4,
    device: Device = None,
    keep: Keep = None,
    minutes: Minutes = 0.0,
    json: Json = False,
) -> None:
    """DCRL, SCST and more maximum likelihood from one network: table, curves, and where readers disagree (Figure 5).

    Without a RECIPE the starting network's own is taken, with the second stage's rate and schedule.
    """
    from rmreader.studies.runs import Job
    from rmreader.studies.trainings import study_rl

    recipe, overrides = split_words(words)
    job = Job(train, dev, out, device, at_once, curve=True, keep=keep, until=_until(minutes))
    _show(study_rl(init, recipe, overrides, job, seeds), out, json)


@study.command()
def ablation(
    train: Train,
    dev: Dev,
    out: Out,
    words: Words = None,
    seeds: Seeds = 3,
    rows: Rows = "",
    ml_only: Annotated[
        bool, typer.Option("--ml-only", help="Compare after maximum likelihood alone: cheaper.")
    ] = False,
    second: Second = None,
    at_once: AtOnce = 4,
    device: Device = None,
    addsent: AddSent = None,
    addonesent: AddOneSent = None,
    keep: Keep = None,
    minutes: Minutes = 0.0,
    json: Json = False,
) -> None:
    """Table 4: the twelve ablations, each trained in the paper's two stages."""
    from rmreader.studies.runs import Job
    from rmreader.studies.trainings import study_ablation

    job = Job(train, dev, out, device, at_once, keep=keep, attacks=_attacks(addsent, addonesent), until=_until(minutes))
    _show(study_ablation(recipe_of(words), job, seeds, rows, ml_only, second or ()), out, json)


@study.command()
def rounds(
    train: Train,
    dev: Dev,
    out: Out,
    words: Words = None,
    seeds: Seeds = 3,
    at_once: AtOnce = 4,
    device: Device = None,
    keep: Keep = None,
    json: Json = False,
) -> None:
    """Table 1: alignment in one round, in several without memory and with it, each trained by maximum likelihood."""
    from rmreader.studies.runs import Job
    from rmreader.studies.trainings import study_rounds

    _show(study_rounds(recipe_of(words), Job(train, dev, out, device, at_once, keep=keep), seeds), out, json)


@study.command()
def squad(
    models: Models, dev: Dev, out: Results = None, device: Engine = None, keep: Keep = None, json: Json = False
) -> None:
    """Table 2: exact match and F1 on SQuAD dev, of readers alone and as an ensemble."""
    from rmreader.studies.scores import study_squad

    _show(study_squad(dev, models, device, out), out, json, keep)


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
    from rmreader.studies.scores import study_adversarial

    _show(study_adversarial(addsent, addonesent, models, device, out), out, json, keep)


@study.command()
def attention(
    data: Annotated[Path, typer.Option(help="Questions, a SQuAD-format file.")],
    without: Annotated[
        list[str] | None, typer.Option(metavar="MODEL", help="A reader without reattention; may be given again.")
    ] = None,
    with_: Annotated[
        list[str] | None, typer.Option("--with", metavar="MODEL", help="A reader with reattention; may be given again.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Only the first so many questions; 0 is all of them.")] = 0,
    out: Results = None,
    device: Device = None,
    keep: Keep = None,
    json: Json = False,
) -> None:
    """Table 5: redundancy and deficiency of the attentions, as KL divergences, without and with reattention."""
    if not without and not with_:
        raise typer.BadParameter("give readers: --without MODEL, --with MODEL, or both, each once or more.")
    from rmreader.learning.setup import pick_device
    from rmreader.studies.attention import study_attention

    _show(study_attention(data, without or (), with_ or (), pick_device(device), limit, keep), out, json)


@study.command()
def calibration(
    models: Models,
    data: Annotated[Path, typer.Option(help="Questions that no temperature was fitted on, a SQuAD-format file.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the table and each reader's reliability plot.")] = None,
    json: Json = False,
) -> None:
    """How far confidences are from the truth, before and after the temperature, with reliability plots."""
    from rmreader.studies.calibration import study_calibration

    _show(study_calibration(models, data, out), out, json)


@study.command()
def figure(
    out: Annotated[Path, typer.Option(help="Folder for the page and its drawings.")],
    question: Annotated[str, typer.Option(help="What is asked; a sample without it.")] = "",
    passage: Annotated[Path | None, typer.Option(help="File with the passage (UTF-8); a sample without it.")] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="A reader, by name or folder.")] = "small",
    device: Engine = None,
    json: Json = False,
) -> None:
    """Figures 2 and 4: the attentions of every round for one question, and how reattention moved them, as a page."""
    if bool(question) != (passage is not None):
        raise typer.BadParameter("give both --question and --passage, or neither for a sample.")
    from rmreader.reading.files.passages import read_passage
    from rmreader.studies.figure import sample, study_figure

    texts = (question, read_passage(passage)) if passage else sample()
    _show(study_figure(*texts, model, out, device), out, json)


@study.command(name="all")
def everything(
    out: Annotated[Path, typer.Option(help="Folder for the page and, without --from, for all trainings.")],
    words: Words = None,
    kept: Annotated[
        Path | None, typer.Option("--from", help="Make the page from the lines kept in this folder; train nothing.")
    ] = None,
    train: Annotated[Path | None, typer.Option(help="Training questions, to run every study first.")] = None,
    dev: Annotated[Path | None, typer.Option(help="Questions to report scores on; nothing is chosen by them.")] = None,
    addsent: AddSent = None,
    addonesent: AddOneSent = None,
    seeds: Seeds = 3,
    rows: Rows = "",
    second: Second = None,
    at_once: AtOnce = 4,
    device: Device = None,
    price: Annotated[float, typer.Option(min=0.0, help="Price of the device per hour, to print the cost.")] = 0.0,
    json: Json = False,
) -> None:
    """All tables, drawings and verdicts as one page: from kept lines (--from), or after running every study."""
    from rmreader.studies.whole import build, study_all

    problems: list[str] = []
    if kept is None:
        if train is None or dev is None:
            raise typer.BadParameter("give --from FOLDER with kept lines, or --train and --dev to run every study.")
        from rmreader.studies.runs import Job

        job = Job(train, dev, out, device, at_once, attacks=_attacks(addsent, addonesent))
        problems = study_all(recipe_of(words), job, seeds, rows, second or ())
    report = build(kept or out / "log", out, price)
    report.problems.extend(problems)
    _show(report, out, json)


def _attacks(addsent: Path | None, addonesent: Path | None) -> dict[str, Path]:
    """The adversarial files that were given, by name."""
    return {name: path for name, path in (("addsent", addsent), ("addonesent", addonesent)) if path is not None}


def _until(minutes: float) -> float:
    """When so many minutes are over, by the monotonic clock; never for 0."""
    return time.monotonic() + 60 * minutes if minutes else math.inf


def _show(report: Report, out: Path | None, json: bool, keep: Path | None = None) -> None:
    """Print a report, write its files, keep it where asked; status 1 where something went wrong on the way."""
    from rmreader.studies.kept import keep_report
    from rmreader.studies.report import save

    written = save(report, out) if out else []
    keep_report(keep, report)
    if json:
        emit_json(report.data)
    else:
        table(report.rows, report.header, report.title)
        for remark in report.notes:
            typer.echo(remark)
    for path in written:
        note(str(path))
    for problem in report.problems:
        note(f"failed: {problem}")
    if report.problems:
        raise typer.Exit(1)
