"""The script that ships a reader: from trained folders to one whose every word is made, measured
and signed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from rmreader.readers.folder import open_folder
from rmreader.readers.head import without_head
from rmreader.reading.reader import Reader

ROOT = Path(__file__).resolve().parents[2]


def share(counted: dict[str, int]) -> str:
    """How a card spells the share of right answers."""
    if not counted["answers"]:
        return "none"
    return f"{100 * counted['right'] / counted['answers']:.1f}% of {counted['answers']}"


def test_trained_readers_become_one_that_says_what_it_is(tiny: Any, tmp_path: Path) -> None:
    first = tiny.finished(tmp_path / "one", "training.epochs=1").out / "best"
    again = (
        "training.epochs=1",
        f"training.init={first}",
        "training.holdout_seed=1",
        "training.seed=2",
    )
    other = tiny.finished(tmp_path / "two", *again).out / "best"
    dev, out = tiny.folder / "dev.json", tmp_path / "shipped"
    adversarial = Path(shutil.copy(dev, tmp_path / "addsent.json"))
    words = [
        first,
        other,
        "--out",
        out,
        "--held-out",
        dev,
        "--dev",
        dev,
        "--adversarial",
        adversarial,
        "--doubt",
        dev,
    ]
    words += [
        "--recipe",
        "recipes/tiny.yaml",
        "--summary",
        "Made by a test.",
        "--allowed-loss",
        "100",
    ]
    words += ["--learned-from", "Two questions.", "--datasets", "rajpurkar/squad"]
    words += ["--base-model", "example/encoder"]
    command = [sys.executable, "-m", "lab.scripts.ship_reader", *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=300
    )
    assert done.returncode == 0, done.stderr
    folder = open_folder(out)
    about = folder.about
    assert (folder.precision, about["weights"]) == ("int8", "int8")
    assert {"commit", "recipe", "average_of", "trained_on_sha256"} <= set(about["provenance"])
    assert about["calibration"]["questions"] > 0
    words = [sys.executable, "-m", "rmreader", "evaluate", str(dev), "--model", str(out), "--json"]
    scored = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert about["scores"]["dev"]["f1"] == scored["f1"]
    text = (out / "README.md").read_text(encoding="utf-8")
    assert text == done.stdout.removesuffix("\n")
    assert without_head(text).startswith("# shipped\n")
    known = yaml.safe_load(text.split("---\n")[1])
    assert (known["license"], known["datasets"]) == ("cc-by-sa-4.0", ["rajpurkar/squad"])
    assert known["base_model"] == "example/encoder"
    assert [one["dataset"]["name"] for one in known["model-index"][0]["results"]] == [
        *about["scores"]
    ]
    assert "- **Learned from**: Two questions.\n" in text
    assert "Made by a test." in text
    assert "the mean of 2 readers" in text
    assert about["scores"]["AddSent"]["total"] > 0
    assert "\n| AddSent | " in text
    counts = about["doubt"]["dev"]
    assert sum(counted["answers"] for counted in counts.values()) == about["scores"]["dev"]["total"]
    assert f"| dev | {' | '.join(map(share, counts.values()))} |" in text
    assert (
        f"| dev | {scored['exact_match']:.2f} | {scored['f1']:.2f} | {scored['total']:,} |" in text
    )
    assert str(tmp_path) not in text
    assert Reader.load(out).ask("Who made three maps?", "In Oslo, Emmy made three maps.")
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
    refused = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=300
    )
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: ")
    assert "there already" in refused.stderr
