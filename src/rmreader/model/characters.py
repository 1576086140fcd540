"""The character-level word embedding: a BiLSTM over the letters, once for each distinct word of a batch."""

from torch import Tensor, nn

from rmreader.kernels.embedding import embedding
from rmreader.kernels.lstm import Kernel
from rmreader.model.lstm import BiLSTM
from rmreader.model.precision import product_type


class CharacterEncoder(nn.Module):
    """A word as the two last states of a BiLSTM over its characters."""

    def __init__(self, count: int, size: int, dropout: float, kernel: Kernel = "auto") -> None:
        super().__init__()
        self.embedding = nn.Embedding(count, size)
        self.lstm = BiLSTM(size, size, kernel, dropout)

    def forward(self, characters: Tensor, lengths: Tensor, letters: Tensor | None = None) -> Tensor:
        """characters [W, c], lengths [W] -> [W, 2·size]: forward at the true last character, backward at the first.

        ``letters`` [2, N], the word and the place in it of every letter, spares the padding.
        """
        table = self.embedding.weight
        if letters is not None:
            known = embedding(table, characters[letters[0], letters[1]], product_type(table))
            return self.lstm.final(known, letters[0], lengths)
        final: Tensor
        _, final = self.lstm(embedding(table, characters, product_type(table)), lengths)
        return final
