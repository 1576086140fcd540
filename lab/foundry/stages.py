"""The stages of the foundry, in their order.

What a stage makes is in a file named for it, and is never made twice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.foundry import data
from lab.foundry.made_texts import TEXTS, write_made_texts
from rmreader.core.errors import UserError

RECIPES = Path(__file__).parent / "recipes"
REPOSITORY = Path(__file__).parent.parent.parent
LEARNED = "learn.json.gz"
TEACHERS = ("mpnet-a", "mpnet-b")
DOUBTED = ("held-squad.json.gz", "held-everyday.json.gz", "test-everyday.json.gz")
STUDENTS = ("base", "small")
ENCODERS = ("mpnet", "gte-small")
LIKE_TEACHERS = ("base",)
"""Students of the teachers' hidden size: they learn the first one's states of every word, and
begin with its aligner and pointer."""

LEARNED_FROM = """\
SQuAD 2.0's training questions, which hold those of 1.1; texts of everyday life, written for this \
project or
  made by rule; questions that people asked about stories, plots, articles and sentences \
(FairytaleQA, NarrativeQA,
  TyDi QA, QED, QAMR); and what a teacher with MPNet-base said of all of them. So its scores are \
not under the paper's
  conditions, which are SQuAD 1.1 alone. MPNet met SQuAD's training questions with their \
paragraphs when it was made a
  sentence encoder; what GTE-small met is not published in full."""
CARDS = {
    "base": (
        *("--base-model", "thenlper/gte-small"),
        *("--allowed-loss", "0.35"),  # 8 bits cost 0.30 F1 of the held-out questions
        "--summary",
        "GTE-small, twelve layers, tuned along with the network on pairs of question and passage; "
        "says when the passage does not say.",
    ),
    "small": (
        "--summary",
        "No encoder; says when the passage does not say.",
    ),
}
"""What the card of each student says of it, as options of ship_reader."""


@dataclass(frozen=True)
class Foundry:
    """Where everything is, and how much of it is used."""

    data: Path
    encoders: Path
    work: Path
    share: float = 1.0
    settings: tuple[str, ...] = ()
    teachers: tuple[str, ...] = TEACHERS[:1]
    students: tuple[str, ...] = STUDENTS

    def run(self, until: str) -> None:
        """Every stage up to ``until``; what it cost is printed and kept in costs.jsonl."""
        self.work.mkdir(parents=True, exist_ok=True)
        for stage in STAGES:
            began = time.monotonic()
            stage(self)
            row = {"stage": stage.__name__, "seconds": round(time.monotonic() - began, 1)}
            print(json.dumps(row), flush=True)
            with (self.work / "costs.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            if stage.__name__ == until:
                return

    def path(self, name: str) -> Path:
        """A file or folder that a stage makes."""
        return self.work / name

    def make(self, name: str, how: Callable[[], None]) -> None:
        """Make a file unless it is there."""
        if not self.path(name).exists():
            how()

    def command(self, *words: str | Path) -> None:
        """Run a Python module to its end; its encoders and its cache are this foundry's."""
        self.together([words])

    def together(self, commands: Sequence[Sequence[str | Path]]) -> None:
        """Run several Python modules side by side, to the end of the last."""
        environment = {
            **os.environ,
            "RMREADER_ENCODERS": str(self.path("encoders")),
            "RMREADER_CACHE": str(self.path("cache")),
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]),
        }
        commands = [words for words in commands if words]
        processes: list[subprocess.Popen[bytes]] = []
        failed = []
        try:
            for words in commands:
                command = [sys.executable, "-m", *map(str, words)]
                processes.append(subprocess.Popen(command, env=environment))
            for words, process in zip(commands, processes, strict=True):
                if process.wait():
                    failed.append(" ".join(map(str, words)))
        finally:
            # Whoever interrupts the foundry stops its trainings, each with a checkpoint.
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()
        if failed:
            raise UserError(f"{'; '.join(failed)}: it failed; its reason is above.")

    def training(self, recipe: str, *settings: str) -> list[str | Path]:
        """The command that trains a reader, or goes on training it; nothing where it is trained."""
        out = self.path(recipe)
        if (out / "best" / "reader.json").exists():
            return []
        resume = ["--resume"] if (out / "run").exists() else []
        return [
            *("rmreader", "train", RECIPES / f"{recipe}.yaml"),
            *("--train", self.path(LEARNED), "--out", out),
            *settings,
            *self.settings,
            *resume,
        ]


def questions(foundry: Foundry) -> None:
    """The files to learn from, to choose by and to measure on."""
    if foundry.path(LEARNED).exists():
        return
    work = foundry.work
    foundry.make("held-squad.json.gz", lambda: data.squad(foundry.data, work, foundry.share))
    foundry.make(
        "held-everyday.json.gz", lambda: data.everyday_texts(REPOSITORY, work, foundry.share)
    )
    foundry.make("people.json.gz", lambda: data.people(foundry.data, work, foundry.share))
    count = max(1, round(foundry.share * TEXTS))
    made = foundry.path("made-texts.json.gz")
    foundry.make(made.name, lambda: write_made_texts(made, count=count))
    data.learn(work, data.SHARES, LEARNED)


def encoders(foundry: Foundry) -> None:
    """The encoders to begin from, where the recipes look for them."""
    folder = foundry.path("encoders")
    folder.mkdir(exist_ok=True)
    for name in ENCODERS:
        if not (folder / name).exists():
            (folder / name).symlink_to((foundry.encoders / name).resolve())


def teachers(foundry: Foundry) -> None:
    """Unlike teachers on MPNet, one after the other: each fills a GPU."""
    for name in foundry.teachers:
        foundry.together([foundry.training(name)])


def words(foundry: Foundry) -> None:
    """What the teachers say of every question."""
    out = foundry.path("words.safetensors")
    if out.exists():
        return
    readers = [foundry.path(name) / "best" for name in foundry.teachers]
    files = ("--train", foundry.path(LEARNED), "--out", out, "--states", foundry.path("states"))
    foundry.command("lab.foundry.words", *readers, *files)


def students(foundry: Foundry) -> None:
    """The readers that ship, learning from the references and from what the teachers said.

    Side by side: each of them leaves much of a GPU idle.
    """
    teacher = f"training.teacher={foundry.path('words.safetensors')}"
    first = foundry.path(foundry.teachers[0]) / "best"
    alike = (
        f"training.teacher_states={foundry.path('states')}",
        f"training.inherit={first}",
    )
    commands = []
    for name in foundry.students:
        settings = alike if name in LIKE_TEACHERS else ()
        commands.append(foundry.training(name, teacher, *settings))
    foundry.together(commands)


def shipped(foundry: Foundry) -> None:
    """Every student in 8 bits, its confidences fitted on held-out questions, with its card."""
    held = foundry.path("held-out.json.gz")
    files = ("held-squad.json.gz", "held-everyday.json.gz")
    foundry.make(held.name, lambda: data.join([foundry.path(name) for name in files], held))
    attacked = foundry.data / "adversarial"
    for name in foundry.students:
        out = foundry.path(f"shipped/{name}")
        if out.exists():
            continue
        foundry.command(
            *("lab.scripts.ship_reader", foundry.path(name) / "best", "--out", out),
            *("--held-out", held, "--dev", foundry.data / "squad-v1.1" / "dev-v1.1.json.gz"),
            *("--adversarial", attacked / "addsent.json.gz", attacked / "addonesent.json.gz"),
            *("--also", foundry.data / "squad-v2.0" / "dev-v2.0-rebuilt.json.gz"),
            "--doubt",
            *(foundry.path(name) for name in DOUBTED),
            *CARDS[name],
            *("--learned-from", LEARNED_FROM),
            *("--recipe", f"lab/foundry/recipes/{name}.yaml"),
        )


STAGES: Sequence[Callable[[Foundry], None]] = (
    questions,
    encoders,
    teachers,
    words,
    students,
    shipped,
)
