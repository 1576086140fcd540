"""The words of doubt: bands that keep their promise, and cards that say how often each is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lab.scripts import everyday
from lab.scripts.data_names import called
from lab.scripts.doubt import Judged, count, fit, judge, lower_limit, write_bands
from rmreader.data.squad import write_squad
from rmreader.readers.card import doubt_lines
from rmreader.readers.folder import find, open_folder
from rmreader.reading import doubt
from rmreader.reading.doubt import PROMISES, Band
from rmreader.reading.reader import Reader

HELD = Path(__file__).parents[1] / "everyday" / "held.txt.gz"


def made_answers(seed: int, honest: bool) -> Judged:
    """Answers of a reader whose confidence is, or is not, the chance to be right."""
    draw = np.random.default_rng(seed)
    confidence = draw.uniform(
        0.2,
        1.0,
        4000,
    )
    chance = confidence if honest else np.full(4000, 0.5)
    right = draw.uniform(size=4000) < chance
    return Judged(
        "made",
        confidence,
        np.zeros(4000),
        right,
    )


def test_bands_keep_their_promise_on_answers_they_were_not_fitted_on() -> None:
    bands = fit(
        [
            made_answers(1, honest=True),
            made_answers(2, honest=True),
        ]
    )
    fresh = made_answers(3, honest=True)
    sure = fresh.within(bands["sure"])
    likely = fresh.within(bands["likely"]) & ~sure
    assert sure.sum() > 100
    assert likely.sum() > 100
    assert fresh.right[sure].mean() >= PROMISES["sure"]
    assert fresh.right[likely].mean() >= PROMISES["likely"]


def test_a_band_that_keeps_its_promise_by_chance_is_not_taken() -> None:
    """Of 40 answers 33 are right, 82 %: of the next 40 it may well be 30, which is less than 80."""
    right = np.arange(40) < 33
    assert right.mean() > PROMISES["likely"] > lower_limit(right)
    assert lower_limit(np.repeat(right, 100)) > PROMISES["likely"]
    assert lower_limit(np.ones(29, bool)) == 0.0


def test_where_no_band_keeps_its_promise_the_nearest_is_taken(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bands = fit([made_answers(1, honest=True), made_answers(2, honest=False)])
    assert "sure: no band keeps 95%" in capsys.readouterr().out
    assert 0.4 < lower_limit(made_answers(2, honest=False).right) < 0.6
    assert bands["sure"].min_confidence < 1.0


def test_bands_are_written_where_the_reader_has_them(tmp_path: Path) -> None:
    path = tmp_path / "doubt.py"
    path.write_text(Path(doubt.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    write_bands({"sure": Band(0.9, 0.03), "likely": Band(0.7, 0.1)}, path)
    written: dict[str, object] = {"__name__": doubt.__name__}
    exec(
        compile(
            path.read_text(encoding="utf-8"),
            path,
            "exec",
        ),
        written,
    )
    word = written["doubt_of"]
    assert callable(word)
    assert [word(0.95, 0.02), word(0.8, 0.02), word(0.8, 0.2)] == ["sure", "likely", "perhaps"]


@pytest.mark.parametrize("name", ["small", "base"])
def test_cards_say_how_often_each_word_is_right(name: str) -> None:
    folder = open_folder(name)
    counts = folder.about["doubt"]
    card = (find(name) / "README.md").read_text(encoding="utf-8")
    assert "\n".join(doubt_lines(counts)) in card
    for file in ("held-squad", "held-everyday"):
        words = counts[called(Path(file))]
        for word, promise in PROMISES.items():
            answers = words[word]["answers"]
            assert answers > 0, (file, word)
            assert words[word]["right"] >= promise * answers, (file, word)


def test_the_counts_are_those_of_the_reader(tmp_path: Path) -> None:
    """On other processors an 8-bit product may differ: one answer in a hundred is let pass."""
    path = tmp_path / "held-everyday.json.gz"
    write_squad(list(everyday.judge(everyday.read(HELD))), path)
    counts = count(judge(Reader.load("small"), path))
    kept = open_folder("small").about["doubt"][called(path)]
    most = 0.01 * sum(counted["answers"] for counted in kept.values())
    for word, counted in counts.items():
        for what in ("answers", "right"):
            difference = counted[what] - kept[word][what]
            assert abs(difference) <= most
