"""The encoder: what is known of each word as one input
vector, then the weight-shared BiLSTM of Eq. 12."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmreader.core.recipe import Inputs, NetworkConfig
from rmreader.data.batch import Batch, FrozenLayers, required
from rmreader.kernels.lstm import Kernel
from rmreader.model.lstm import BiLSTM
from rmreader.model.precision import product_type
from rmreader.text.words import Words


@dataclass(frozen=True)
class Sizes:
    """What the network must know of its inputs before it sees any."""

    vectors: int  # width of the known word vectors
    characters: int  # character ids, padding and unknown among them
    trainable: int  # rows of the trained word vectors, the empty row 0 among them
    pos_tags: int = 0  # part-of-speech tags
    ner_tags: int = 0  # entity tags
    contextual_layers: int = 0  # layers of a contextual encoder, frozen or tuned
    contextual_size: int = 0  # width of the contextual vectors, frozen or tuned


def exact_match(
    question: Tensor,
    context: Tensor,
    question_mask: Tensor,
    context_mask: Tensor,
) -> tuple[Tensor, Tensor]:
    """Which words are also in the other text: keys [B, n] and [B, m] -> bool [B, n] and [B, m]."""
    same = (
        (question[:, :, None] == context[:, None, :])
        & question_mask[:, :, None]
        & context_mask[:, None, :]
    )
    return same.any(dim=2), same.any(dim=1)


class CharacterEncoder(nn.Module):
    """A word as the two last states of a BiLSTM over its
    characters, once for each distinct word of a batch."""

    def __init__(self, count: int, size: int, dropout: float, kernel: Kernel = "auto") -> None:
        super().__init__()
        self.embedding = nn.Embedding(count, size)
        self.lstm = BiLSTM(size, size, kernel, dropout)

    def forward(self, characters: Tensor, lengths: Tensor, letters: Tensor | None = None) -> Tensor:
        """characters [W, c], lengths [W] -> [W, 2·size]: forward
        at the true last character, backward at the first.

        ``letters`` [2, N], the word and the place in it of every letter, spares the padding.
        """
        table = self.embedding.weight
        owners = None
        if letters is not None:
            characters = characters[letters[0], letters[1]]
            owners = letters[0]

        final: Tensor
        vectors = F.embedding(characters, table).to(product_type(table))
        _, final = self.lstm(vectors, lengths, owners)

        return final


class ScalarMix(nn.Module):
    """One vector from an encoder's layers: γ · Σ softmax(w)ₗ
    · hₗ, trained (Peters et al., 2018, Eq. 1)."""

    def __init__(self, layers: int, dropout: float = 0.0) -> None:
        """``dropout``: chance that a layer is left out of the softmax in a training step."""
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(()))
        self.dropout = dropout

    def forward(self, layers: Tensor) -> Tensor:
        """[..., layers, size] in any float type -> [..., size] in the type of the weights."""
        # not a matrix product: it would be one of a few numbers
        # for every word, and round them in mixed precision
        return (layers * self._shares().unsqueeze(-1)).sum(dim=-2)

    def of_layers(self, layers: Sequence[Tensor]) -> Tensor:
        """The same for layers that lie apart, [..., size] each."""
        shares = self._shares()
        mixed = layers[0] * shares[0]
        for number in range(1, len(layers)):
            mixed = mixed + layers[number] * shares[number]
        return mixed

    def compile_mix(self) -> None:
        """Mix layers that lie apart in one kernel: each of them is read once."""
        self.of_layers = torch.compile(self.of_layers, dynamic=True)  # type: ignore[method-assign]

    def _shares(self) -> Tensor:
        """What each layer is multiplied by."""
        logits: Tensor = self.weights
        if self.training and self.dropout > 0:
            # a dropped layer's logit is far down, not -inf:
            # with all dropped the softmax stays defined
            dropped = torch.rand_like(logits) < self.dropout
            logits = logits - 1e4 * dropped.to(logits.dtype)

        return self.gamma * torch.softmax(logits, dim=0)


class Encoder(nn.Module):
    """x = [word vector; character states; exact match; tags; contextual vector],
    then V and U of Eq. 12."""

    def __init__(self, config: NetworkConfig, inputs: Inputs, sizes: Sizes) -> None:
        super().__init__()
        # words without a known vector have a trained one,
        # Gaussian at first; row 0 is for none and stays zero
        self.words = (
            nn.Embedding(sizes.trainable, sizes.vectors, padding_idx=0)
            if sizes.trainable > 1
            else None
        )
        if self.words is not None:
            with torch.no_grad():
                nn.init.normal_(self.words.weight[1:], std=0.1)

        self.characters = (
            CharacterEncoder(sizes.characters, inputs.character_size, config.dropout, config.lstm)
            if inputs.characters
            else None
        )
        self.exact_match = inputs.exact_match
        self.pos = nn.Embedding(sizes.pos_tags, inputs.tag_size) if inputs.tags else None
        self.ner = nn.Embedding(sizes.ner_tags, inputs.tag_size) if inputs.tags else None
        self.mix = (
            ScalarMix(sizes.contextual_layers, inputs.contextual_layer_dropout)
            if sizes.contextual_layers > 0
            else None
        )
        width = sizes.vectors + sizes.contextual_size + inputs.exact_match
        width += 2 * inputs.character_size * inputs.characters + 2 * inputs.tag_size * bool(
            inputs.tags
        )
        self.lstm = BiLSTM(width, config.hidden, config.lstm, config.dropout)

    def forward(
        self,
        batch: Batch[Tensor],
        question_mask: Tensor,
        context_mask: Tensor,
        contextual: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The batch, its true words, and a tuned encoder's vectors
        if there is one -> V [B, n, 2d] and U [B, m, 2d]."""
        words = self._words(batch)
        matches: tuple[Tensor | None, Tensor | None] = (None, None)
        if self.exact_match:
            keys = _words(batch).keys
            matches = exact_match(
                keys[batch.question],
                keys[batch.context],
                question_mask,
                context_mask,
            )

        vectors: tuple[Tensor | None, Tensor | None] = contextual or (None, None)
        if self.mix is not None and isinstance(batch.contextual, FrozenLayers):
            vectors = (self.mix(batch.contextual.question), self.mix(batch.contextual.context))

        tags: tuple[Tensor | None, Tensor | None] = (None, None)
        if batch.tags is not None:
            tags = (batch.tags.question, batch.tags.context)

        Q = self._inputs(words, batch.question, matches[0], tags[0], vectors[0])
        C = self._inputs(words, batch.context, matches[1], tags[1], vectors[1])
        V, _ = self.lstm(Q, batch.question_lengths)
        U, _ = self.lstm(C, batch.context_lengths)

        return V, U

    def _words(self, batch: Batch[Tensor]) -> list[Tensor]:
        """What is the same wherever a word is, each [W, …]: its vector and its character states."""
        words = _words(batch)
        if self.words is None:
            vectors = words.vectors.to(product_type(self.lstm.weight_ih))
        else:  # in full precision, since the gradients of all places of a word are added up
            vectors = words.vectors.to(self.lstm.weight_ih.dtype) + self.words(words.trainable)

        if self.characters is None:
            return [vectors]

        return [vectors, self.characters(words.characters, words.lengths, batch.letters)]

    def _inputs(
        self,
        words: list[Tensor],
        rows: Tensor,
        match: Tensor | None,
        tags: Tensor | None,
        contextual: Tensor | None,
    ) -> list[Tensor]:
        """The parts of the input vectors x of one text, each
        [B, T, ·]; rows [B, T] are those of its words."""
        parts = [take_rows(table, rows) for table in words]
        if match is not None:
            parts.append(match[:, :, None].to(words[0].dtype))

        if self.pos is not None and self.ner is not None:
            pos, ner = required(tags, "tags").unbind(dim=-1)
            parts += [self.pos(pos), self.ner(ner)]

        if self.mix is not None:
            parts.append(required(contextual, "contextual layers"))

        return parts


def _words(batch: Batch[Tensor]) -> Words[Tensor]:
    """The words of a batch, which must have been looked up."""
    if not isinstance(batch.words, Words):
        raise ValueError("the batch has rows of words; look them up first")
    return batch.words


def take_rows(table: Tensor, index: Tensor) -> Tensor:
    """table[index]; its gradient is added up in place, where
    that of an embedding would sort the index first."""
    return table.index_select(0, index.flatten()).view(*index.shape, *table.shape[1:])
