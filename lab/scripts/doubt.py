"""How often each word of doubt is right: of the answers called *sure*, *likely*, *perhaps*.

    python -m lab.scripts.doubt count READER... --on held-squad.json.gz held-everyday.json.gz
    python -m lab.scripts.doubt fit READER... --on held-squad.json.gz held-everyday.json.gz
    python -m lab.scripts.doubt write FOLDER --on held-squad.json.gz held-everyday.json.gz

An answer counts as right where it overlaps with a reference (F1 above 0); an answer to a question
that the passage does not answer is wrong; what the reader refuses is not counted. ``fit`` prints
the bands of ``reading/doubt.py`` that call most answers sure, then most likely, and keep their
promise for every reader on every file; ``write`` puts the counts into a reader's manifest and card.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lab.scripts.data_names import called
from rmreader.core.files.manifest import CARD
from rmreader.readers.card import DOUBT_TITLE, doubt_lines
from rmreader.readers.folder import open_folder
from rmreader.readers.write import update
from rmreader.reading.answers import text_of
from rmreader.reading.calibrate import questions_of
from rmreader.reading.doubt import PROMISES, Band, doubt_of
from rmreader.reading.reader import Reader
from rmreader.scoring.squad import f1

Counts = dict[str, dict[str, int]]
_FEWEST = 30  # answers that a band must have on each file before its share means anything


@dataclass(frozen=True)
class Judged:
    """What a reader answered on one file: one entry for each question that it did not refuse."""

    name: str
    confidence: NDArray[np.float64]
    no_answer: NDArray[np.float64]
    right: NDArray[np.bool_]

    def within(self, band: Band) -> NDArray[np.bool_]:
        """Which answers a band holds."""
        return (self.confidence >= band.min_confidence) & (self.no_answer <= band.max_no_answer)


def judge(reader: Reader, path: Path) -> Judged:
    """Ask a reader every question of a file."""
    confidence = []
    no_answer = []
    right = []
    for row, answers in reader.predict(questions_of(path, no_answer=True)):
        if answers.best is None:
            continue
        confidence.append(answers.best.confidence)
        no_answer.append(answers.no_answer or 0.0)
        right.append(bool(row.references) and f1(text_of(answers), row.references) > 0)
    return Judged(called(path), np.array(confidence), np.array(no_answer), np.array(right, bool))


def count(judged: Judged) -> Counts:
    """Return for each word how many answers have it, and how many of those are right."""
    found: Counts = {word: {"answers": 0, "right": 0} for word in ("sure", "likely", "perhaps")}
    for confidence, no_answer, right in zip(
        judged.confidence, judged.no_answer, judged.right, strict=True
    ):
        counted = found[doubt_of(float(confidence), float(no_answer))]
        counted["answers"] += 1
        counted["right"] += int(right)
    return found


def fit(all_judged: Sequence[Judged]) -> dict[str, Band]:
    """Return the widest bands that keep their promise on every file, sure first."""
    sure = _widest(
        all_judged, PROMISES["sure"], [np.zeros(len(one.right), bool) for one in all_judged]
    )
    taken = [one.within(sure) for one in all_judged]
    likely = _widest(all_judged, PROMISES["likely"], taken)
    return {"sure": sure, "likely": likely}


def _widest(
    all_judged: Sequence[Judged], promise: float, taken: Sequence[NDArray[np.bool_]]
) -> Band:
    """Return the band that calls the largest share of answers by its word, over all files alike."""
    widest = Band(1.0, 0.0)
    most = 0.0
    for band in _bands():
        shares = []
        for judged, others in zip(all_judged, taken, strict=True):
            called = judged.within(band) & ~others
            shares.append(float(np.mean(called)))
            if not _keeps(promise, judged.right[called]):
                break
        else:
            if np.mean(shares) > most:
                most = float(np.mean(shares))
                widest = band
    return widest


def _bands() -> Iterator[Band]:
    """Yield the bands to choose from, in hundredths; nobody calls less than 60 % sure or likely."""
    for confidence in range(60, 99):
        for no_answer in range(1, 51):
            yield Band(confidence / 100, no_answer / 100)


def _keeps(promise: float, right: NDArray[np.bool_]) -> bool:
    """Whether the promise holds, with a standard deviation of the wrong ones to spare."""
    wrong = int((~right).sum())
    return len(right) >= _FEWEST and wrong + wrong**0.5 <= (1 - promise) * len(right)


def write(folder: Path, counts: dict[str, Counts]) -> None:
    """Put the counts into a reader's manifest, and into its card before its last part.

    The rest of the card stays as somebody may have written it.
    """
    path = folder / CARD
    card = path.read_text(encoding="utf-8")
    lines = "\n".join(doubt_lines(counts)) + "\n"
    begin = card.find(DOUBT_TITLE)
    if begin < 0:
        begin = end = card.index("What it is not good at")
    else:
        end = card.index("What it is not good at", begin)
    update(folder, doubt=counts)
    path.write_text(f"{card[:begin]}{lines}\n{card[end:]}", encoding="utf-8")
    open_folder(folder)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("count", "fit", "write"))
    parser.add_argument("readers", nargs="+")
    parser.add_argument("--on", nargs="+", type=Path, required=True, help="SQuAD 2.0 files")
    args = parser.parse_args()
    all_judged: list[Judged] = []
    for name in args.readers:
        reader = Reader.load(name)
        judged = [judge(reader, path) for path in args.on]
        all_judged.extend(judged)
        counts = {one.name: count(one) for one in judged}
        print(name, *doubt_lines(counts), sep="\n", flush=True)
        if args.what == "write":
            write(Path(name), counts)
    if args.what == "fit":
        for word, band in fit(all_judged).items():
            print(f"{word}: {band}")


if __name__ == "__main__":
    main()
