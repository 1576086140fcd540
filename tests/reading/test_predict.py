"""Files in, files out: every format, bad rows named, broken-off runs taken up again."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import io
import json
import os
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from rmreader.core.errors import UserError
from rmreader.predict.predict import Summary, predict
from rmreader.predict.rows import BadRow, Columns, read_rows
from rmreader.predict.writers import read_predictions
from rmreader.reading.decision import Decision
from rmreader.reading.reader import Reader
from rmreader.reading.rows import QuestionRow
from rmreader.reading.spans import log_sum

ROWS = [
    {"id": "a", "question": "Who?", "passage": "Ada wrote it,\nin 1843."},
    {"id": "b", "question": 'Where, "exactly"?', "passage": "In London; 中文."},
    {
        "id": "c",
        "question": "When?",
        "passage": "In 1843. Ada came home late, and Charles Babbage left London again one year later.",
    },
]
EXPECTED = [QuestionRow(**row) for row in ROWS]
ANSWER_KEYS = {"text", "start", "end", "score", "confidence", "sentence", "sentence_start", "doubt"}


@pytest.fixture
def other_reader(make_reader: Any) -> Reader:
    """Another one: the same but for its weights."""
    return Reader.load(make_reader(seed=2), threads=2)


def write(path: Path, kind: str, rows: list[dict[str, Any]] | None = None) -> Path:
    rows = ROWS if rows is None else rows
    if kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), path)
        return path
    if kind == "squad":
        paragraphs = [
            {"context": row["passage"], "qas": [{"id": row["id"], "question": row["question"], "answers": []}]}
            for row in rows
        ]
        text = json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]})
    elif kind == "jsonl":
        text = "".join(json.dumps(row) + "\n" for row in rows)
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter="\t" if kind == "tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
        text = path.read_bytes().decode()
    content = text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("x.json", "squad"),
        ("x.json.gz", "squad"),
        ("x.jsonl", "jsonl"),
        ("x.ndjson.gz", "jsonl"),
        ("x.csv", "csv"),
        ("x.csv.gz", "csv"),
        ("x.tsv", "tsv"),
        ("x.parquet", "parquet"),
    ],
)
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str, kind: str) -> None:
    assert list(read_rows(write(tmp_path / name, kind))) == EXPECTED


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_columns_may_have_other_names_and_ids_be_absent(tmp_path: Path, kind: str) -> None:
    rows = [{"q": row["question"], "text": row["passage"]} for row in ROWS]
    path = write(tmp_path / f"x.{kind}", kind, rows)
    found = list(read_rows(path, Columns(question="q", passage="text")))
    assert found == [QuestionRow(str(k), row["question"], row["passage"]) for k, row in enumerate(ROWS, start=1)]
    context = write(tmp_path / f"y.{kind}", kind, [{"question": "Who?", "context": "Ada."}])
    assert list(read_rows(context)) == [QuestionRow("1", "Who?", "Ada.")]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_missing_column_is_named_with_those_there_are(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / f"x.{kind}", kind)
    with pytest.raises(UserError, match=r"no column 'title'; its columns are 'id', 'question', 'passage'"):
        list(read_rows(path, Columns(passage="title")))


def test_bad_rows_are_named_and_the_good_ones_kept(tmp_path: Path) -> None:
    lines = [
        json.dumps(ROWS[0]),
        "{broken",
        "[1]",
        json.dumps({"id": "x", "question": 5, "passage": "p"}),
        json.dumps({"id": "y", "question": "  ", "passage": "p"}),
        json.dumps({"id": "z", "question": "q"}),
        "",
        json.dumps(ROWS[0]),
        json.dumps(ROWS[1]),
    ]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    rows = list(read_rows(path))
    assert [row for row in rows if isinstance(row, QuestionRow)] == EXPECTED[:2]
    said = [str(row) for row in rows if isinstance(row, BadRow)]
    assert [text.split(": ", 1)[1] for text in said] == [
        said[0].split(": ", 1)[1],
        "line 3: not a JSON object",
        "line 4: 'question' is not text but int",
        "line 5: 'question' is empty",
        "line 6: 'passage' or 'context' is missing",
        "line 8: its id, 'a', is that of an earlier row",
    ]
    assert "line 2: not valid JSON" in said[0]


def test_ragged_csv_rows_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id,question,passage\na,Who?,Ada.\nb,Where?\nc,When?,1843,too many\nd,Why?,So.\n")
    rows = list(read_rows(path))
    assert [row.id for row in rows if isinstance(row, QuestionRow)] == ["a", "d"]
    assert [str(row).split(": ", 1)[1] for row in rows if isinstance(row, BadRow)] == [
        "row 2: 2 fields where the header has 3",
        "row 3: 4 fields where the header has 3",
    ]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x.csv", b"", "the file is empty"),
        ("x.csv", b"id,question,passage\n1,\xff\xfe,p\n", "line 2: not UTF-8"),
        ("x.jsonl.gz", b"no gzip", "gzip data is cut short or damaged"),
        (
            "x.jsonl.gz",
            gzip.compress(b'{"question":"q","passage":"p"}\n' * 999, mtime=0)[:-20],
            "gzip data is cut short or damaged",
        ),
        ("x.parquet", b"PAR1 not", "not a Parquet file"),
        ("x.txt", b"", "the ending says nothing about the format"),
        ("x.xlsx", b"PK\x03\x04 xl/", r"this is an Excel table \(.xlsx\), not a file of questions; save it as CSV"),
        ("x.csv", b"Q,passage\n", "no column 'question'; its columns are 'Q', 'passage'; .*: --question-column NAME"),
        ("x.csv", b"\n", "its columns are none; say which it is"),
    ],
)
def test_files_that_are_not_what_they_seem_are_one_sentence(
    tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=says) as caught:
        list(read_rows(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_what_is_no_file_is_said_before_its_ending(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a folder; give a file of questions\.$"):
        list(read_rows(tmp_path))
    with pytest.raises(UserError, match=r"no such file; check the path\.$"):
        list(read_rows(tmp_path / "nowhere"))


@pytest.mark.parametrize(("name", "tab"), [("x.csv", ","), ("x.tsv", "\t")])
def test_a_quote_that_is_left_open_loses_no_row_in_silence(tmp_path: Path, name: str, tab: str) -> None:
    lines = ["id,question,passage", '0,Who?,"Yes" said Bob', "1,Who?,Ann", '2,Who?,"Ann', "3,Who?,Tim", "4,Who?,Tom"]
    (tmp_path / name).write_text("\n".join(lines).replace(",", tab) + "\n")
    first, ann, last = read_rows(tmp_path / name)
    assert isinstance(first, BadRow)
    assert first.place.endswith("row 1")
    assert ann == QuestionRow("1", "Who?", "Ann")
    assert isinstance(last, BadRow)
    assert "lines 4 to 6" in last.what


def test_of_two_columns_with_one_name_none_is_taken(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,question,passage,passage\n0,Who?,Bob,Ann\n")
    with pytest.raises(UserError, match="several columns 'passage'"):
        list(read_rows(tmp_path / "x.csv"))


def test_of_a_table_only_what_is_needed_is_read(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    ends, letters = b"\0\0\0\0\2\0\0\0\6\0\0\0", b"\xff\xfeWho?"  # the first text is not UTF-8
    broken = pyarrow.StringArray.from_buffers(2, pyarrow.py_buffer(ends), pyarrow.py_buffer(letters))
    columns = {
        "question": broken,
        "passage": ["p", "p"],
        "made": pyarrow.array([2**62 + 1, 1], pyarrow.timestamp("ns")),
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "x.parquet")
    bad, good = read_rows(tmp_path / "x.parquet")
    assert isinstance(bad, BadRow)
    assert good == QuestionRow("2", "Who?", "p")


def test_endings_may_be_written_large(reader: Reader, tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl.gz", "jsonl").rename(tmp_path / "X.JSONL.GZ")
    assert list(read_rows(path)) == EXPECTED
    predict(reader, EXPECTED, tmp_path / "P.JSONL")
    assert len((tmp_path / "P.JSONL").read_text().splitlines()) == 3


def test_a_pipe_is_said_to_be_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.jsonl")
    with pytest.raises(UserError, match="a pipe or device"):
        list(read_rows(tmp_path / "x.jsonl"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize(("name", "way"), [("p.jsonl", "--resume"), ("p.jsonl.gz", "make room and remove it")])
def test_a_full_disk_is_told_with_the_way_on(
    reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, way: str
) -> None:
    plain_open = Path.open

    def open_full(path: Path, mode: str = "r", **more: Any) -> IO[Any]:
        is_output = path.name == name and mode == "xb"
        if is_output:
            path.touch()
        # As on a disk that is full, nothing can be written at the close either.
        return plain_open(Path("/dev/full") if is_output else path, "wb" if is_output else mode, **more)

    monkeypatch.setattr(Path, "open", open_full)
    with pytest.raises(UserError, match=rf"{name}: cannot be written to \(No space.*{way}"):
        predict(reader, EXPECTED, tmp_path / name)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        list(read_rows(tmp_path / "absent.csv"))
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(UserError, match="a folder; give a file"):
        list(read_rows(tmp_path / "folder.json"))


def test_a_row_without_an_id_pushes_no_other_out(tmp_path: Path) -> None:
    ids: list[Any] = [None, "1", 4, None, None, ["x"], False, "1"]
    rows = [{"id": id, "question": "q", "passage": f"p{k}"} for k, id in enumerate(ids)]
    found = list(read_rows(write(tmp_path / "x.jsonl", "jsonl", rows)))
    assert [row.id for row in found[:5] if isinstance(row, QuestionRow)] == ["line 1", "1", "4", "line 4", "5"]
    unnamed = write(tmp_path / "x.csv", "csv", [{"": "1", "question": "q", "passage": "p"}])  # as pandas writes them
    assert list(read_rows(unnamed)) == [QuestionRow("1", "q", "p")]
    assert [str(row).split(": ", 1)[1] for row in found[5:]] == [
        "line 6: 'id' is neither text nor number but list",
        "line 7: 'id' is neither text nor number but bool",
        "line 8: its id, '1', is that of an earlier row",
    ]


def test_prediction_does_not_mind_bad_reference_answers(tmp_path: Path) -> None:
    bad = [[{"text": "Ada", "answer_start": 99}], [{"text": 5}], "none", {}]
    rows = [{"id": f"{k}", "question": "Who?", "answers": answers} for k, answers in enumerate(bad)]
    tree = {"data": [{"title": "t", "paragraphs": [{"context": "Ada wrote it.", "qas": rows}]}]}
    (tmp_path / "x.json").write_text(json.dumps(tree))
    assert list(read_rows(tmp_path / "x.json")) == [
        QuestionRow(f"{k}", "Who?", "Ada wrote it.") for k in range(len(bad))
    ]


def test_an_error_does_not_repeat_the_file(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"data": "' + "long " * 1000 + '"' + ', "a": 1' * 500 + "}")
    with pytest.raises(UserError, match="no column 'question'") as caught:
        list(read_rows(tmp_path / "x.json", kind="csv"))
    assert len(str(caught.value)) < 1000


def test_official_format(reader: Reader, tmp_path: Path) -> None:
    for name in ("deep/p.json", "deep/p.json.gz"):
        summary = predict(reader, [*EXPECTED, BadRow("there", "wrong")], tmp_path / name)
        content = (tmp_path / name).read_bytes()
        found = json.loads(gzip.decompress(content) if name.endswith(".gz") else content)
        assert found == {row.id: reader.ask(row.question, row.passage)[0].text for row in EXPECTED}
        assert (summary.answered, summary.skipped, summary.bad) == (3, 1, [BadRow("there", "wrong")])
    assert {path.name for path in (tmp_path / "deep").iterdir()} == {"p.json", "p.json.gz"}


def test_json_lines_hold_everything_known_of_each_answer(reader: Reader, tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    summary = predict(reader, EXPECTED, out, top=2, min_confidence=0.0)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["id"] for line in lines] == ["a", "b", "c"]
    for row, line in zip(EXPECTED, lines, strict=True):
        assert len(line["answers"]) == 2
        for answer in line["answers"]:
            assert set(answer) == ANSWER_KEYS
            assert row.passage[answer["start"] : answer["end"]] == answer["text"]
    assert summary == Summary(answered=3)
    unsure = tmp_path / "unsure.jsonl.gz"
    assert predict(reader, EXPECTED, unsure, min_confidence=1.0).unanswered == 3
    assert [json.loads(line)["answers"] for line in gzip.decompress(unsure.read_bytes()).splitlines()] == [[], [], []]


@pytest.mark.parametrize("cut", range(0, 400, 29))
def test_a_run_broken_off_anywhere_is_taken_up_again(reader: Reader, tmp_path: Path, cut: int) -> None:
    whole, out = tmp_path / "whole.jsonl", tmp_path / "p.jsonl"
    predict(reader, EXPECTED, whole)
    out.write_bytes(whole.read_bytes()[:cut])
    done = whole.read_bytes()[:cut].count(b"\n")
    summary = predict(reader, EXPECTED, out, resume=True)
    assert out.read_bytes() == whole.read_bytes()
    assert (summary.resumed, summary.answered) == (done, 3 - done)


def test_what_one_reader_began_another_does_not_go_on_with(
    reader: Reader, other_reader: Reader, tmp_path: Path
) -> None:
    out = tmp_path / "p.jsonl"
    predict(reader, EXPECTED[:2], out, min_confidence=1.0)  # no answer: nothing to compare but the run itself
    before = out.read_bytes()
    assert [json.loads(line)["answers"] for line in before.splitlines()] == [[], []]
    with pytest.raises(UserError, match="line 1 was written by another reader, with other options"):
        predict(other_reader, EXPECTED, out, min_confidence=1.0, resume=True)
    assert out.read_bytes() == before
    assert predict(reader, EXPECTED, out, min_confidence=1.0, resume=True).resumed == 2


@pytest.mark.parametrize("option", [{"top": 2}, {"min_confidence": 0.1}, {"always": True}])
def test_nor_is_it_resumed_with_other_options(reader: Reader, tmp_path: Path, option: dict[str, Any]) -> None:
    out = tmp_path / "p.jsonl"
    predict(reader, EXPECTED[:1], out)
    before = out.read_bytes()
    with pytest.raises(UserError, match="other options"):
        predict(reader, EXPECTED, out, resume=True, **option)
    shorter = Reader(reader.folder, reader.engine, max_length=reader.max_length - 1)
    with pytest.raises(UserError, match="other options"):
        predict(shorter, EXPECTED, out, resume=True)
    assert out.read_bytes() == before


def test_a_file_that_does_not_say_who_wrote_it_is_not_resumed(reader: Reader, tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    predict(reader, EXPECTED[:2], out)
    first, second = (json.loads(line) for line in out.read_text().splitlines())
    del second["run"]
    out.write_text(f"{json.dumps(first)}\n{json.dumps(second)}\n")
    with pytest.raises(UserError, match="line 2 does not say which reader wrote it"):
        predict(reader, EXPECTED, out, resume=True)


def test_what_is_there_is_never_overwritten_unasked(reader: Reader, tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    predict(reader, EXPECTED[:1], out)
    before = out.read_bytes()
    with pytest.raises(UserError, match="add --resume"):
        predict(reader, EXPECTED, out)
    assert out.read_bytes() == before
    out.write_bytes(before.replace(b'"id": "a"', b'"id": "old"'))
    assert predict(reader, EXPECTED, out, resume=True).strangers == 1
    for text in (
        "not ours\n",
        "precious text without newline",
        '{"id": "a"}\n',
        '{"id": 1, "answers": []}\n',
        '{"id": "a", "answers": {}}\n',
        "[1]\nx",
    ):
        out.write_text(text)
        with pytest.raises(UserError, match="line 1 is not a prediction"):
            predict(reader, EXPECTED, out, resume=True)
        assert out.read_text() == text
    for name in ("p.json", "p.jsonl.gz"):
        with pytest.raises(UserError, match="resume"):
            predict(reader, EXPECTED, tmp_path / name, resume=True)
    with pytest.raises(UserError, match="a folder"):
        predict(reader, EXPECTED, tmp_path)


def test_a_question_beyond_the_limit_is_a_bad_row_and_stops_nothing(reader: Reader, tmp_path: Path) -> None:
    rows = [EXPECTED[0], QuestionRow("long", "why " * 10_001, "p"), EXPECTED[1]]
    summary = predict(reader, rows, tmp_path / "p.jsonl")
    assert (summary.answered, summary.skipped) == (2, 1)
    assert "more than 10,000 words" in str(summary.bad[0])


def test_failing_in_the_middle_leaves_the_old_official_file_alone(reader: Reader, tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    out.write_text("old")
    with pytest.raises(UserError, match=r"there already; add --force to replace it, or give another file"):
        predict(reader, EXPECTED, out)

    def broken() -> Any:
        yield EXPECTED[0]
        assert list(tmp_path.iterdir()) == [out]  # so that a kill leaves nothing behind either
        raise UserError("the file ends here")

    with pytest.raises(UserError, match="ends here"):
        predict(reader, broken(), out, force=True)
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def table(path: Path) -> list[dict[str, Any]]:
    """The rows of a table of predictions."""
    if path.suffix == ".parquet":
        return list(pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist())
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter="\t" if ".tsv" in path.name else ","))


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.parquet", "P.CSV", "p.csv.gz"])
def test_tables_hold_a_row_per_answer(reader: Reader, tmp_path: Path, name: str) -> None:
    rows = [
        *EXPECTED,
        QuestionRow(
            "d",
            "Who?",
            "Half a character: \ud800 is here. Ada came home late, and Charles left London again one year later.",
        ),
    ]
    predict(reader, rows, tmp_path / name, top=2)
    found = table(tmp_path / name)
    assert [(one["id"], int(one["rank"])) for one in found] == [(id, rank) for id in "abcd" for rank in (1, 2)]
    for row, first in zip(EXPECTED, found[::2], strict=False):
        (best,) = reader.ask(row.question, row.passage)
        assert first["text"] == best.text == row.passage[int(first["start"]) : int(first["end"])]
        assert first["sentence"] == best.sentence
        assert (float(first["score"]), float(first["confidence"])) == (best.score, best.confidence)
    predict(reader, EXPECTED, tmp_path / f"unsure-{name}", min_confidence=1.0)
    assert [(one["id"], one["text"] or "") for one in table(tmp_path / f"unsure-{name}")] == [(id, "") for id in "abc"]


@pytest.mark.parametrize("name", ["p.json", "p.json.gz", "p.jsonl", "p.jsonl.gz", "p.csv", "p.tsv", "p.parquet"])
def test_a_file_that_is_there_is_replaced_only_if_asked_for(reader: Reader, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    out.write_text("precious")
    with pytest.raises(UserError, match=r"there already; .*add --force to replace it"):
        predict(reader, EXPECTED, out)
    assert out.read_text() == "precious"
    predict(reader, EXPECTED, out, force=True)
    assert len(read_predictions(out)) == 3


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.parquet", "p.jsonl"])
def test_every_format_has_question_answer_chance_guess_and_place(reader: Reader, tmp_path: Path, name: str) -> None:
    sure, unsure = tmp_path / name, tmp_path / f"unsure-{name}"
    doubting = Reader(reader.folder, Doubting(reader.engine))
    doubting.decision = Decision()
    predict(doubting, EXPECTED, sure, always=True)
    predict(doubting, EXPECTED, unsure, min_confidence=1.0)
    for path in (sure, unsure):
        lines = [json.loads(line) for line in path.read_text().splitlines()] if name == "p.jsonl" else table(path)
        for row, line in zip(EXPECTED, lines, strict=True):
            guess = doubting.ask(row.question, row.passage, always=path == sure).guess
            assert guess is not None
            assert line["question"] == row.question
            assert float(line["no_answer"]) == pytest.approx(0.25)
            answer = line["answers"][0] if line.get("answers") else line
            if path == sure:
                assert row.passage[int(answer["start"]) : int(answer["end"])] == answer["text"] == guess.text
                assert not line.get("guess")
            else:
                told = line["guess"]["text"] if name == "p.jsonl" else line["guess"]
                assert (told, answer.get("text") or "") == (guess.text, "")


class Doubting:
    """A real engine of a network that gives a quarter to there being no answer."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def read_many(self, pairs: Any, batch_size: int) -> Any:
        return map(self.doubt, self.engine.read_many(pairs, batch_size))

    def read(self, pair: Any) -> Any:
        return self.doubt(self.engine.read(pair))

    def doubt(self, logits: Any) -> Any:
        some = log_sum(logits.start) + log_sum(logits.end)
        return dataclasses.replace(logits, none=np.array([some - np.log(3)], np.float64))


def test_no_cell_is_a_formula_unless_asked_for(reader: Reader, tmp_path: Path) -> None:
    texts = ["=1+2", "+3", "-4", "@a", "\tb", "\rc", "'=d", "plain", "5-6", "'quoted'"]
    rows = [QuestionRow(text, text, f"{text} is here.") for text in texts]
    for name in ("p.csv", "p.tsv"):
        predict(reader, rows, tmp_path / name, always=True)
        predict(reader, rows, tmp_path / f"raw-{name}", always=True, raw=True)
        safe, raw = table(tmp_path / name), table(tmp_path / f"raw-{name}")
        assert [line["question"] for line in raw] == texts
        for text, line in zip(texts, safe, strict=True):
            dangerous = text.lstrip("'")[0] in "=+-@\t\r"
            assert line["id"] == line["question"] == (f"'{text}" if dangerous else text)
        for line in safe:
            cells = [cell for column, cell in line.items() if column not in ("score", "confidence")]
            assert not any(cell.startswith(tuple("=+-@\t\r")) for cell in cells)
        expected = {row.id: reader.ask(row.question, row.passage, always=True)[0].text for row in rows}
        assert read_predictions(tmp_path / name) == expected


@pytest.mark.parametrize("name", ["p.json", "p.json.gz", "p.jsonl", "p.jsonl.gz", "p.csv", "p.tsv", "p.parquet"])
def test_what_is_written_is_read_again(reader: Reader, tmp_path: Path, name: str) -> None:
    expected = {row.id: reader.ask(row.question, row.passage)[0].text for row in EXPECTED}
    predict(reader, EXPECTED, tmp_path / name, top=3)
    assert read_predictions(tmp_path / name) == expected
    predict(reader, EXPECTED, tmp_path / f"none-{name}", min_confidence=1.0)
    assert read_predictions(tmp_path / f"none-{name}") == dict.fromkeys("abc", "")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("p.jsonl", '{"id": "a", "answers": []}\n{"id": "b"}\n', "line 2: not a prediction"),
        ("p.jsonl", "{", "line 1: not valid JSON"),
        ("p.jsonl", '{"id": "a", "answers": {"x": 1}}', "line 1: not a prediction"),
        ("p.csv", "id,answer\na,b\n", "no column 'text'; its columns are 'id', 'answer'"),
        ("p.csv", "id,text\na,b,c\n", "row 1: 3 fields"),
    ],
)
def test_predictions_that_are_none_are_one_sentence(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=says):
        read_predictions(tmp_path / name)


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_csv_may_have_other_delimiters(tmp_path: Path, delimiter: str) -> None:
    text = 'id;question;passage\na;"Who; or what?";Ada, and others.\n'.replace(";", delimiter)
    (tmp_path / "x.csv").write_text(text)
    row = QuestionRow("a", "Who; or what?".replace(";", delimiter), "Ada, and others.")
    assert list(read_rows(tmp_path / "x.csv")) == [row]
    (tmp_path / "y.csv").write_text("id;q;passage\n")
    with pytest.raises(UserError, match="no column 'question'"):
        list(read_rows(tmp_path / "y.csv"))


def test_a_table_that_is_a_workbook_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"PK\x03\x04 xl/workbook.xml")
    with pytest.raises(UserError, match=r"this is an Excel table \(\.xlsx\), not csv"):
        list(read_rows(tmp_path / "x.csv"))


def test_of_two_that_go_on_with_one_file_one_is_refused(reader: Reader, tmp_path: Path) -> None:
    out, whole = tmp_path / "p.jsonl", tmp_path / "whole.jsonl"
    predict(reader, EXPECTED, whole)
    out.write_bytes(whole.read_bytes().splitlines(keepends=True)[0])

    def meanwhile() -> Any:
        yield EXPECTED[0]
        with pytest.raises(UserError, match="another process is writing to it"):
            predict(reader, EXPECTED, out, resume=True)
        yield from EXPECTED[1:]

    predict(reader, meanwhile(), out, resume=True)
    assert out.read_bytes() == whole.read_bytes()
    assert predict(reader, EXPECTED, out, resume=True).resumed == 3  # the lock is gone


def test_of_two_that_would_make_one_file_one_is_refused(reader: Reader, tmp_path: Path) -> None:
    out, whole = tmp_path / "p.jsonl", tmp_path / "whole.jsonl"
    predict(reader, EXPECTED, whole)

    def meanwhile() -> Any:
        predict(reader, EXPECTED, out, resume=True)
        yield from EXPECTED

    with pytest.raises(UserError, match="another process is writing to it"):
        predict(reader, meanwhile(), out, resume=True)
    assert out.read_bytes() == whole.read_bytes()


def test_while_a_file_is_written_another_run_does_not_go_on_with_it(reader: Reader, tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    rows = [QuestionRow(str(number), "Who?", "Ada wrote it.") for number in range(200)]

    def meanwhile() -> Any:
        for row in rows:
            if row.id == "150":
                with pytest.raises(UserError, match="another process is writing to it"):
                    predict(reader, rows, out, resume=True)
            yield row

    predict(reader, meanwhile(), out)
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == [row.id for row in rows]


def test_failing_before_the_first_answer_leaves_no_file(reader: Reader, tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not")
    for name in ("p.jsonl", "p.jsonl.gz", "deep/p.jsonl"):
        with pytest.raises(UserError, match="not a Parquet file"):
            predict(reader, read_rows(tmp_path / "bad.parquet"), tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.parquet"]
    predict(reader, [], tmp_path / "none.jsonl")
    assert (tmp_path / "none.jsonl").read_text() == ""
