"""Ray without a cluster, Ray Data, and a refusal that comes from a task: ``ray_here.py DATA FOLDER``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.json
import pyarrow.parquet

from rmreader.core.errors import UserError
from rmreader.predict.arrow import TableAnswers
from rmreader.predict.job import PredictJob
from rmreader.predict.predict import predict
from rmreader.predict.ray import answer_on_ray, ray_at
from rmreader.predict.rows import read_rows
from rmreader.predict.run import into_file
from rmreader.predict.shards import make_plan, plan_facts


def main(data: Path, folder: Path) -> None:
    job = PredictJob.of("small")
    with ray_at("ray") as ray:
        into_file(folder / "ray.jsonl", data, read_rows(data), job, on="ray")
        answers = TableAnswers("small")
        table = pyarrow.json.read_json(data)
        mapped = ray.data.from_arrow(table).repartition(6).map_batches(answers.batch, batch_format="pyarrow")
        rows = mapped.take_all()
        plan = make_plan(folder / "greedy", plan_facts(data, job, 2), read_rows(data))
        try:
            list(answer_on_ray(plan, replace(job, threads=1000), [0, 1], "ray"))
        except UserError as error:
            print("greedy:", error)
        stranger = PredictJob(("small",), "0" * 64)
        plan = make_plan(folder / "stranger", plan_facts(data, stranger, 2), read_rows(data))
        try:
            list(answer_on_ray(plan, stranger, [0, 1], "ray"))
        except UserError as error:
            print("refused:", len(list((folder / "stranger").glob("part-*"))), error)
    predict(job.reader(), read_rows(data), folder / "one.jsonl")
    predict(job.reader(), read_rows(data), folder / "one.parquet")
    assert (folder / "one.jsonl").read_bytes() == (folder / "ray.jsonl").read_bytes()
    expected = pyarrow.parquet.read_table(folder / "one.parquet").to_pylist()
    good = [row for row in rows if row.pop("problem") is None]
    assert sorted(good, key=lambda row: row["id"]) == sorted(expected, key=lambda row: row["id"])
    assert len(rows) - len(good) == 6
    print("same file, same table")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
