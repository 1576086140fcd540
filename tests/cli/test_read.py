"""``rmreader ask``, ``predict`` and ``evaluate --model`` with a reader that was really trained, however little."""

from __future__ import annotations

import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rmreader.cli import app
from rmreader.cli.output import show_answers
from rmreader.core.console import one_line
from rmreader.documents.citations import locate_answers
from rmreader.documents.passages import Passages
from rmreader.reading.answers import Answer, Answers
from rmreader.reading.reader import Reader

RUN = CliRunner()
PASSAGE = "Noor lived in Kyoto.  The house\nwas small; \U0001f3e0 Zoë liked it."


@pytest.fixture
def passage(tmp_path: Path) -> str:
    path = tmp_path / "passage.txt"
    path.write_bytes(PASSAGE.encode())
    return str(path)


def test_answers_are_json_on_request(trained: Any, passage: str) -> None:
    done = RUN.invoke(app, ["ask", "--model", trained.model, "--passage", passage, "Who?", "--top", "3", "--json"])
    assert done.exit_code == 0
    answers = json.loads(done.stdout)["answers"]
    expected = Reader.load(trained.model).ask("Who?", PASSAGE, top=3)
    assert [(a["text"], a["start"], a["end"]) for a in answers] == [(a.text, a.start, a.end) for a in expected]
    assert len(answers) == 3
    for answer in answers:
        assert PASSAGE[answer["start"] : answer["end"]] == answer["text"]
        assert {"text", "start", "end", "score", "confidence"} <= set(answer)


def test_several_questions_give_a_line_each(trained: Any, passage: str) -> None:
    done = RUN.invoke(app, ["ask", "-m", trained.model, "-p", passage, "Who?", "Where?", "--json"])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["question"] for line in lines] == ["Who?", "Where?"]


def test_the_passage_may_come_from_stdin(trained: Any, passage: str) -> None:
    piped = RUN.invoke(app, ["ask", "-m", trained.model, "-p", "-", "Who?", "--json"], input=PASSAGE.encode())
    assert piped.stdout == RUN.invoke(app, ["ask", "-m", trained.model, "-p", passage, "Who?", "--json"]).stdout


def test_of_several_passages_every_answer_has_its_file_and_place(trained: Any, tmp_path: Path) -> None:
    texts = {"a.txt": "\ufeffNoor lived in Kyoto.\r\nIt rained.", "b.txt": "Ada lived in Oslo.\r\nThe house was small."}
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text.encode())
    words = ["ask", "-m", trained.model, "Where?", "--top", "8"]
    for name in texts:
        words += ["-p", str(tmp_path / name)]
    found = json.loads(RUN.invoke(app, [*words, "--json"]).stdout)
    assert 3 < len(found["answers"]) <= 8
    assert len({answer["text"] for answer in found["answers"]}) == len(found["answers"])
    for answer in found["answers"]:
        with eval(found["offsets"], {"file": answer["file"]}) as opened:
            text = opened.read()
        assert text[answer["start"] : answer["end"]] == answer["text"]
        assert answer["sentence"] in text
    assert {Path(answer["file"]).name for answer in found["answers"]} == set(texts)
    shown = RUN.invoke(app, words).stdout.splitlines()[1:]
    assert all(answer["file"] in line for answer, line in zip(found["answers"], shown, strict=True))


def test_the_passage_may_be_a_text_or_come_through_a_pipe_unasked(trained: Any, passage: str) -> None:
    words = ["ask", "-m", trained.model, "Who?", "--json"]
    (from_file,) = json.loads(RUN.invoke(app, [*words, "-p", passage]).stdout)["answers"]
    given = json.loads(RUN.invoke(app, [*words, "--text", PASSAGE]).stdout)
    assert (given["offsets"], given["answers"]) == ("text", [from_file])
    piped = subprocess.run(
        [sys.executable, "-m", "rmreader", *words], input=PASSAGE.encode(), capture_output=True, timeout=120
    )
    assert json.loads(piped.stdout)["answers"] == [from_file]
    assert RUN.invoke(app, [*words, "--text", PASSAGE, "-p", passage]).exit_code == 2
    assert RUN.invoke(app, [*words, "--text", " "]).exit_code == 1


def test_answers_may_be_as_long_as_is_wished(trained: Any, passage: str) -> None:
    words = ["ask", "-m", trained.model, "-p", passage, "Who?", "--json", "--threads", "1", "--max-answer-length"]
    for longest in (1, 30):
        (answer,) = json.loads(RUN.invoke(app, [*words, str(longest)]).stdout)["answers"]
        (expected,) = Reader.load(trained.model, max_length=longest).ask("Who?", PASSAGE)
        assert answer["text"] == expected.text
    assert RUN.invoke(app, [*words, "501"]).exit_code == 1


def test_predictions_are_streamed_where_out_is_no_file(trained: Any, tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    command = [sys.executable, "-m", "rmreader", "predict", trained.data, "-m", trained.model, "-o"]
    subprocess.run([*command, str(whole)], check=True, capture_output=True, timeout=120)
    for out in ("-", "/dev/stdout", "/dev/fd/1"):
        target = tmp_path / "target"  # what the shell has put behind standard output is written to, not replaced
        target.write_text("before\n")
        with target.open("ab") as file:
            number = os.fstat(file.fileno()).st_ino
            subprocess.run([*command, out], stdout=file, stderr=subprocess.PIPE, check=True, timeout=120)
        assert target.read_bytes() == b"before\n" + whole.read_bytes()
        assert target.stat().st_ino == number
    head = subprocess.run(
        f"{shlex.join([*command, '-'])} | head -1", shell=True, capture_output=True, check=True, timeout=120
    )
    assert head.stdout == whole.read_bytes().splitlines(keepends=True)[0]
    assert b"Traceback" not in head.stderr
    assert RUN.invoke(app, [*command[3:], "-", "--resume"]).exit_code == 1


@pytest.mark.parametrize("kind", ["jsonl", "csv", "squad"])
def test_rows_may_come_from_standard_input(trained: Any, tmp_path: Path, kind: str) -> None:
    if kind == "squad":
        content = Path(trained.data).read_bytes()
    elif kind == "csv":
        content = b"id;question;passage\n7;Who?;Ada lived in Oslo.\n8;;none\n"
    else:
        content = b'{"question": "Who?", "passage": "Ada lived in Oslo."}\n{broken\n'
    file = tmp_path / f"x.{'json' if kind == 'squad' else kind}"
    file.write_bytes(content)
    words = ["-m", trained.model, "-o", "-"]
    expected = RUN.invoke(app, ["predict", str(file), *words])
    given = [] if kind == "jsonl" else ["--format", kind]
    done = RUN.invoke(app, ["predict", "-", *given, *words], input=content)
    assert (done.exit_code, done.stdout) == (0, expected.stdout)
    assert done.stdout.count("\n") == (8 if kind == "squad" else 1)
    assert done.stderr == expected.stderr.replace(str(file), "-")


@pytest.mark.parametrize("name", ["p.jsonl", "p.csv"])
def test_evaluate_reads_what_predict_writes(trained: Any, tmp_path: Path, name: str) -> None:
    for out in (tmp_path / "official.json", tmp_path / name):
        assert RUN.invoke(app, ["predict", trained.data, "-m", trained.model, "-o", str(out)]).exit_code == 0
    scores = [
        RUN.invoke(app, ["evaluate", trained.data, str(tmp_path / out), "--json"]).stdout
        for out in ("official.json", name)
    ]
    assert scores[0] == scores[1] != ""


def test_in_a_pipe_the_answer_is_marked_in_its_sentence(trained: Any, passage: str) -> None:
    answers = Reader.load(trained.model).ask("Who?", PASSAGE)
    (best,) = answers
    done = RUN.invoke(app, ["ask", "-m", trained.model, "-p", passage, "Who?"])
    question, answer, *_ = done.stdout.splitlines()
    assert question == "Who?"
    lead = "perhaps: " if answers.doubt(best) == "perhaps" else ""
    assert answer.startswith(f"  {lead}{one_line(best.text)}  (")
    assert f"{best.confidence:.0%})" in answer
    marked = answer.split(")   ", 1)[1]
    assert marked.replace("[", "").replace("]", "") == " ".join(best.sentence.split())
    assert f"[{one_line(best.text)}]" in marked


def test_below_the_wanted_confidence_there_is_no_answer(trained: Any, passage: str) -> None:
    words = ["ask", "-m", trained.model, "-p", passage, "Who?", "--min-confidence", "1.0"]
    assert json.loads(RUN.invoke(app, [*words, "--json"]).stdout)["answers"] == []
    done = RUN.invoke(app, words)
    assert done.exit_code == 0
    assert done.stdout.startswith("Who?\n  no answer is sure enough  (the best guess: ")


def test_on_a_terminal_the_answer_is_coloured(trained: Any, passage: str) -> None:
    answers = Reader.load(trained.model).ask("Who?", PASSAGE)
    (best,) = answers
    master, terminal = pty.openpty()
    words = [sys.executable, "-m", "rmreader", "ask", "-m", trained.model, "-p", passage, "Who?"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"}
    environment.pop("NO_COLOR", None)
    done = subprocess.run(words, stdout=terminal, stderr=subprocess.PIPE, env=environment, timeout=600)
    os.close(terminal)
    shown = os.read(master, 1 << 16).decode()
    os.close(master)
    assert (done.returncode, done.stderr) == (0, b"")
    # Inside its sentence, black on the colour of its doubt: green, or yellow for a "perhaps".
    colour = 43 if answers.doubt(best) == "perhaps" else 42
    assert f"\x1b[30;{colour}m{one_line(best.text)}\x1b[0m" in shown


@pytest.mark.parametrize("model", ["no-such-reader", "."])
def test_a_reader_that_is_none_is_one_sentence(passage: str, model: str) -> None:
    done = RUN.invoke(app, ["ask", "-m", model, "-p", passage, "Who?"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_predictions_are_in_the_official_format_and_score_as_the_reader_does(trained: Any, tmp_path: Path) -> None:
    out = tmp_path / "new" / "preds.json"
    done = RUN.invoke(app, ["predict", trained.data, "--model", trained.model, "--out", str(out)])
    assert (done.exit_code, done.stdout) == (0, "")
    predictions = json.loads(out.read_text())
    assert len(predictions) == 8
    assert all(isinstance(text, str) for text in predictions.values())
    assert [path.name for path in out.parent.iterdir()] == ["preds.json"]
    from_file = json.loads(RUN.invoke(app, ["evaluate", trained.data, str(out), "--json"]).stdout)
    from_model = json.loads(RUN.invoke(app, ["evaluate", trained.data, "--model", trained.model, "--json"]).stdout)
    assert 0 <= from_model.pop("ece") <= 1
    assert 0 <= from_model.pop("ece_exact_match") <= 1
    assert from_model == from_file
    assert (from_file["total"], from_file["missing"]) == (8, 0)
    assert "calibration error" in RUN.invoke(app, ["evaluate", trained.data, "--model", trained.model]).stdout


def test_the_trainer_and_the_command_line_agree_on_the_score(trained: Any) -> None:
    reported = json.loads(trained.result.stdout)["dev"]
    found = json.loads(RUN.invoke(app, ["evaluate", trained.data, "-m", trained.model, "--json"]).stdout)
    assert (found["exact_match"], found["f1"]) == pytest.approx((reported["exact_match"], reported["f1"]))


def test_questions_without_answers_can_be_predicted_but_not_scored(trained: Any, tmp_path: Path) -> None:
    tree = json.loads(Path(trained.data).read_text())
    for article in tree["data"]:
        for row in article["paragraphs"][0]["qas"]:
            row["answers"] = []
    (tmp_path / "open.json").write_text(json.dumps(tree))
    out = tmp_path / "preds.json"
    assert RUN.invoke(app, ["predict", str(tmp_path / "open.json"), "-m", trained.model, "-o", str(out)]).exit_code == 0
    assert len(json.loads(out.read_text())) == 8
    done = RUN.invoke(app, ["evaluate", str(tmp_path / "open.json"), str(out)])
    assert (done.exit_code, done.stdout) == (1, "")


def test_a_file_without_one_good_row_is_an_error(trained: Any, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{\n"question": "Who?",\n"passage": "Ada."\n}\n')
    done = RUN.invoke(app, ["predict", str(tmp_path / "x.jsonl"), "-m", trained.model, "-o", str(tmp_path / "p.json")])
    assert done.exit_code == 1
    assert "no row of it could be read" in done.stderr


def test_an_answer_over_two_lines_is_shown_on_one(capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer("Ada\nLovelace", 0, 12, 0.0, 0.9, "Ada\nLovelace met\nher.", 0)
    passages = Passages([""], [answer.sentence])
    show_answers("Who?", locate_answers(passages, Answers((answer,))))
    shown = capsys.readouterr().out
    assert shown.splitlines() == ["Who?", "  Ada Lovelace  (sure, 90%)   [Ada Lovelace] met her."]


def test_a_prediction_that_fails_leaves_the_old_file_alone(trained: Any, tmp_path: Path) -> None:
    out = tmp_path / "preds.json"
    out.write_text("precious")
    done = RUN.invoke(app, ["predict", trained.data, "-m", str(tmp_path), "-o", str(out)])
    assert done.exit_code == 1
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"preds.json": "precious"}
    assert RUN.invoke(app, ["predict", trained.data, "-m", trained.model, "-o", str(tmp_path)]).exit_code == 1


def test_asking_needs_no_torch(trained: Any, passage: str) -> None:
    words = ["rmreader", "ask", "-m", trained.model, "-p", passage, "Who?", "--json"]
    code = f"import sys; sys.modules['torch'] = None; sys.argv = {words}; import rmreader.__main__"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == RUN.invoke(app, words[1:]).stdout
