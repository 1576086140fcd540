"""Ask the guide forty questions about itself: does `rmreader index docs` answer them?

    python -m lab.scripts.ask_guide [--model base] [--questions FILE] [--docs FOLDER] [--all]

The rule, written before anything was measured. The folder `docs/` is indexed as `rmreader index
docs` does it, and each question of `lab/docs-questions.json` is asked as `rmreader ask --index`
does it, without any other option. The first answer counts.

- **refused**: no answer is given ("not in these documents", or a refusal shown as "perhaps").
- **right**: the answer, by SQuAD's rule of comparison (no articles, no punctuation, small letters),
  is an accepted answer, holds one whole, or has an F1 of at least 0.5 with one.
- **wrong**: everything else.

The questions were written from the pages first, and pages were rewritten where they were not
answered. A question or an accepted answer is changed only where its page now says something else.
`lab/docs-questions-later.json` has twenty that were written after that, and that no page was
rewritten for: `--questions` asks them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from rmreader.documents.citations import Citations
from rmreader.documents.shelf import Shelf
from rmreader.scoring.squad import f1, normalize

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = ROOT / "lab" / "docs-questions.json"
ENOUGH_OVERLAP = 0.5


def judge(answer: str | None, accepted: list[str]) -> str:
    """What the rule calls an answer."""
    if answer is None:
        return "refused"
    words = f" {normalize(answer)} "
    for text in accepted:
        if f" {normalize(text)} " in words:
            return "right"
    return "right" if f1(answer, accepted) >= ENOUGH_OVERLAP else "wrong"


def describe(found: Citations) -> str:
    """The answer and its place, or the guess, in one line."""
    if found.best is not None:
        return f"{found.best.text}  ({found.best.confidence:.0%})  {found.best.place}"
    guess = found.guess
    chance = "" if found.no_answer is None else f"{found.no_answer:.0%} that it is not there; "
    return f"{chance}the best guess: {guess.text}, {guess.place}" if guess else "nothing"


def main() -> int:
    """Index the guide, ask, and print how often it was right."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="base", help="a reader's name or folder")
    parser.add_argument("--questions", type=Path, default=QUESTIONS)
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="the pages to ask")
    parser.add_argument("--all", action="store_true", help="print the right answers, too")
    options = parser.parse_args()
    rows = json.loads(options.questions.read_text(encoding="utf-8"))
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        shelf = Shelf.open(Path(folder) / "docs.rmindex", options.model)
        shelf.add(options.docs)
        for number, row in enumerate(rows, start=1):
            found = shelf.ask(row["question"])
            answer = None if found.best is None else found.best.text
            verdict = judge(answer, row["accepted"])
            counts[verdict] += 1
            if verdict != "right" or options.all:
                print(f"{number:2} {verdict:8} {row['question']}\n            {describe(found)}")
    print(
        f"{options.model}, {len(rows)} questions about {options.docs.name}/: "
        f"{counts['right']} right, {counts['refused']} refused, {counts['wrong']} wrong"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
