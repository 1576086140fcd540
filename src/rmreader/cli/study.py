"""``rmreader study``: the paper's tables and figures, each one command, ours beside the paper's."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from rmreader.cli.app import app
from rmreader.cli.output import Json, emit_json, note, table
from rmreader.cli.train import Words, recipe_of, split_words

if TYPE_CHECKING:
    from rmreader.studies.report import Report
    from rmreader.training.runs import Job
else:
    Report = Job = object  # a command's signature is read when it is made; the studies are loaded when one runs

study = typer.Typer(no_args_is_help=True, help="The paper's tables and figures, ours beside the paper's.")
app.add_typer(study, name="study")

Dev = Annotated[Path, typer.Option(help="Questions to report scores on; nothing is chosen by them.")]
Data = Annotated[Path, typer.Option(help="Questions, a SQuAD-format file; no temperature was fitted on them.")]
Out = Annotated[Path, typer.Option(help="Folder for trainings, tables and drawings; the same command continues.")]
Results = Annotated[Path | None, typer.Option("--out", help="Folder for the table, its data and drawings.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …; the GPU by default, where there is one.")]
Engine = Annotated[
    str | None, typer.Option("--device", help="Read in torch on cpu, cuda, cuda:1 …; else as `evaluate` does.")
]
Keep = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Keep what was measured as lines of this file, for `study all`.")
]
Second = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of the second stage; may be given again.")
]
Rows = Annotated[str, typer.Option(help="Rows of Table 4, as 1,5,9; all without it. Row 0 is always there.")]
AddSent = Annotated[Path | None, typer.Option(help="The AddSent file, to score every reader on as well.")]
Models = Annotated[
    list[str], typer.Argument(metavar="MODEL...", help="Readers, by name or folder (or a run's folder).")
]
Readers = list[str] | None


class Given(NamedTuple):
    """What every study that asks readers is given."""

    models: list[str]
    device: str | None
    keep: Path | None


def _readers(models: Models, out: Results = None, device: Engine = None, keep: Keep = None) -> Given:
    return Given(models, device, keep)


def _attentions(out: Results = None, device: Device = None, keep: Keep = None) -> Given:
    return Given([], device, keep)


def _job(
    out: Out,
    train: Annotated[Path | None, typer.Option(help="Training questions, a SQuAD-format file.")] = None,
    dev: Annotated[Path | None, typer.Option(help="Questions to report on; nothing is chosen by them.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each kind, seeds 1, 2, 3 …")] = 3,
    at_once: Annotated[int, typer.Option(min=0, help="Trainings side by side; 0 is all of them.")] = 4,
    device: Device = None,
    addsent: AddSent = None,
    addonesent: Annotated[Path | None, typer.Option(help="The AddOneSent file, likewise.")] = None,
    keep: Keep = None,
    minutes: Annotated[float, typer.Option(min=0.0, help="Stop after so many minutes, with checkpoints.")] = 0.0,
) -> Job:
    """The options of every study that trains."""
    from rmreader.training.runs import Job

    attacks = {name: path for name, path in (("addsent", addsent), ("addonesent", addonesent)) if path is not None}
    until = time.monotonic() + 60 * minutes if minutes else math.inf
    return Job(train or Path(), dev or Path(), out, device, at_once, seeds, keep=keep, attacks=attacks, until=until)


def _command(shared: Callable[..., Any], name: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A command of the options that ``shared`` makes its first argument of, and of its own; its reports are shown."""

    def make(command: Callable[..., Any]) -> Callable[..., Any]:
        first, own = (
            [one.replace(kind=one.KEYWORD_ONLY) for one in inspect.signature(of, eval_str=True).parameters.values()]
            for of in (shared, command)
        )

        @wraps(command)
        def run(json: bool, **words: Any) -> None:
            given = {one.name: words.pop(one.name) for one in first}
            if shared is _job and None in (given["train"], given["dev"]) and not words.get("kept"):
                raise typer.BadParameter("give --train and --dev (or, to `study all`, --from FOLDER with kept lines).")
            made = command(shared(**given), **words)
            keep = given["keep"] if shared is _readers else None  # the others keep what they measure themselves
            _show(made if isinstance(made, list) else [made], given["out"], json, keep)

        asks_json = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json)
        options = [*first, *own[1:], asks_json]
        run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in options}
        return study.command(name)(run)

    return make


@_command(_job)
def rl(
    job: Job,
    init: Annotated[str, typer.Option(help="What to start from: a reader, a run, or a checkpoint of one.")],
    words: Words = None,
    vary: Annotated[
        list[str] | None, typer.Option(metavar="NAME:KEY=VALUE,…", help="A variant of DCRL; may be given again.")
    ] = None,
) -> Report:
    """DCRL, SCST and more maximum likelihood from one network: table, curves, and where readers disagree (Figure 5).

    Without a RECIPE the starting network's own is taken, with the second stage's rate and schedule.
    """
    from rmreader.studies.trainings import study_rl

    return study_rl(init, *split_words(words), replace(job, curve=True), vary or ())


@_command(_job)
def ablation(
    job: Job,
    words: Words = None,
    rows: Rows = "",
    ml_only: Annotated[bool, typer.Option("--ml-only", help="Compare after maximum likelihood alone.")] = False,
    second: Second = None,
) -> Report:
    """Table 4: the twelve ablations, each trained in the paper's two stages."""
    from rmreader.studies.paper import choose
    from rmreader.studies.trainings import study_ablation

    name = "ablation-ml" if ml_only else "ablation"
    return study_ablation(recipe_of(words), job, choose(rows, ml_only), name, second or ())


@_command(_job)
def rounds(job: Job, words: Words = None) -> Report:
    """Table 1: alignment in one round, in several without memory and with it, each trained by maximum likelihood."""
    from rmreader.studies import paper
    from rmreader.studies.trainings import study_ablation

    return study_ablation(recipe_of(words), job, paper.ROUNDS, "rounds")


@_command(_readers)
def squad(asked: Given, dev: Dev) -> Report:
    """Table 2: exact match and F1 on SQuAD dev, of readers alone and as an ensemble."""
    from rmreader.studies.scores import study_scores

    return study_scores({"dev": dev}, asked.models, asked.device)


@_command(_readers)
def adversarial(
    asked: Given,
    addsent: Annotated[Path, typer.Option(help="The AddSent file.")],
    addonesent: Annotated[Path, typer.Option(help="The AddOneSent file.")],
) -> Report:
    """Table 3: AddSent and AddOneSent, of readers alone and as an ensemble."""
    from rmreader.studies.scores import study_scores

    return study_scores({"addsent": addsent, "addonesent": addonesent}, asked.models, asked.device)


@_command(_readers)
def breakdown(asked: Given, dev: Dev, addsent: AddSent = None) -> list[Report]:
    """F1 by type of question and lengths, beside attacked twins, and examples of what no reader gets right."""
    from rmreader.studies.scores import study_breakdown

    return study_breakdown(asked.models, dev, addsent, asked.device)


@_command(_readers)
def calibration(asked: Given, data: Data) -> Report:
    """How far confidences are from the truth, before and after the temperature, with reliability plots."""
    from rmreader.studies.scores import study_calibration

    return study_calibration(asked.models, data, asked.device)


@_command(_attentions)
def attention(
    asked: Given,
    data: Data,
    without: Annotated[Readers, typer.Option(metavar="MODEL", help="Without reattention; may be given again.")] = None,
    with_: Annotated[Readers, typer.Option("--with", metavar="MODEL", help="With it; may be given again.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Only the first so many questions; 0 is all of them.")] = 0,
    ensembles: Annotated[int, typer.Option(min=1, help="Divide each list into so many ensembles.")] = 1,
) -> Report:
    """Table 5: redundancy and deficiency of the attentions, as KL divergences, without and with reattention."""
    if not without and not with_:
        raise typer.BadParameter("give readers: --without MODEL, --with MODEL, or both, each once or more.")
    from rmreader.studies.attention import study_attention

    readers = {"without": without or (), "with": with_ or ()}
    return study_attention(data, readers, asked.device, limit, asked.keep, ensembles)


def _figure(out: Out, device: Engine = None) -> Given:
    return Given([], device, None)


@_command(_figure)
def figure(
    asked: Given,
    question: Annotated[str, typer.Option(help="What is asked; a sample without it.")] = "",
    passage: Annotated[Path | None, typer.Option(help="File with the passage (UTF-8); a sample without it.")] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="A reader, by name or folder.")] = "small",
) -> Report:
    """Figures 2 and 4: the attentions of every round for one question, and how reattention moved them, as a page."""
    if bool(question) != (passage is not None):
        raise typer.BadParameter("give both --question and --passage, or neither for a sample.")
    from rmreader.documents.passages import read_passage
    from rmreader.studies.attention import study_figure

    return study_figure(*((question, read_passage(passage)) if passage else sample()), model, asked.device)


def sample() -> tuple[str, str]:
    """The question and passage that the web page begins with."""
    from importlib.resources import files
    from json import loads

    first = loads((files("rmreader") / "server" / "page" / "samples.json").read_text(encoding="utf-8"))[0]
    return str(first["questions"][0]), str(first["passage"])


@_command(_job, "all")
def everything(
    job: Job,
    words: Words = None,
    kept: Annotated[
        Path | None, typer.Option("--from", help="Make the page from the lines kept in this folder; train nothing.")
    ] = None,
    rows: Rows = "",
    second: Second = None,
    price: Annotated[float, typer.Option(min=0.0, help="Price of the device per hour, to print the cost.")] = 0.0,
) -> Report:
    """All tables, drawings and verdicts as one page: from kept lines (--from), or after running every study."""
    from rmreader.studies.tables import build

    problems: list[str] = []
    if not kept:
        from rmreader.studies.trainings import study_all

        problems = study_all(recipe_of(words), job, rows, second or ())
    return replace(build(kept or job.out / "log", price), problems=problems)


def _show(reports: list[Report], out: Path | None, json: bool, keep: Path | None) -> None:
    """Print reports, write their files, keep them where asked; status 1 where something went wrong on the way."""
    from rmreader.studies.report import keep_report, save

    written = [path for report in reports for path in (save(report, out) if out else [])]
    for report in reports:
        keep_report(keep, report)
        if not json:
            table(report.rows, report.header, report.title)
            for remark in report.notes:
                typer.echo(remark)
    if json:
        emit_json(reports[0].data if len(reports) == 1 else {report.name: report.data for report in reports})
    for path in written:
        note(str(path))
    problems = [problem for report in reports for problem in report.problems]
    for problem in problems:
        note(f"failed: {problem}")
    if problems:
        raise typer.Exit(1)
