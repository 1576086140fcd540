"""The studies that train, on tiny data in real processes: what is compared is comparable, and
nothing is done twice."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from lab_support.networks import open_network
from typer.testing import CliRunner

from lab.cli import app
from lab.members import Member, train_members
from lab.results import read
from lab.runs import Job, claim, curve, train_all
from lab.studies import paper, plots
from lab.studies.claims import CLAIMS
from lab.studies.groups import unpack
from lab.studies.paper import choose
from lab.studies.scores import study_scores
from lab.studies.tables import CURVES
from rmreader.core.errors import UserError
from rmreader.core.recipe import load_recipe
from rmreader.data.encode import encode_file
from rmreader.training.evaluate import evaluate
from rmreader.training.log import finished
from rmreader.training.run_folder import flat
from rmreader.training.trainer import train

pytestmark = pytest.mark.usefixtures("warm")

FAST = ("training.epochs=1", "training.evaluate_every=0.5")


def stamps(folder: Path) -> dict[str, int]:
    """When the trainings under a folder last said something."""
    return {str(path.parent): path.stat().st_mtime_ns for path in folder.rglob("console.log")}


@pytest.fixture(scope="module")
def start(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network after maximum likelihood, of seed 5."""
    out = tmp_path_factory.mktemp("ml")
    recipe = tiny.recipe("training.epochs=2", "training.seed=5")
    train(
        recipe,
        tiny.train,
        tiny.dev,
        out / "run",
        device="cpu",
    )
    return out / "run"


@pytest.fixture(scope="module")
def rl(tiny: Any, start: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path]:
    """The words of a ``study rl`` that has been run, and its folder."""
    out = tmp_path_factory.mktemp("rl") / "study"
    words = [
        "study",
        "rl",
        "--init",
        str(start / "best"),
        "--train",
        str(tiny.train),
        "--dev",
        str(tiny.dev),
    ]
    words += ["--out", str(out), "--device", "cpu", "--seeds", "1", "--at-once", "3", *FAST]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "DCRL − SCST" in done.stdout
    return words, out


def test_rl_compares_three_objectives_from_one_start(
    tiny: Any, start: Path, rl: tuple[list[str], Path]
) -> None:
    data = json.loads((rl[1] / "rl.json").read_text(encoding="utf-8"))
    network, feed, recipe = open_network(
        start,
        encode_file(tiny.dev),
        torch.device("cpu"),
    )
    scores = evaluate(
        network,
        feed,
        recipe.decoding.max_length,
    )
    assert (data["start"]["exact_match"], data["start"]["f1"]) == (scores.exact_match, scores.f1)
    for objective in ("dcrl", "scst", "ml"):
        run = finished(rl[1] / "runs" / f"{objective}-seed-1")
        assert run is not None
        assert data[objective]["f1"]["values"] == [run["scores"]["dev"]["f1"]]
        assert data[objective]["gain_f1"]["mean"] == pytest.approx(
            run["scores"]["dev"]["f1"] - scores.f1
        )
        steps = [step for step, _ in data[objective]["curves"]["1"]["dev F1"]]
        assert len(steps) >= 2
        # The same budget.
        assert steps == [step for step, _ in data["ml"]["curves"]["1"]["selection F1"]]
    assert data["dcrl"]["suppressed"] == 0
    assert "reward_greedy" in data["scst"]["curves"]["1"]


def test_rl_differs_in_the_objective_alone_and_holds_out_what_was_held_out_before(
    rl: tuple[list[str], Path],
) -> None:
    recipes = {
        objective: load_recipe(rl[1] / "runs" / f"{objective}-seed-1" / "run" / "recipe.yaml")
        for objective in ("dcrl", "scst", "ml")
    }
    for objective, recipe in recipes.items():
        assert recipe.training.objective == objective
        assert recipe.training.seed == 1
        assert recipe.training.holdout_seed == 5  # the seed of the starting network
        assert recipe.training.rate == 1e-4
        assert recipe.network == recipes["ml"].network


def test_rl_leaves_curves_a_page_and_a_table(rl: tuple[list[str], Path]) -> None:
    assert (rl[1] / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (rl[1] / "curves.svg").read_text(encoding="utf-8")
    assert "disagree" in (rl[1] / "disagreements.html").read_text(encoding="utf-8")
    assert (rl[1] / "rl.md").read_text(encoding="utf-8").count("\n| ") >= 5


def test_a_finished_training_is_not_done_again_and_a_missing_one_is(
    rl: tuple[list[str], Path],
) -> None:
    words, out = rl
    before = stamps(out)
    assert len(before) == 3
    console = out / "runs" / "scst-seed-1" / "log.jsonl"
    lines = console.read_text(encoding="utf-8").splitlines(keepends=True)
    console.write_text(
        "".join(line for line in lines if '"event": "end"' not in line), encoding="utf-8"
    )
    # As if it had been killed before its last report.
    assert finished(out / "runs" / "scst-seed-1") is None
    manifest = out / "runs" / "dcrl-seed-1" / "best" / "reader.json"
    about = json.loads(manifest.read_text(encoding="utf-8"))
    fitted = about.pop("calibration")
    manifest.write_text(json.dumps(about), encoding="utf-8")  # as if killed after its end
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    after = stamps(out)
    changed = [Path(folder).name for folder in before if before[folder] != after[folder]]
    assert sorted(changed) == ["dcrl-seed-1", "scst-seed-1"]
    assert json.loads(manifest.read_text(encoding="utf-8"))["calibration"] == fitted
    assert len(json.loads(done.stdout)["scst"]["f1"]["values"]) == 1


def test_another_study_in_the_same_folder_is_refused(rl: tuple[list[str], Path]) -> None:
    done = CliRunner().invoke(app, [*rl[0], "training.top_k=4"])
    assert done.exit_code == 1
    assert "training.top_k was 8, is 4" in done.stderr
    assert len(stamps(rl[1])) == 3


def test_a_start_that_is_none_is_one_sentence(
    tiny: Any, tmp_path: Path, rl: tuple[list[str], Path]
) -> None:
    words = [*rl[0]]
    words[words.index("--init") + 1] = str(tmp_path)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "neither a reader folder nor a run" in done.stderr


@pytest.fixture(scope="module")
def ablation(
    tiny: Any, recipe_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[str], Path]:
    """The words of a ``study ablation`` that has been run (rows 0, 3 and 4), and its folder."""
    out = tmp_path_factory.mktemp("ablation") / "study"
    words = [
        "study",
        "ablation",
        str(recipe_file),
        "--train",
        str(tiny.train),
        "--dev",
        str(tiny.dev),
    ]
    words += ["--out", str(out), "--device", "cpu", "--seeds", "1", "--second", "training.epochs=1"]
    done = CliRunner().invoke(app, [*words, "--rows", "3,4"])
    assert done.exit_code == 0, done.output
    return words, out


def test_an_ablation_is_trained_in_the_papers_two_stages(ablation: tuple[list[str], Path]) -> None:
    out = ablation[1]
    made = sorted(str(Path(folder).relative_to(out)) for folder in stamps(out))
    first = ["full-seed-1", "reattention-false-seed-1"]
    second = ["dcrl-full-seed-1", "scst-full-seed-1"]
    assert made == [*(f"ml/{name}" for name in first), *(f"second/{name}" for name in second)]
    ml = load_recipe(out / "ml" / "full-seed-1" / "run" / "recipe.yaml").training
    scst = load_recipe(out / "second" / "scst-full-seed-1" / "run" / "recipe.yaml").training
    assert scst.init == str(out / "ml" / "full-seed-1" / "best")
    assert (ml.objective, scst.objective) == ("ml", "scst")
    assert ml.seed == scst.seed  # so the same articles are held out
    assert not load_recipe(
        out / "ml" / "reattention-false-seed-1" / "run" / "recipe.yaml"
    ).network.reattention
    data = json.loads((out / "ablation.json").read_text(encoding="utf-8"))["rows"]
    places = {
        "0": "second/dcrl-full-seed-1",
        "3": "ml/reattention-false-seed-1",
        "4": "second/scst-full-seed-1",
    }
    assert list(data) == list(places)
    for number, place in places.items():
        run = finished(out / place)
        assert run is not None
        assert data[number]["f1"]["values"] == [run["scores"]["dev"]["f1"]]
    assert data["4"]["delta_f1"] == pytest.approx(data["4"]["f1"]["mean"] - data["0"]["f1"]["mean"])
    assert data["0"]["delta_f1"] is None


def test_after_ml_alone_the_first_stage_is_compared_and_not_trained_again(
    ablation: tuple[list[str], Path],
) -> None:
    words, out = ablation
    before = stamps(out)
    done = CliRunner().invoke(app, [*words, "--rows", "0,1,4", "--ml-only", "--json"])
    assert done.exit_code == 0, done.output
    assert stamps(out) == before
    rows = json.loads(done.stdout)["rows"]
    assert list(rows) == ["2", "3"]
    table = (out / "ablation-ml.md").read_text(encoding="utf-8")
    assert "| 77.1 | 84.8 | -1.1 | -0.6 |" in table  # row 3 against row 2


def test_trainings_are_kept_as_lines_and_attacked_once(
    ablation: tuple[list[str], Path], adversarial_file: Path, tmp_path: Path
) -> None:
    words, out = ablation
    before = stamps(out)
    keep = tmp_path / "ablation.jsonl"
    words = [*words, "--rows", "3,4", "--keep", str(keep)]
    attacked = ["--addsent", str(adversarial_file), "--addonesent", str(adversarial_file)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    plain = read(keep)
    assert stamps(out) == before  # nothing is trained again
    assert sorted(line["row"] for line in plain) == [
        "dcrl-full",
        "full",
        "reattention-false",
        "scst-full",
    ]
    assert len({line["setting"] for line in plain}) == 1
    done = CliRunner().invoke(app, [*words, *attacked])
    assert done.exit_code == 0, done.output
    lines = {line["row"]: line for line in read(keep)}
    for old in plain:
        assert lines[old["row"]] | old == lines[old["row"]]
    files = dict.fromkeys(("addsent", "addonesent"), adversarial_file)
    for name, place in (("full", "ml/full-seed-1"), ("dcrl-full", "second/dcrl-full-seed-1")):
        end = finished(out / place)
        line = lines[name]
        assert end is not None
        assert line["dev"] == end["scores"]["dev"]
        assert line["held_out"] == end["scores"]["selection"]
        assert line["steps"] == end["step"]
        assert line["seed"] == 1
        assert line["beside"] == 2
        alone = study_scores(files, [str(out / place)], "cpu").data
        (score,) = alone["addsent"].values()
        assert line["addsent"] == score
        assert line["addonesent"] == score
    assert lines["scst-full"]["recipe"]["training.objective"] == "scst"
    assert lines["reattention-false"]["recipe"]["network.reattention"] is False
    assert str(out) not in keep.read_text(encoding="utf-8")  # no place on somebody's machine

    # What was measured is not measured again.
    for line in lines.values():
        line["addsent"] = {"f1": -1.0, "exact_match": -1.0}
    keep.write_text("".join(json.dumps(line) + "\n" for line in lines.values()), encoding="utf-8")
    CliRunner().invoke(app, [*words, *attacked])
    assert [line["addsent"]["f1"] for line in read(keep)] == [-1.0] * 4


def test_a_stopped_study_has_kept_what_was_finished(
    tiny: Any, recipe_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped when the first training ends, beside one that would go on for long."""

    def stopped(*words: Any, ended: Any, **more: Any) -> Any:
        def stop(outcome: Any) -> None:
            ended(outcome)
            raise KeyboardInterrupt

        return train_members(
            *words,
            ended=stop,
            **more,
        )

    monkeypatch.setattr("lab.runs.train_members", stopped)
    members = [
        Member("ml/full-seed-1", ("training.seed=1",)),
        Member("ml/full-seed-2", ("training.epochs=9999",)),
    ]
    keep = tmp_path / "lines.jsonl"
    job = Job(
        tiny.train,
        tiny.dev,
        tmp_path,
        "cpu",
        keep=keep,
        attacks={"addsent": tiny.dev},
    )
    job = claim(
        job,
        "ablation",
        {"ml": load_recipe(recipe_file)},
    )
    with pytest.raises(KeyboardInterrupt):
        train_all(
            job,
            load_recipe(recipe_file),
            members,
        )
    (line,) = read(keep)
    assert (line["row"], line["seed"]) == ("full", 1)
    assert len(unpack(line["each"])) == line["dev"]["total"]
    assert "addsent" in line  # both answered at the training's own end
    # It wrote a checkpoint to continue from.
    assert (tmp_path / "ml" / "full-seed-2" / "last").is_dir()


def test_what_another_machine_trained_is_not_trained_again(
    ablation: tuple[list[str], Path], tiny: Any, tmp_path: Path
) -> None:
    words = [*ablation[0], "--rows", "3,4"]
    keep = tmp_path / "ablation.jsonl"
    assert CliRunner().invoke(app, [*words, "--keep", str(keep)]).exit_code == 0
    lines = read(keep)
    kept = keep.read_bytes()
    elsewhere = tmp_path / "elsewhere"
    words = [*words, "--keep", str(keep), "--out", str(elsewhere)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert stamps(elsewhere) == {}
    assert keep.read_bytes() == kept
    assert "(4) − DCRL, + SCST" in done.stdout
    for line in lines:
        f1 = unpack(line["each"]) / 255  # a byte for each question
        assert 100 * f1.mean() == pytest.approx(line["dev"]["f1"], abs=0.2)
        assert len(f1) == line["dev"]["total"]
    (asked,) = read(tmp_path / "questions.jsonl")
    for kind in ("question", "passage"):
        assert len(unpack(asked[kind])) == lines[0]["dev"]["total"]

    others = [json.dumps(line) for line in lines if line["row"] != "scst-full"]
    keep.write_text("\n".join(others) + "\n")
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    made = sorted(str(Path(folder).relative_to(elsewhere)) for folder in stamps(elsewhere))
    assert made == ["ml/full-seed-1", "second/scst-full-seed-1"]  # and what it starts from


def test_a_setting_that_comes_later_leaves_kept_lines_comparable(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = load_recipe("small", [])

    def setting(own: int) -> str:
        # The recipe's, and the default.
        later = {
            True: {"training.later": own},
            False: {"training.later": 1},
        }
        monkeypatch.setattr("lab.runs.flat", lambda one: flat(one) | later[one == recipe])
        return str(
            claim(
                Job(
                    tiny.train,
                    tiny.dev,
                    tmp_path / str(own),
                ),
                "ablation",
                {"ml": recipe},
            ).about["setting"]
        )

    before = claim(
        Job(
            tiny.train,
            tiny.dev,
            tmp_path / "before",
        ),
        "ablation",
        {"ml": recipe},
    ).about["setting"]
    assert setting(1) == before
    assert setting(2) != before


def test_a_study_stops_in_time_and_says_what_is_left(
    tiny: Any, recipe_file: Path, tmp_path: Path
) -> None:
    words = [
        "study",
        "ablation",
        str(recipe_file),
        "--train",
        str(tiny.train),
        "--dev",
        str(tiny.dev),
        "--rows",
        "0",
    ]
    words += [
        "--out",
        str(tmp_path),
        "--seeds",
        "1",
        "--device",
        "cpu",
        "training.epochs=9999",
        "--minutes",
        "0.01",
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    for name in ("ml/full-seed-1", "second/dcrl-full-seed-1"):
        assert f"{name}: it stopped before its end; give the command again" in done.stderr


@pytest.mark.parametrize("starts_first", [False, True])
def test_a_study_goes_seed_by_seed_or_begins_with_all_starts(
    tiny: Any, recipe_file: Path, tmp_path: Path, starts_first: bool
) -> None:
    files = ["--train", str(tiny.train), "--dev", str(tiny.dev), "--out", str(tmp_path)]
    words = ["study", "ablation", str(recipe_file), *files, "--device", "cpu", "--seeds", "2"]
    words += ["--rows", "4", "--more-ml", "training.epochs=9999", "--minutes", "0.001"]
    done = CliRunner().invoke(app, words + ["--starts-first"] * starts_first)
    left = re.findall(r"(\S+): it stopped before its end", done.stderr)
    starts = ["ml/full"]
    later = ["second/dcrl-full", "second/scst-full", "second/ml-full"]
    by_seed = [f"{name}-seed-{seed}" for seed in (1, 2) for name in (*starts, *later)]
    by_stage = [f"{name}-seed-{seed}" for seed in (1, 2) for name in starts]
    by_stage += [f"{name}-seed-{seed}" for seed in (1, 2) for name in later]
    assert left == (by_stage if starts_first else by_seed)


def test_rows_are_chosen_by_number() -> None:
    assert [row.number for row in choose("", False)] == list(range(13))
    assert [row.number for row in choose("9, 5", False)] == [0, 5, 9]
    assert [row.number for row in choose("", True)] == [2, 3, 5, 6, 7, 8, 9, 10, 11, 12]
    for wrong in ("13", "x", "-1"):
        with pytest.raises(UserError, match="there is no row"):
            choose(wrong, False)


def test_a_changed_second_stage_is_refused(ablation: tuple[list[str], Path]) -> None:
    done = CliRunner().invoke(app, [*ablation[0], "--rows", "4", "--second", "training.top_k=4"])
    assert done.exit_code == 1
    assert "training.top_k was 8, is 4" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--second", "foo=1"], "'foo=1': write it as section.key=value"),
        (
            ["--second", "training.epochs=0"],
            "the second stage: training: epochs must be above 0; it is 0",
        ),
        (
            ["training.schedule=anneal", "training.holdout=0"],
            "training.schedule=halve: halving is decided on held-out",
        ),
        (
            ["training.schedule=halve", "training.holdout=0", "--ml-only"],
            "halving is decided on held-out",
        ),
    ],
)
def test_a_mistake_in_any_stage_is_told_before_the_first_training(
    tiny: Any, recipe_file: Path, tmp_path: Path, words: list[str], message: str
) -> None:
    command = [
        "study",
        "ablation",
        str(recipe_file),
        "--train",
        str(tiny.train),
        "--dev",
        str(tiny.dev),
    ]
    done = CliRunner().invoke(
        app, [*command, "--out", str(tmp_path / "study"), "--device", "cpu", *words]
    )
    assert (done.exit_code, done.stdout) == (1, "")
    assert message in done.stderr
    assert not (tmp_path / "study").exists()


def test_rl_tells_a_contradiction_before_it_makes_anything(
    tiny: Any, start: Path, tmp_path: Path
) -> None:
    words = [
        "study",
        "rl",
        "--init",
        str(start),
        "--train",
        str(tiny.train),
        "--dev",
        str(tiny.dev),
        "--device",
        "cpu",
    ]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "study"), "training.holdout=0"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "halving is decided on held-out articles" in done.stderr
    assert not (tmp_path / "study").exists()


def test_a_training_that_fails_says_why_and_the_finished_ones_count(
    tiny: Any, ablation: tuple[list[str], Path]
) -> None:
    out = ablation[1]
    recipe = load_recipe(out / "ml" / "recipe.yaml")
    members = [
        Member("ml/full-seed-1", ("training.seed=1",)),
        Member("ml/none", ("inputs.vectors=none.txt",)),
    ]
    runs, problems = train_all(
        Job(
            tiny.train,
            tiny.dev,
            out,
            "cpu",
        ),
        recipe,
        members,
    )
    assert list(runs) == ["ml/full-seed-1"]
    (problem,) = problems
    assert problem.startswith("ml/none: ")
    assert "none.txt" in problem


def test_curves_are_drawn_where_they_share_steps() -> None:
    steps, values = plots.together([[(1, 2.0), (2, 3.0)], [(2, 5.0), (3, 6.0)]])
    assert steps.tolist() == [2]
    assert values.tolist() == [[3.0], [5.0]]
    events = [
        {
            "step": 4,
            "event": "evaluation",
            "scores": {"dev": {"f1": 1.0, "exact_match": 2.0}},
            "suppressed": 0.5,
        }
    ]
    found = curve(events)
    assert found == {
        "dev F1": [(4, 1.0)],
        "dev EM": [(4, 2.0)],
        "suppressed": [(4, 0.5)],
    }
    drawings = [
        plots.curves(
            {"a": [found], "b": []},
            CURVES,
            kind,
        )
        for kind in ("png", "svg")
    ]
    assert all(len(content) > 1000 for content in drawings)


@pytest.mark.slow
def test_everything_at_once_makes_the_page_and_continues_where_it_was(
    tiny: Any,
    recipe_file: Path,
    adversarial_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        paper,
        "ROUNDS",
        paper.ROUNDS[2:4],
    )
    words = [
        "study",
        "all",
        str(recipe_file),
        "--train",
        str(tiny.train),
        "--dev",
        str(tiny.dev),
        "--rows",
        "1",
    ]
    words += [
        "--addsent",
        str(adversarial_file),
        "--addonesent",
        str(adversarial_file),
        "--out",
        str(tmp_path),
    ]
    words += ["--seeds", "1", "--second", "training.epochs=1", "--device", "cpu", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert len(found) == len(CLAIMS)
    told = {claim["words"] for claim in found.values()}
    assert told <= {"one start tells nothing", "not measured"}
    names = [
        "ablation",
        "adversarial",
        "attention",
        "breakdown",
        "questions",
        "rl",
        "rounds",
        "squad",
    ]
    assert sorted(path.stem for path in (tmp_path / "log").iterdir()) == names
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "What is not measured yet" not in page
    before = stamps(tmp_path)
    lines = {path: read(path) for path in (tmp_path / "log").iterdir()}
    assert len(before) == 4 + 2 + 3
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert stamps(tmp_path) == before
    assert {path: read(path) for path in (tmp_path / "log").iterdir()} == lines
    assert CliRunner().invoke(app, ["study", "all", "--out", str(tmp_path)]).exit_code == 2


def test_rounds_are_trained_in_every_architecture_there_is_a_setting_for(
    tiny: Any, recipe_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        paper,
        "ROUNDS",
        paper.ROUNDS[2:4],
    )
    # Nothing is held out for a second stage to choose by.
    fixed = ("training.holdout=0", "training.schedule=anneal")
    words = ["study", "rounds", str(recipe_file), *fixed, "--device", "cpu"]
    words += ["--train", str(tiny.train), "--dev", str(tiny.dev)]
    done = CliRunner().invoke(
        app, [*words, "--out", str(tmp_path), "--seeds", "1", "--keep", str(tmp_path / "k.jsonl")]
    )
    assert done.exit_code == 0, done.output
    lines = sorted(
        (line["row"], line["recipe"]["network.blocks"]) for line in read(tmp_path / "k.jsonl")
    )
    assert lines == [
        ("blocks-1", 1),
        ("blocks-2-reattention-false", 2),
    ]
    assert "BiDAF 1 + 0, FastQAExt 1 + 1, DCN+ 2 + 2" in done.stdout  # as the paper counts
    data = json.loads((tmp_path / "rounds.json").read_text(encoding="utf-8"))["rows"]
    assert data["3"]["delta_f1"] == pytest.approx(data["3"]["f1"]["mean"] - data["2"]["f1"]["mean"])
