"""Verdicts and the page are made of kept lines alone: they show what was measured, and say what
was not."""

from __future__ import annotations

import json
import random
import re
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lab import results
from lab.cli import app
from lab.results import groups
from lab.studies import paper
from lab.studies.claims import CLAIMS, Level, claims_table
from lab.studies.groups import GROUPS, pack
from lab.studies.layouts import LAYOUTS
from lab.studies.report import Report, save
from lab.studies.reproduction import WHOLE, build
from lab.studies.tables import rl_table
from rmreader.core.errors import UserError

ROOT = Path(__file__).resolve().parents[3]
REATTENTION, REDUNDANT, DEFICIENT, DCRL_SCST, DCRL_ML, SCST_ML, ROBUST, TABLE_3, *REST = (
    claim.text for claim in CLAIMS
)


def training(row: str, seed: int, f1: float, study: str = "ablation", **more: Any) -> results.Line:
    score = {
        "exact_match": f1 - 9,
        "f1": f1,
        "total": 100,
    }
    about = {
        "kind": "training",
        "study": study,
        "setting": "abc",
        "row": row,
        "seed": seed,
        "dev": score,
    }
    return {
        **about,
        "held_out": score,
        "commit": "c0ffee",
        "steps": 10,
        "seconds": 1800.0,
        "beside": 2,
        **more,
    }


def ablations(**gains: float) -> list[results.Line]:
    """Three seeds of rows that are above the full network's first stage by so much, give or take
    a hundredth."""
    lines = []
    for seed, noise in enumerate((0.0, 0.01, -0.01), 1):
        for row, gain in {"full": 0.0, **gains}.items():
            attacked = {"exact_match": 40.0, "f1": 48 + gain + noise * len(row)}
            f1 = 82 + seed / 3 + gain + noise * (len(row) % 3)  # seeds differ by more than rows do
            lines.append(
                training(
                    row.replace("_", "-"),
                    seed,
                    f1,
                    addsent=attacked,
                    addonesent=attacked,
                )
            )
    return lines


def attentions(gap: float) -> list[results.Line]:
    lines = []
    for kind, sign in (("without", 0), ("with", 1)):
        rows = {}
        for name in paper.TABLE_5:
            readers = [
                0.5 + 0.01 * k + sign * (-gap if name.endswith("*") else gap) for k in range(3)
            ]
            rows[name] = {
                "mean": sum(readers) / 3,
                "deviation": 0.1,
                "readers": readers,
            }
        about = {
            "kind": "attention",
            "study": "attention",
            "setting": "dev",
            "row": kind,
            "readers": list("abc"),
        }
        lines.append(
            {
                **about,
                "seeds": [1, 2, 3],
                "questions": 7,
                "commit": "c0ffee",
                "rows": rows,
            }
        )
    return lines


def words_of(folder: Path) -> dict[str, str]:
    return {claim: found["words"] for claim, found in claims_table(groups(folder)).data.items()}


def write(folder: Path, out: Path, price: float = 0.0) -> Report:
    """The report with its files, as the command leaves it."""
    report = build(folder, price)
    save(report, out)
    return report


def test_what_was_planted_is_what_is_said(tmp_path: Path) -> None:
    gains = {
        "dcrl_full": 0.9,
        "dcrl_reattention_false": 0.4,
        "reattention_false": -0.6,
        "scst_full": 0.4,
    }
    results.keep(tmp_path / "ablation.jsonl", ablations(**gains))
    results.keep(tmp_path / "attention.jsonl", attentions(0.1))
    found = words_of(tmp_path)
    assert found[REATTENTION] == "same sign; excludes zero, not the paper's gain"
    # Only trainings under the paper's own conditions are held against its scores.
    assert found[TABLE_3] == "not measured"
    results.keep(tmp_path / "cell.jsonl", ablations())
    assert words_of(tmp_path)[TABLE_3] == "lower"
    (tmp_path / "cell.jsonl").unlink()
    assert found[REDUNDANT].startswith("same sign")
    assert found[DCRL_SCST].startswith("same sign")
    assert found[DCRL_ML] == "not measured"  # no control yet
    assert found[ROBUST].startswith("same sign; excludes more than")
    rows = [("start", 0, 80.0)]
    for row, gain in (("dcrl", 1.0), ("ml", 1.0), ("scst", 0.2)):
        for seed in (1, 2, 3):
            rows.append((row, seed, 80 + gain + seed / 100 * len(row)))
    results.keep(
        tmp_path / "rl.jsonl",
        [training(*row, study="rl", curve={"dev F1": [[5, row[2]]]}) for row in rows],
    )
    found = words_of(tmp_path)
    assert found[DCRL_ML] == "one start tells nothing"
    results.keep(tmp_path / "attention.jsonl", attentions(-0.1))
    assert words_of(tmp_path)[REDUNDANT].startswith("opposite sign; excludes any such gain")


def test_seeds_of_one_start_count_once_and_starts_together(tmp_path: Path) -> None:
    gains = {"one": (0.3, 0.1, 0.9), "two": (0.2, 0.5, 0.1)}
    for name, some in gains.items():
        lines = []
        for seed, gain in enumerate(some, 1):
            lines.append(
                training(
                    "dcrl",
                    seed,
                    80 + seed + gain,
                    study="rl",
                )
            )
            lines.append(
                training(
                    "scst",
                    seed,
                    80 + seed,
                    study="rl",
                )
            )
        results.keep(tmp_path / f"{name}.jsonl", lines)
    own, shared = claims_table(groups(tmp_path)).data[DCRL_SCST]["parts"]
    assert own["ours"] == "not measured"
    assert (shared["log"], shared["count"]) == ("one, two", 2)
    assert shared["ours"].startswith("+0.35 (")  # the mean of the starts' means


def test_what_is_only_significant_alone_is_open_after_correction(tmp_path: Path) -> None:
    lines = []
    for seed, gain in enumerate((0.2, 0.5, 0.3, 0.6, 0.1), 1):
        lines.append(training("dcrl-full", seed, 80 + seed + gain))
        for row in ("scst-full", "dcrl-reattention-false", "dcrl-attention-dot", "full"):
            lines.append(training(row, seed, 80 + seed))
    results.keep(tmp_path / "ablation.jsonl", lines)
    (part, _) = claims_table(groups(tmp_path)).data[DCRL_SCST]["parts"]
    assert float(part["chance"].removeprefix("p = ")) < 0.05
    assert float(part["corrected"].removeprefix("p = ")) > 0.05
    assert part["words"].startswith("sign open after correction")


def test_trainings_of_another_setting_are_not_compared(tmp_path: Path) -> None:
    lines = ablations(dcrl_full=0.9)
    for line in lines:
        if line["row"] == "full":
            line["setting"] = "other"
    results.keep(tmp_path / "ablation.jsonl", lines)
    parts = claims_table(groups(tmp_path)).data[DCRL_ML]["parts"]
    assert len(parts) == 3
    assert all(part["ours"] == "not measured" for part in parts)


def test_with_no_logs_the_page_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    report = write(tmp_path / "log", tmp_path / "report")
    claimed = [row for row in report.rows if not row[0].startswith("· ")]
    assert len(claimed) == len(CLAIMS)
    assert {row[1] for row in report.rows if row[0].startswith("· ")} == {"not measured"}
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    for what, command in WHOLE.values():
        assert what in page
        assert command.replace("…", "").split(" --")[0] in page
    assert "<img" not in page
    with pytest.raises(UserError, match="no such folder"):
        build(tmp_path / "none")


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A folder with lines of every study."""
    folder = tmp_path / "log"
    gains = {
        "dcrl_full": 0.9,
        "dcrl_reattention_false": 0.4,
        "reattention_false": -0.6,
        "scst_full": 0.4,
    }
    results.keep(folder / "ablation.jsonl", ablations(**gains, dcrl_blocks_2=0.3, blocks_2=-0.2))
    rounds = [
        training(
            row.slug,
            seed,
            80 + row.number + seed / 10,
            "rounds",
        )
        for row in paper.ROUNDS
        for seed in (1, 2)
    ]
    results.keep(folder / "rounds.jsonl", rounds)
    curve = {"dev F1": [[5, 80.0], [10, 81.0]], "suppressed": [[5, 0.4], [10, 0.3]]}
    runs = [
        training(
            row,
            seed,
            80 + seed / 10,
            "rl",
            curve=curve,
        )
        for row in ("dcrl", "scst", "ml")
        for seed in (1, 2)
    ]
    results.keep(
        folder / "rl.jsonl",
        [
            training(
                "start",
                0,
                79.5,
                "rl",
            ),
            *runs,
        ],
    )
    results.keep(folder / "attention.jsonl", attentions(0.1))
    table = {
        "title": "Table 2: SQuAD",
        "header": ["model", "F1"],
        "rows": [["[<b>ours</b>]", "82.0"]],
        "notes": [],
    }
    results.keep(
        folder / "squad.jsonl",
        [
            {
                "kind": "report",
                "study": "squad",
                "row": "",
                **table,
            }
        ],
    )
    return folder


def test_the_page_has_every_table_drawing_and_verdict_and_nothing_from_outside(
    whole: Path, tmp_path: Path
) -> None:
    words = [
        "study",
        "all",
        "--from",
        str(whole),
        "--out",
        str(tmp_path / "report"),
        "--price",
        "2.5",
        "--json",
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)[REATTENTION]["words"].startswith("same sign")
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    titles = (
        "Table 1:",
        "Table 2:",
        "Table 4: ablations (",
        "Table 4: ablations, after",
        "Table 5:",
        "Reinforcement",
    )
    for title in titles:
        assert title in page
    assert page.count('<img alt="') == page.count('src="data:image/svg+xml;base64,') == 5
    assert "http" not in page.replace("http-equiv", "")
    assert "<b>ours" not in page
    assert "&lt;b&gt;ours" in page
    assert "Table 3" in page  # among what is missing
    assert (
        "<td>7.50</td>" in page
    )  # of the rounds: twelve half hours, two at a time, at 2.5 an hour
    text = (tmp_path / "report" / "reproduction.md").read_text(encoding="utf-8")
    assert f"| 1. {REATTENTION} |" in text
    again = tmp_path / "again"
    write(whole, again, 2.5)
    assert (again / "index.html").read_bytes() == (tmp_path / "report" / "index.html").read_bytes()


DATA = {
    "train": "train-v1.1.json.gz 0123456789",
    "dev": "dev-v1.1.json.gz 9876543210",
}
GAINS = {
    "dcrl-full": 0.8,
    "full": 0.0,
    "dcrl-reattention-false": 0.3,
    "reattention-false": -0.5,
    "scst-full": 0.6,
    "dcrl-attention-dot": 0.4,
    "attention-dot": -0.3,
    "dcrl-blocks-2": 0.7,
    "blocks-2": -0.1,
}
RL_GAINS = {
    "dcrl": 0.3,
    "scst": 0.1,
    "ml": 0.32,
    "dcrl-k32": 0.4,
}


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """Lines as lab/scripts/claims.sh leaves them.

    Two networks, both stages, attacks, groups of questions, ensembles.
    """
    folder = tmp_path / "claims"
    rng = random.Random(1)
    keep_ablations(folder, rng, "small-100", 80.0, [*GAINS])
    keep_ablations(folder, rng, "base", 85.0, [*GAINS][:5])
    keep_questions(folder)
    keep_objectives(folder, rng)
    keep_ensembles(folder)
    for name in ("squad", "adversarial", "breakdown", "failures"):
        keep_table(folder, name)
    return folder


def keep_ablations(
    folder: Path,
    rng: random.Random,
    name: str,
    level: float,
    rows: list[str],
) -> None:
    """Keep three seeds of each row, attacked as well."""
    lines = []
    for row, seed in product(rows, (1, 2, 3)):
        f1 = level + GAINS[row] + 0.2 * seed + rng.uniform(-0.02, 0.02)
        attacked = {
            "exact_match": 41.5,
            "f1": f1 - 34,
            "total": 1000,
            "clean_exact_match": 72.0,
            "clean_f1": f1,
        }
        each = [255 if rng.random() < f1 / 100 else 0 for _ in range(400)]
        twins = [rng.randrange(4) for _ in range(50)]
        line = training(
            row,
            seed,
            f1,
            setting=name,
            data=DATA,
            addsent=attacked,
            addonesent=attacked,
            recipe={"network.hidden": 100},
            device="NVIDIA H200",
            seconds=105.0,
            beside=12,
            each=pack(each),
            twins=pack(twins),
            steps=27_000,
        )
        lines.append(line)
    results.keep(folder / f"ablation-{name}.jsonl", lines)


def keep_questions(folder: Path) -> None:
    """Keep the groups of 400 questions, one after the other."""
    line = {
        "kind": "questions",
        "study": "questions",
        "row": DATA["dev"],
    }
    for kind, names in GROUPS.items():
        line[kind] = pack([i % len(names) for i in range(400)])
    results.keep(folder / "questions.jsonl", [line])


def keep_objectives(folder: Path, rng: random.Random) -> None:
    """Keep three seeds of each objective, and the start of all."""
    lines = [
        training(
            "start",
            0,
            85.0,
            "rl",
            data=DATA,
        )
    ]
    for row, seed in product(RL_GAINS, (1, 2, 3)):
        f1 = 85 + RL_GAINS[row] + rng.uniform(-0.02, 0.02)
        curve = {
            "dev F1": [[900, f1 - 0.1], [1800, f1]],
            "reward_greedy": [[900, 0.8], [1800, 0.81]],
        }
        line = training(
            row,
            seed,
            f1,
            "rl",
            data=DATA,
            curve=curve,
        )
        lines.append(line)
    results.keep(folder / "rl-base.jsonl", lines)


def keep_ensembles(folder: Path) -> None:
    """Keep the attentions of two ensembles."""
    lines = []
    for k in (1, 2):
        for line in attentions(0.1 * k):
            readers = [f"{name}{k}" for name in "abc"]
            lines.append({**line, "readers": readers})
    results.keep(folder / "attention-small-100.jsonl", lines)


def keep_table(folder: Path, name: str) -> None:
    """Keep a table as it is printed, with cells that a page must escape."""
    layout = LAYOUTS[name]
    titles = [column.title for column in layout.columns]
    row = [f"{title} | <i>" for title in titles]
    line = {
        "kind": "report",
        "study": name,
        "row": row[0],
        "commit": "c0ffee",
        "title": layout.title,
        "header": titles,
        "rows": [row],
        "notes": ["A note."],
    }
    file = "breakdown" if name == "failures" else name
    results.keep(folder / f"{file}.jsonl", [line])


def test_a_whole_report_is_made_of_what_trainings_keep(campaign: Path, tmp_path: Path) -> None:
    report = write(campaign, tmp_path / "report", price=3.0)
    found = {claim: one["words"] for claim, one in report.data.items()}
    assert len(found) == len(CLAIMS)
    for claim in (REATTENTION, REDUNDANT, DCRL_SCST):
        assert found[claim].startswith("same sign"), claim
    first = report.data[REATTENTION]["parts"][0]
    assert first["log"] == "ablation-base, ablation-small-100"  # all settings together
    assert re.fullmatch(r"\+0\.\d\d \(\+0\.\d\d to \+0\.\d\d\)", first["ours"])
    assert re.fullmatch(r"\d+% \(\d+% to \d+%\)", first["share"])
    text, page = (
        (tmp_path / "report" / name).read_text(encoding="utf-8")
        for name in ("reproduction.md", "index.html")
    )
    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert headings == [
        unescape(one) for one in re.findall("<h2>(.*)</h2>", page)
    ]  # one template, twice
    assert headings[:3] == ["The paper's claims", "Time and cost", "What is not measured yet"]
    assert (
        "| Table 1 | python -m lab study rounds RECIPE --train TRAIN" in text
    )  # how to make what is missing
    for log, count in (
        ("ablation-small-100", 3),
        ("ablation-base", 3),
        ("rl-base", 1),
        ("attention-small-100", 1),
    ):
        assert sum(heading.endswith(f"({log})") for heading in headings) == count
    row = next(line for line in text.splitlines() if line.startswith("| (5) Attention: Dot |"))
    assert "same sign" in row
    assert re.search(r"E1 to E2 \| .* \(ensembles ± 0\.\d{3}\)", text)
    assert page.count("<img ") == 3 + 3 + 1 + 1
    assert page.count("<i>") == 0
    assert "\\| <i>" in text  # a bar does not end a cell


@pytest.mark.browser
def test_the_page_opens_in_chromium_without_errors(
    chromium: Any, campaign: Path, whole: Path, tmp_path: Path
) -> None:
    for folder, drawings in ((whole, 5), (campaign, 8)):
        write(folder, tmp_path / "report")
        problems: list[str] = []
        page = chromium.new_page(viewport={"width": 1180, "height": 900})
        page.on("pageerror", lambda error, to=problems: to.append(str(error)))
        page.on("console", lambda line, to=problems: to.append(line.text))
        page.on(
            "request",
            lambda one, to=problems: one.url.startswith(("file:", "data:")) or to.append(one.url),
        )
        page.goto((tmp_path / "report" / "index.html").as_uri())
        script = "all => all.map(one => [one.complete, one.naturalWidth, one.naturalHeight])"
        sizes = page.eval_on_selector_all("img", script)
        tables = page.locator("table").count()
        page.close()
        assert problems == []
        assert len(sizes) == drawings
        assert all(complete and width > 100 and height > 100 for complete, width, height in sizes)
        assert tables >= 9


def test_a_variant_of_dcrl_has_its_own_row_against_the_start_and_the_control() -> None:
    lines = [
        training(
            "start",
            0,
            80.0,
            "rl",
        )
    ]
    for row, gain in (("dcrl", 1.0), ("scst", 0.2), ("ml", 0.5), ("dcrl-k32", 1.5)):
        lines += [
            training(
                row,
                seed,
                80 + gain + seed / 10,
                "rl",
            )
            for seed in (1, 2)
        ]
    report = rl_table(lines)
    names = [row[0] for row in report.rows]
    assert names == ["ML, the start", "DCRL", "SCST", "continued ML", "DCRL, k32", "DCRL − SCST",
                     "DCRL − continued ML", "DCRL, k32 − continued ML"]  # fmt: skip
    assert report.data["dcrl-k32"]["delta_f1"] == pytest.approx(1.65)
    assert report.data["dcrl_k32_minus_ml"]["delta_f1"] == pytest.approx(1.0)


def test_lines_are_kept_once_and_a_cut_one_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lines.jsonl"
    results.keep(path, [training("full", 1, 80.0), training("full", 2, 81.0)])
    results.keep(path, [training("full", 2, 82.0), training("full", 3, 83.0)])
    assert [line["dev"]["f1"] for line in results.read(path)] == [80.0, 82.0, 83.0]
    with path.open("a") as file:
        file.write('{"kind": "trai')  # a kill while a line was being written
    assert len(results.read(path)) == 3
    path.write_text(json.dumps(training("full", 1, 80.0)) + '\n{"kind": "training"}\n')
    with pytest.raises(UserError, match=r"lines\.jsonl: line 2 is not a line of a study"):
        results.read(path)


def test_the_page_in_the_docs_is_what_the_logs_of_the_repository_say(tmp_path: Path) -> None:
    if not (ROOT / "log" / "claims").is_dir():
        pytest.skip("no log/claims: this is not a checkout of the repository")
    write(ROOT / "log" / "claims", tmp_path)
    made, written = (
        (folder / "reproduction.md").read_text(encoding="utf-8")
        for folder in (tmp_path, ROOT / "docs")
    )
    assert made == written, (
        "run: python -m lab study all --from log/claims --out report "
        "&& cp report/reproduction.md docs/"
    )


def test_every_comparison_of_a_claim_names_trainings_that_a_study_makes() -> None:
    rows = [*paper.TABLE_4, paper.MORE_ML]
    made = {"ablation": {row.slug for row in rows} | {row.first for row in rows}}
    made |= {"rl": {"dcrl", "scst", "ml"}, "attention": {"with", "without"}}
    for claim in CLAIMS:
        for part in claim.comparisons:
            if isinstance(part, Level):
                assert part.row in made[part.study]
                continue
            assert {part.more, part.less} <= made[part.study], part.what
            if part.study == "ablation" and part.measure == "dev":
                slugs = {row.slug: row.number for row in reversed(paper.TABLE_4)}
                # The paper's maximum likelihood has one row, however long ours goes on.
                slugs[paper.MORE_ML.slug] = 2
                both = slugs.get(part.more, 2), slugs.get(part.less, 3)
                gains = dict(zip(("exact_match", "f1"), paper.gain(*both), strict=True))
                assert part.gain == gains[part.key], part.what
