"""200 questions on 20 texts of the kinds that people have, asked by the command line.

    python -m lab.scripts.texts READER [--file FILE] [--source FOLDER] [--show]

Each text of ``lab/texts/questions.txt`` is written to a file with its own suffix and asked by
``rmreader ask --passage FILE --json``, as a person would. ``--file lab/texts/later.txt`` asks 140
questions on 12 texts that were written when those were known. ``--source`` is the ``src`` folder
of another state of the code, to compare with. The rule, written before anything was asked:

- right: equal to an accepted answer as SQuAD compares them (no case, punctuation, articles);
- nearly: an F1 of at least 0.5 with one of them;
- wrong: anything else that is given as an answer;
- refused: no answer is given ("perhaps: ..." as a refusal counts as refused, too);
- of the questions that the text does not answer, a refusal is right and any answer is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from rmreader.scoring.squad import exact_match, f1

FILE = Path(__file__).parents[1] / "texts" / "questions.txt"
VERDICTS = ("right", "nearly", "wrong", "refused")


@dataclass(frozen=True)
class AskedText:
    """A text, its file's name, and questions with the answers that are accepted."""

    kind: str
    name: str
    content: str
    questions: list[tuple[str, tuple[str, ...]]]


def read(path: Path) -> list[AskedText]:
    """Return the texts of a file; an answer of ``-`` says that the text has none."""
    texts = []
    for part in path.read_text(encoding="utf-8").split("=== ")[1:]:
        head, _, rest = part.partition("\n")
        kind, _, name = head.rpartition(" ")
        content, _, lines = rest.rpartition("\n---")
        questions = []
        for line in lines.strip().splitlines():
            question, _, answers = line.partition(" | ")
            accepted = tuple(answers.split(" / ")) if answers != "-" else ()
            questions.append((question, accepted))
        texts.append(AskedText(kind, name, content, questions))
    return texts


def ask(text: AskedText, reader: str, source: Path | None) -> list[str]:
    """Return the best answers to a text's questions, empty where none is given."""
    environment = dict(os.environ)
    if source is not None:
        environment["PYTHONPATH"] = str(source.resolve())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, text.name)
        path.write_text(text.content, encoding="utf-8")
        questions = [question for question, _ in text.questions]
        words = ["ask", "--passage", str(path), "--model", reader, "--json", *questions]
        command = [sys.executable, "-m", "rmreader", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        print(f"{text.name}: {done.stderr.strip()}", file=sys.stderr)
        return [""] * len(questions)
    trees = [json.loads(line) for line in done.stdout.splitlines()]
    return [tree["answers"][0]["text"] if tree["answers"] else "" for tree in trees]


def judge(given: str, accepted: tuple[str, ...]) -> str:
    """Return the verdict on an answer, by the rule above."""
    if not accepted:
        return "wrong" if given else "right"
    if not given:
        return "refused"
    if exact_match(given, accepted):
        return "right"
    return "nearly" if f1(given, accepted) >= 0.5 else "wrong"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("reader")
    parser.add_argument("--file", type=Path, default=FILE, help="other texts and questions")
    parser.add_argument("--source", type=Path, help="the src folder of another state of the code")
    parser.add_argument("--show", action="store_true", help="every answer that is not right")
    args = parser.parse_args()
    total: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    print("| text | right | nearly | wrong | refused | not there: right | wrong |")
    print("|---|---|---|---|---|---|---|")
    for text in read(args.file):
        counts: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        for given, (question, accepted) in zip(
            ask(text, args.reader, args.source), text.questions, strict=True
        ):
            verdict = judge(given, accepted)
            counts[bool(accepted)][verdict] += 1
            if args.show and verdict != "right":
                print(
                    f"{text.name}: {verdict}: {question} {given!r}, not {accepted}", file=sys.stderr
                )
        print(_row(f"{text.kind}, {text.name}", counts), flush=True)
        for answered in (True, False):
            total[answered] += counts[answered]
    print(_row(f"**all, `{args.reader}`**", total))


def _row(name: str, counts: dict[bool, Counter[str]]) -> str:
    cells = [counts[True][verdict] for verdict in VERDICTS]
    cells += [counts[False]["right"], counts[False]["wrong"]]
    return f"| {name} | {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
