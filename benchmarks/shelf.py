"""A shelf: SQuAD-open in the small, questions whose article is not there, and the time of index, question and change.

    python benchmarks/shelf.py build --data ../shared/data --work /tmp/shelf         # the documents, as files of text
    python benchmarks/shelf.py index --work /tmp/shelf --collection all               # timed
    python benchmarks/shelf.py find --work /tmp/shelf --collection squad --count 400  # recall alone, nothing is read
    python benchmarks/shelf.py ask --work /tmp/shelf --model base --collection squad # EM, F1, recall; --count, --first
    python benchmarks/shelf.py ask --work /tmp/shelf --model base --collection train # dev's articles are not in it
    python benchmarks/shelf.py ask --work /tmp/shelf --collection everyday --count 931

Run it with the repository's folder in PYTHONPATH, for ``lab``. benchmarks/beside.py has bm25s and tantivy beside it.

Collections: `squad` is every paragraph of SQuAD's train and dev articles, `all` those and 44 M words of Wikipedia,
`train` SQuAD without dev, `everyday` the everyday texts that no reader learned from. Every article or text is a file;
a passage is right where it holds the place of a reference answer.
"""

from __future__ import annotations

import argparse
import bz2
import json
import os
import random
import re
import resource
import shutil
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from _reader import peak_memory, show

from lab.scripts import everyday
from rmreader import Reader, Shelf
from rmreader.data.squad import Dataset, read_squad
from rmreader.documents.rank import choose
from rmreader.scoring.squad import exact_match, f1

EVERYDAY = Path(__file__).resolve().parent.parent / "lab" / "everyday"
FOLDERS = {
    "everyday": ["everyday/held", "everyday/test"],
    "train": ["squad/train"],
    "squad": ["squad/train", "squad/dev"],
    "all": ["squad/train", "squad/dev", "wiki"],
}
READ = 10  # passages


def file_name(title: str, number: int) -> str:
    return f"{re.sub(r'[^A-Za-z0-9]+', '_', title)[:60]}-{number}.txt"


def squad(data: Path, part: str) -> Dataset:
    return read_squad(data / "squad-v1.1" / f"{part}-v1.1.json.gz")


def build(data: Path, work: Path) -> None:
    """An article is a file: paragraphs with blank lines between them, as in any text."""
    for part in ("train", "dev"):
        (work / "squad" / part).mkdir(parents=True, exist_ok=True)
        for number, article in enumerate(squad(data, part).articles):
            text = "\n\n".join(paragraph.context for paragraph in article.paragraphs)
            (work / "squad" / part / file_name(article.title, number)).write_text(text, encoding="utf-8")
    for part in ("held", "test"):
        (work / "everyday" / part).mkdir(parents=True, exist_ok=True)
        for number, text in enumerate(everyday.read(EVERYDAY / f"{part}.txt.gz")):
            (work / "everyday" / part / f"{part}-{number:03}.txt").write_text(text.context, encoding="utf-8")
    (work / "wiki").mkdir(exist_ok=True)
    number = 0
    for path in sorted((data / "wiki").glob("*.bz2")):
        for article in re.split(r"\n\n+(?== )", bz2.decompress(path.read_bytes()).decode("utf-8")):
            title, _, body = article.strip().partition("\n")
            if body:
                (work / "wiki" / file_name(title.strip("= "), number)).write_text(body, encoding="utf-8")
                number += 1


def index(work: Path, collection: str) -> None:
    """A collection indexed, and again; one file of it changed."""
    path, folders = work / f"{collection}.rmindex", FOLDERS[collection]
    path.unlink(missing_ok=True)
    shelf = Shelf.open(path)
    began, cpu = time.perf_counter(), cpu_seconds()
    done = shelf.add(*(work / folder for folder in folders))
    took, used, memory = time.perf_counter() - began, cpu_seconds() - cpu, peak_memory()
    rows = [("built", done.passages, took, used, memory, f"{path.stat().st_size / 2**20:.0f}", os.getloadavg()[0])]
    victim = min((work / folders[-1]).iterdir())
    before = victim.read_bytes()
    for name, content in (("nothing changed", before), ("one file changed", before + b"\n\nOne more."), ("", before)):
        victim.write_bytes(content)
        began, cpu = time.perf_counter(), cpu_seconds()
        shelf.add(*(work / folder for folder in folders))
        rows.append((name, "", time.perf_counter() - began, cpu_seconds() - cpu, "", "", os.getloadavg()[0]))
    show((collection, "passages", "s", "CPU s", "MB", "file, MB", "load"), rows[:-1])


def cpu_seconds() -> float:
    return sum(os.times()[:4])


def asked(data: Path, count: int, first: int) -> Iterator[tuple[str, list[int], str, str, list[str]]]:
    """Questions of dev: file, places of the answers in it, question, its paragraph, references."""
    every = []
    for number, article in enumerate(squad(data, "dev").articles):
        offset = 0
        for paragraph in article.paragraphs:
            for q in paragraph.questions:
                places = [offset + answer.start for answer in q.answers]
                texts = [answer.text for answer in q.answers]
                every.append((file_name(article.title, number), places, q.text, paragraph.context, texts))
            offset += len(paragraph.context) + 2
    random.Random(20260916).shuffle(every)
    yield from every[first : first + count]


def asked_everyday() -> Iterator[tuple[str, list[int], str, str, list[str]]]:
    """The same for everyday texts: every question that its text answers."""
    every = []
    for part in ("held", "test"):
        for number, text in enumerate(everyday.read(EVERYDAY / f"{part}.txt.gz")):
            for question in text.asked:
                if question.answers:
                    places = [answer.start for answer in question.answers]
                    answers = [answer.text for answer in question.answers]
                    every.append((f"{part}-{number:03}.txt", places, question.text, text.context, answers))
    random.Random(20260916).shuffle(every)
    yield from every


def find(work: Path, collection: str, count: int, first: int) -> None:
    """Recall at 1, 5, 10 and 20, and the time of a search; everyday texts by part."""
    questions = asked(DATA, count, first)
    if collection == "everyday":
        questions = islice(asked_everyday(), first, first + count)
    shelf = Shelf.open(work / f"{collection}.rmindex")
    ranks: dict[str, list[int]] = {}
    times, used = [], []
    for file, places, question, _, _ in questions:
        began, cpu = time.perf_counter(), time.process_time()
        passages = shelf.search(question, 2 * READ)
        times.append(time.perf_counter() - began)
        used.append(time.process_time() - cpu)
        right = [
            one.file.endswith(file) and any(low <= place < high for place in places)
            for one in passages
            for low, high in [one.stretch.span(0, len(one.text))]
        ]
        rank = right.index(True) if True in right else 1000
        part = file.partition("-")[0] if collection == "everyday" else "dev"
        for name in {part, "all of them"}:
            ranks.setdefault(name, []).append(rank)
    rows = []
    for name, some in sorted(ranks.items()):
        recall = " / ".join(f"{100 * (np.array(some) < k).mean():.1f}" for k in (1, 5, 10, 20))
        rows.append((name, len(some), recall))
    show((collection, "questions", "recall at 1 / 5 / 10 / 20"), rows)
    milliseconds = [1000 * float(np.median(some)) for some in (times, used)]
    print("a search: {:.0f} ms, {:.0f} ms of CPU;".format(*milliseconds), f"load {os.getloadavg()[0]:.1f}")


def ask(work: Path, model: str, collection: str, count: int, first: int) -> None:
    """One line of JSON per question, kept in a file; the table is of all there are.

    ``lab/folders.py`` asks folders that lack the question's document, too.
    """
    kept = work / f"{Path(model).name}-{collection}.jsonl"
    questions = asked(DATA, count, first)
    if collection == "everyday":
        questions = islice(asked_everyday(), first, first + count)
    shelf, reader = Shelf.open(work / f"{collection}.rmindex"), Reader.load(model, threads=1)
    with kept.open("a", encoding="utf-8") as out:
        for file, places, question, paragraph, references in questions:
            began, cpu = time.perf_counter(), time.process_time()
            passages = shelf.search(question, READ)
            answers = list(reader.ask_many([(question, one.text) for one in passages], top=3, always=True))
            took, used = time.perf_counter() - began, time.process_time() - cpu
            right = [
                one.file.endswith(file) and any(low <= place < high for place in places)
                for one in passages
                for low, high in [one.stretch.span(0, len(one.text))]
            ]
            best, decided = choose(passages, answers, 1, always=True), choose(passages, answers, 1)
            given = reader.ask(question, paragraph, always=True)
            row = {"rank": right.index(True) if True in right else -1, "none": not decided, "s": took, "cpu": used}
            for name, text in (("shelf", best[0].text if best else ""), ("given", given[0].text if given else "")):
                row |= {f"{name}_em": exact_match(text, references), f"{name}_f1": f1(text, references)}
            out.write(json.dumps(row) + "\n")
            out.flush()
    tell(work)


def tell(work: Path) -> None:
    """The table of all that was asked."""
    header = ("reader", "collection", "questions", "recall at 1 / 5 / 10", "EM / F1", "EM / F1 with the decision",
              "given its paragraph", "not in these documents", "s", "CPU s")  # fmt: skip
    table = []
    for kept in sorted(work.glob("*-*.jsonl")):
        rows = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
        model, _, collection = kept.stem.partition("-")
        rank = np.array([row["rank"] for row in rows])
        none = np.array([row["none"] for row in rows])

        def both(name: str, keep: np.ndarray | float = 1.0, rows: list[dict[str, float]] = rows) -> str:
            means = (100 * (np.array([row[f"{name}_{score}"] for row in rows]) * keep).mean() for score in ("em", "f1"))
            return " / ".join(f"{mean:.1f}" for mean in means)

        recall = " / ".join(f"{100 * ((rank >= 0) & (rank < k)).mean():.1f}" for k in (1, 5, 10))
        times = [float(np.median([row[name] for row in rows])) for name in ("s", "cpu")]
        cells = (both("shelf"), both("shelf", ~none), both("given"), f"{100 * none.mean():.1f} %")
        table.append((model, collection, len(rows), recall, *cells, *times))
    show(header, table)
    print(f"load {os.getloadavg()[0]:.1f}; peak memory {peak_memory():.0f} MB, "
          f"of a child {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MB")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "index", "find", "ask", "tell"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--model", default="small")
    parser.add_argument("--collection", choices=sorted(FOLDERS), default="squad")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    DATA = options.data
    if options.what == "build":
        shutil.rmtree(options.work, ignore_errors=True)
        build(options.data, options.work)
    elif options.what == "index":
        index(options.work, options.collection)
    elif options.what == "find":
        find(options.work, options.collection, options.count, options.first)
    elif options.what == "ask":
        ask(options.work, options.model, options.collection, options.count, options.first)
    else:
        tell(options.work)
