"""How often each word of doubt is right: of the answers called *sure*, *likely*, *perhaps*.

    python -m lab.scripts.doubt count READER... --on held-squad.json.gz held-everyday.json.gz
    python -m lab.scripts.doubt fit READER... --on held-squad.json.gz held-everyday.json.gz
    python -m lab.scripts.doubt write FOLDER --on held-squad.json.gz held-everyday.json.gz
    python -m lab.scripts.doubt renew small base --on held-squad.json.gz held-everyday.json.gz \\
        --also test-everyday.json.gz

An answer counts as right where it overlaps with a reference (F1 above 0); an answer to a question
that the passage does not answer is wrong; what the reader refuses is not counted. ``fit`` prints
the bands of ``reading/doubt.py`` that call most answers sure, then most likely, and keep their
promise for every reader on every file: with the lower limit of their share (90 %), since a share
of some hundred answers is lower on other texts one time in two. Where no band keeps it so, the
nearest one is taken, and ``fit`` says so. ``write`` puts the counts into a reader's manifest and
card. ``renew`` does it all: after new readers ship it fits, writes the bands into
``reading/doubt.py`` and the counts into every reader's manifest and card. On files of ``--also``
answers are only counted.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lab.scripts.data_names import called
from rmreader.core.files.manifest import CARD
from rmreader.readers.card import DOUBT_TITLE, doubt_lines
from rmreader.readers.folder import find, open_folder
from rmreader.readers.write import update
from rmreader.reading import doubt
from rmreader.reading.answers import text_of
from rmreader.reading.calibrate import questions_of
from rmreader.reading.doubt import LIKELY, PROMISES, SURE, Band
from rmreader.reading.reader import Reader
from rmreader.scoring.squad import f1

Counts = dict[str, dict[str, int]]
Bands = dict[str, Band]
_FEWEST = 30  # answers that a band must have on each file before its share means anything
_DEVIATIONS = 1.28  # below a share its lower limit is, in nine of ten draws
_NOW = {"sure": SURE, "likely": LIKELY}


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


def count(judged: Judged, bands: Bands = _NOW) -> Counts:
    """Return for each word how many answers have it, and how many of those are right."""
    sure = judged.within(bands["sure"])
    likely = judged.within(bands["likely"]) & ~sure
    words = {"sure": sure, "likely": likely, "perhaps": ~(sure | likely)}
    return {word: _counted(judged.right[called]) for word, called in words.items()}


def _counted(right: NDArray[np.bool_]) -> dict[str, int]:
    return {"answers": len(right), "right": int(right.sum())}


def fit(all_judged: Sequence[Judged]) -> Bands:
    """Return the widest bands that keep their promise on every file, sure first."""
    nobody = [np.zeros(len(one.right), bool) for one in all_judged]
    sure = _widest(all_judged, "sure", nobody)
    taken = [one.within(sure) for one in all_judged]
    return {"sure": sure, "likely": _widest(all_judged, "likely", taken)}


def _widest(all_judged: Sequence[Judged], word: str, taken: Sequence[NDArray[np.bool_]]) -> Band:
    """Return the band that calls the largest share of answers by its word, over all files alike.

    Where none keeps the promise with its lower limit, the one whose lowest limit is highest.
    """
    widest = nearest = Band(1.0, 0.0)
    most = 0.0
    highest = 0.0
    for band in _bands():
        shares = []
        limits = []
        for judged, others in zip(all_judged, taken, strict=True):
            called = judged.within(band) & ~others
            shares.append(float(np.mean(called)))
            limits.append(lower_limit(judged.right[called]))
        if min(limits) >= PROMISES[word] and np.mean(shares) > most:
            most = float(np.mean(shares))
            widest = band
        if min(limits) > highest:
            highest = min(limits)
            nearest = band
    if most:
        return widest
    print(f"{word}: no band keeps {PROMISES[word]:.0%}; of the nearest at least {highest:.1%}")
    return nearest


def lower_limit(right: NDArray[np.bool_]) -> float:
    """Return what the share of right answers is at least, by Wilson's score; of a few, nothing."""
    answers = len(right)
    if answers < _FEWEST:
        return 0.0
    share = float(right.mean())
    doubled = _DEVIATIONS**2 / answers
    spread = _DEVIATIONS * (share * (1 - share) / answers + doubled / (4 * answers)) ** 0.5
    return float((share + doubled / 2 - spread) / (1 + doubled))


def _bands() -> Iterator[Band]:
    """Yield the bands to choose from, in hundredths; nobody calls less than 60 % sure or likely."""
    for confidence in range(60, 99):
        for no_answer in range(1, 51):
            yield Band(confidence / 100, no_answer / 100)


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


def write_bands(bands: Bands, path: Path) -> None:
    """Put the bands into the file that has them."""
    source = path.read_text(encoding="utf-8")
    for word, band in bands.items():
        line = f"{word.upper()} = {band}"
        source, found = re.subn(rf"^{word.upper()} = Band\(.*\)$", line, source, flags=re.MULTILINE)
        if found != 1:
            raise ValueError(f"{path}: no line that begins with {word.upper()} = Band(")
    path.write_text(source, encoding="utf-8")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("count", "fit", "write", "renew"))
    parser.add_argument("readers", nargs="+")
    parser.add_argument("--on", nargs="+", type=Path, required=True, help="SQuAD 2.0 files")
    parser.add_argument("--also", nargs="*", type=Path, default=[], help="files to count on alone")
    args = parser.parse_args()
    to_test = [path.name for path in args.on if path.name.startswith(("test", "dev", "add"))]
    if to_test and args.what in ("fit", "renew"):
        parser.error(f"{to_test[0]} is there to test: give it to --also")
    judged = {}
    to_fit: list[Judged] = []
    for name in args.readers:
        reader = Reader.load(name)
        judged[name] = [judge(reader, path) for path in (*args.on, *args.also)]
        to_fit += judged[name][: len(args.on)]
    bands = _NOW
    if args.what in ("fit", "renew"):
        bands = fit(to_fit)
        for word, band in bands.items():
            print(f"{word}: {band}")
    if args.what == "renew":
        write_bands(bands, Path(doubt.__file__))
    for name, files in judged.items():
        counts = {one.name: count(one, bands) for one in files}
        print(name, *doubt_lines(counts), sep="\n", flush=True)
        if args.what in ("write", "renew"):
            write(find(name), counts)


if __name__ == "__main__":
    main()
