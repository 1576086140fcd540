"""A Spark cluster of two executors on this machine that loses one: ``spark_executors.py DATA OUT PARTITIONS``.

A task counts itself in a file when it begins. When so many have begun, the process of one executor gets SIGKILL; what
it had done and not handed over is done again. OUT is a folder of Parquet files.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from rmreader.predict.arrow import TableAnswers

BEGUN = 4


def executors() -> list[psutil.Process]:
    """The processes that Spark's workers have started for us."""
    ours = psutil.Process().children(recursive=True)
    return [one for one in ours if "CoarseGrainedExecutorBackend" in " ".join(one.cmdline())]


def kill_one(begun: Path, killed: list[int]) -> None:
    """Once so many tasks have begun, kill an executor with the Python processes that it started."""
    while not begun.exists() or len(begun.read_bytes()) < BEGUN:
        time.sleep(0.005)
    victim = executors()[0]
    for process in (victim, *victim.children(recursive=True)):
        process.kill()
        killed.append(process.pid)


def main(data: str, out: str, partitions: str) -> None:
    begun, killed = Path(f"{out}.begun").resolve(), list[int]()  # an executor has a folder of its own
    spark = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "16")
        .getOrCreate()
    )
    answers = TableAnswers("small", top=2)

    def counted(batches: Iterable[Any]) -> Iterator[Any]:
        with begun.open("ab") as file:
            file.write(b".")
        return answers.batches(batches)

    threading.Thread(target=kill_one, args=(begun, killed), daemon=True).start()
    frame = spark.read.schema("id string, question string, passage string").json(data).repartition(int(partitions))
    frame.mapInArrow(counted, answers.ddl).write.parquet(out)
    print(f"killed {len(killed)} processes of an executor; {len(begun.read_bytes())} tasks for {partitions} partitions")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
