"""A second stage: what a run that starts from the weights of another takes from it, and how it knows it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rmreader.core.errors import UserError
from rmreader.training.log import read_log
from rmreader.training.run_folder import Stop
from rmreader.training.trainer import Run

ALL = ("training.holdout=0", "training.schedule=anneal")  # learn from everything, by a fixed schedule


@pytest.mark.parametrize("source", ["", "best", "last"])
def test_stage_two_starts_from_the_weights_of_stage_one(tiny: Any, tmp_path: Path, source: str) -> None:
    first = tiny.finished(tmp_path / "ml", "training.epochs=2", *ALL)
    init = (f"training.init={tmp_path / 'ml' / source}", "training.objective=dcrl", *ALL)
    run = Run(tiny.setup(tmp_path / "dcrl", *init))
    kept = first.learner.averaged.state_dict()
    assert all(torch.equal(tensor, kept[name]) for name, tensor in run.learner.network.state_dict().items())
    assert run.setup.lexicon.fingerprint == first.setup.lexicon.fingerprint
    assert run.go(Stop()).finished
    facts = next(
        event for event in reversed(read_log(tmp_path / "dcrl" / "log.jsonl")) if event["event"] == "evaluation"
    )
    assert facts["suppressed"] == 0
    assert facts["sigma_a"] != 1
    assert facts["sigma_b"] != 1
    assert 0 <= facts["reward_sample"] <= 1
    assert 0 < facts["entropy_start"] < np.log(60)


def test_stage_two_resumes_without_stage_one(tiny: Any, tmp_path: Path, stop_after: Callable[[int], Any]) -> None:
    tiny.finished(tmp_path / "ml", "training.epochs=1")
    settings = (f"training.init={tmp_path / 'ml'}", "training.objective=dcrl", "training.epochs=1")
    Run(tiny.setup(tmp_path / "dcrl", *settings)).go(stop_after(8))
    (tmp_path / "ml").rename(tmp_path / "gone")
    assert Run(tiny.setup(tmp_path / "dcrl", *settings, resume=True)).go(Stop()).finished


@pytest.mark.parametrize("checkpoint", [True, False])
def test_stage_two_knows_stage_one_by_its_weights_and_not_by_its_path(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: Callable[[int], Any], checkpoint: bool
) -> None:
    def second(init: str | Path) -> Run:
        return Run(tiny.setup(tmp_path / "dcrl", f"training.init={init}", "training.epochs=1", resume=True))

    tiny.finished(tmp_path / "ml", "training.epochs=1")
    tiny.finished(tmp_path / "other", "training.epochs=1", "training.seed=2")
    run = second(tmp_path / "ml")
    if checkpoint:
        run.go(stop_after(4))
    assert (tmp_path / "dcrl" / "last").exists() == checkpoint
    second(tmp_path / "ml" / "best")
    (tmp_path / "ml").rename(tmp_path / "moved")
    second(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    second("moved")
    with pytest.raises(UserError, match=r"another recipe: training\.init \(was .*/ml, is other\)"):
        second("other")
    with pytest.raises(UserError, match=r"another recipe: training\.init \(was .*/ml, is nowhere\)"):
        second("nowhere")
    (tmp_path / "other").rename(tmp_path / "ml")  # other weights where they were
    if not checkpoint:
        with pytest.raises(UserError, match="other weights than when the run was started"):
            second(tmp_path / "ml")
    assert (second(tmp_path / "ml") if checkpoint else second("moved")).go(Stop()).finished


def test_a_run_that_did_not_note_the_weights_of_stage_one_knows_it_by_its_path(tiny: Any, tmp_path: Path) -> None:
    tiny.finished(tmp_path / "ml", "training.epochs=1")
    tiny.setup(tmp_path / "dcrl", f"training.init={tmp_path / 'ml'}")
    about = json.loads((tmp_path / "dcrl" / "run" / "run.json").read_text())
    assert about.pop("init")
    (tmp_path / "dcrl" / "run" / "run.json").write_text(json.dumps(about))
    tiny.setup(tmp_path / "dcrl", f"training.init={tmp_path / 'ml'}", resume=True)
    for other in ("ml/best", "nowhere"):
        with pytest.raises(UserError, match="another recipe"):
            tiny.setup(tmp_path / "dcrl", f"training.init={tmp_path / other}", resume=True)


def test_stage_two_refuses_another_network(tiny: Any, tmp_path: Path) -> None:
    tiny.finished(tmp_path / "ml", "training.epochs=1")
    with pytest.raises(UserError, match="network and inputs it was trained with"):
        tiny.setup(tmp_path / "dcrl", f"training.init={tmp_path / 'ml'}", "network.hidden=4")
    with pytest.raises(UserError, match="not a reader's folder"):
        tiny.setup(tmp_path / "else", f"training.init={tmp_path}")


def test_stage_two_is_judged_on_the_articles_that_stage_one_held_out(tiny: Any, tmp_path: Path) -> None:
    """With another seed it would hold out others, and be judged on what stage one learned from."""

    def held(out: str, *overrides: str) -> set[str]:
        selection = tiny.setup(tmp_path / out, *overrides).selection
        assert selection is not None
        return {selection.encoded.ids[i] for i in range(len(selection.encoded))}

    first = held("ml", "training.seed=1")
    others = {seed: held(f"seed-{seed}", f"training.seed={seed}") for seed in (2, 3, 4)}
    assert any(other != first for other in others.values())
    for seed in others:
        assert held(f"second-{seed}", f"training.seed={seed}", "training.holdout_seed=1") == first
