"""The no-answer logit: one softmax with all spans, against slow loops; and nothing changes where it is off."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import torch
from torch import Tensor

from rmreader.core.recipe import NetworkConfig
from rmreader.model.pointer import NoAnswer, Pointer

CONFIG = NetworkConfig(hidden=3, dropout=0.0, no_answer=True)
LENGTHS = [(4, 9), (2, 6), (5, 1)]  # words of question and passage


def texts(seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    R, V = (torch.randn(len(LENGTHS), steps, 6, generator=draw, dtype=torch.float64) for steps in (9, 5))
    context = torch.tensor([[k < m for k in range(9)] for _, m in LENGTHS])
    question = torch.tensor([[k < n for k in range(5)] for n, _ in LENGTHS])
    return R, V, context, question


def softmax(logits: list[float]) -> list[float]:
    exponentials = [math.exp(x) for x in logits]
    return [x / sum(exponentials) for x in exponentials]


def test_log_odds_are_those_of_one_softmax_over_every_span_and_none() -> None:
    torch.manual_seed(1)
    pointer = Pointer(CONFIG).double().eval()
    R, V, context, question = texts(2)
    logits: list[Tensor] = []
    scorers = (pointer.start, pointer.end)
    hooks = [scorer.register_forward_hook(lambda *given: logits.append(given[2].detach())) for scorer in scorers]
    log_odds = pointer(R, V, context, question)[2].detach()
    for hook in hooks:
        hook.remove()
    assert pointer.no_answer is not None
    weights = {name: value.detach().numpy() for name, value in pointer.no_answer.named_parameters()}
    w = pointer.w.detach().numpy()[:, 0]
    for k, (n, m) in enumerate(LENGTHS):
        start, end = (part[k, :m].tolist() for part in logits)
        r, v = R[k, :m].numpy(), V[k, :n].numpy()
        alpha = softmax([float(w @ word) for word in v])
        s = sum(a * word for a, word in zip(alpha, v, strict=True))
        l1, l2 = (sum(p * word for p, word in zip(softmax(part), r, strict=True)) for part in (start, end))
        inner = np.tanh(weights["W"] @ np.concatenate([l1, l2, s]) + weights["b"])
        z = float(weights["w"][:, 0] @ inner + weights["c"][0])
        spans = sum(math.exp(start[i] + end[j]) for i in range(m) for j in range(m))
        none = math.exp(z) / (math.exp(z) + spans)
        assert math.isclose(float(log_odds[k]), math.log(none / (1 - none)), rel_tol=1e-9)


def test_padding_and_neighbours_do_not_touch_the_log_odds() -> None:
    torch.manual_seed(3)
    pointer = Pointer(CONFIG).double().eval()
    R, V, context, question = texts(4)
    together = pointer(R, V, context, question)[2]
    for k, (n, m) in enumerate(LENGTHS):
        alone = pointer(R[k : k + 1, :m], V[k : k + 1, :n], context[k : k + 1, :m], question[k : k + 1, :n])[2]
        torch.testing.assert_close(alone, together[k : k + 1])
    R[~context], V[~question] = 1e3, -1e3
    torch.testing.assert_close(pointer(R, V, context, question)[2], together)


def test_its_gradient_is_right() -> None:
    torch.manual_seed(5)
    head = NoAnswer(4).double()
    given = [torch.randn(2, 1, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    parameters = tuple(head.parameters())
    assert torch.autograd.gradcheck(lambda *_: head(*given), (*given, *parameters))


def test_off_is_the_papers_pointer_weight_for_weight_and_bit_for_bit() -> None:
    torch.manual_seed(7)
    on = Pointer(CONFIG).eval()
    torch.manual_seed(7)
    off = Pointer(dataclasses.replace(CONFIG, no_answer=False)).eval()
    extra = {name for name, _ in on.named_parameters()} - {name for name, _ in off.named_parameters()}
    assert extra == {f"no_answer.{name}" for name in ("W", "b", "w", "c")}
    for name, parameter in off.named_parameters():
        assert torch.equal(parameter, dict(on.named_parameters())[name])
    R, V, context, question = texts(8)
    first, second = on(R.float(), V.float(), context, question), off(R.float(), V.float(), context, question)
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
    assert second[2] is None
