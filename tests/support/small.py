"""Small networks and ragged batches, and the same in the terms of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import reference
import torch
from numpy.typing import NDArray
from reference import Word
from torch import Tensor, nn

from rmreader.core.recipe import Inputs, NetworkConfig
from rmreader.data.batch import Batch, FrozenLayers, Tags
from rmreader.model.aligner import AligningBlock
from rmreader.model.attention import Similarity
from rmreader.model.encoder import Encoder
from rmreader.model.fusion import Fusion
from rmreader.model.lstm import BiLSTM
from rmreader.model.network import Network, Sizes
from rmreader.model.pointer import Pointer
from rmreader.text.words import Words

CONFIG = NetworkConfig(hidden=3, lstm="plain")
INPUTS = Inputs(character_size=2, max_characters=6)
SIZES = Sizes(vectors=4, characters=9, trainable=1)
FULL_INPUTS = replace(INPUTS, tags="some", tag_size=2)
FULL_SIZES = replace(SIZES, trainable=5, pos_tags=4, ner_tags=3, contextual_layers=3, contextual_size=5)


@dataclass
class Example:
    question: list[Word]
    context: list[Word]


def make_examples(
    seed: int, lengths: Sequence[tuple[int, int]], sizes: Sizes = SIZES, longest: int = 6
) -> list[Example]:
    """Random questions and passages of the given lengths over a small vocabulary, so that words do match."""
    rng = np.random.default_rng(seed)
    vocabulary = []
    for number in range(14):
        trained = int(rng.integers(1, sizes.trainable)) if sizes.trainable > 1 and number % 3 == 0 else 0
        vector = np.zeros(sizes.vectors) if trained else rng.normal(size=sizes.vectors)
        letters = rng.integers(1, sizes.characters, rng.integers(1, longest + 1)).tolist()
        vocabulary.append(Word(vector, letters, key=number // 2, trained=trained))  # two words a key: as Word and word

    def word() -> Word:
        chosen = vocabulary[rng.integers(len(vocabulary))]
        layers = rng.normal(size=(sizes.contextual_layers, sizes.contextual_size)) if sizes.contextual_layers else None
        return replace(
            chosen,
            pos=int(rng.integers(max(1, sizes.pos_tags))),
            ner=int(rng.integers(max(1, sizes.ner_tags))),
            layers=layers,
        )

    return [Example([word() for _ in range(n)], [word() for _ in range(m)]) for n, m in lengths]


def make_batch(examples: Sequence[Example], more: int = 0, dtype: torch.dtype = torch.float64) -> Batch[Tensor]:
    """The examples as one padded batch; ``more`` widens every padding. Whatever may be junk at padding is junk."""
    junk = np.random.default_rng(len(examples) + more)
    texts = [(e.question, e.context) for e in examples]
    first = examples[0].context[0]
    rows: dict[int, int] = {}  # by the identity of a vocabulary word's vector
    table = [Word(np.zeros(len(first.vector)), [0], key=-1)]
    for text in (text for pair in texts for text in pair):
        for word in text:
            if id(word.vector) not in rows:
                rows[id(word.vector)] = len(table)
                table.append(word)
    table += [table[0]] * more
    width = max(len(w.characters) for w in table) + more
    characters = junk.integers(1, 9, (len(table), width))
    for row, word in enumerate(table):
        characters[row, : len(word.characters)] = word.characters
    words: Words[Any] = Words(
        np.stack([w.vector for w in table]),
        characters,
        np.array([len(w.characters) for w in table]),
        np.array([w.key for w in table]),
        np.array([w.trained for w in table]),
    )
    fields: dict[str, Any] = {}
    every_tags, every_layers = [], []
    for side, name in enumerate(("question", "context")):
        longest = max(len(pair[side]) for pair in texts) + more
        ids = np.zeros((len(texts), longest), np.int64)
        tags = junk.integers(0, 3, (len(texts), longest, 2))
        layers = None if first.layers is None else junk.normal(size=(len(texts), longest, *first.layers.shape)) * 100
        for row, pair in enumerate(texts):
            for column, word in enumerate(pair[side]):
                ids[row, column] = rows[id(word.vector)]
                tags[row, column] = word.pos, word.ner
                if layers is not None:
                    layers[row, column] = word.layers
        fields[name] = ids
        every_tags.append(tags)
        every_layers.append(layers)
        fields[f"{name}_lengths"] = np.array([len(pair[side]) for pair in texts])
    contextual = None if first.layers is None else FrozenLayers(*every_layers)
    batch: Batch[Any] = Batch(words=words, tags=Tags(*every_tags), contextual=contextual, **fields)

    def tensor(array: NDArray[Any]) -> Tensor:
        made = torch.from_numpy(array)
        return made.to(dtype) if made.is_floating_point() else made

    return batch.map(tensor)


def make_network(
    seed: int = 0,
    config: NetworkConfig = CONFIG,
    inputs: Inputs = INPUTS,
    sizes: Sizes = SIZES,
    dtype: torch.dtype = torch.float64,
) -> Network:
    """A network with every parameter random (biases and mixes too) and large enough to matter."""
    torch.manual_seed(seed)
    network = Network(config, inputs, sizes).to(dtype).eval()
    randomise(network)
    return network


def randomise(module: nn.Module, scale: float = 0.6) -> None:
    """Give every parameter a value that would show in the result if it were misplaced."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith("words.weight"):  # row 0 must stay zero
                parameter[1:] = torch.randn_like(parameter[1:])
            else:
                parameter += scale * torch.randn_like(parameter)


# --- torch parameters in the paper's terms --------------------------------------------------------------------


def numpy(tensor: Tensor) -> NDArray[np.float64]:
    return tensor.detach().double().numpy()


def directions(module: BiLSTM) -> tuple[reference.Direction, reference.Direction]:
    W, U, b = numpy(module.weight_ih), numpy(module.weight_hh), numpy(module.bias)
    return reference.Direction(W[0], U[0], b[0]), reference.Direction(W[1], U[1], b[1])


def projections(module: Similarity) -> reference.Projections:
    return None if module.weight is None else (numpy(module.weight[0]), numpy(module.weight[1]))


def fusion_weights(module: Fusion, size: int) -> reference.FusionWeights:
    W, b = numpy(module.weight), numpy(module.bias)
    if len(W) == size:
        return reference.FusionWeights(W, b)
    return reference.FusionWeights(W[:size], b[:size], W[size:], b[size:])


def block_weights(module: AligningBlock, size: int) -> reference.BlockWeights:
    gammas = (module.gamma_E.item(), module.gamma_B.item()) if module.reattention else (0.0, 0.0)
    return reference.BlockWeights(
        projections(module.similarity_E),
        fusion_weights(module.fusion_H, size),
        projections(module.similarity_B),
        fusion_weights(module.fusion_Z, size),
        directions(module.evidence),
        *gammas,
    )


def pointer_weights(module: Pointer, size: int) -> reference.PointerWeights:
    return reference.PointerWeights(
        numpy(module.w)[:, 0],
        numpy(module.start.W),
        numpy(module.start.w)[:, 0],
        fusion_weights(module.fusion, size),
        numpy(module.end.W),
        numpy(module.end.w)[:, 0],
    )


def encoder_weights(module: Encoder) -> reference.EncoderWeights:
    def table(embedding: nn.Embedding | None) -> NDArray[np.float64] | None:
        return None if embedding is None else numpy(embedding.weight)

    characters = module.characters
    return reference.EncoderWeights(
        directions(module.lstm),
        module.exact_match,
        table(module.words),
        None if characters is None else table(characters.embedding),
        None if characters is None else directions(characters.lstm),
        table(module.pos),
        table(module.ner),
        None if module.mix is None else numpy(module.mix.weights),
        1.0 if module.mix is None else module.mix.gamma.item(),
    )


def options(config: NetworkConfig) -> reference.Options:
    return reference.Options(config.reattention, config.diagonal, config.fusion, config.fusion_mul, config.fusion_sub)


def network_weights(network: Network, config: NetworkConfig) -> reference.NetworkWeights:
    size = 2 * config.hidden
    return reference.NetworkWeights(
        encoder_weights(network.encoder),
        [block_weights(block, size) for block in network.aligner.blocks],
        pointer_weights(network.pointer, size),
        options(config),
    )
