"""Table 1's architectures: blocks that align with the question alone, or with the passage alone; both is the paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
import torch
from support.small import (
    CONFIG,
    INPUTS,
    SIZES,
    directions,
    encoder_weights,
    fusion_weights,
    make_batch,
    make_examples,
    make_network,
    options,
    pointer_weights,
    projections,
)

from rmreader.core.errors import UserError
from rmreader.core.recipe import NetworkConfig, recipe_from
from rmreader.model.aligner import Aligner, AligningBlock
from rmreader.model.attention import attend, column_attention, overlap, without_diagonal
from rmreader.model.masking import true_steps
from rmreader.model.network import Network

LENGTHS = [(3, 6), (1, 8), (4, 2)]


def loops(network: Network, config: NetworkConfig, example: Any) -> tuple[list[float], list[float]]:
    """p₁ and p₂ of one example by the reference's parts: a block without one of the alignments passes its input on."""
    size, chosen, encoder = 2 * config.hidden, options(config), encoder_weights(network.encoder)
    V, U = (
        reference.bilstm([reference.input_vector(word, other, encoder) for word in own], *encoder.lstm)
        for own, other in ((example.question, example.context), (example.context, example.question))
    )
    R, Zs = U, []
    for t, block in enumerate(network.aligner.blocks):
        if config.align == "self":
            H = R
        else:
            E = reference.similarity(V, R, projections(block.similarity_E))
            weights = fusion_weights(block.fusion_H, size)
            H = [chosen.fuse(u, v, weights) for u, v in zip(R, reference.attend(V, E), strict=True)]
        if config.align == "interactive":
            Z = H
        else:
            B = reference.indicator(reference.similarity(H, H, projections(block.similarity_B)), config.diagonal)
            weights = fusion_weights(block.fusion_Z, size)
            Z = [chosen.fuse(h, other, weights) for h, other in zip(H, reference.attend(H, B), strict=True)]
        Zs.append(Z)
        last = t == config.blocks - 1
        R = reference.bilstm([np.concatenate(zs) for zs in zip(*(Zs if last else [Z]), strict=True)],
                             *directions(block.evidence))  # fmt: skip
    return reference.point(R, V, pointer_weights(network.pointer, size), chosen)


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("align", ["interactive", "self", "both"])
def test_each_architecture_is_that_of_loops_over_one_example(align: Any, blocks: int) -> None:
    config = replace(CONFIG, align=align, blocks=blocks, reattention=False)
    network = make_network(3, config)
    examples = make_examples(4, LENGTHS)
    with torch.no_grad():
        found = network(make_batch(examples, more=2), keep_attention=True)
    for k, example in enumerate(examples):
        m = len(example.context)
        for log_p, expected in zip((found.log_p1, found.log_p2), loops(network, config, example), strict=True):
            np.testing.assert_allclose(log_p[k, :m].exp().numpy(), expected, atol=1e-10)
    for made in found.rounds:
        assert (made.E == 0).all() == (align == "self")
        assert (made.whole_B == 0).all() == (align == "interactive")


def test_without_the_setting_the_network_is_the_papers_bit_for_bit() -> None:
    """The block as it was before there was a choice, written out."""
    network = make_network(5, replace(CONFIG, blocks=3), dtype=torch.float32)
    batch = make_batch(make_examples(4, LENGTHS), dtype=torch.float32)
    question, context = (
        true_steps(batch.question_lengths, batch.question.shape[1]),
        true_steps(batch.context_lengths, batch.context.shape[1]),
    )
    V, U = network.encoder(batch, question, context, None)
    found, rounds = network.aligner(U, V, context, question)
    R, Zs, past = U, [], None
    for t, block in enumerate(network.aligner.blocks):
        assert isinstance(block, AligningBlock)
        E = block.similarity_E(V, R)
        E = E if past is None else E + block.gamma_E * overlap(past[0], past[2], context)
        H = block.fusion_H(R, attend(column_attention(E, question), V))
        B = block.similarity_B(H, H)
        if past is not None:
            B = B + block.gamma_B * overlap(without_diagonal(past[1], block.diagonal), past[2], context)
        A = column_attention(without_diagonal(B, block.diagonal), context)
        Zs.append(block.fusion_Z(H, attend(A, H)))
        assert torch.equal(rounds[t].E, E)
        assert torch.equal(rounds[t].whole_B, B)
        past = E, B, A
        R, _ = block.evidence(Zs if t == 2 else Zs[-1:], context.sum(dim=1))
    assert torch.equal(found, R)


def test_a_network_has_the_weights_of_what_it_does() -> None:
    def names(**settings: Any) -> set[str]:
        config = replace(CONFIG, reattention=False, **settings)
        return {name.split(".")[2] for name in Aligner(config).state_dict() if "evidence" not in name}

    interactive, own = {"similarity_E", "fusion_H"}, {"similarity_B", "fusion_Z"}
    assert (names(align="interactive"), names(align="self"), names()) == (interactive, own, interactive | own)
    order = [name for name, _ in Network(CONFIG, INPUTS, SIZES).aligner.blocks[1].named_parameters()]
    halves = [f"{part}.{kind}" for letters in ("E H", "B Z") for part, kind in
              ((f"similarity_{letters[0]}", "weight"), (f"fusion_{letters[2]}", "weight"),
               (f"fusion_{letters[2]}", "bias"))]  # fmt: skip
    evidence = [f"evidence.{name}" for name in ("weight_ih", "weight_hh", "bias")]
    assert order == ["gamma_E", "gamma_B", *halves, *evidence]  # the random numbers of a seed are drawn in this order


def test_reattention_needs_both_alignments() -> None:
    for align in ("interactive", "self"):
        with pytest.raises(UserError, match=f"network.align={align}: reattention needs both; set network.reattention"):
            recipe_from({}, [f"network.align={align}"])


@pytest.mark.parametrize("align", ["interactive", "self"])
def test_readers_of_either_kind_are_read_without_torch_as_with_it(align: str, tmp_path: Path) -> None:
    from support import tiny_run

    from rmreader.data.encode import encode_file
    from rmreader.reading.engine.engines import EncoderInput
    from rmreader.reading.reader import Reader
    from rmreader.text.lexicon import Lexicon
    from rmreader.text.tokens import tokenize
    from rmreader.training.engine import TorchEngine
    from rmreader.training.prepare import word_counts
    from rmreader.training.reader_folder import make_network, write_reader

    tiny_run.write_data(tmp_path)
    recipe = tiny_run.tiny_recipe(tmp_path, f"network.align={align}", "network.reattention=false", "network.blocks=2")
    lexicon = Lexicon.build(word_counts(encode_file(tmp_path / "train.json", tmp_path)), recipe.inputs)
    torch.manual_seed(1)
    network = make_network(recipe, lexicon)
    write_reader(tmp_path / "best", network.state_dict(), lexicon, recipe, {}, {"made": "by a test"})
    reader = Reader.load(tmp_path / "best")
    question, passage = "Who made a bridge?", "In Oslo, Ada made a bridge. It was red."
    pair = EncoderInput(question, passage, tokenize(question).words, tokenize(passage).words)
    here, there = reader.engine.read(pair), TorchEngine(reader.folder, "cpu").read(pair)
    for ours, theirs in ((here.start, there.start), (here.end, there.end)):
        np.testing.assert_allclose(np.diff(ours), np.diff(theirs), atol=1e-3)  # logits, each up to a constant
    E, B = reader.engine.attend(pair)[0]
    assert (bool(np.any(E)), bool(np.any(B))) == (align == "interactive", align == "self")
