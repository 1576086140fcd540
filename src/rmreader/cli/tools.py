"""``rmreader calibrate``, ``doctor`` and ``readers``: fit confidences; see what is installed."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rmreader.cli.app import app
from rmreader.cli.output import Json, emit_json, note, show, table
from rmreader.core.console import counted
from rmreader.core.errors import UserError

if TYPE_CHECKING:
    from rmreader.cli.doctor import Diagnosis
    from rmreader.readers.folder import Folder

Reader = Annotated[
    Path,
    typer.Argument(metavar="READER", help="A reader's folder; its temperature is replaced."),
]
TrainingFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The file it was trained on; the articles its recipe held out are used.",
    ),
]
Questions = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Other questions that it did not learn from."),
]
ReaderOfCard = Annotated[
    str,
    typer.Argument(
        metavar="READER",
        help="A reader, by name, folder, archive or hf://ORGANISATION/NAME: print its card.",
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify", help="Compare every file of the shipped and fetched readers with its checksum."
    ),
]


@app.command()
def calibrate(
    reader: Reader,
    train: TrainingFile = None,
    data: Questions = None,
    json: Json = False,
) -> None:
    """Fit a reader's confidences on questions that it did not learn from."""
    if (train is None) == (data is None):
        raise typer.BadParameter("give either --train or --data, and not both.")
    from rmreader.readers.folder import open_folder
    from rmreader.reading.calibrate import ENOUGH, held_out, questions_of
    from rmreader.reading.calibrate import calibrate as fit

    if train is not None:
        questions = held_out(reader, train)
    else:
        has_no_answer = open_folder(reader).recipe.network.no_answer
        questions = questions_of(data or Path(), has_no_answer)
    fitted = fit(reader, questions)
    if json:
        emit_json(dataclasses.asdict(fitted))
        return
    if fitted.questions < ENOUGH:
        count = counted(fitted.questions, "question")
        note(f"{reader}: {count} to fit chances on are few; {ENOUGH} or more are better.")
    typer.echo(f"temperature {fitted.temperature:.3f}, from {fitted.questions:,} questions")
    if fitted.decision is not None:
        threshold = fitted.decision.threshold
        typer.echo(
            f"no answer is given where the chance that there is none is above {threshold:.3f}"
        )
    before = fitted.error_before
    after = fitted.error_after
    typer.echo(f"expected calibration error {before:.3f} before, {after:.3f} after")


@app.command()
def doctor(json: Json = False) -> None:
    """Show versions, devices, kernels, shipped readers, and how to install what is missing."""
    from rmreader.cli.doctor import diagnose

    diagnosis = diagnose()
    if json:
        emit_json(dataclasses.asdict(diagnosis))
    else:
        table(_rows(diagnosis), ("what", "state"))


def _rows(diagnosis: "Diagnosis") -> list[tuple[str, str]]:
    rows = list(diagnosis.versions.items())
    for device in diagnosis.devices:
        rows.append(("device", device))
    for name, state in diagnosis.kernels.items():
        rows.append((f"kernel {name}", state))
    for reader in diagnosis.readers:
        rows.append((f"reader {reader.name}", f"{reader.bytes / 1e6:.1f} MB, {reader.state}"))
    if not diagnosis.readers:
        rows.append(("readers", "none shipped"))
    for extra in diagnosis.extras:
        state = "present"
        if extra.missing:
            state = f"missing {', '.join(extra.missing)}: {extra.get}"
        rows.append((f"extra {extra.name}", state))
    for name, place in diagnosis.folders.items():
        rows.append((f"folder {name}", place))
    return rows


@app.command()
def readers(reader: ReaderOfCard = "", verify: Verify = False, json: Json = False) -> None:
    """List the shipped readers with their scores on SQuAD 1.1 dev, or print one reader's card."""
    if verify:
        _verify(reader, json)
        return
    from rmreader.cli.doctor import shipped_readers
    from rmreader.core.files.manifest import CARD
    from rmreader.readers.folder import open_folder
    from rmreader.readers.head import without_head

    names = [reader] if reader else [shipped.name for shipped in shipped_readers()]
    folders = {name: open_folder(name) for name in names}
    if json:
        tree = {}
        for name, folder in folders.items():
            tree[name] = folder.about | {"card": str(folder.path / CARD)}
        emit_json(tree)
    elif reader:
        card = folders[reader].path / CARD
        if not card.is_file():
            raise UserError(
                f"{card}: this reader has no card; reader.json beside it says what is known."
            )
        show(without_head(card.read_text(encoding="utf-8", errors="replace")))
    else:
        _show_scores(folders)


def _verify(reader: str, json: bool) -> None:
    from rmreader.cli.verify import verify

    found = verify(reader)
    if json:
        emit_json([dataclasses.asdict(one) for one in found])
    else:
        table([(one.name, one.state, one.path) for one in found], ("reader", "state", "path"))
    damaged = [one for one in found if one.is_damaged]
    if damaged:
        raise UserError(
            f"{damaged[0].path}: {damaged[0].state}; {counted(len(damaged), 'reader')} damaged. "
            "Reinstall rmreader where it is a shipped one; else remove the folder and fetch it "
            "again."
        )


def _show_scores(folders: "dict[str, Folder]") -> None:
    from rmreader.core.files.manifest import CARD

    rows = []
    for name, folder in folders.items():
        score = folder.about.get("scores", {}).get("SQuAD 1.1 dev", {})
        card = str(folder.path / CARD)
        rows.append((name, score.get("exact_match", ""), score.get("f1", ""), card))
    table(rows, ("reader", "exact match", "F1", "card"))
