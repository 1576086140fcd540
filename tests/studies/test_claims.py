"""Verdicts and the page are made of kept lines alone: they show what was measured, and say what was not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rmreader.cli import app
from rmreader.errors import UserError
from rmreader.scoring.significance import FAILS, HOLDS, OPEN
from rmreader.studies import claims, kept, paper
from rmreader.studies.tables import rl_table
from rmreader.studies.whole import build

ROOT = Path(__file__).resolve().parents[2]
FIRST, SECOND, THIRD, FOURTH, FIFTH = (claim["claim"] for claim in claims.WORDS["claims"])


def training(row: str, seed: int, f1: float, study: str = "ablation", **more: Any) -> kept.Line:
    score = {"exact_match": f1 - 9, "f1": f1, "total": 100}
    about = {"kind": "training", "study": study, "setting": "abc", "row": row, "seed": seed, "dev": score}
    return {**about, "held_out": score, "commit": "c0ffee", "steps": 10, "seconds": 1800.0, "beside": 2, **more}


def ablations(**gains: float) -> list[kept.Line]:
    """Three seeds of rows that are above the full network's first stage by so much, give or take a hundredth."""
    lines = []
    for seed, noise in enumerate((0.0, 0.01, -0.01), 1):
        for row, gain in {"full": 0.0, **gains}.items():
            attacked = {"exact_match": 40.0, "f1": 48 + gain + noise * len(row)}
            f1 = 82 + seed / 3 + gain + noise * (len(row) % 3)  # seeds differ by more than rows do
            lines.append(training(row.replace("_", "-"), seed, f1, addsent=attacked, addonesent=attacked))
    return lines


def attentions(gap: float) -> list[kept.Line]:
    lines = []
    for kind, sign in (("without", 0), ("with", 1)):
        rows = {}
        for name in paper.TABLE_5:
            readers = [0.5 + 0.01 * k + sign * (-gap if name.endswith("*") else gap) for k in range(3)]
            rows[name] = {"mean": sum(readers) / 3, "deviation": 0.1, "readers": readers}
        about = {"kind": "attention", "study": "attention", "setting": "dev", "row": kind, "readers": list("abc")}
        lines.append({**about, "seeds": [1, 2, 3], "questions": 7, "commit": "c0ffee", "rows": rows})
    return lines


def verdicts(folder: Path) -> dict[str, str]:
    return {claim: claims.together(parts) for claim, parts in claims.judge(claims.groups(folder)).items()}


def test_what_was_planted_is_what_is_said(tmp_path: Path) -> None:
    gains = {"dcrl_full": 0.9, "dcrl_reattention_false": 0.4, "reattention_false": -0.6, "scst_full": 0.4}
    kept.keep(tmp_path / "ablation.jsonl", ablations(**gains))
    kept.keep(tmp_path / "attention.jsonl", attentions(0.1))
    found = verdicts(tmp_path)
    assert found == {FIRST: HOLDS, SECOND: HOLDS, THIRD: OPEN, FOURTH: OPEN, FIFTH: HOLDS}  # no control yet
    rows = [("start", 0, 80.0), *((row, seed, 80 + gain + seed / 100 * len(row))
            for row, gain in (("dcrl", 1.0), ("ml", 1.0), ("scst", 0.2)) for seed in (1, 2, 3))]  # fmt: skip
    kept.keep(tmp_path / "rl.jsonl", [training(*row, study="rl", curve={"dev F1": [[5, row[2]]]}) for row in rows])
    found = verdicts(tmp_path)
    assert (found[THIRD], found[FOURTH]) == (HOLDS, FAILS)  # DCRL gains nothing over ML with the same steps
    kept.keep(tmp_path / "attention.jsonl", attentions(-0.1))
    assert verdicts(tmp_path)[SECOND] == FAILS


def test_trainings_of_another_setting_are_not_compared(tmp_path: Path) -> None:
    lines = ablations(dcrl_full=0.9)
    for line in lines:
        if line["row"] == "full":
            line["setting"] = "other"
    kept.keep(tmp_path / "ablation.jsonl", lines)
    parts = claims.judge(claims.groups(tmp_path))[FOURTH]
    assert all(part.found is None for part in parts)


def test_with_no_logs_the_page_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    report = build(tmp_path / "log", tmp_path / "report")
    claimed = [row for row in report.rows if not row[0].startswith("· ")]
    assert [row[1] for row in claimed] == [OPEN] * 5
    assert {row[2] for row in report.rows if row[0].startswith("· ")} == {"not measured"}
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    for what, command in claims.WORDS["kept"].values():
        assert what in page
        assert command.replace("…", "").split(" --")[0] in page
    assert "<img" not in page
    with pytest.raises(UserError, match="no such folder"):
        build(tmp_path / "none", tmp_path)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A folder with lines of every study."""
    folder = tmp_path / "log"
    gains = {"dcrl_full": 0.9, "dcrl_reattention_false": 0.4, "reattention_false": -0.6, "scst_full": 0.4}
    kept.keep(folder / "ablation.jsonl", ablations(**gains, dcrl_blocks_2=0.3, blocks_2=-0.2))
    rounds = [
        training(row.slug, seed, 80 + row.number + seed / 10, "rounds") for row in paper.ROUNDS for seed in (1, 2)
    ]
    kept.keep(folder / "rounds.jsonl", rounds)
    curve = {"dev F1": [[5, 80.0], [10, 81.0]], "suppressed": [[5, 0.4], [10, 0.3]]}
    runs = [training(row, seed, 80 + seed / 10, "rl", curve=curve) for row in ("dcrl", "scst", "ml") for seed in (1, 2)]
    kept.keep(folder / "rl.jsonl", [training("start", 0, 79.5, "rl"), *runs])
    kept.keep(folder / "attention.jsonl", attentions(0.1))
    table = {"title": "Table 2: SQuAD", "header": ["model", "F1"], "rows": [["[<b>ours</b>]", "82.0"]], "notes": []}
    kept.keep(folder / "squad.jsonl", [{"kind": "report", "study": "squad", "row": "", **table}])
    return folder


def test_the_page_has_every_table_drawing_and_verdict_and_nothing_from_outside(whole: Path, tmp_path: Path) -> None:
    words = ["study", "all", "--from", str(whole), "--out", str(tmp_path / "report"), "--price", "2.5", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)[FIRST]["verdict"] == HOLDS
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    titles = "Table 1:", "Table 2:", "Table 4: ablations (", "Table 4: ablations, after", "Table 5:", "Reinforcement"
    for title in titles:
        assert title in page
    assert page.count('<img alt="') == page.count('src="data:image/svg+xml;base64,') == 5
    assert "http" not in page.replace("http-equiv", "")
    assert "<b>ours" not in page
    assert "&lt;b&gt;ours" in page
    assert "Table 3" in page  # among what is missing
    assert "<td>7.50</td>" in page  # of the rounds: twelve half hours, two at a time, at 2.5 an hour
    text = (tmp_path / "report" / "reproduction.md").read_text(encoding="utf-8")
    assert f"| {FIRST} | holds |" in text
    again = tmp_path / "again"
    build(whole, again, 2.5)
    assert (again / "index.html").read_bytes() == (tmp_path / "report" / "index.html").read_bytes()


@pytest.mark.browser
def test_the_page_opens_in_chromium_without_errors(chromium: Any, whole: Path, tmp_path: Path) -> None:
    build(whole, tmp_path / "report")
    problems: list[str] = []
    page = chromium.new_page(viewport={"width": 1180, "height": 900})
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text))
    page.on("request", lambda request: request.url.startswith(("file:", "data:")) or problems.append(request.url))
    page.goto((tmp_path / "report" / "index.html").as_uri())
    script = "all => all.map(one => [one.complete, one.naturalWidth, one.naturalHeight])"
    sizes = page.eval_on_selector_all("img", script)
    tables = page.locator("table").count()
    page.close()
    assert problems == []
    assert len(sizes) == 5
    assert all(complete and width > 100 and height > 100 for complete, width, height in sizes)
    assert tables >= 9


def test_a_variant_of_dcrl_has_its_own_row_against_the_start_and_the_control() -> None:
    lines = [training("start", 0, 80.0, "rl")]
    for row, gain in (("dcrl", 1.0), ("scst", 0.2), ("ml", 0.5), ("dcrl-k32", 1.5)):
        lines += [training(row, seed, 80 + gain + seed / 10, "rl") for seed in (1, 2)]
    report = rl_table(lines)
    names = [row[0] for row in report.rows]
    assert names == ["ML, the start", "DCRL", "SCST", "continued ML", "DCRL, k32", "DCRL − SCST",
                     "DCRL − continued ML", "DCRL, k32 − continued ML"]  # fmt: skip
    assert report.data["dcrl-k32"]["delta_f1"] == pytest.approx(1.65)
    assert report.data["dcrl_k32_minus_ml"]["delta_f1"] == pytest.approx(1.0)


def test_lines_are_kept_once_and_a_cut_one_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lines.jsonl"
    kept.keep(path, [training("full", 1, 80.0), training("full", 2, 81.0)])
    kept.keep(path, [training("full", 2, 82.0), training("full", 3, 83.0)])
    assert [line["dev"]["f1"] for line in kept.read(path)] == [80.0, 82.0, 83.0]
    with path.open("a") as file:
        file.write('{"kind": "trai')  # a kill while a line was being written
    assert len(kept.read(path)) == 3
    path.write_text(json.dumps(training("full", 1, 80.0)) + '\n{"kind": "training"}\n')
    with pytest.raises(UserError, match=r"lines\.jsonl: line 2 is no line of a study"):
        kept.read(path)


def test_the_page_in_the_docs_is_what_the_logs_of_the_repository_say(tmp_path: Path) -> None:
    if not (ROOT / "log" / "claims").is_dir():
        pytest.skip("no log/claims: this is not a checkout of the repository")
    build(ROOT / "log" / "claims", tmp_path)
    made, written = ((folder / "reproduction.md").read_text(encoding="utf-8") for folder in (tmp_path, ROOT / "docs"))
    assert made == written, "run: rmreader study all --from log/claims --out report && cp report/reproduction.md docs/"


def test_every_comparison_of_a_claim_names_trainings_that_a_study_makes() -> None:
    made = {"ablation": {row.slug for row in paper.TABLE_4} | {paper.changed(row.network) for row in paper.TABLE_4}}
    made["rl"] = {"dcrl", "scst", "ml"}
    for claim in claims.WORDS["claims"]:
        for what, study, first, second, measure, *rows in claim["parts"]:
            assert {first, second} <= made[study], what
            assert measure in ("dev", "addsent", "addonesent")
            slugs = [paper.TABLE_4[row].slug for row in rows]
            assert study == "rl" or slugs == [first, second]
            assert re.search(r"−", what)
