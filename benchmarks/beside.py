"""The search of a shelf beside bm25s and tantivy, in one run: the same passages, the same questions, the same clock.

    pip install bm25s PyStemmer tantivy
    python benchmarks/shelf.py build --data ../shared/data --work /tmp/shelf
    PYTHONPATH=. python benchmarks/beside.py --data ../shared/data --work /tmp/shelf --collection all --count 400

Each engine has a process of its own, one after the other, so that its memory is its own. rmreader reads files, cuts
them into passages and makes vectors of them; the others get the passages out of its index, so their seconds lack that
work. All three stem English words and leave out the most common ones. On a busy machine only CPU seconds mean anything.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from _reader import show
from shelf import FOLDERS, asked

from rmreader import Shelf
from rmreader.documents.index import Passage, content_words
from rmreader.documents.sqlite_index import SqliteIndex

MOST = 20  # passages that a search gives
Search = Callable[[str], list[int]]
"""The ids of the passages for a question, best first."""


@dataclass(frozen=True)
class Task:
    """What an engine does."""

    work: Path
    data: Path
    collection: str
    count: int
    keep: bool
    """Whether an index of rmreader that is there is used as it is."""

    @property
    def index(self) -> Path:
        """The index of rmreader, which has the passages."""
        return self.work / f"{self.collection}.rmindex"


# ---------------------------------------------------------------- engines


def build_rmreader(task: Task) -> tuple[Search, Path]:
    """Read the files, as `rmreader index` does."""
    shelf = Shelf.open(task.index)
    if not task.keep:
        task.index.unlink(missing_ok=True)
        shelf.add(*(task.work / folder for folder in FOLDERS[task.collection]))
    return lambda question: [int(passage.id) for passage in shelf.search(question, MOST)], task.index


def build_bm25s(task: Task) -> tuple[Search, Path]:
    """All in memory, and saved."""
    import bm25s
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    ids, texts = read_passages(task)
    engine = bm25s.BM25()

    def split(some: list[str]) -> Any:
        return bm25s.tokenize(some, stopwords="en", stemmer=stemmer, show_progress=False)

    engine.index(split(texts), show_progress=False)
    place = task.work / f"{task.collection}.bm25s"
    engine.save(str(place))

    def search(question: str) -> list[int]:
        rows, _ = engine.retrieve(split([question]), k=MOST, show_progress=False)
        return [ids[row] for row in rows[0]]

    return search, place


def build_tantivy(task: Task) -> tuple[Search, Path]:
    """On the disk, two threads; the texts themselves are not kept."""
    import tantivy

    place = task.work / f"{task.collection}.tantivy"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("id", stored=True)
    builder.add_text_field("text", tokenizer_name="en_stem")
    index = tantivy.Index(builder.build(), path=str(place))
    writer = index.writer(heap_size=256 << 20, num_threads=2)
    for id, text in zip(*read_passages(task), strict=True):
        writer.add_document(tantivy.Document(id=id, text=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(question: str) -> list[int]:
        query = index.parse_query(" ".join(content_words(question)), ["text"])
        return [searcher.doc(address)["id"][0] for _, address in searcher.search(query, MOST).hits]

    return search, place


ENGINES = {"rmreader": build_rmreader, "bm25s": build_bm25s, "tantivy": build_tantivy}


def read_passages(task: Task) -> tuple[list[int], list[str]]:
    """The passages of rmreader's index, each with its file's name, which is searched there, too."""
    index = SqliteIndex(task.index)
    query = "SELECT passages.id, file || ' ' || text FROM passages JOIN documents ON documents.id = document"
    rows = index.file.read(lambda base: base.execute(query).fetchall())
    return [id for id, _ in rows], [text for _, text in rows]


# ---------------------------------------------------------------- measures


def measure(name: str, task: Task) -> tuple[Any, ...]:
    """One engine: build, and ask."""
    began, cpu = time.perf_counter(), cpu_seconds()
    search, place = ENGINES[name](task)
    built = time.perf_counter() - began, cpu_seconds() - cpu
    memory = (peak_memory(resource.RUSAGE_SELF), peak_memory(resource.RUSAGE_CHILDREN))
    ranks, times, used = [], [], []
    passages = Passages(SqliteIndex(task.index))
    for file, places, question, _, _ in asked(task.data, task.count, 0):
        began, cpu = time.perf_counter(), time.process_time()
        ids = search(question)
        times.append(time.perf_counter() - began)
        used.append(time.process_time() - cpu)
        right = [passages.is_right(id, file, places) for id in ids]
        ranks.append(right.index(True) if True in right else MOST)
    recall = " / ".join(f"{100 * (np.array(ranks) < k).mean():.1f}" for k in (1, 5, 10, 20))
    milliseconds = [1000 * float(np.median(some)) for some in (times, used)]
    memories = " + ".join(f"{some:.0f}" for some in memory if some)
    return (name, *built, memories, f"{disk(place):.0f}", recall, *milliseconds, os.getloadavg()[0])


class Passages:
    """Passages of an index by their ids."""

    def __init__(self, index: SqliteIndex) -> None:
        self._index = index

    def is_right(self, id: int, file: str, places: list[int]) -> bool:
        """Whether a passage holds the place of an answer in a file."""
        passage = self._passage(id)
        low, high = passage.stretch.span(0, len(passage.text))
        return passage.file.endswith(file) and any(low <= place < high for place in places)

    def _passage(self, id: int) -> Passage:
        (passage,) = self._index.around(str(id), 0)
        return passage


def cpu_seconds() -> float:
    """Of this process and of those it started and that ended."""
    return sum(os.times()[:4])


def peak_memory(whose: int) -> float:
    """In MB; of children the largest."""
    return resource.getrusage(whose).ru_maxrss / 1024


def disk(place: Path) -> float:
    """In MB."""
    return sum(file.stat().st_size for file in files_of(place)) / 2**20


def files_of(place: Path) -> Iterator[Path]:
    """The file, or all files of a folder."""
    if place.is_file():
        yield place
        return
    yield from (file for file in place.rglob("*") if file.is_file())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--collection", choices=("squad", "all"), default="squad")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--engine", nargs="+", choices=sorted(ENGINES), default=list(ENGINES))
    parser.add_argument("--keep", action="store_true", help="use the index of rmreader that is there")
    options = parser.parse_args()
    task = Task(options.work, options.data, options.collection, options.count, options.keep)
    header = ("engine", "index, s", "CPU s", "MB (+ a child)", "disk, MB", "recall at 1 / 5 / 10 / 20",
              "search, ms", "CPU ms", "load")  # fmt: skip
    rows = []
    for name in options.engine:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            rows.append(pool.submit(measure, name, task).result())
        print(*rows[-1], flush=True)
    show((*header,), rows)


if __name__ == "__main__":
    main()
