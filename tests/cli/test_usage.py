"""Wrong words and wrong files: an exit status and one sentence, of real processes, forked (``support.warm``)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("warm")


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rmreader", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, **options)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize(
    "arguments",
    [
        ["dance"],
        ["evaluate"],
        ["ask", "Who?"],
        ["ask", "--passage", "x", "--top", "0", "Who?"],
        ["train", "recipe.yaml"],
        ["data", "download", "nothing"],
        ["evaluate", "--nonsense", "x"],
    ],
)
def test_wrong_usage_is_status_2(arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", "no-such-file.json", "preds.json"],
        ["data", "check", "no-such-file.json"],
        ["data", "check", "."],
        ["recipe", "no-such-recipe.yaml"],
        ["recipe", "good.yaml", "network.blokcs=2"],
        ["recipe", "good.yaml", "network.blocks=two"],
        ["recipe", "good.yaml", "inputs.vectors=", "inputs.characters=false", "inputs.exact_match=false"],
        ["members", "good.yaml", "--train", "t", "--dev", "d", "--out", "o"],
        ["study", "all", "--from", "log/claims"],
        ["study", "--help"],
        ["data", "cloze", "good.txt", "--out", "o"],
        ["recipe", "."],
        ["train", "good.yaml", "netwrk.blocks=2", "--train", "t", "--dev", "d", "--out", "o"],
        ["ask", "--passage", "no-such-file.txt", "Who?"],
        ["ask", "--passage", ".", "Who?"],
        ["ask", "--passage", "empty.txt", "Who?"],
        ["ask", "--passage", "latin", "Who?"],
        ["ask", "--passage", "good.txt", " "],
        ["data", "download", "squad", "--to", "good.txt"],
    ],
)
def test_what_the_user_can_mend_is_one_sentence_and_status_1(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text("network: {blocks: 2}\n")
    (tmp_path / "halve.yaml").write_text("training: {schedule: halve}\n")
    (tmp_path / "good.txt").write_text("Ada lit the lamp.")
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "latin").write_bytes("Zürich".encode("latin-1"))
    done = run(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
