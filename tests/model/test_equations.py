"""Every equation of the network agrees with the independent loops of reference.py, in float64, on padded batches."""

from __future__ import annotations

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
    block_weights,
    directions,
    encoder_weights,
    fusion_weights,
    make_batch,
    make_examples,
    make_network,
    network_weights,
    numpy,
    options,
    pointer_weights,
    projections,
    randomise,
)
from torch import Tensor, nn

from rmreader.core.recipe import Inputs, NetworkConfig
from rmreader.model.aligner import Aligner
from rmreader.model.attention import Similarity, column_attention, overlap, without_diagonal
from rmreader.model.encoder import CharacterEncoder, Sizes
from rmreader.model.fusion import Fusion
from rmreader.model.lstm import BiLSTM
from rmreader.model.masking import true_steps
from rmreader.model.network import Network
from rmreader.model.pointer import Pointer

EXACT = 1e-10
LENGTHS = [(3, 7), (1, 5), (4, 1), (2, 6)]  # question and passage of each example, one word among them
N = torch.tensor([n for n, _ in LENGTHS])
M = torch.tensor([m for _, m in LENGTHS])
QUESTION, CONTEXT = true_steps(N, 5), true_steps(M, 9)  # wider than any example

VARIANTS = [
    {},
    {"attention": "dot"},
    {"reattention": False},
    {"diagonal": "mask"},
    {"diagonal": "none"},
    {"fusion": "gate"},
    {"fusion": "mlp"},
    {"fusion_mul": False},
    {"fusion_sub": False},
    {"fusion_mul": False, "fusion_sub": False},
    {"blocks": 1},
    {"blocks": 2},
    {"blocks": 4},
    {"blocks": 5},
    {"hidden": 1},
]


def double(module: nn.Module) -> None:
    module.double().eval()
    randomise(module)


def random_states(seed: int, steps: int, size: int = 6) -> Tensor:
    torch.manual_seed(seed)
    return torch.randn(len(LENGTHS), steps, size, dtype=torch.float64)


def rows(x: Tensor, length: int) -> list[np.ndarray]:
    return list(numpy(x)[:length])


def close(got: Tensor | np.ndarray, expected: object) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=0, atol=EXACT)


def test_lstm() -> None:
    lstm = BiLSTM(4, 3, "plain")
    double(lstm)
    x = random_states(1, 9, 4)
    output, final = (numpy(t) for t in lstm(x, M))
    for k, m in enumerate(M.tolist()):
        close(output[k, :m], reference.bilstm(rows(x[k], m), *directions(lstm)))
        close(output[k, m:], np.zeros((9 - m, 6)))
        close(final[k], reference.last_states(rows(x[k], m), *directions(lstm)))


def test_character_states_are_those_at_the_first_and_the_true_last_character() -> None:
    encoder = CharacterEncoder(9, 2, 0.3, "plain")
    double(encoder)
    torch.manual_seed(2)
    characters, lengths = torch.randint(0, 9, (5, 7)), torch.tensor([1, 7, 3, 2, 5])
    got = numpy(encoder(characters, lengths))
    table = numpy(encoder.embedding.weight)
    for k, length in enumerate(lengths.tolist()):
        letters = [table[c] for c in characters[k, :length].tolist()]
        close(got[k], reference.last_states(letters, *directions(encoder.lstm)))


@pytest.mark.parametrize("function", ["relu", "dot"])
def test_similarity_eq_1(function: str) -> None:
    f = Similarity(6, function)  # type: ignore[arg-type]
    double(f)
    V, U = random_states(3, 5), random_states(4, 9)
    for a, b in ((V, U), (U, U)):  # of two texts, and of one with itself (Eq. 2)
        got = numpy(f(a, b))
        for k in range(len(LENGTHS)):
            close(got[k], reference.similarity(list(numpy(a[k])), list(numpy(b[k])), projections(f)))


@pytest.mark.parametrize("how", ["zero", "mask", "none"])
def test_diagonal_and_self_attention_eq_2(how: str) -> None:
    B, H = random_states(5, 9, 9), random_states(6, 9)
    got = column_attention(without_diagonal(B, how), CONTEXT).mT @ H  # type: ignore[arg-type]
    for k, m in enumerate(M.tolist()):
        close(got[k, :m], reference.attend(rows(H[k], m), reference.indicator(numpy(B[k, :m, :m]), how)))


def test_a_zero_diagonal_stays_in_the_softmax_and_a_masked_one_does_not() -> None:
    B = torch.full((1, 3, 3), 2.0)
    everything = torch.ones(1, 3, dtype=torch.bool)
    zero = column_attention(without_diagonal(B, "zero"), everything)
    assert zero[0, 0, 0].item() == pytest.approx(1 / (1 + 2 * np.exp(2.0)))
    assert column_attention(without_diagonal(B, "mask"), everything)[0, 0].tolist() == [0.0, 0.5, 0.5]


def test_reattention_eq_4_and_5() -> None:
    E, B, f_E, f_B = (random_states(7 + i, s, 9) for i, s in enumerate((5, 9, 5, 9)))
    past_self = column_attention(B, CONTEXT)
    new_E = f_E + 3.0 * overlap(E, past_self, CONTEXT)
    new_B = without_diagonal(f_B + 2.5 * overlap(B, past_self, CONTEXT), "zero")
    for k, (n, m) in enumerate(LENGTHS):
        past_E, past_B = numpy(E[k, :n, :m]), numpy(B[k, :m, :m])
        close(new_E[k, :n, :m], reference.reattention_E(numpy(f_E[k, :n, :m]), past_E, past_B, 3.0))
        close(new_B[k, :m, :m], reference.reattention_B(numpy(f_B[k, :m, :m]), past_B, 2.5, "zero"))


def test_reattention_has_the_extremes_the_paper_gives() -> None:
    """No overlap: 0; both on one and the same word: 1 (the text below Eq. 4)."""
    B = torch.tensor([[[50.0, 0.0], [0.0, 50.0]]])  # each context word attends to itself
    E = torch.tensor([[[50.0, 0.0]]])  # the question word attends to the first
    both = torch.ones(1, 2, dtype=torch.bool)
    torch.testing.assert_close(overlap(E, column_attention(B, both), both), torch.tensor([[[1.0, 0.0]]]))


@pytest.mark.parametrize("form", ["highway", "gate", "mlp"])
@pytest.mark.parametrize(("mul", "sub"), [(True, True), (False, True), (True, False), (False, False)])
def test_fusion_eq_13(form: str, mul: bool, sub: bool) -> None:
    fusion = Fusion(6, form, mul, sub)  # type: ignore[arg-type]
    double(fusion)
    x, y = random_states(11, 4), random_states(12, 4)
    got = numpy(fusion(x, y))
    for k in range(len(LENGTHS)):
        for j in range(4):
            weights = fusion_weights(fusion, 6)
            close(got[k, j], reference.fusion(numpy(x[k, j]), numpy(y[k, j]), weights, form, mul, sub))


@pytest.mark.parametrize("change", VARIANTS[:-1], ids=str)
def test_aligner_eq_14(change: dict[str, object]) -> None:
    config = replace(CONFIG, **change)  # type: ignore[arg-type]
    aligner = Aligner(config)
    double(aligner)
    U, V = random_states(13, 9), random_states(14, 5)
    R, rounds = aligner(U, V, CONTEXT, QUESTION)
    assert len(rounds) == config.blocks
    weights = [block_weights(block, 6) for block in aligner.blocks]
    for k, (n, m) in enumerate(LENGTHS):
        expected = reference.iterate(rows(U[k], m), rows(V[k], n), weights, options(config))
        close(R[k, :m].detach(), expected[-1].R)
        for got, wanted in zip(rounds, expected, strict=True):
            close(got.E[k, :n, :m].detach(), wanted.E)
            B = got.B[k, :m, :m].detach().numpy()
            kept = ~np.eye(m, dtype=bool) if config.diagonal == "mask" else np.ones((m, m), dtype=bool)
            close(B[kept], wanted.B[kept])
            assert (B[~kept] <= -1e4).all()


def test_pointer_eq_15_and_16() -> None:
    pointer = Pointer(CONFIG)
    double(pointer)
    R, V = random_states(15, 9), random_states(16, 5)
    log_p1, log_p2, *_ = pointer(R, V, CONTEXT, QUESTION)
    for k, (n, m) in enumerate(LENGTHS):
        p1, p2 = reference.point(rows(R[k], m), rows(V[k], n), pointer_weights(pointer, 6), options(CONFIG))
        close(log_p1[k, :m].detach(), np.log(p1))
        close(log_p2[k, :m].detach(), np.log(p2))
        for log_p in (log_p1, log_p2):
            assert (log_p[k, m:] <= -1e4).all()
            assert log_p.isfinite().all()


def test_encoder_eq_12_with_every_input() -> None:
    network = make_network(3, inputs=FULL_INPUTS, sizes=FULL_SIZES)
    examples = make_examples(3, LENGTHS, FULL_SIZES)
    V, U = network.encoder(make_batch(examples, more=1), true_steps(N, 5), true_steps(M, 8))
    p = encoder_weights(network.encoder)
    for k, e in enumerate(examples):
        xq = [reference.input_vector(w, e.context, p) for w in e.question]
        xc = [reference.input_vector(w, e.question, p) for w in e.context]
        close(V[k, : len(xq)].detach(), reference.bilstm(xq, *p.lstm))
        close(U[k, : len(xc)].detach(), reference.bilstm(xc, *p.lstm))


def agree(network: Network, config: NetworkConfig, sizes: Sizes, seed: int) -> None:
    examples = make_examples(seed, LENGTHS, sizes)
    batch = make_batch(examples, more=2)
    with torch.no_grad():
        pointers = network(batch, keep_attention=True)
    weights = network_weights(network, config)
    for k, e in enumerate(examples):
        expected = reference.read(e.question, e.context, weights)
        n, m = len(e.question), len(e.context)
        close(pointers.log_p1[k, :m], np.log(expected.p1))
        close(pointers.log_p2[k, :m], np.log(expected.p2))
        for got, wanted in zip(pointers.rounds, expected.rounds, strict=True):
            close(got.E[k, :n, :m], wanted.E)


@pytest.mark.parametrize("change", VARIANTS, ids=str)
def test_the_whole_network_in_every_variant(change: dict[str, object]) -> None:
    config = replace(CONFIG, **change)  # type: ignore[arg-type]
    agree(make_network(4, config), config, SIZES, seed=4)


@pytest.mark.parametrize(
    ("inputs", "sizes"),
    [
        (FULL_INPUTS, FULL_SIZES),
        (replace(INPUTS, characters=False), SIZES),
        (replace(INPUTS, exact_match=False), SIZES),
        (replace(INPUTS, characters=False, exact_match=False), SIZES),
        (INPUTS, replace(SIZES, trainable=5)),
        (FULL_INPUTS, replace(FULL_SIZES, contextual_layers=0, contextual_size=0)),
        (INPUTS, replace(SIZES, contextual_layers=2, contextual_size=3)),
    ],
    ids=["all", "no characters", "no exact match", "vectors alone", "trained vectors", "tags", "contextual"],
)
def test_the_whole_network_on_every_choice_of_inputs(inputs: Inputs, sizes: Sizes) -> None:
    agree(make_network(5, CONFIG, inputs, sizes), CONFIG, sizes, seed=5)


@pytest.mark.parametrize("change", VARIANTS[1:], ids=str)
def test_every_variant_reads_differently(change: dict[str, object]) -> None:
    """With all the weights it shares with the paper's network, a variant still gives other answers."""
    batch = make_batch(make_examples(6, LENGTHS))
    paper = make_network(6)
    variant = make_network(6, replace(CONFIG, **change))  # type: ignore[arg-type]
    own = variant.state_dict()
    shared = {k: v for k, v in paper.state_dict().items() if k in own and own[k].shape == v.shape}
    assert shared or "hidden" in change
    variant.load_state_dict(shared, strict=False)
    with torch.no_grad():
        assert (paper(batch).log_p2 - variant(batch).log_p2).abs()[CONTEXT[:, :7]].max() > 1e-4
