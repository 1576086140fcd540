"""Learning to say that there is no answer, and learning from a teacher: losses against loops, and whole runs."""

from __future__ import annotations

import math

import numpy as np
import torch

from rmreader.learning.objectives import ml_loss, no_answer_loss, teacher_loss, teacher_no_answer_loss

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
