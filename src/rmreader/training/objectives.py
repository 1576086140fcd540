"""The objectives of the paper, Eq. 7-11, and two of its sequels': pure functions of
log-probabilities and rewards.

Gradients flow through log p alone: spans, rewards and weights are constants of a step.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from rmreader.model.masking import masked_log_softmax


class Span(NamedTuple):
    """One answer for each question of a batch: first and last token, inclusive, each int [B]."""

    start: Tensor
    end: Tensor


class Reinforced(NamedTuple):
    """What reinforcement learning does to one answer of each question: raise log p(span), by this
    weight."""

    span: Span
    weight: Tensor  # float [B]; negative where the answer is discouraged


def log_prob(log_p1: Tensor, log_p2: Tensor, span: Span) -> Tensor:
    """log p(A) = log p1(i) + log p2(j), Eq. 6; [B]."""
    return _at(log_p1, span.start) + _at(log_p2, span.end)


def ml_loss(log_p1: Tensor, log_p2: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Maximum likelihood, Eq. 7, as the mean over the batch; a question without an answer (-1) adds
    nothing."""
    answered = start >= 0
    log_p = log_prob(log_p1, log_p2, Span(start.clamp_min(0), end.clamp_min(0)))
    return -torch.where(answered, log_p, 0.0).mean()


def no_answer_loss(log_odds: Tensor, start: Tensor) -> Tensor:
    """−log p(none) where there is no answer, −log(1 − p(none)) where there is one; mean over the
    batch.

    With ``ml_loss`` it is the loss of one softmax over all spans and "none": where there is an
    answer, −log [e^(span) / (e^z + Z₁·Z₂)] = −log p(A) − log(1 − p(none)).
    """
    return F.softplus(torch.where(start >= 0, log_odds, -log_odds)).mean()


def shared_norm_loss(log_total: Tensor, group: Tensor, start: Tensor) -> Tensor:
    """−log [Z_a / (Z_a + Σ Z_r)]: how much of all spans' mass is in the answer's paragraph a; mean
    over the batch.

    r runs over the rows of a's group, the same question beside other paragraphs, that hold no
    answer; Z is the sum of e^(logit) over a paragraph's spans, ``log_total`` its logarithm [B].
    With ``ml_loss`` it is the shared normalisation of Clark & Gardner (2018), one softmax over the
    spans of all of the group's paragraphs: −log [e^(span) / (Z_a + Σ Z_r)] = −log p(A) − log [Z_a /
    (Z_a + Σ Z_r)]. Alone in its group a row adds 0.

    A group has no "none" of its own. "None" says that *this* paragraph does not answer, which is
    what a reader decides, so it stays in each row's softmax (``no_answer_loss``). Were every row's
    e^z in the shared sum, it would be pushed down where it is the truth: in the rows r.
    """
    answered = start >= 0
    rivals = (group[:, None] == group) & ~answered
    rivals = rivals | torch.eye(len(group), dtype=torch.bool, device=group.device)
    pooled = torch.where(rivals, log_total, -torch.inf).logsumexp(1)
    return torch.where(answered, pooled - log_total, 0.0).mean()


def teacher_loss(
    log_p: Tensor, log_q: Tensor, context: Tensor, answered: Tensor, temperature: float
) -> Tensor:
    """KL(q‖p) of a pointer's log p [B, m] from the teacher's log q, both at a temperature, times
    its square.

    Mean over the batch; questions without an answer add nothing: neither was taught to point there.
    """
    p = masked_log_softmax(log_p / temperature, context, dim=1)
    q = masked_log_softmax(log_q / temperature, context, dim=1)
    divergence = torch.where(context, q.exp() * (q - p), 0.0).sum(1)
    return temperature**2 * torch.where(answered, divergence, 0.0).mean()


def teacher_no_answer_loss(log_odds: Tensor, taught: Tensor) -> Tensor:
    """Cross-entropy of p(none) from the teacher's, both as log-odds [B]; mean over the batch."""
    return F.binary_cross_entropy_with_logits(log_odds, taught.sigmoid())


def states_loss(states: Tensor, taught: Tensor, words: Tensor) -> Tensor:
    """How far the states [B, T, 2d] of the true words are from a teacher's, in squares, as a share
    of the teacher's own squares (the hints of Romero et al., ICLR 2015)."""
    inside = words[..., None]
    apart = torch.where(inside, states - taught, 0.0).square().sum()
    own = torch.where(inside, taught, 0.0).square().sum()
    return apart / own.clamp_min(1e-6)


def sample_top_k(starts: Tensor, ends: Tensor, scores: Tensor, noise: Tensor) -> tuple[Span, Span]:
    """Footnote 1: from the model's K best answers, best first, take Â = the best and draw Aˢ from
    the rest.

    The list is ``top_spans``'s: starts, ends and log p(A), each [B, K]. Aˢ is drawn by the model's
    probabilities renormalised over the rest; ``noise`` is Gumbel, [B, K]. Where there is no other
    answer, Aˢ is Â.
    """
    drawn = scores.detach() + noise
    drawn[:, 0] = -torch.inf
    # a list with one span alone is filled up with that span, far down
    choice = drawn.argmax(1, keepdim=True)
    sample = Span(starts.gather(1, choice)[:, 0], ends.gather(1, choice)[:, 0])
    greedy = Span(starts[:, 0], ends[:, 0])
    return sample, greedy


def answer_tails(log_p2: Tensor) -> Tensor:
    """log Σ_{j≥i} p2(j) for every start i; [B, m]."""
    return log_p2.flip(1).logcumsumexp(1).flip(1)


def answer_mass(log_p1: Tensor, log_p2: Tensor) -> Tensor:
    """log Z = log Σ_{i≤j} p1(i)·p2(j): the share of p1·p2 that lies on spans at all; [B]."""
    return (log_p1 + answer_tails(log_p2)).logsumexp(1)


def sample_plain(log_p1: Tensor, log_p2: Tensor, noise: Tensor) -> Span:
    """Aˢ drawn from p(A) = p1(i)·p2(j)/Z over all spans i ≤ j; ``noise`` is Gumbel, [B, 2, m].

    First i from p1(i)·Σ_{j≥i} p2(j), then j from p2 on i..m: together exactly p(A).
    """
    log_p1 = log_p1.detach()
    log_p2 = log_p2.detach()
    start = (log_p1 + answer_tails(log_p2) + noise[:, 0]).argmax(1)
    after = torch.arange(log_p2.shape[1], device=log_p2.device) >= start[:, None]
    end = torch.where(after, log_p2 + noise[:, 1], -torch.inf).argmax(1)
    return Span(start, end)


def scst(sample: Span, greedy: Span, reward_sample: Tensor, reward_greedy: Tensor) -> Reinforced:
    """Self-critical, Eq. 9: the sample, weighted by how much better (or worse) it is than the
    greedy answer."""
    return Reinforced(sample, reward_sample - reward_greedy)


def dcrl(sample: Span, greedy: Span, reward_sample: Tensor, reward_greedy: Tensor) -> Reinforced:
    """Dynamic-critical, Eq. 10: the better of the two, weighted by the distance between them; never
    negative."""
    better = reward_sample >= reward_greedy
    span = Span(
        torch.where(better, sample.start, greedy.start), torch.where(better, sample.end, greedy.end)
    )
    return Reinforced(span, (reward_sample - reward_greedy).abs())


def policy_loss(log_p: Tensor, weight: Tensor) -> Tensor:
    """−weight·log p(A), whose gradient is the one of Eq. 9 or 10; mean over the batch."""
    return -(weight.detach() * log_p).mean()


def weigh_tasks(losses: Tensor, log_variances: Tensor) -> Tensor:
    """Eq. 11 with s = log σ² for each task: Σ ½·e^(−s)·L + s."""
    return (0.5 * torch.exp(-log_variances) * losses + log_variances).sum()


def suppressed(reinforced: Reinforced, start: Tensor, end: Tensor) -> Tensor:
    """Share of questions under convergence suppression: an answer is discouraged that shares an end
    with the truth."""
    touches = (reinforced.span.start == start) | (reinforced.span.end == end)
    return ((reinforced.weight < 0) & touches).to(reinforced.weight.dtype).mean()


def gumbel(
    shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None = None
) -> Tensor:
    """Standard Gumbel noise: argmax(log p + noise) is a draw from p."""
    empty = torch.empty(shape, dtype=like.dtype, device=like.device)
    exponential = empty.exponential_(generator=generator)
    return -exponential.clamp_min(torch.finfo(like.dtype).tiny).log()


def _at(log_p: Tensor, position: Tensor) -> Tensor:
    return log_p.gather(1, position[:, None])[:, 0]
