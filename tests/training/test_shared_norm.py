"""One normalisation over all paragraphs of a question: the loss against a slow loop, and whole runs."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from rmreader.core.errors import UserError
from rmreader.data.negatives import asked_together
from rmreader.data.squad import read_squad
from rmreader.training.log import read_log
from rmreader.training.objectives import ml_loss, no_answer_loss, shared_norm_loss
from rmreader.training.prepare import prepare
from rmreader.training.run_folder import Stop
from rmreader.training.trainer import Run

pytestmark = pytest.mark.usefixtures("warm")

START, END = torch.tensor([1, -1, -1, 0, -1, 2]), torch.tensor([2, -1, -1, 0, -1, 2])
GROUP = torch.tensor([7, 7, 3, 4, 7, 3])
WIDTHS = [4, 3, 4, 2, 4, 4]  # true words; the rest is padding


def logits() -> tuple[torch.Tensor, ...]:
    draw = torch.Generator().manual_seed(1)
    return tuple(torch.randn(6, 4, generator=draw, dtype=torch.float64, requires_grad=True) for _ in range(2))


def loss_of(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    mask = torch.arange(4) < torch.tensor(WIDTHS)[:, None]
    a, b = a.masked_fill(~mask, -1e4), b.masked_fill(~mask, -1e4)
    total = a.logsumexp(1) + b.logsumexp(1)
    return ml_loss(a.log_softmax(1), b.log_softmax(1), START, END) + shared_norm_loss(total, GROUP, START)


def test_with_ml_it_is_one_softmax_over_the_spans_of_all_paragraphs_of_the_group() -> None:
    a, b = logits()
    expected = 0.0
    for k, (i, j) in enumerate(zip(START.tolist(), END.tolist(), strict=True)):
        if i < 0:
            continue
        total = 0.0
        for row in range(6):
            if row == k or (GROUP[row] == GROUP[k] and START[row] < 0):
                words = range(WIDTHS[row])
                total += sum(math.exp(a[row, s].item() + b[row, e].item()) for s in words for e in words)
        expected -= math.log(math.exp(a[k, i].item() + b[k, j].item()) / total) / 6
    assert math.isclose(loss_of(a, b).item(), expected, rel_tol=1e-12)


def test_gradient() -> None:
    assert torch.autograd.gradcheck(loss_of, logits())


def test_alone_in_its_group_a_row_adds_exactly_nothing_and_others_learn_from_it() -> None:
    total = torch.tensor([3.1, -2.0, 0.7], requires_grad=True)
    loss = shared_norm_loss(total, torch.tensor([0, 1, 2]), torch.tensor([0, -1, 3]))
    loss.backward()
    assert loss.item() == 0.0
    assert total.grad is not None
    assert not total.grad.any()
    total = torch.tensor([3.1, -2.0], requires_grad=True)
    shared_norm_loss(total, torch.tensor([5, 5]), torch.tensor([0, -1])).backward()
    assert total.grad is not None
    assert total.grad[0] < 0 < total.grad[1]  # the paragraph without the answer gives way


def test_no_answer_is_decided_for_each_paragraph_alone() -> None:
    """Its log-odds get the same gradient whatever the group is."""
    a, b = logits()
    z = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    gradients = []
    for group in (GROUP, torch.arange(6)):
        total = a.logsumexp(1) + b.logsumexp(1)
        loss = shared_norm_loss(total, group, START) + no_answer_loss(z - total, START)
        gradients.append(torch.autograd.grad(loss, [z, a]))
    assert torch.equal(gradients[0][0], gradients[1][0])
    assert not torch.equal(gradients[0][1], gradients[1][1])


@pytest.fixture(scope="module")
def negatives(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny data, its questions asked once more of paragraphs that do not answer them, by the command itself."""
    path = tmp_path_factory.mktemp("negatives") / "train.json"
    words = ["data", "negatives", str(tiny.folder / "train.json"), "--out", str(path), "--near", "0", "--far", "0.5"]
    subprocess.run([sys.executable, "-m", "rmreader", *words], check=True, capture_output=True)
    return path


def run_of(tiny: Any, data: Path, out: Path, *overrides: str, resume: bool = False) -> Run:
    return Run(prepare(tiny.recipe(*overrides), data, None, out, resume, "cpu", tiny.folder))


def weights(out: Path) -> dict[str, torch.Tensor]:
    return load_file(out / "last" / "tensors.safetensors")


ON = ("training.shared_norm=true", "network.no_answer=true")


def test_every_batch_has_whole_groups(tiny: Any, negatives: Path, tmp_path: Path) -> None:
    run = run_of(tiny, negatives, tmp_path / "run", *ON)
    names = run.setup.train.encoded.ids
    together = asked_together(names)
    assert np.bincount(together).max() > 1
    epochs = [run.buckets.epoch(k) for k in range(6)]
    assert {len(epoch) for epoch in epochs} == {run.per_epoch}  # a step is in an epoch by division
    for batch in (batch for epoch in epochs for batch in epoch):
        for number in np.unique(together[batch]):
            assert (together[batch] == number).sum() == (together == number).sum()


def test_killed_and_resumed_it_ends_with_the_same_bits(
    tiny: Any, negatives: Path, tmp_path: Path, stop_after: Callable[[int], Any]
) -> None:
    assert run_of(tiny, negatives, tmp_path / "whole", *ON).go(Stop()).finished
    assert not run_of(tiny, negatives, tmp_path / "parts", *ON).go(stop_after(13)).finished
    assert run_of(tiny, negatives, tmp_path / "parts", *ON, resume=True).go(Stop()).finished
    whole, parts = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(tensor, parts[name]) for name, tensor in whole.items())
    events = [event for event in read_log(tmp_path / "whole" / "log.jsonl") if event["event"] == "evaluation"]
    assert all(0 < event["shared_norm"] < 10 for event in events)


def test_where_no_group_has_a_second_row_off_and_on_are_the_same_bits(tiny: Any, tmp_path: Path) -> None:
    """The step with the term, on groups of one, is the step without it."""
    runs = [Run(tiny.setup(tmp_path / name, "network.no_answer=true")) for name in ("off", "on")]
    count = len(runs[1].setup.train.encoded)
    learner = runs[1].learner
    learner.groups = torch.arange(count)
    learner.measures += ("shared_norm",)
    assert all(run.go(Stop()).finished for run in runs)
    off, on = weights(tmp_path / "off"), weights(tmp_path / "on")
    assert all(torch.equal(tensor, on[name]) for name, tensor in off.items())


def test_it_also_works_for_the_papers_network(tiny: Any, negatives: Path, tmp_path: Path) -> None:
    run = run_of(tiny, negatives, tmp_path / "run", ON[0])
    assert (run.setup.train.encoded.start < 0).any()
    assert run.go(Stop()).finished


def test_data_and_batches_that_cannot_be_shared_are_refused_before_a_folder_is_made(
    tiny: Any, negatives: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"no question of several paragraphs; add some: rmreader data negatives"):
        tiny.setup(tmp_path / "run", *ON)
    with pytest.raises(UserError, match=r"training.batch_size=1: .* all 2 paragraphs .* set 2 or more"):
        run_of(tiny, negatives, tmp_path / "run", *ON, "training.batch_size=1")
    assert not (tmp_path / "run").exists()


def test_the_shipped_recipe_trains_with_it_by_the_command_line(negatives: Path, tmp_path: Path) -> None:
    small = ["network.hidden=4", "training.epochs=1", "training.batch_size=8", "training.holdout=0.2"]
    words = ["train", "small-no-answer", ON[0], *small, "--train", str(negatives), "--out", str(tmp_path / "run")]
    done = subprocess.run([sys.executable, "-m", "rmreader", *words, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["finished"]
    assert "shared_norm: true" in (tmp_path / "run" / "best" / "recipe.yaml").read_text()
    assert len(list(read_squad(negatives).questions())) > 60
