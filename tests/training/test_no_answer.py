"""Learning to say that there is no answer, and learning from a teacher: losses against loops, and whole runs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rmreader.data.encode import encode_file
from rmreader.data.split import split, split_seed
from rmreader.data.store import open_arrays
from rmreader.training.feed import Feed
from rmreader.training.log import read_log
from rmreader.training.objectives import ml_loss, no_answer_loss, teacher_loss, teacher_no_answer_loss
from rmreader.training.reader_folder import load_network
from rmreader.training.teacher import teach
from rmreader.training.trainer import train

START, END = torch.tensor([1, -1, 0]), torch.tensor([2, -1, 0])


def pointers() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    logits = [torch.randn(3, 4, generator=draw, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    z = torch.randn(3, generator=draw, dtype=torch.float64, requires_grad=True)
    return logits[0], logits[1], z


def test_both_losses_together_are_one_softmax_over_all_spans_and_none() -> None:
    a, b, z = pointers()
    odds = z - a.logsumexp(1) - b.logsumexp(1)
    loss = ml_loss(a.log_softmax(1), b.log_softmax(1), START, END) + no_answer_loss(odds, START)
    expected = 0.0
    for k, (i, j) in enumerate(zip(START.tolist(), END.tolist(), strict=True)):
        spans = {(s, e): math.exp(a[k, s].item() + b[k, e].item()) for s in range(4) for e in range(4)}
        total = math.exp(z[k].item()) + sum(spans.values())
        expected -= math.log((math.exp(z[k].item()) if i < 0 else spans[i, j]) / total) / 3
    assert math.isclose(loss.item(), expected, rel_tol=1e-12)


def test_gradients() -> None:
    given = pointers()

    def loss(a: torch.Tensor, b: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        mask = torch.tensor([[True] * 4, [True] * 3 + [False], [True] * 4])
        log_p = a.log_softmax(1)
        taught = torch.linspace(-3, 0, 12, dtype=torch.float64).reshape(3, 4)
        return (
            ml_loss(log_p, b.log_softmax(1), START, END)
            + no_answer_loss(z, START)
            + teacher_loss(log_p, taught, mask, START >= 0, 2.0)
            + teacher_no_answer_loss(z, torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64))
        )

    assert torch.autograd.gradcheck(loss, given)


def test_a_question_without_an_answer_teaches_the_pointers_nothing() -> None:
    a, b, _ = pointers()
    ml_loss(a.log_softmax(1), b.log_softmax(1), START, END).backward()
    assert a.grad is not None
    assert not a.grad[1].any()
    assert a.grad[0].any()


def test_the_teachers_loss_is_the_divergence_at_a_temperature() -> None:
    a, b, _ = pointers()
    lengths = [4, 3, 2]
    mask = torch.tensor([[k < length for k in range(4)] for length in lengths])
    log_p, log_q = a.detach().log_softmax(1), b.detach().log_softmax(1)
    expected = 0.0
    for k, length in enumerate(lengths):
        if START[k] >= 0:
            p, q = (np.exp(x[k, :length].numpy() / 2) for x in (log_p, log_q))
            p, q = p / p.sum(), q / q.sum()
            expected += 4 * float((q * np.log(q / p)).sum()) / 3
    assert math.isclose(teacher_loss(log_p, log_q, mask, START >= 0, 2.0).item(), expected, rel_tol=1e-9)
    assert teacher_loss(log_q, log_q, mask, START >= 0, 2.0).item() == 0.0


def unanswered(tiny: Any, tmp_path: Path) -> Path:
    """The tiny data with every third question turned into one that its passage does not answer."""
    tree = json.loads((tiny.folder / "train.json").read_text())
    rows = [row for article in tree["data"] for paragraph in article["paragraphs"] for row in paragraph["qas"]]
    for row in rows[::3]:
        row |= {"answers": [], "is_impossible": True}
    (tmp_path / "train.json").write_text(json.dumps(tree))
    return tmp_path / "train.json"


def test_a_run_learns_from_questions_without_an_answer_and_from_its_teacher(tiny: Any, tmp_path: Path) -> None:
    data, able = unanswered(tiny, tmp_path), ("network.no_answer=true",)
    first = train(tiny.recipe(*able), data, None, tmp_path / "first", device="cpu", cache_dir=tmp_path / "cache")
    kept = json.loads((first.best / "reader.json").read_text())
    assert kept["scores"]["selection"]["no_answer"]["total"] > kept["scores"]["selection"]["total"]
    assert set(kept["no_answer"]) == {"scale", "shift", "threshold"}

    recipe = tiny.recipe(*able, f"training.teacher={first.best}")
    train(recipe, data, None, tmp_path / "second", device="cpu", cache_dir=tmp_path / "cache")
    ends = [event for event in read_log(tmp_path / "second" / "log.jsonl") if event["event"] == "evaluation"]
    assert all(0 < event["teacher"] < 100 and 0 < event["no_answer"] < 100 for event in ends)
    (folder,) = (tmp_path / "cache" / "taught").iterdir()
    arrays, _ = open_arrays(folder)

    network, lexicon, _ = load_network(first.best)
    learned, _ = split(encode_file(data), recipe.training.holdout, split_seed(recipe.training), no_answer=True)
    feed = Feed(learned, lexicon, torch.device("cpu"), max_context=recipe.training.max_context)
    ((_, batch),) = feed.batches([np.array([0])])
    with torch.no_grad():
        pointers = network(feed.fill(batch))
    own = pointers.log_p1[0].numpy()
    np.testing.assert_allclose(arrays["start"][: len(own)], own, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(arrays["no_answer"][0], pointers.no_answer[0], rtol=1e-3, atol=1e-3)

    # a second teacher costs itself alone, and the two say the mean of what each says
    other = tmp_path / "second" / "best"
    both = teach(f"{first.best},{other}", learned, recipe.training.max_context, torch.device("cpu"), tmp_path / "cache")
    folders = {open_arrays(found)[1]["reader"]: found for found in (tmp_path / "cache" / "taught").iterdir()}
    assert set(folders) == {str(first.best), str(other)}
    assert folders[str(first.best)] == folder
    theirs = open_arrays(folders[str(other)])[0]
    mean = (np.exp(arrays["end"].astype(float)) + np.exp(theirs["end"].astype(float))) / 2
    np.testing.assert_allclose(np.exp(both["end"].astype(float)), mean, rtol=1e-2, atol=1e-4)
    chances = [1 / (1 + np.exp(-one["no_answer"].astype(float))) for one in (arrays, theirs)]
    np.testing.assert_allclose(1 / (1 + np.exp(-both["no_answer"])), np.mean(chances, axis=0), rtol=1e-4)


def test_the_papers_network_starts_from_a_reader_with_the_logit_and_the_other_way_round(
    tiny: Any, tmp_path: Path
) -> None:
    tiny.finished(tmp_path / "able", "network.no_answer=true")
    tiny.finished(tmp_path / "paper", f"training.init={tmp_path / 'able'}")
    setup = tiny.setup(tmp_path / "again", f"training.init={tmp_path / 'paper'}", "network.no_answer=true")
    assert setup.network.pointer.no_answer is not None


def test_too_few_questions_leave_the_decision_as_it_was(tiny: Any, tmp_path: Path) -> None:
    data, able = unanswered(tiny, tmp_path), "network.no_answer=true"
    first = train(tiny.recipe(able), data, None, tmp_path / "first", device="cpu", cache_dir=tmp_path / "cache")
    decided = json.loads((first.best / "reader.json").read_text())["no_answer"]
    for number, more in enumerate(([], ["training.holdout=0", "training.schedule=anneal"])):
        recipe = tiny.recipe(able, f"training.init={first.best}", *more)
        again = train(recipe, data, None, tmp_path / f"again{number}", device="cpu", cache_dir=tmp_path / "cache")
        assert json.loads((again.best / "reader.json").read_text())["no_answer"] == decided
