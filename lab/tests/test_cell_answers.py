"""The answers of the paper's cell that are kept give the scores that are kept beside them."""

import json
import lzma
from pathlib import Path

import pytest

from lab.scripts.cell_answers import score_kept

CLAIMS = Path(__file__).parents[2] / "log" / "claims"


@pytest.mark.data
def test_kept_answers_give_the_kept_scores(
    real_data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = "ml/full-seed-2"
    with lzma.open(CLAIMS / "cell-answers.jsonl.xz", "rt", encoding="utf-8") as lines:
        [line] = [line for line in lines if json.loads(line)["name"] == name]
    path = tmp_path / "answers.jsonl.xz"
    with lzma.open(path, "wt", encoding="utf-8") as file:
        file.write(line)

    score_kept(path, real_data)

    kept = [json.loads(row) for row in (CLAIMS / "cell.jsonl").read_text().splitlines()]
    [training] = [row for row in kept if (row["row"], row["seed"]) == ("full", 2)]
    expected = [name]
    for file in ("dev", "addsent", "addonesent"):
        scores = training[file]
        expected.append(f"{scores['exact_match']:.2f} / {scores['f1']:.2f}")
    assert capsys.readouterr().out.strip() == "  ".join(expected)
