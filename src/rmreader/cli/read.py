"""``rmreader ask`` and ``evaluate``: answers from a reader, and how good they are."""

from __future__ import annotations

import dataclasses
import os
import stat
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from rmreader.cli.app import app
from rmreader.cli.asking import check_is_no_text, files_and_questions, keyword_lines
from rmreader.cli.output import Json, emit_json, note, show_answers, table
from rmreader.core.errors import UserError
from rmreader.text.language import language_remark

if TYPE_CHECKING:
    from rmreader.documents.passages import Passages
    from rmreader.reading.answers import RankedAnswers
    from rmreader.scoring.squad import AdversarialScore, Score


def complete_reader(typed: str) -> list[str]:
    """The shipped readers and the folders that begin so, for a shell's TAB."""
    from rmreader.readers.folder import MANIFEST, SHIPPED

    shipped = sorted(path.parent.name for path in SHIPPED.glob(f"*/{MANIFEST}"))
    folders = [str(path.parent) for path in Path().glob(f"{typed}*/{MANIFEST}")]
    return [name for name in [*shipped, *folders] if name.startswith(typed)]


Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        metavar="READER",
        help="A shipped reader by name, or a reader's folder.",
        autocompletion=complete_reader,
    ),
]
MinConfidence = Annotated[
    float,
    typer.Option(
        metavar="CHANCE",
        min=0.0,
        max=1.0,
        help="Below this confidence say that there is no answer.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Threads to read with; by default one per processor."),
]
Always = Annotated[
    bool,
    typer.Option(
        "--always", help="Give the best answer even where the reader decides that there is none."
    ),
]
MaxLength = Annotated[
    int | None,
    typer.Option(
        "--max-answer-length",
        metavar="N",
        min=1,
        help="Longest answer in tokens; by default the recipe's.",
    ),
]
_NO_SHARE = ("best_threshold", "total")  # of SQuAD 2.0's scores, those that are no percentage
Index = Annotated[
    str | None,
    typer.Option(
        "--index",
        "-i",
        metavar="INDEX",
        help="Ask all documents of an index, which `rmreader index` makes.",
    ),
]
DataFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help="SQuAD JSON, or JSON Lines, CSV, TSV (.gz too) or Parquet."
    ),
]


@app.command(epilog='Example: rmreader ask --passage notes.txt "Who wrote it?"')
def ask(
    questions: Annotated[
        list[str], typer.Argument(metavar="QUESTION", help="One question or more.")
    ],
    passage: Annotated[
        list[str] | None,
        typer.Option(
            "--passage",
            "-p",
            metavar="FILE",
            help="Document with the passage; - reads stdin. Several are read as one.",
        ),
    ] = None,
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="The passage itself.")] = None,
    index: Index = None,
    model: Model = "small",
    top: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="How many answers per question, best first; by default 1, of an index 3.",
        ),
    ] = None,
    min_confidence: MinConfidence = 0.0,
    always: Always = False,
    max_length: MaxLength = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Answer questions about a passage (files, --text, piped text) or the documents of an --index.

    With --json, each question's answers are one object on one line; its "offsets" names the text
    that starts and ends are counted in.
    """
    files, questions = files_and_questions(questions, passage or [])
    if index is not None:
        if files or text is not None:
            raise typer.BadParameter("give either --index or a passage, and not both.")
        loading: dict[str, Any] = {"threads": threads, "max_length": max_length}
        _ask_shelf(
            questions,
            index,
            model,
            loading,
            json,
            top=top or 3,
            min_confidence=min_confidence,
            always=always,
        )
        return
    passages = _passages(files, text)
    from rmreader.documents.asking import asking, is_large
    from rmreader.reading.reader import Reader

    if is_large(passages):
        size = sum(map(len, passages.texts))
        note(
            f"{size:,} characters: indexed first, and of each question the best passages are read."
        )
    reader = Reader.load(model, threads=threads, max_length=max_length)
    options: dict[str, Any] = {"top": top or 1, "min_confidence": min_confidence, "always": always}
    with asking(passages, reader) as answer:
        for number, question in enumerate(questions):
            answers = answer(question, **options)
            if json:
                emit_json({"question": question, "offsets": passages.offsets, **answers.to_dict()})
            else:
                if number:
                    typer.echo()
                show_answers(question, answers)
                if not answers:
                    _show_keyword_lines(question, passages.text)
            _note_language(question, passages.text, answers)


def _note_language(question: str, text: str, answers: RankedAnswers[Any]) -> None:
    """Say that only English is read, unless the refusal of an answer has said so."""
    remark = language_remark(question, text)
    if remark is not None and not (answers.refuses and answers.needs):
        note(remark)


def _show_keyword_lines(question: str, text: str) -> None:
    """Show the best lines where a few keywords were given instead of a question."""
    lines = keyword_lines(question, text)
    if lines:
        typer.echo("  lines with these words:")
    for line in lines:
        typer.echo(f"    {line}")


def _ask_shelf(
    questions: list[str],
    place: str,
    model: str,
    loading: dict[str, Any],
    json: bool,
    **options: Any,
) -> None:
    """``rmreader ask --index``: each question of all documents."""
    from rmreader.documents.shelf import Shelf
    from rmreader.reading.reader import Reader

    index = Shelf.open(place).index
    index.size()  # which refuses what is no index, before a reader is loaded
    shelf = Shelf(index, Reader.load(model, **loading))
    for number, question in enumerate(questions):
        citations = shelf.ask(question, **options).locate()
        if json:
            emit_json({"question": question, **citations.to_dict()})
        else:
            if number:
                typer.echo()
            show_answers(question, citations)
        _note_language(question, "", citations)


@app.command()
def evaluate(
    data: DataFile,
    predictions: Annotated[
        Path | None,
        typer.Argument(metavar="PREDS", help="Predictions, in any format that `predict` writes."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="READER",
            help="Score this reader instead of a file of predictions.",
        ),
    ] = None,
    adversarial: Annotated[
        bool,
        typer.Option(
            "--adversarial", help="Score AddSent-like data: each original at its worst variant."
        ),
    ] = False,
    min_confidence: MinConfidence = 0.0,
    json: Json = False,
) -> None:
    """Score a file of predictions, or a reader: exact match and F1, by the official rule."""
    if (predictions is None) == (model is None):
        raise typer.BadParameter("give either a file of predictions or --model, and not both.")
    if predictions is not None and min_confidence:
        raise typer.BadParameter(
            "--min-confidence needs --model; a file of predictions has no confidences."
        )
    from rmreader.data.examples import read_data
    from rmreader.data.squad import report_problems
    from rmreader.scoring.squad import score, score_adversarial

    dataset = report_problems(read_data(data))
    errors: dict[str, Any] = {}
    if predictions is not None:
        from rmreader.predict.writers import read_predictions

        texts = read_predictions(predictions)
        result = score_adversarial(dataset, texts) if adversarial else score(dataset, texts)
    else:
        from rmreader.reading.evaluate import evaluate as measure
        from rmreader.reading.reader import Reader

        reader = Reader.load(str(model))
        found = measure(reader, dataset, min_confidence, adversarial)
        result, errors = found.score, {"ece": found.ece, "ece_exact_match": found.ece_exact_match}
        if found.no_answer is not None:
            errors["no_answer"] = dataclasses.asdict(found.no_answer)
        elif found.decided is not None:
            errors["decided"] = dataclasses.asdict(found.decided)
    if json:
        emit_json(dataclasses.asdict(result) | {"skipped": len(dataset.problems)} | errors)
        return
    _show_score(result)
    if "decided" in errors:
        decided = errors["decided"]
        typer.echo(
            "Every question here has an answer, so one is always given. As a user gets it, with "
            f"the decision on: EM {decided['exact_match']:.2f}, F1 {decided['f1']:.2f}, "
            f"{decided['answered']:.1f} % of the questions answered"
        )
    if "no_answer" in errors:
        scores = errors["no_answer"]
        table(
            [(name, scores[name]) for name in sorted(scores) if name not in _NO_SHARE],
            ("SQuAD 2.0", "%"),
        )
        threshold = scores["best_threshold"]
        typer.echo(
            f"best F1 where no answer is given above a chance of {threshold:.3f} that there is none"
        )
    if errors:
        both = (
            f"{errors['ece']:.3f} against F1, {errors['ece_exact_match']:.3f} against exact match"
        )
        typer.echo(f"expected calibration error: {both}")


def _passages(places: list[str], text: str | None) -> Passages:
    """What is asked about: files, or a text, or standard input where something is sent there."""
    from rmreader.documents.passages import Passages, read_passages

    if places and text is not None:
        raise typer.BadParameter("give either --passage or --text, and not both.")
    if text is not None:
        if not text.strip():
            raise UserError("--text is empty; give a text to read.")
        return Passages([""], [text])
    if not places:
        if sys.stdin is None or sys.stdin.isatty() or _is_device(sys.stdin):
            raise typer.BadParameter(
                "give the passage: --passage FILE, --text TEXT, or through a pipe."
            )
        places = ["-"]
    for place in places:
        check_is_no_text(place)
    passages, notes = read_passages(places)
    for sentence in notes:
        note(sentence)
    return passages


def _is_device(file: IO[str]) -> bool:
    """Whether it is a device, such as /dev/null, to which nobody sends anything."""
    try:
        return stat.S_ISCHR(os.fstat(file.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def _show_score(result: Score | AdversarialScore) -> None:
    from rmreader.scoring.squad import AdversarialScore

    header = ("", "exact match", "F1", "questions", "missing")
    if isinstance(result, AdversarialScore):
        clean = result.clean
        rows = [
            ("attacked", result.exact_match, result.f1, result.total, result.missing),
            ("unattacked", clean.exact_match, clean.f1, clean.total, clean.missing),
        ]
    else:
        rows = [("score", result.exact_match, result.f1, result.total, result.missing)]
    table(rows, header)
