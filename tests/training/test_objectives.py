"""Gradients of the objectives against the closed forms of Eq. 7-11, enumerated over all spans in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from rmreader.model.spans import top_spans
from rmreader.text.tokens import tokenize
from rmreader.training.objectives import (
    Reinforced,
    Span,
    answer_mass,
    dcrl,
    gumbel,
    log_prob,
    ml_loss,
    policy_loss,
    sample_plain,
    sample_top_k,
    scst,
    suppressed,
    weigh_tasks,
)
from rmreader.training.rewards import build_rewards

M, K = 6, 4
Array = NDArray[np.float64]
SPANS = [(i, j) for i, j in product(range(M), repeat=2) if i <= j]


@pytest.fixture
def logits() -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(2, M, generator=generator, dtype=torch.float64, requires_grad=True)


@pytest.fixture
def rewards() -> Array:
    return np.random.default_rng(4).random((M, M)).round(1)  # rounded: ties happen


def softmax(x: Array) -> Array:
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def d_log_p(logits: Tensor, span: tuple[int, int], restricted: bool) -> Array:
    """∇ log p(A) by the two logits, from the definition: one-hot minus the expectation under the distribution."""
    p1, p2 = (softmax(row) for row in logits.detach().numpy())
    gradient = np.zeros((2, M))
    gradient[0, span[0]] += 1
    gradient[1, span[1]] += 1
    if not restricted:  # p = p1·p2
        return gradient - np.stack([p1, p2])
    mass = sum(p1[i] * p2[j] for i, j in SPANS)
    for i, j in SPANS:  # p = p1·p2/Z on i ≤ j
        gradient[0, i] -= p1[i] * p2[j] / mass
        gradient[1, j] -= p1[i] * p2[j] / mass
    return gradient


def spans_by_probability(logits: Tensor) -> tuple[list[tuple[int, int]], Array]:
    p1, p2 = (softmax(row) for row in logits.detach().numpy())
    ordered = sorted(SPANS, key=lambda s: -p1[s[0]] * p2[s[1]])
    return ordered, np.array([p1[i] * p2[j] for i, j in ordered])


def expected_gradient(logits: Tensor, rewards: Array, objective: str, sampler: str) -> Array:
    """Eq. 9 or 10: the sum over every Aˢ of its probability times its term."""
    ordered, p = spans_by_probability(logits)
    greedy = ordered[0]
    drawn, p = (ordered[1:K], p[1:K]) if sampler == "top_k" else (ordered, p)
    total = np.zeros((2, M))
    for sample, probability in zip(drawn, p / p.sum(), strict=True):
        r_s, r_g = rewards[sample], rewards[greedy]
        reinforced = sample if objective == "scst" or r_s >= r_g else greedy
        weight = r_s - r_g if objective == "scst" else abs(r_s - r_g)
        total -= probability * weight * d_log_p(logits, reinforced, restricted=sampler == "plain")
    return total


def loss_of(logits: Tensor, rewards: Array, objective: str, sampler: str, sample: Span, greedy: Span) -> Tensor:
    rows = len(sample.start)
    log_p1, log_p2 = logits.log_softmax(1)[:, None].expand(2, rows, M).unbind(0)
    table = torch.from_numpy(rewards)
    critic: Callable[..., Reinforced] = {"scst": scst, "dcrl": dcrl}[objective]
    span, weight = critic(sample, greedy, table[sample.start, sample.end], table[greedy.start, greedy.end])
    log_p = log_prob(log_p1, log_p2, span) - (answer_mass(log_p1, log_p2) if sampler == "plain" else 0)
    return policy_loss(log_p, weight)


def draw(logits: Tensor, sampler: str, rows: int) -> tuple[Span, Span]:
    generator = torch.Generator().manual_seed(11)
    log_p1, log_p2 = logits.detach().log_softmax(1)[:, None].expand(2, rows, M).unbind(0)
    starts, ends, scores = top_spans(log_p1, log_p2, torch.full((rows,), M), M, K)
    if sampler == "top_k":
        return sample_top_k(starts, ends, scores, gumbel((rows, K), log_p1, generator))
    return sample_plain(log_p1, log_p2, gumbel((rows, 2, M), log_p1, generator)), Span(starts[:, 0], ends[:, 0])


@pytest.mark.parametrize("objective", ["scst", "dcrl"])
@pytest.mark.parametrize("sampler", ["top_k", "plain"])
def test_enumerated_gradient_is_the_closed_form(logits: Tensor, rewards: Array, objective: str, sampler: str) -> None:
    ordered, p = spans_by_probability(logits)
    drawn, p = (ordered[1:K], p[1:K]) if sampler == "top_k" else (ordered, p)
    greedy = Span(torch.tensor([ordered[0][0]]), torch.tensor([ordered[0][1]]))
    for span, probability in zip(drawn, p / p.sum(), strict=True):
        sample = Span(torch.tensor([span[0]]), torch.tensor([span[1]]))
        (probability * loss_of(logits, rewards, objective, sampler, sample, greedy)).backward()
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad, expected_gradient(logits, rewards, objective, sampler), atol=1e-6)


@pytest.mark.parametrize("objective", ["scst", "dcrl"])
@pytest.mark.parametrize("sampler", ["top_k", "plain"])
def test_gradient_sampled_100_000_times_is_within_three_standard_errors(
    logits: Tensor, rewards: Array, objective: str, sampler: str
) -> None:
    rows = 100_000
    sample, greedy = draw(logits, sampler, rows)
    loss_of(logits, rewards, objective, sampler, sample, greedy).backward()
    # every draw contributes the gradient of its own span: the spread of these gives the standard error
    kinds: dict[tuple[int, int], Array] = {}
    counts: dict[tuple[int, int], int] = {}
    for i, j in zip(sample.start.tolist(), sample.end.tolist(), strict=True):
        counts[i, j] = counts.get((i, j), 0) + 1
    first = Span(greedy.start[:1], greedy.end[:1])
    for i, j in counts:
        one = logits.detach().clone().requires_grad_()
        single = Span(torch.tensor([i]), torch.tensor([j]))
        loss_of(one, rewards, objective, sampler, single, first).backward()
        assert one.grad is not None
        kinds[i, j] = one.grad.numpy()
    mean = sum(counts[s] * kinds[s] for s in counts) / rows
    spread = np.sqrt(sum(counts[s] * (kinds[s] - mean) ** 2 for s in counts) / rows / rows)
    assert logits.grad is not None
    error = np.abs(logits.grad.numpy() - expected_gradient(logits, rewards, objective, sampler))
    assert (error <= 3 * spread + 1e-12).all(), (error / spread).max()


def test_ml_gradient_is_the_closed_form(logits: Tensor) -> None:
    """Eq. 7 has both logarithms inside the sum; the batch is averaged."""
    log_p1, log_p2 = logits.log_softmax(1)[:, None].expand(2, 2, M).unbind(0)
    ml_loss(log_p1, log_p2, torch.tensor([1, 2]), torch.tensor([3, 2])).backward()
    assert logits.grad is not None
    want = -(d_log_p(logits, (1, 3), False) + d_log_p(logits, (2, 2), False)) / 2
    np.testing.assert_allclose(logits.grad, want, atol=1e-12)


@pytest.mark.parametrize("sampler", ["top_k", "plain"])
def test_samples_come_from_the_distribution_that_scores_them(logits: Tensor, sampler: str) -> None:
    """exp(log p) as scored equals the frequency as drawn (for the list: after renormalising over the rest)."""
    rows = 100_000
    sample, greedy = draw(logits, sampler, rows)
    log_p1, log_p2 = logits.detach().log_softmax(1)[:, None].unbind(0)
    listed = spans_by_probability(logits)[0][1:K] if sampler == "top_k" else SPANS
    every = Span(torch.tensor([i for i, _ in listed]), torch.tensor([j for _, j in listed]))
    scored = log_prob(log_p1.expand(len(listed), M), log_p2.expand(len(listed), M), every)
    p = (scored.softmax(0) if sampler == "top_k" else (scored - answer_mass(log_p1, log_p2)).exp()).numpy()
    assert p.sum() == pytest.approx(1)
    drawn = list(zip(sample.start.tolist(), sample.end.tolist(), strict=True))
    share = np.array([drawn.count(span) for span in listed]) / rows
    assert share.sum() == 1, "a span was drawn that has no probability"
    assert (np.abs(share - p) <= 4 * np.sqrt(p * (1 - p) / rows) + 1e-9).all()
    if sampler == "top_k":
        assert (greedy.start[0].item(), greedy.end[0].item()) not in drawn


def test_padding_is_never_drawn_and_has_no_gradient() -> None:
    logits = torch.zeros(2, 500, M, dtype=torch.float32)
    logits[..., 4:] = -1e30
    logits.requires_grad_()
    log_p1, log_p2 = logits.log_softmax(2).unbind(0)
    sample = sample_plain(log_p1, log_p2, gumbel((500, 2, M), log_p1, torch.Generator().manual_seed(0)))
    assert (sample.start <= sample.end).all()
    assert sample.end.max() < 4
    (log_prob(log_p1, log_p2, sample) - answer_mass(log_p1, log_p2)).sum().backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert (logits.grad[..., 4:] == 0).all()


def test_a_passage_with_one_span_samples_that_span() -> None:
    log_p = torch.zeros(1, 1)
    sample, greedy = sample_top_k(*top_spans(log_p, log_p, torch.tensor([1]), 15, K), torch.zeros(1, K))
    assert (sample.start.item(), sample.end.item(), greedy.start.item()) == (0, 0, 0)


def test_dcrl_weight_is_never_negative_and_equals_scst_where_the_sample_is_as_good() -> None:
    r_s, r_g = torch.rand(2, 10_000, generator=torch.Generator().manual_seed(1)).mul(5).round().div(5)
    sample, greedy = (Span(torch.full((10_000,), k), torch.full((10_000,), k)) for k in (0, 1))
    self_critical, dynamic = scst(sample, greedy, r_s, r_g), dcrl(sample, greedy, r_s, r_g)
    better = r_s >= r_g
    assert (dynamic.weight >= 0).all()
    assert (dynamic.weight[better] == self_critical.weight[better]).all()
    assert (dynamic.span.start[better] == sample.start[better]).all()
    assert (dynamic.span.start[~better] == greedy.start[~better]).all()
    assert (dynamic.weight[~better] == -self_critical.weight[~better]).all()
    assert (self_critical.weight[~better] < 0).all()


def test_denver_broncos_of_the_paper() -> None:
    """*champion Denver Broncos* beside *Denver Broncos*: SCST discourages the right end, DCRL does not."""
    text = "The American Football Conference (AFC) champion Denver Broncos defeated the Carolina Panthers."
    tokens = tokenize(text)
    champion, denver = tokens.words.index("champion"), tokens.words.index("Denver")
    sample = Span(torch.tensor([champion]), torch.tensor([denver + 1]))
    greedy = Span(torch.tensor([denver]), torch.tensor([denver + 1]))
    rewards = build_rewards([(text, tokens.starts, tokens.ends)], np.array([0]), [["Denver Broncos"]])
    question = torch.tensor([0])
    r_s, r_g = rewards.f1(question, *sample), rewards.f1(question, *greedy)
    assert (r_s.item(), r_g.item()) == (pytest.approx(0.8), 1.0)

    ends: dict[str, float] = {}
    for name, critic in (("scst", scst), ("dcrl", dcrl)):
        logits = torch.zeros(2, 1, len(tokens), dtype=torch.float64, requires_grad=True)
        log_p1, log_p2 = logits.log_softmax(2).unbind(0)
        reinforced = critic(sample, greedy, r_s, r_g)
        policy_loss(log_prob(log_p1, log_p2, reinforced.span), reinforced.weight).backward()
        assert logits.grad is not None
        ends[name] = -logits.grad[1, 0, denver + 1].item()  # the direction of descent for the true end
        share = suppressed(reinforced, greedy.start, greedy.end).item()
        assert share == (1.0 if name == "scst" else 0.0)
    assert ends["scst"] < 0 < ends["dcrl"]


def test_suppression_counts_only_discouraged_answers_that_touch_the_truth() -> None:
    span = Span(torch.tensor([0, 1, 1, 3]), torch.tensor([0, 2, 5, 3]))
    weight = torch.tensor([-0.5, 0.5, -0.5, -0.5])  # elsewhere; shares the start, encouraged; shares it; shares the end
    truth = torch.tensor([1, 1, 1, 2]), torch.tensor([1, 1, 1, 3])
    assert suppressed(Reinforced(span, weight), *truth).item() == 0.5


def test_rewards_and_weights_carry_no_gradient(logits: Tensor) -> None:
    log_p1, log_p2 = logits.log_softmax(1)[:, None].unbind(0)
    span = Span(torch.tensor([1]), torch.tensor([2]))
    weight = log_prob(log_p1, log_p2, span)  # a weight that depends on the network, as a careless reward might
    (got,) = torch.autograd.grad(policy_loss(weight, weight), logits)
    np.testing.assert_allclose(got, -weight.item() * d_log_p(logits, (1, 2), False), atol=1e-12)


def test_task_weighting_is_equation_11_and_finds_its_optimum() -> None:
    losses, s = torch.tensor([3.0, 0.4], dtype=torch.float64), torch.tensor([0.3, -0.2], dtype=torch.float64)
    variance = np.exp(s.numpy())
    want = (losses.numpy() / (2 * variance) + np.log(variance)).sum()
    assert weigh_tasks(losses, s).item() == pytest.approx(want)
    optimum = (losses / 2).log().requires_grad_()  # d/ds (½e^(−s)L + s) = 0
    (gradient,) = torch.autograd.grad(weigh_tasks(losses, optimum), optimum)
    assert gradient.abs().max() < 1e-12


def test_gumbel_noise_is_finite_and_standard() -> None:
    noise = gumbel((200_000,), torch.empty(0), torch.Generator().manual_seed(2))
    assert noise.isfinite().all()
    assert noise.mean().item() == pytest.approx(0.5772, abs=0.01)
