"""``rmreader ask``, ``predict`` and ``evaluate``: answers from a reader, and how good they are."""

from __future__ import annotations

import dataclasses
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from rmreader.cli.app import app
from rmreader.cli.output import Json, emit_json, note, show_answers, table
from rmreader.errors import UserError

if TYPE_CHECKING:
    from rmreader.data.squad import Dataset
    from rmreader.reading.answering.answers import Answer, Row
    from rmreader.reading.files.passages import Passages
    from rmreader.reading.files.rows import BadRow
    from rmreader.scoring.adversarial import AdversarialScore
    from rmreader.scoring.squad import Score

Model = Annotated[str, typer.Option("--model", "-m", help="A shipped reader by name, or a reader's folder.")]
MinConfidence = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Below this confidence say that there is no answer.")
]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads to read with; else as many as there are processors.")]
Always = Annotated[
    bool, typer.Option("--always", help="Give the best answer even where the reader decides that there is none.")
]
MaxLength = Annotated[
    int | None, typer.Option("--max-answer-length", min=1, help="Longest answer in tokens; else what its recipe says.")
]
_NO_SHARE = ("best_threshold", "total")  # of SQuAD 2.0's scores, those that are no percentage
DataFile = Annotated[Path, typer.Argument(metavar="DATA", help="A SQuAD-format file (.json, .json.gz).")]


@app.command()
def ask(
    questions: Annotated[list[str], typer.Argument(metavar="QUESTION", help="One question or more.")],
    passage: Annotated[
        list[str] | None,
        typer.Option("--passage", "-p", help="File with the passage (UTF-8); - reads stdin. Several are read as one."),
    ] = None,
    text: Annotated[str | None, typer.Option(help="The passage itself.")] = None,
    model: Model = "small",
    top: Annotated[int, typer.Option(min=1, help="How many answers per question, best first.")] = 1,
    min_confidence: MinConfidence = 0.0,
    always: Always = False,
    max_length: MaxLength = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Answer questions about a passage: of files, of --text, or of standard input where it is a pipe.

    With --json, one object per question and line; "offsets" says which text the starts and ends count in.
    """
    from rmreader.reading.files.passages import OFFSETS

    passages = _passages(passage or [], text)
    for question in questions:
        if not question.strip():
            raise UserError("the question is empty; ask something.")
    from rmreader.reading.answering.reader import Reader

    reader, whole, breaks = Reader.load(model, threads=threads, max_length=max_length), passages.text, passages.begins
    for number, question in enumerate(questions):
        options: dict[str, Any] = {"min_confidence": min_confidence, "always": always, "breaks": breaks[1:]}
        found = reader.ask(question, whole, top=top, **options)
        if json:
            tree: dict[str, Any] = {"question": question, "offsets": "text" if text is not None else OFFSETS}
            tree["answers"] = [_located(passages, answer) for answer in found]
            if found.none is not None:
                tree["no_answer"] = found.none
                if not found and found.guess is not None:
                    tree["guess"] = _located(passages, found.guess)
            emit_json(tree)
        else:
            if number:
                typer.echo()
            show_answers(question, found, whole, [passages.locate(answer)[0] for answer in found])


def _located(passages: Passages, answer: Answer) -> dict[str, Any]:
    """An answer as plain data, with the file it is in, where there are several."""
    file, here = passages.locate(answer)
    return dataclasses.asdict(here) | ({"file": file} if file else {})


@app.command()
def predict(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="SQuAD JSON, JSON Lines, CSV, TSV (.gz too) or Parquet; - is stdin.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="File to write: .jsonl, .csv, .tsv, .parquet, else the official format; - is stdout."
        ),
    ],
    model: Model = "small",
    top: Annotated[int, typer.Option(min=1, help="How many answers per question, best first (not official).")] = 1,
    min_confidence: MinConfidence = 0.0,
    always: Always = False,
    na_prob_file: Annotated[
        Path | None, typer.Option(help="Write each question's chance of having no answer too, as SQuAD 2.0 scores it.")
    ] = None,
    max_length: MaxLength = None,
    threads: Threads = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a .jsonl file that was broken off.")] = False,
    kind: Annotated[str, typer.Option("--format", help="Format of DATA, where its ending does not tell.")] = "",
    id_column: Annotated[str, typer.Option(help="Column (or key) with the id; row numbers where there is none.")] = "",
    question_column: Annotated[str, typer.Option(help="Column (or key) with the question.")] = "",
    passage_column: Annotated[str, typer.Option(help="Column (or key) with the passage.")] = "",
) -> None:
    """Answer every question of a file: official predictions (id to text), or JSON Lines or a table with all details."""
    import json

    from rmreader.data.squad import skipped
    from rmreader.data.tables import kind_of
    from rmreader.files import file_to_write, write_whole
    from rmreader.readers.folder import find, reader_names
    from rmreader.reading.answering.reader import Reader
    from rmreader.reading.files import predict as predicting
    from rmreader.reading.files.rows import Columns, read_rows

    if not predicting.is_stream(out):
        file_to_write(out, data, *map(find, reader_names(model)))
    rows: Iterable[Row | BadRow] = read_rows(data, Columns(id_column, question_column, passage_column), kind)
    if kind_of(data, kind) == "squad":
        if id_column or question_column or passage_column:
            raise typer.BadParameter(
                "SQuAD data have no columns; leave out --id-column, --question-column and the like."
            )
        rows = list(rows)  # is read as a whole anyway, and a bad file fails before a reader is loaded
    reader = Reader.load(model, threads=threads, max_length=max_length)
    chances: dict[str, float] | None = {} if na_prob_file is not None else None
    if na_prob_file is not None:
        file_to_write(na_prob_file, data, out)
    options: dict[str, Any] = {"min_confidence": min_confidence, "always": always, "resume": resume}
    done = predicting.predict(reader, rows, out, top=top, chances=chances, **options)
    if na_prob_file is not None:
        write_whole(na_prob_file, json.dumps(chances).encode())
    for sentence in skipped(done.bad, done.skipped):
        note(sentence)
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
        Path | None, typer.Argument(metavar="PREDS", help="Predictions, official or whatever `predict` writes.")
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
    from rmreader.scoring.squad import score

    dataset = _warn(read_squad(data))
    errors: dict[str, Any] = {}
    if predictions is not None:
        from rmreader.reading.files.written import read_predictions

        texts = read_predictions(predictions)
        result = score_adversarial(dataset, texts) if adversarial else score(dataset, texts)
    else:
        from rmreader.reading.answering.evaluate import evaluate as measure
        from rmreader.reading.answering.reader import Reader

        reader = Reader.load(str(model))
        found = measure(reader, dataset, min_confidence, adversarial)
        result, errors = found.score, {"ece": found.ece, "ece_exact_match": found.ece_exact_match}
        if found.no_answer is not None:
            errors["no_answer"] = dataclasses.asdict(found.no_answer)
        elif reader.decision is not None:
            note("every question here has an answer, so one is always given: the decision is off.")
    if json:
        emit_json(dataclasses.asdict(result) | {"skipped": len(dataset.problems)} | errors)
        return
    _show_score(result)
    if "no_answer" in errors:
        scores = errors["no_answer"]
        table([(name, scores[name]) for name in sorted(scores) if name not in _NO_SHARE], ("SQuAD 2.0", "%"))
        threshold = scores["best_threshold"]
        typer.echo(f"best F1 where no answer is given above a chance of {threshold:.3f} that there is none")
    if errors:
        both = f"{errors['ece']:.3f} against F1, {errors['ece_exact_match']:.3f} against exact match"
        typer.echo(f"expected calibration error: {both}")


def _passages(places: list[str], text: str | None) -> Passages:
    """What is asked about: files, or a text, or standard input where something is sent there."""
    from rmreader.reading.files.passages import Passages, read_passage

    if places and text is not None:
        raise typer.BadParameter("give either --passage or --text, and not both.")
    if text is not None:
        if not text.strip():
            raise UserError("--text is empty; give a text to read.")
        return Passages([""], [text])
    if not places:
        if sys.stdin is None or sys.stdin.isatty() or _is_device(sys.stdin):
            raise typer.BadParameter("give the passage: --passage FILE, --text TEXT, or through a pipe.")
        places = ["-"]
    names = places if len(places) > 1 else [""]  # of one alone it goes without saying
    return Passages(names, [read_passage(place) for place in places])


def _is_device(file: IO[str]) -> bool:
    """Whether it is a device, such as /dev/null, to which nobody sends anything."""
    try:
        return stat.S_ISCHR(os.fstat(file.fileno()).st_mode)
    except (OSError, ValueError):
        return False


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
