"""The decision of a folder is fitted for one reader or several, and says what it costs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lab import folders
from lab.folders import Read


def made_pairs(seed: int, count: int = 200) -> list[tuple[list[Read], list[Read]]]:
    """Questions whose right passage has a higher score of reader and search, mostly."""
    rng = np.random.default_rng(seed)
    pairs = []
    for _ in range(count):
        rows = []
        for right in (True, False, False):
            reader = float(rng.normal(2.0 if right else -1.0, 1.0))
            search = float(rng.normal(0.6 if right else 0.4, 0.1))
            read = Read(
                own=right,
                right=right,
                search=search,
                reader=reader,
                confidence=0.5,
                em=float(right),
                f1=float(right),
            )
            rows.append(read)
        pairs.append((rows, rows[1:]))
    return pairs


def test_the_threshold_keeps_to_the_share_that_may_be_made_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept = {"small, held": made_pairs(1), "small, squad": made_pairs(2)}
    weights, doubt = folders.fit_reader("small", kept)
    assert weights[0] > 0
    assert weights[1] > 0
    held = kept["small, held"]
    gone = np.array([folders.chance_of_none(without, weights) for _, without in held])
    assert (gone <= doubt).mean() == pytest.approx(folders.MOST_MADE_UP, abs=0.011)
    told = capsys.readouterr().out
    assert told.count("refused though it is there") == 2
    assert told.count("refused where so many are made up") == 2

    # Who may make up more refuses less.
    there = np.array([folders.chance_of_none(some, weights) for some, _ in held])
    refused = []
    for share in folders.SHARES:
        threshold = folders.threshold(
            held,
            weights,
            share,
        )
        refused.append((there > threshold).mean())
    assert refused == sorted(refused, reverse=True)


def test_the_numbers_are_written_into_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = folders.RANK.read_text(encoding="utf-8")
    copy = tmp_path / "rank.py"
    copy.write_text(text, encoding="utf-8")
    monkeypatch.setattr(
        folders,
        "RANK",
        copy,
    )
    folders.write(np.array([1.25, 9.5, -3.75]), 0.625)
    lines = copy.read_text(encoding="utf-8").splitlines()
    for start in ("_READER = 1.25 ", "_SEARCH = 9.5 ", "_BIAS = -3.75", "_DOUBT = 0.625 "):
        assert any(line.startswith(start) for line in lines)


def test_what_was_read_is_kept_and_a_torn_line_is_read_again(tmp_path: Path) -> None:
    texts = ["The lease was signed by Ada Lovelace.", "The boiler is guaranteed for five years."]
    question = "Who signed the lease?"
    first = folders.Readings("small", tmp_path).read(question, texts)
    lease, boiler = (first[text] for text in texts)
    assert lease.text == "Ada Lovelace"
    assert lease.log_odds > boiler.log_odds
    (path,) = tmp_path.glob("small-*.jsonl")
    whole = path.read_text(encoding="utf-8")
    assert len(whole.splitlines()) == 2

    # Nothing is read again.
    assert folders.Readings("small", tmp_path).read(question, texts) == first
    assert path.read_text(encoding="utf-8") == whole

    # A kill cut the last line short.
    path.write_text(whole[:-10], encoding="utf-8")
    assert folders.Readings("small", tmp_path).read(question, texts) == first
    assert path.read_text(encoding="utf-8") == whole

    # A kept value is what is used, until it is forgotten.
    path.write_text(whole.replace("Ada Lovelace", "Nobody"), encoding="utf-8")
    changed = folders.Readings("small", tmp_path).read(question, texts)
    assert changed[texts[0]].text == "Nobody"
    assert (
        folders.Readings(
            "small",
            tmp_path,
            anew=True,
        ).read(question, texts)
        == first
    )
