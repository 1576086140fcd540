"""The mistakes other attempts at this paper made (design, end of section 3), planted: each one must be caught.

Three checks find them; the network as it is passes all three, and each planted mistake fails the check beside it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import reference
import torch
from support.small import CONFIG, INPUTS, SIZES, Example, make_batch, make_examples, make_network, network_weights
from torch import Tensor

from rmreader.core.recipe import Inputs, NetworkConfig
from rmreader.model import attention, encoder, fusion, lstm, pointer
from rmreader.model.network import Network

LENGTHS = [(3, 6), (1, 8), (4, 2), (2, 1), (5, 5)]
CLEAN, CAUGHT = 1e-10, 1e-6
SOFTMAXES = 2 + 4 + 4 + 1  # E and B by column in each block, both by row after the first, the summary
LSTMS = ["characters", "question", "context", "block 1", "block 2", "block 3"]


@pytest.fixture(scope="module")
def network() -> Network:
    return make_network(11, CONFIG, INPUTS, SIZES)


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    return make_examples(11, LENGTHS)


def answers(network: Network, examples: list[Example], more: int = 0) -> list[Tensor]:
    """log p₁ and log p₂ of each example, read as one batch, at its true words: [2, m] each."""
    with torch.no_grad():
        pointers = network(make_batch(examples, more))
    both = torch.stack([pointers.log_p1, pointers.log_p2], dim=1)
    return [both[k, :, : len(e.context)] for k, e in enumerate(examples)]


def apart(got: list[Tensor], expected: list[Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(got, expected, strict=True))


def padding_leak(network: Network, examples: list[Example]) -> float:
    """How far an example's answer moves when it is padded with three junk words, letters and layers."""
    alone = [answers(network, [e])[0] for e in examples]
    return apart([answers(network, [e], more=3)[0] for e in examples], alone)


def batch_dependence(network: Network, examples: list[Example]) -> float:
    """How far an example's answer moves with its neighbours in the batch and with their order."""
    alone = [answers(network, [e])[0] for e in examples]
    backwards = answers(network, examples[::-1])[::-1]
    return max(apart(answers(network, examples), alone), apart(backwards, alone))


def distance_from_the_paper(network: Network, examples: list[Example]) -> float:
    """How far the answers are from the loops written from the equations."""
    weights = network_weights(network, CONFIG)
    reads = [reference.read(e.question, e.context, weights) for e in examples]
    expected = [torch.from_numpy(np.log([r.p1, r.p2])) for r in reads]
    return apart(answers(network, examples, more=1), expected)


CHECKS = [padding_leak, batch_dependence, distance_from_the_paper]
Check = Callable[[Network, list[Example]], float]


@pytest.mark.parametrize("check", CHECKS)
def test_the_network_as_it_is_passes_every_check(check: Check, network: Network, examples: list[Example]) -> None:
    assert check(network, examples) < CLEAN


@pytest.mark.parametrize("which", range(SOFTMAXES))
def test_a_softmax_that_sees_padding_is_caught(
    which: int, network: Network, examples: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = itertools.count()
    true = attention.masked_softmax

    def blind(logits: Tensor, mask: Tensor, dim: int, kind: torch.dtype | None = None) -> Tensor:
        return true(logits, torch.ones_like(mask) if next(calls) % SOFTMAXES == which else mask, dim, kind)

    monkeypatch.setattr(attention, "masked_softmax", blind)
    monkeypatch.setattr(pointer, "masked_softmax", blind)
    assert padding_leak(network, examples) > CAUGHT
    assert next(calls) % (2 * len(examples) * SOFTMAXES) == 0  # the count above is the network's


@pytest.mark.parametrize("which", range(2))
def test_a_pointer_that_sees_padding_is_caught(
    which: int, network: Network, examples: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = itertools.count()
    true = pointer.masked_log_softmax

    def blind(logits: Tensor, mask: Tensor, dim: int) -> Tensor:
        return logits.log_softmax(dim) if next(calls) % 2 == which else true(logits, mask, dim)

    monkeypatch.setattr(pointer, "masked_log_softmax", blind)
    assert padding_leak(network, examples) > CAUGHT


@pytest.mark.parametrize("which", LSTMS)
def test_an_lstm_that_sees_padding_is_caught(
    which: str, network: Network, examples: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quiet form of it: outputs at padding are blanked, but the backward direction has started there."""
    calls = itertools.count()
    true = lstm.bilstm

    def blind(x: Tensor | list[Tensor], lengths: Tensor, *rest: object) -> tuple[Tensor, Tensor]:
        if LSTMS[next(calls) % len(LSTMS)] != which:
            return true(x, lengths, *rest)  # type: ignore[arg-type]
        steps = x.shape[1] if isinstance(x, Tensor) else x[0].shape[1]
        output, final = true(x, torch.full_like(lengths, steps), *rest)  # type: ignore[arg-type]
        return output * (torch.arange(steps) < lengths[:, None])[:, :, None], final

    monkeypatch.setattr(lstm, "bilstm", blind)
    assert padding_leak(network, examples) > CAUGHT


def test_a_character_state_read_at_a_padded_step_is_caught(
    network: Network, examples: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The forward state taken from the last column instead of from the last letter."""
    true = lstm.bilstm

    def last_column(x: Tensor, *rest: object) -> tuple[Tensor, Tensor]:
        output, _ = true(x, *rest)  # type: ignore[arg-type]
        hidden = output.shape[2] // 2
        return output, torch.cat([output[:, -1, :hidden], output[:, 0, hidden:]], dim=-1)

    monkeypatch.setattr(lstm, "bilstm", last_column)
    assert padding_leak(network, examples) > CAUGHT
    assert batch_dependence(network, examples) > CAUGHT
    assert distance_from_the_paper(network, examples) > CAUGHT


def test_an_end_pointer_fed_without_the_sum_is_caught(
    network: Network, examples: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R∘p₁, a vector for each position, in the place of R·p₁, one vector."""

    def without_sum(
        self: pointer.Pointer, R: Tensor, V: Tensor, context: Tensor, question: Tensor
    ) -> tuple[Tensor, Tensor, None, Tensor, Tensor, None]:
        s = pointer.summary(V, self.w, question)
        start = self.start(R, s)
        log_p1 = pointer.masked_log_softmax(start, context, dim=1)
        s = self.fusion(s.expand_as(R), R * log_p1.exp()[:, :, None])
        end = self.end(R, s)
        return log_p1, pointer.masked_log_softmax(end, context, dim=1), None, start, end, None

    monkeypatch.setattr(pointer.Pointer, "forward", without_sum)
    assert padding_leak(network, examples) < CLEAN  # it hides from this one
    assert distance_from_the_paper(network, examples) > CAUGHT


def test_matching_words_against_the_whole_batch_is_caught(
    network: Network, examples: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    true = encoder.exact_match

    def whole_batch(question: Tensor, context: Tensor, qm: Tensor, cm: Tensor) -> tuple[Tensor, Tensor]:
        flat = [t.reshape(1, -1) for t in (question, context, qm, cm)]
        in_question, in_context = true(*flat)
        return in_question.view_as(question), in_context.view_as(context)

    monkeypatch.setattr(encoder, "exact_match", whole_batch)
    assert batch_dependence(network, examples) > CAUGHT


def test_statistics_over_the_batch_are_caught(
    network: Network, examples: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    true = fusion.Fusion.forward
    monkeypatch.setattr(fusion.Fusion, "forward", lambda self, x, y: true(self, x, y - y.mean(dim=0, keepdim=True)))
    assert batch_dependence(network, examples) > CAUGHT


def test_a_diagonal_blanked_before_reattention_is_caught(
    network: Network, examples: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eq. 5 multiplies the whole sum by the indicator, not f alone."""
    true = attention.Similarity.forward

    def early(self: attention.Similarity, a: Tensor, b: Tensor) -> Tensor:
        logits = true(self, a, b)
        return attention.without_diagonal(logits, "zero") if a is b else logits

    monkeypatch.setattr(attention.Similarity, "forward", early)
    monkeypatch.setattr("rmreader.model.aligner.without_diagonal", lambda logits, how: logits)
    assert distance_from_the_paper(network, examples) > CAUGHT


def test_remembering_normalised_attentions_is_caught(
    network: Network, examples: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eq. 4-5 take the softmax of past logits; of a past softmax it would be nearly flat."""
    true = attention.overlap

    def of_softmax(past: Tensor, past_self: Tensor, context: Tensor) -> Tensor:
        return true(attention.row_attention(past, context), past_self, context)

    monkeypatch.setattr("rmreader.model.aligner.overlap", of_softmax)
    assert distance_from_the_paper(network, examples) > CAUGHT


@pytest.mark.parametrize("size", ["small", "paper"])
def test_in_float32_the_answer_is_the_same_alone_and_in_a_batch_of_32(size: str) -> None:
    network = make_network(12, dtype=torch.float32)
    if size == "paper":
        network = Network(NetworkConfig(lstm="plain"), Inputs(), SIZES).eval()
    rng = np.random.default_rng(12)
    examples = make_examples(12, [(int(rng.integers(1, 12)), int(rng.integers(1, 40))) for _ in range(32)])
    with torch.no_grad():
        together = network(make_batch(examples, more=2, dtype=torch.float32))
        for k, e in enumerate(examples):
            alone, m = network(make_batch([e], dtype=torch.float32)), len(e.context)
            for a, b in ((alone.log_p1, together.log_p1), (alone.log_p2, together.log_p2)):
                torch.testing.assert_close(a[0], b[k, :m], rtol=1e-5, atol=1e-5)
