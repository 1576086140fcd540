"""The network as a whole: its size, its options, dropout, mixed precision, and what a captured graph asks of it."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
import reference
import torch
from support.small import (
    CONFIG,
    FULL_INPUTS,
    FULL_SIZES,
    INPUTS,
    SIZES,
    make_batch,
    make_examples,
    make_network,
    network_weights,
)
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from rmreader.core.errors import UserError
from rmreader.core.recipe import Inputs, NetworkConfig, recipe_from
from rmreader.data.batch import Batch
from rmreader.data.batches import list_letters
from rmreader.model import lstm
from rmreader.model.masking import VariationalDropout
from rmreader.model.network import Network, Sizes
from rmreader.model.precision import wide_matmul
from rmreader.model.spans import top_spans

LENGTHS = [(3, 6), (1, 8), (4, 2)]


def test_the_papers_network_has_four_and_a_half_million_parameters() -> None:
    network = Network(NetworkConfig(), Inputs(), Sizes(vectors=320, characters=1418, trainable=1))
    assert sum(p.numel() for p in network.parameters()) == 4_614_704


def test_parameters_start_as_told() -> None:
    torch.manual_seed(1)
    network = Network(NetworkConfig(gamma=2.5), INPUTS, replace(SIZES, trainable=2000))
    block = network.aligner.blocks[1]
    assert (block.gamma_E.item(), block.gamma_B.item()) == (2.5, 2.5)
    assert not hasattr(network.aligner.blocks[0], "gamma_E")
    lstm = network.encoder.lstm
    assert (lstm.bias[:, 100:200] == 1).all()
    assert (lstm.bias[:, :100] == 0).all()
    for gate in lstm.weight_hh[1].split(100):
        torch.testing.assert_close(gate @ gate.T, torch.eye(100), atol=1e-5, rtol=0)
    words = network.encoder.words
    assert words is not None
    assert (words.weight[0] == 0).all()
    assert words.weight[1:].std().item() == pytest.approx(0.1, rel=0.05)


def test_no_block_is_refused() -> None:
    with pytest.raises(UserError, match=r"network: blocks must be at least 1"):
        recipe_from({}, ["network.blocks=0"])


def test_attentions_come_only_on_request() -> None:
    network, batch = make_network(1), make_batch(make_examples(1, LENGTHS))
    assert network(batch).rounds == []
    rounds = network(batch, keep_attention=True).rounds
    assert [(tuple(r.E.shape), tuple(r.B.shape)) for r in rounds] == [((3, 4, 8), (3, 8, 8))] * 3


def test_a_missing_input_is_named() -> None:
    network = make_network(1, inputs=FULL_INPUTS, sizes=FULL_SIZES)
    batch = make_batch(make_examples(1, LENGTHS, FULL_SIZES))
    for field, name in (("tags", "tags"), ("contextual", "contextual layers")):
        with pytest.raises(ValueError, match=f"the batch has no {name}"):
            network(replace(batch, **{field: None}))


def test_int32_indices_and_half_precision_vectors_read_the_same() -> None:
    network = make_network(2, inputs=FULL_INPUTS, sizes=FULL_SIZES, dtype=torch.float32)
    batch = make_batch(make_examples(2, LENGTHS, FULL_SIZES)).map(lambda t: t.half() if t.is_floating_point() else t)
    wide = batch.map(lambda t: t.float() if t.is_floating_point() else t)
    narrow = batch.map(lambda t: t if t.is_floating_point() else t.int())
    assert torch.equal(network(wide).log_p2, network(narrow).log_p2)


class Tuned(nn.Module):
    """Stands for a tuned encoder: three trained layers for every word row."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(40, 3, 5))

    def forward(self, batch: Batch[Tensor], mix: nn.Module) -> tuple[Tensor, Tensor]:
        return mix(self.table[batch.question]), mix(self.table[batch.context])


def test_a_tuned_encoder_fills_the_contextual_slot_and_is_trained_along() -> None:
    torch.manual_seed(3)
    network = Network(CONFIG, INPUTS, replace(SIZES, contextual_layers=3, contextual_size=5), Tuned()).double().eval()
    examples = make_examples(3, LENGTHS)
    batch = make_batch(examples)
    pointers = network(batch)
    (pointers.log_p1[:, 0] + pointers.log_p2[:, 0]).sum().backward()
    table = network.contextual.table  # type: ignore[union-attr]
    assert table.grad[batch.context[0, 0]].abs().sum() > 0
    for k, e in enumerate(examples):
        for text, rows in ((e.question, batch.question), (e.context, batch.context)):
            for t, word in enumerate(text):
                word.layers = table[rows[k, t]].detach().numpy()
        expected = reference.read(e.question, e.context, network_weights(network, CONFIG))
        np.testing.assert_allclose(pointers.log_p2[k, : len(e.context)].detach(), np.log(expected.p2), atol=1e-10)


def test_dropout_draws_one_mask_a_sequence() -> None:
    torch.manual_seed(4)
    drop = VariationalDropout(0.3).train()
    kept = drop(torch.ones(200, 7, 50))
    assert torch.equal(kept, kept[:, :1].expand_as(kept))  # the same at every step
    assert not torch.equal(kept[0], kept[1])  # another for every sequence
    assert kept.unique().tolist() == [0.0, pytest.approx(1 / 0.7)]
    assert (kept == 0).float().mean().item() == pytest.approx(0.3, abs=0.02)
    assert torch.equal(drop.eval()(kept), kept)


def test_dropout_is_on_the_input_of_every_lstm_and_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters, question, context, then for each block u, v, h and the LSTM, then the pointer's R and V."""
    seen: list[tuple[int, ...]] = []
    true = VariationalDropout.mask

    def mask(self: VariationalDropout, like: Tensor, batch: int, size: int) -> Tensor | None:
        seen.append((batch, like.shape[1], size))
        return true(self, like, batch, size)

    monkeypatch.setattr(VariationalDropout, "mask", mask)
    network, batch = make_network(5).train(), make_batch(make_examples(5, LENGTHS))
    network(batch)
    W, c = batch.words.characters.shape
    q, u, z = (3, 4, 6), (3, 8, 6), (3, 8, 18)
    x = network.encoder.lstm.weight_ih.shape[2]
    assert seen == [(W, c, 2), (3, 4, x), (3, 8, x), *[u, q, u, u] * 2, u, q, u, z, u, q]


def test_training_is_reproducible_and_dropout_moves_it() -> None:
    network, batch = make_network(6).train(), make_batch(make_examples(6, LENGTHS))
    torch.manual_seed(1)
    first = network(batch).log_p1
    torch.manual_seed(1)
    assert torch.equal(network(batch).log_p1, first)
    assert not torch.equal(network(batch).log_p1, first)


@pytest.mark.parametrize("diagonal", ["zero", "mask", "none"])
def test_gradients_are_finite_and_padding_has_none(diagonal: str) -> None:
    """One-word texts in a wide batch, with states far from 0: no NaN forward or backward."""
    config = replace(CONFIG, diagonal=diagonal)  # type: ignore[arg-type]
    network = make_network(7, config, dtype=torch.float32).train()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter *= 20
    batch = make_batch(make_examples(7, [(1, 1), (5, 9), (1, 3)]), more=4, dtype=torch.float32)
    vectors = batch.words.vectors.requires_grad_()
    pointers = network(batch)
    (pointers.log_p1[:, 0] + pointers.log_p2[:, 0]).sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    assert vectors.grad is not None
    assert (vectors.grad[0] == 0).all()  # row 0 is padding


def test_mixed_precision_keeps_logits_and_probabilities_in_float32() -> None:
    network = make_network(8, dtype=torch.float32)
    batch = make_batch(make_examples(8, LENGTHS), dtype=torch.float32)
    full = network(batch)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = network(batch, keep_attention=True)
    assert {t.dtype for r in mixed.rounds for t in (r.E, r.B)} == {torch.float32}
    assert mixed.log_p1.dtype == mixed.log_p2.dtype == torch.float32
    torch.testing.assert_close(mixed.log_p1.exp(), full.log_p1.exp(), atol=0.05, rtol=0)
    assert not torch.equal(mixed.log_p1, full.log_p1)  # the products really were bfloat16


@pytest.mark.parametrize("trained", [False, True])
def test_under_mixed_precision_input_vectors_are_bfloat16_but_a_words_gradients_add_up_in_float32(
    trained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[torch.dtype]] = []
    true = lstm.bilstm
    monkeypatch.setattr(lstm, "bilstm", lambda x, *more: (seen.append([part.dtype for part in x]), true(x, *more))[1])
    network = make_network(9, dtype=torch.float32)
    batch = make_batch(make_examples(9, LENGTHS), dtype=torch.float32)
    network.encoder.words = torch.nn.Embedding(9, batch.words.vectors.shape[1]) if trained else None
    with torch.autocast("cpu", torch.bfloat16):
        tables = network.encoder._words(batch)
        network(batch)
    vectors = torch.float32 if trained else torch.bfloat16
    assert [table.dtype for table in tables] == [vectors, torch.float32]
    assert seen[2:4] == [[vectors, torch.float32, vectors]] * 2  # question and context, after twice the characters


def test_the_lstm_is_told_of_mixed_precision_and_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    true = lstm.bilstm
    monkeypatch.setattr(lstm, "bilstm", lambda *a: (told.append(a[5:8]), true(*a))[1])
    layer = lstm.BiLSTM(2, 2, "plain")
    x, lengths = torch.randn(1, 3, 2), torch.tensor([3])
    layer(x, lengths)
    with torch.autocast("cpu", torch.bfloat16):
        layer(x, lengths)
    assert told == [("plain", "fp32", None), ("plain", "bf16", None)]


def test_a_training_step_can_be_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without values, only shapes: whatever waits for the device (.item(), boolean indexing, …) would raise here.

    The LSTM kernel alone is replaced: its plain path packs sequences on the host, its fused one does not.
    """

    def shapes(
        x: Tensor | list[Tensor], lengths: Tensor, w: Tensor, u: Tensor, b: Tensor, *_: object
    ) -> tuple[Tensor, Tensor]:
        x = x if isinstance(x, Tensor) else torch.cat(x, dim=-1)
        output = x @ w[:, : 2 * u.shape[2]].mean(0).T + u.mean() + b.mean() + lengths[:, None, None]
        return output, output[:, 0]

    monkeypatch.setattr(lstm, "bilstm", shapes)
    network = make_network(9, inputs=FULL_INPUTS, sizes=FULL_SIZES).train()
    batch = make_batch(make_examples(9, LENGTHS, FULL_SIZES), more=1)
    start = torch.tensor([[1], [0], [0]])
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = batch.map(mode.from_tensor)
        pointers = network(fake, keep_attention=True)
        _, _, scores = top_spans(pointers.log_p1, pointers.log_p2, fake.context_lengths, 15, 4)
        (pointers.log_p1.gather(1, start).sum() + scores[:, 0].sum()).backward()
        with pytest.raises(Exception, match=r"item|aten\._local_scalar_dense|data-dependent"):
            fake.context_lengths.max().item()  # the check can fail


def test_a_product_for_logits_is_rounded_before_but_not_after() -> None:
    a, b = torch.randn(2, 3, 40, requires_grad=True), torch.randn(2, 40, 5, requires_grad=True)
    torch.testing.assert_close(wide_matmul(a, b), a @ b, rtol=0, atol=0)
    with torch.autocast("cpu", torch.bfloat16):
        product = wide_matmul(a, b)
    exact = a.bfloat16().double() @ b.bfloat16().double()
    torch.testing.assert_close(product.double(), exact, rtol=1e-6, atol=1e-5)
    gradient = torch.randn_like(product)
    got = torch.autograd.grad(product, (a, b), gradient)
    for one, expected in zip(got, torch.autograd.grad(a @ b, (a, b), gradient), strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, expected, rtol=0, atol=0.02 * expected.abs().max().item())


def test_letters_without_padding_change_nothing() -> None:
    network, batch = make_network(10).eval(), make_batch(make_examples(10, LENGTHS))
    letters = torch.from_numpy(list_letters(batch.words.lengths.numpy()))
    assert letters.shape[1] > batch.words.lengths.sum()  # some are behind the last
    dense = network(dataclasses.replace(batch, letters=letters))
    torch.testing.assert_close(dense.log_p1, network(batch).log_p1)
    dense.log_p1.sum().backward()
    got = [p.grad.clone() for p in network.encoder.characters.parameters()]  # type: ignore[union-attr]
    network.zero_grad()
    network(batch).log_p1.sum().backward()
    for one, parameter in zip(got, network.encoder.characters.parameters(), strict=True):  # type: ignore[union-attr]
        torch.testing.assert_close(one, parameter.grad)
