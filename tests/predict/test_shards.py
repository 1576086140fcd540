"""Each question is answered exactly once, whoever makes the parts, and the whole is what one process writes."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.questions import write_questions

from rmreader.core.errors import UserError
from rmreader.predict.job import PredictJob
from rmreader.predict.predict import predict
from rmreader.predict.rows import read_rows
from rmreader.predict.run import into_file, into_folder, merge
from rmreader.predict.shards import SHARD_ROWS, make_plan, plan_facts, read_plan
from rmreader.reading.rows import QuestionRow

Run = Callable[..., subprocess.CompletedProcess[str]]

COUNT = 60


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_questions(tmp_path / "data.jsonl", COUNT)


@pytest.fixture(scope="module")
def job() -> PredictJob:
    return PredictJob.of("small", top=2)


def make(folder: Path, data: Path, job: PredictJob, shards: int = 4, **how: Any) -> Any:
    return into_folder(folder, data, read_rows(data), job, shards, **how)


@pytest.mark.parametrize("name", ["p.jsonl", "p.jsonl.gz", "p.csv", "p.tsv", "p.json", "p.parquet"])
def test_the_parts_together_are_what_one_process_writes(tmp_path: Path, data: Path, job: PredictJob, name: str) -> None:
    pytest.importorskip("pyarrow") if name.endswith("parquet") else None
    (tmp_path / "one").mkdir()
    alone, chances = predict(job.reader(), read_rows(data), tmp_path / "one" / name, top=2, chances=(c := {})), {}
    make(tmp_path / "parts", data, job)
    done = merge(tmp_path / "parts", tmp_path / name, chances)
    assert (tmp_path / name).read_bytes() == (tmp_path / "one" / name).read_bytes()
    assert (chances, done) == (c, alone)
    assert done.skipped == 2
    assert str(done.bad[0]) == f"{data}: line 9: 'question' is empty"


def test_shards_are_made_in_any_order_and_a_gap_is_refused(tmp_path: Path, data: Path, job: PredictJob) -> None:
    folder, out = tmp_path / "parts", tmp_path / "all.jsonl"
    for index in (2, 0, 3):
        make(folder, data, job, only=index)
    with pytest.raises(UserError, match=r"1 of 4 parts are missing, the first is 1; make them \(--shard 1/4"):
        merge(folder, out)
    assert not out.exists()
    make(folder, data, job, resume=True)
    merge(folder, out)
    ids = [json.loads(line)["id"] for line in out.read_bytes().splitlines()]
    assert ids == [f"q{number}" for number in range(COUNT)]
    with pytest.raises(UserError, match="there already"):
        merge(folder, out)


def test_a_part_is_the_same_whoever_makes_it_and_is_made_once(tmp_path: Path, data: Path, job: PredictJob) -> None:
    plans = [make(tmp_path / name, data, job, only=1) for name in "ab"]
    a, b = (plan.part(1) for plan in plans)
    assert a.name == b.name
    assert a.read_bytes() == b.read_bytes()
    a.write_bytes(b"mine")
    make(tmp_path / "a", data, job, only=1)
    assert a.read_bytes() == b"mine"


def test_processes_that_start_together_agree_on_the_plan(tmp_path: Path, data: Path, rmreader: Run) -> None:
    with ThreadPoolExecutor(3) as pool:
        words = [("predict", data, "-o", tmp_path / "parts", "--shard", f"{index}/3") for index in range(3)]
        said = list(pool.map(lambda one: rmreader(*one).stderr, words))
    assert "part 2 of 3, 20 questions" in said[2]
    rmreader("predict", "--merge", tmp_path / "parts", "-o", tmp_path / "all.csv")
    rmreader("predict", data, "-o", tmp_path / "one.csv")
    assert (tmp_path / "all.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()


def test_more_shards_than_rows_and_no_rows_at_all(tmp_path: Path, job: PredictJob) -> None:
    few, none = write_questions(tmp_path / "few.jsonl", 2), tmp_path / "none.jsonl"
    none.write_text("")
    for data, rows in ((few, 2), (none, 0)):
        plan = make(tmp_path / data.stem, data, job, 5)
        assert (plan.rows, len(plan.shards), plan.missing()) == (rows, 5, [])
        merge(tmp_path / data.stem, tmp_path / f"{data.stem}.out.jsonl")
        assert len((tmp_path / f"{data.stem}.out.jsonl").read_text().splitlines()) == rows


def test_any_text_survives(tmp_path: Path, job: PredictJob) -> None:
    data, out = tmp_path / "data.jsonl", tmp_path / "out.jsonl"
    ids = ['", "answers": ', "\u2028\x85", "ü\ud800", 'a", "question": "b']
    data.write_text("".join(json.dumps({"id": id, "question": "Who?", "passage": f"Ada {id}."}) + "\n" for id in ids))
    make(tmp_path / "parts", data, job, 2)
    merge(tmp_path / "parts", out)
    predict(job.reader(), read_rows(data), tmp_path / "one.jsonl", top=2)
    assert out.read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    assert [json.loads(line)["id"] for line in out.read_bytes().splitlines()] == ids


def test_work_that_was_begun_otherwise_is_refused(tmp_path: Path, data: Path, job: PredictJob) -> None:
    folder = tmp_path / "parts"
    make(folder, data, job, only=0)
    with pytest.raises(UserError, match="add --resume"):
        make(folder, data, job)
    other = write_questions(tmp_path / "other.jsonl", COUNT + 1)
    kept = sorted(folder.iterdir())
    for says, change in {
        "other data": {"data": other},
        "another reader": {"job": PredictJob(("small",), "0" * 64, top=2)},
        "other options": {"job": PredictJob.of("small", top=3)},
        "another number of shards": {"shards": 5},
    }.items():
        with pytest.raises(UserError, match=f"begun with {says}"):
            make(folder, **{"data": data, "job": job, "resume": True, **change})
    with pytest.raises(UserError, match="begun with other options"):
        make(folder, data, job, resume=True, columns=["", "q", ""])
    assert sorted(folder.iterdir()) == kept
    make(folder, data, PredictJob.of("small", top=2, threads=2), resume=True)  # by which nothing changes


def test_a_reader_that_is_another_one_on_its_machine_answers_nothing(data: Path, tmp_path: Path) -> None:
    stranger = PredictJob(("small",), "0" * 64)
    with pytest.raises(UserError, match="on this machine it is another reader"):
        make(tmp_path / "parts", data, stranger)


def test_damage_is_found(tmp_path: Path, data: Path, job: PredictJob) -> None:
    folder, out = tmp_path / "parts", tmp_path / "out.jsonl"
    plan = make(folder, data, job)
    whole = plan.part(2).read_bytes()
    lines = whole.splitlines(keepends=True)
    letter = whole.index(b'"text": "') + 9
    edited = whole[:letter] + bytes([whole[letter] ^ 1]) + whole[letter + 1 :]
    for content in (
        b"".join(lines[:-2]),
        b"".join([lines[1], lines[0], *lines[2:]]),
        whole + lines[0],
        whole[:-9],
        edited,  # one letter of one answer
        plan.part(1).read_bytes(),
        b"",
    ):
        plan.part(2).write_bytes(content)
        for name in ("out.jsonl", "out.csv"):
            with pytest.raises(UserError, match=r"part-00002.*damaged, or changed after it was made; remove the file"):
                merge(folder, tmp_path / name)
            assert not (tmp_path / name).exists()
    plan.part(2).unlink()
    rows = (folder / "rows.jsonl").read_bytes()
    (folder / "rows.jsonl").write_bytes(rows.replace(b"Letter 31", b"Letter 13"))
    with pytest.raises(UserError, match=r"rows\.jsonl: damaged"):
        make(folder, data, job, resume=True)
    for content in (b'{"parts": 3}', b"[]", b"{"):
        (folder / "plan.json").write_bytes(content)
        with pytest.raises(UserError, match=r"plan\.json|begun with"):
            make(folder, data, job, resume=True)
        with pytest.raises(UserError, match=r"plan\.json: .*remove the folder"):
            merge(folder, out)
    with pytest.raises(UserError, match=r"it has no plan\.json"):
        read_plan(tmp_path)


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.json"])
def test_what_is_there_is_replaced_only_if_asked_for(tmp_path: Path, data: Path, job: PredictJob, name: str) -> None:
    out = tmp_path / name
    out.write_text("precious")
    make(tmp_path / "parts", data, job)
    with pytest.raises(UserError, match="there already; add --force"):
        merge(tmp_path / "parts", out)
    with pytest.raises(UserError, match="there already; add --force"):
        into_file(out, data, read_rows(data), job)
    assert out.read_text() == "precious"
    merge(tmp_path / "parts", out, force=True)
    whole = out.read_bytes()
    into_file(out, data, read_rows(data), job, force=True)
    assert out.read_bytes() == whole != b"precious"


def test_nothing_of_anybodys_is_written_over(tmp_path: Path, data: Path, job: PredictJob) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match=r"holds other files, such as thesis\.tex"):
        make(mine, data, job)
    assert [path.name for path in mine.iterdir()] == ["thesis.tex"]
    with pytest.raises(UserError, match="is a file, not a folder"):
        make(mine / "thesis.tex", data, job)
    with pytest.raises(UserError, match="standard input"):
        make(tmp_path / "parts", Path("-"), job)
    make(tmp_path / "parts", data, job)
    with pytest.raises(UserError, match="which this command reads"):
        merge(tmp_path / "parts", tmp_path / "parts" / "plan.json")


def test_planning_that_was_broken_off_begins_again(tmp_path: Path, data: Path, job: PredictJob) -> None:
    folder = tmp_path / "parts"

    def half() -> Any:
        for number, row in enumerate(read_rows(data)):
            if number == 30:
                raise KeyboardInterrupt
            yield row

    with pytest.raises(KeyboardInterrupt):
        make_plan(folder, plan_facts(data, job, 4), half())
    assert list(folder.iterdir()) == []
    (folder / "rows.jsonl").write_text("as a kill after it would leave it")
    assert make_plan(folder, plan_facts(data, job, 4), read_rows(data)).rows == COUNT


def test_into_one_file_with_the_parts_beside_it_until_it_is_there(tmp_path: Path, job: PredictJob) -> None:
    data, out = write_questions(tmp_path / "data.jsonl", SHARD_ROWS + 1, bad=False), tmp_path / "out.jsonl"
    with pytest.raises(ZeroDivisionError):
        into_file(out, data, (1 // 0 for _ in "a"), job)
    into_file(out, data, read_rows(data), job)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.jsonl", "out.jsonl"]
    assert len(out.read_bytes().splitlines()) == SHARD_ROWS + 1
    with pytest.raises(UserError, match="there already"):
        into_file(out, data, read_rows(data), job, resume=True)
    with pytest.raises(UserError, match="need a file"):
        into_file(Path("-"), data, read_rows(data), job)


def test_an_ensemble_travels_as_its_members(tmp_path: Path, data: Path) -> None:
    from rmreader.readers.folder import SHIPPED

    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", SHIPPED / "small", copy], check=True)
    job = PredictJob.of(f"small, {copy}")
    assert job.readers == ("small", str(copy))
    row = QuestionRow("a", "Who wrote it?", "It was written by Ada Lovelace.")
    both = next(iter(job.answers([row])))[1]
    alone = next(iter(PredictJob.of("small").answers([row])))[1]
    assert both[0].text == alone[0].text
    assert PredictJob.of("small").digest != job.digest


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["DATA", "--shard", "4/4"], "I from 0 to N-1"),
        (["DATA", "--shard", "x"], "I from 0 to N-1"),
        (["DATA", "--shard", "1/2/3"], "I from 0 to N-1"),
        (["DATA", "--shard", "0/4", "--shards", "5"], "leave out --shards"),
        (["DATA", "--shard", "0/4", "--workers", "2"], "leave out"),
        (["DATA", "--workers", "2", "--on", "ray"], "not both"),
        (["DATA", "--shards", "2", "--na-prob-file", "x"], "goes with --merge"),
        (["DATA", "--merge", "x"], "or --merge FOLDER"),
        ([], "give DATA"),
    ],
)
def test_options_that_make_no_sense_together(
    tmp_path: Path, data: Path, rmreader: Run, words: list[str], says: str
) -> None:
    made = [str(data) if word == "DATA" else word for word in words]
    done = rmreader("predict", *made, "-o", tmp_path / "parts", check=False)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.replace("│", " ").split())
    assert not (tmp_path / "parts").exists()


def test_none_of_it_is_imported_for_one_process(tmp_path: Path, data: Path) -> None:
    script = """
        import sys
        from rmreader.cli import main
        sys.argv = ["rmreader", "predict", sys.argv[1], "--out", sys.argv[2]]
        try:
            main()
        except SystemExit as left:
            assert not left.code, left.code
        heavy = {"ray", "pyspark", "pyarrow", "multiprocessing.connection", "rmreader.predict.shards"}
        assert not heavy & set(sys.modules)
    """
    words = [sys.executable, "-c", textwrap.dedent(script), str(data), str(tmp_path / "out.jsonl")]
    assert subprocess.run(words, capture_output=True, text=True, check=False).returncode == 0
