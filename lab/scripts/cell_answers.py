"""The answers of the paper's cell: of each training, compactly, and of twelve readers together.

    python -m lab.scripts.cell_answers RUNS DATA OUT [KIND …]
    python -m lab.scripts.cell_answers score log/claims/cell-answers.jsonl.xz DATA

Adds to OUT/answers.jsonl.gz a line for each finished training below RUNS that is not yet there: its
answers to dev, AddSent and AddOneSent, in the order of these files. KIND is a folder of trainings
without its seed, as ml/full or second/dcrl-full: with two finished ones or more, they answer
together, too, by the mean of their p₁ and of their p₂ (as `rmreader.reading.ensemble` does), on the
GPU if there is one. That is a line of its own and a row of OUT/together.jsonl, which `study all`
prints. Tags and vectors come from the cache, so spaCy is not needed.

``score`` scores answers that were kept, without a GPU; such files are gzip, or xz, which makes them
a tenth.
"""

from __future__ import annotations

import gzip
import json
import lzma
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from lab.runs import complete
from lab.scripts.carry import QUESTIONS
from lab.studies.report import Report, keep_report
from rmreader.core.errors import UserError
from rmreader.data.encode import encode_file
from rmreader.data.squad import read_squad
from rmreader.model.spans import top_spans
from rmreader.scoring.squad import score, score_adversarial
from rmreader.training.contextual import ContextualInputs
from rmreader.training.evaluate import in_order
from rmreader.training.feed import Feed
from rmreader.training.reader_folder import load_network, pick_device

NAMES = ("dev", "addsent", "addonesent")
FILES = dict(zip(NAMES, QUESTIONS[1:], strict=True))
BATCH = 64


def seeds_of(runs: Path, kind: str) -> list[Path]:
    """The finished trainings of a kind, by seed."""
    by_seed = {}
    for folder in runs.glob(f"{kind}-seed-*"):
        if complete(folder):
            seed = int(folder.name.rpartition("-")[2])
            by_seed[seed] = folder
    return [by_seed[seed] for seed in sorted(by_seed)]


@torch.no_grad()
def together(readers: Sequence[Path], questions: Path) -> dict[str, str]:
    """The best answers by the mean of the readers' probabilities, by the questions' ids."""
    device = pick_device(None)
    encoded = encode_file(questions)
    batches = in_order(encoded, BATCH)
    sums: list[tuple[Tensor, Tensor]] = []
    lengths: list[Tensor] = []
    longest = 0
    feed = None
    contextual = None
    for reader in readers:
        network, lexicon, recipe = load_network(reader, device)
        longest = recipe.decoding.max_length
        if contextual is None:
            contextual = ContextualInputs(recipe.inputs, device, reader=reader)
        elif contextual.inputs != recipe.inputs:
            raise UserError(f"{reader}: it reads other inputs than the readers before it.")
        # Words without a vector have one in each reader, so each has a lexicon of its own.
        feed = Feed(encoded, lexicon, device, contextual=contextual)
        network.eval()
        for place, (_, batch) in enumerate(feed.batches(batches)):
            pointers = network(feed.fill(batch))
            first = pointers.log_p1.double().exp()
            last = pointers.log_p2.double().exp()
            if place == len(sums):
                sums.append((first, last))
                lengths.append(batch.context_lengths)
            else:
                first_sum, last_sum = sums[place]
                sums[place] = (first_sum + first, last_sum + last)

    answers = {}
    for index, (first, last), own in zip(batches, sums, lengths, strict=True):
        starts, ends, _ = top_spans(
            first.log(),
            last.log(),
            own,
            longest,
            1,
        )
        for i, start, end in zip(index.tolist(), starts[:, 0], ends[:, 0], strict=True):
            begins, stops = encoded.spans(i)
            begin = begins[int(start)]
            stop = stops[int(end)]
            answers[encoded.ids[i]] = encoded.passage(i)[begin:stop]
    return {id: answers.get(id, "") for id in encoded.ids}


def scores(answers: Mapping[str, Mapping[str, str]], data: Path) -> list[str]:
    """EM and F1 on each file, as a row of a table."""
    cells = []
    for name, file in FILES.items():
        rule = score if name == "dev" else score_adversarial
        score_tree = rule(read_squad(data / file), answers[name]).tree()
        cells.append(f"{score_tree['exact_match']:.2f} / {score_tree['f1']:.2f}")
    return cells


def collect(runs: Path, out: Path) -> None:
    """Add the answers of trainings that have finished since."""
    known = set()
    path = out / "answers.jsonl.gz"
    if path.is_file():
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                known.add(json.loads(line)["name"])
    for dev in sorted(runs.glob("*/*/predictions/dev.json")):
        folder = dev.parent.parent
        name = f"{folder.parent.name}/{folder.name}"
        files = {data: dev.with_name(f"{data}.json") for data in FILES}
        if name in known or not all(file.is_file() for file in files.values()):
            continue
        answers = {}
        for data, written in files.items():
            answers[data] = json.loads(written.read_text(encoding="utf-8"))
        keep_answers(out, name, answers)


def score_kept(path: Path, data: Path) -> None:
    """Print the scores of every line of kept answers."""
    ids = {}
    for name, file in FILES.items():
        ids[name] = [question.id for _, question in read_squad(data / file).questions()]
    opened = lzma.open if path.suffix == ".xz" else gzip.open
    with opened(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            kept = json.loads(line)
            answers = {}
            for name in FILES:
                answers[name] = dict(zip(ids[name], kept[name], strict=True))
            row = scores(answers, data)
            print(kept["name"], *row, sep="  ", flush=True)


def keep_answers(out: Path, name: str, answers: Mapping[str, Mapping[str, str]]) -> None:
    """Add one line, compressed by itself: a file of such parts is read as one."""
    line: dict[str, object] = {"name": name}
    for data, texts in answers.items():
        line[data] = list(texts.values())
    out.mkdir(parents=True, exist_ok=True)
    with gzip.open(out / "answers.jsonl.gz", "at", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def main() -> None:
    """Collect what is there, and ask the readers of each kind together; or score what is kept."""
    if sys.argv[1] == "score":
        score_kept(*map(Path, sys.argv[2:4]))
        return
    runs, data, out = map(Path, sys.argv[1:4])
    collect(runs, out)
    rows: list[list[str]] = []
    for kind in sys.argv[4:]:
        readers = seeds_of(runs, kind)
        if len(readers) < 2:
            continue
        best = [reader / "best" for reader in readers]
        answers = {name: together(best, data / file) for name, file in FILES.items()}
        name = f"{kind}, {len(readers)} readers"
        keep_answers(out, f"together/{name}", answers)
        row = [name, *scores(answers, data)]
        rows.append(row)
        print(*row, flush=True)
        # After each kind, so that a machine that goes takes one at most.
        keep_report(out / "together.jsonl", table(rows))


def table(rows: Sequence[Sequence[str]]) -> Report:
    """The readers that answer together, as a table."""
    return Report(
        "together",
        "The paper's own conditions: readers of different starts together",
        [
            "readers that answer together",
            "dev EM / F1",
            "AddSent",
            "AddOneSent",
        ],
        rows,
        ["The paper's twelve have 81.2 / 87.9 on dev; it has no attacked scores of them."],
    )


if __name__ == "__main__":
    main()
