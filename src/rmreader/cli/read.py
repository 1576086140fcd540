"""``rmreader ask``, ``predict`` and ``evaluate``: answers from a reader, and how good they are."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmreader.cli.app import app
from rmreader.cli.output import Json, emit_json, note, on_terminal, table
from rmreader.console import printable
from rmreader.errors import UserError

if TYPE_CHECKING:
    from rmreader.data.squad import Dataset
    from rmreader.reading.answering.answers import Answer, Row
    from rmreader.reading.files.rows import BadRow
    from rmreader.scoring.adversarial import AdversarialScore
    from rmreader.scoring.squad import Score

Model = Annotated[str, typer.Option("--model", "-m", help="A shipped reader by name, or a reader's folder.")]
MinConfidence = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Below this confidence say that there is no answer.")
]
DataFile = Annotated[Path, typer.Argument(metavar="DATA", help="A SQuAD-format file (.json, .json.gz).")]


@app.command()
def ask(
    questions: Annotated[list[str], typer.Argument(metavar="QUESTION", help="One question or more.")],
    passage: Annotated[str, typer.Option("--passage", "-p", help="File with the passage (UTF-8); - reads stdin.")],
    model: Model = "small",
    top: Annotated[int, typer.Option(min=1, help="How many answers to each question, best first.")] = 1,
    min_confidence: MinConfidence = 0.0,
    json: Json = False,
) -> None:
    """Answer questions about a passage. With --json, one object a question and a line."""
    text = _passage(passage)
    for question in questions:
        if not question.strip():
            raise UserError("the question is empty; ask something.")
    from rmreader.reading.answering.reader import Reader

    reader = Reader.load(model)
    for number, question in enumerate(questions):
        found = reader.ask(question, text, top=top, min_confidence=min_confidence)
        if json:
            emit_json({"question": question, "answers": [dataclasses.asdict(answer) for answer in found]})
        else:
            if number:
                typer.echo()
            _show(question, found, text)


@app.command()
def predict(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="SQuAD JSON, JSON Lines, CSV, TSV (.gz too) or Parquet.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="File to write: .jsonl for JSON Lines, else the official format.")
    ],
    model: Model = "small",
    top: Annotated[int, typer.Option(min=1, help="In JSON Lines: how many answers a question, best first.")] = 1,
    min_confidence: MinConfidence = 0.0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a .jsonl file that was broken off.")] = False,
    kind: Annotated[str, typer.Option("--format", help="Format of DATA, where its ending does not tell.")] = "",
    id_column: Annotated[str, typer.Option(help="Column (or key) with the id; row numbers where there is none.")] = "",
    question_column: Annotated[str, typer.Option(help="Column (or key) with the question.")] = "",
    passage_column: Annotated[str, typer.Option(help="Column (or key) with the passage.")] = "",
) -> None:
    """Answer every question of a file: official predictions (id to text), or JSON Lines with all that is known."""
    from rmreader.files import file_to_write
    from rmreader.readers.folder import find, reader_names
    from rmreader.reading.answering.reader import Reader
    from rmreader.reading.files import predict as predicting
    from rmreader.reading.files.rows import Columns, kind_of, read_rows

    file_to_write(out, data, *map(find, reader_names(model)))
    rows: Iterable[Row | BadRow] = read_rows(data, Columns(id_column, question_column, passage_column), kind)
    if kind_of(data, kind) == "squad":
        if id_column or question_column or passage_column:
            raise typer.BadParameter(
                "SQuAD data have no columns; leave out --id-column, --question-column and the like."
            )
        rows = list(rows)  # is read as a whole anyway, and a bad file fails before a reader is loaded
    done = predicting.predict(Reader.load(model), rows, out, top=top, min_confidence=min_confidence, resume=resume)
    for bad in done.bad[:3]:
        note(f"skipped: {bad}")
    if done.skipped > 3:
        note(f"skipped: {done.skipped:,} rows in all.")
    if done.strangers:
        note(f"{out} also holds answers to {done.strangers:,} questions that {data} does not have.")
    earlier = f", {done.resumed:,} from before" if done.resumed else ""
    note(f"{out}: {done.answered:,} answers, {done.unanswered:,} questions without one{earlier}.")
    if done.skipped and not (done.answered or done.unanswered or done.resumed):
        raise UserError(f"{data}: no row of it could be read; the first: {done.bad[0]}.")


@app.command()
def evaluate(
    data: DataFile,
    predictions: Annotated[
        Path | None, typer.Argument(metavar="PREDS.json", help="Predictions in the official format (.gz too).")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Score this reader instead of a file of predictions.")
    ] = None,
    adversarial: Annotated[
        bool, typer.Option("--adversarial", help="Score AddSent-like data: each original at its worst variant.")
    ] = False,
    min_confidence: MinConfidence = 0.0,
    json: Json = False,
) -> None:
    """Exact match and F1, by the official rule: of a file of predictions, or of a reader."""
    if (predictions is None) == (model is None):
        raise typer.BadParameter("give either a file of predictions or --model, and not both.")
    if predictions is not None and min_confidence:
        raise typer.BadParameter("--min-confidence needs --model; a file of predictions has no confidences.")
    from rmreader.data.squad import read_squad
    from rmreader.scoring.adversarial import score_adversarial
    from rmreader.scoring.squad import read_predictions, score

    dataset = _warn(read_squad(data))
    errors: dict[str, Any] = {}
    if predictions is not None:
        texts = read_predictions(predictions)
        result = score_adversarial(dataset, texts) if adversarial else score(dataset, texts)
    else:
        from rmreader.reading.answering.evaluate import evaluate as measure
        from rmreader.reading.answering.reader import Reader

        found = measure(Reader.load(str(model)), dataset, min_confidence, adversarial)
        result, errors = found.score, {"ece": found.ece, "ece_exact_match": found.ece_exact_match}
    if json:
        emit_json(dataclasses.asdict(result) | {"skipped": len(dataset.problems)} | errors)
        return
    _show_score(result)
    if errors:
        both = f"{errors['ece']:.3f} against F1, {errors['ece_exact_match']:.3f} against exact match"
        typer.echo(f"expected calibration error: {both}")


def _passage(place: str) -> str:
    """The passage from a file or stdin."""
    if place == "-" and sys.stdin is None:
        raise UserError("-: standard input is closed; give a file, or the passage through a pipe.")
    content = sys.stdin.buffer.read() if place == "-" else Path(place).read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{place}: not UTF-8 text (at byte {error.start}); save it as UTF-8.") from None
    if not text.strip():
        raise UserError(f"{place}: the passage is empty; give a text to read.")
    return text


def _warn(dataset: Dataset) -> Dataset:
    """The same data set, after saying what of the file was left out."""
    from rmreader.data.squad import skipped

    for sentence in skipped(dataset.problems):
        note(sentence)
    return dataset


def _show_score(result: Score | AdversarialScore) -> None:
    from rmreader.scoring.adversarial import AdversarialScore

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


def _show(question: str, answers: list[Answer], passage: str) -> None:
    """A question with its answers, each marked in its sentence."""
    question = printable(question)
    shown = [(_one_line(answer.text), f"{answer.confidence:.0%}", *_around(answer, passage)) for answer in answers]
    if not on_terminal():
        typer.echo(question)
        for text, sure, before, after in shown:
            typer.echo(f"  {text}  ({sure})   {before}[{text}]{after}")
        if not answers:
            typer.echo("  no answer")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text(question, style="bold"))
    for text, sure, before, after in shown:
        console.print(Text.assemble("  ", (text, "bold green"), (f"  {sure}", "dim")))
        console.print(Text.assemble("  ", (before, "dim"), (text, "black on green"), (after, "dim")))
    if not answers:
        console.print(Text("  no answer", style="dim"))


def _around(answer: Answer, passage: str) -> tuple[str, str]:
    """The rest of the answer's sentence, before and after it, on one line."""
    begin = passage.rfind(answer.sentence, 0, answer.start + len(answer.sentence))
    if begin < 0 or begin > answer.start:
        return "", ""
    before, after = passage[begin : answer.start], passage[answer.end : begin + len(answer.sentence)]
    return _one_line(before), _one_line(after)


def _one_line(text: str) -> str:
    return printable(re.sub(r"\s+", " ", text))
