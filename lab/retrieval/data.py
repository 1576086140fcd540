"""The arrays of ``prepare`` on a device: bags of pieces, and the blocks of passages."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lab.retrieval.arrays import BLOCK

# Of BM25, as FTS5 has them.
K1 = 1.2
B = 0.75


class Sequences(NamedTuple):
    """Texts one after the other: their pieces, and where each text ends (the first is 0)."""

    pieces: Tensor
    ends: Tensor

    @property
    def sizes(self) -> Tensor:
        """How long each text is."""
        return self.ends[1:] - self.ends[:-1]


class Bags(NamedTuple):
    """Texts as bags: the different pieces of each, how often they are in it, where it ends."""

    pieces: Tensor
    counts: Tensor
    ends: Tensor

    @property
    def sizes(self) -> Tensor:
        """How many different pieces each text has."""
        return self.ends[1:] - self.ends[:-1]


class TrainingData:
    """Questions and passages with all that scoring them needs."""

    def __init__(self, path: Path, device: str) -> None:
        arrays = np.load(path)
        self.device = device
        self.size = len(arrays["scale"])
        self.table = arrays["vectors"].astype(np.float32) * arrays["scale"][:, None]
        self.source = arrays["source"]
        self.gold = self._on_device(arrays["gold"])

        self.sequences = self._texts(arrays, "question")
        self.questions = self._bags(self.sequences)
        passages = self._texts(arrays, "passage")
        self.passages = self._bags(passages)
        self.blocks, self.block_ends = self._blocks(passages)

        self.idf = self._idf(arrays["stop"])
        self.weights = self._bm25_weights()

    def _on_device(self, array: Any) -> Tensor:
        """Whole numbers as a tensor."""
        return torch.from_numpy(array.astype(np.int64)).to(self.device)

    def _texts(self, arrays: Any, name: str) -> Sequences:
        """The texts of one kind."""
        return Sequences(
            self._on_device(arrays[f"{name}_pieces"]),
            self._on_device(arrays[f"{name}_ends"]),
        )

    def _bags(self, texts: Sequences) -> Bags:
        """Count the pieces of each text."""
        sizes = texts.sizes
        owner = _owners(sizes)
        # A key for each pair of text and piece.
        keys, counts = torch.unique(
            owner * self.size + texts.pieces,
            return_counts=True,
        )
        bag_sizes = torch.bincount(keys // self.size, minlength=len(sizes))
        return Bags(
            keys % self.size,
            counts.float(),
            _with_zero(torch.cumsum(bag_sizes, 0)),
        )

    def _blocks(self, texts: Sequences) -> tuple[Bags, Tensor]:
        """The blocks of all passages, and the number of the block that each passage ends before.

        A piece that is twice in a block is there twice.
        """
        counts = (texts.sizes + BLOCK - 1) // BLOCK
        ends = torch.cumsum(counts, 0)
        owner = _owners(counts)
        # A block's place in its passage says where it begins.
        place = torch.arange(len(owner), device=self.device)
        place -= (ends - counts)[owner]
        begins = texts.ends[:-1][owner] + BLOCK * place
        blocks = Bags(
            texts.pieces,
            torch.ones(len(texts.pieces), device=self.device),
            torch.cat([begins, texts.ends[-1:]]),
        )
        return blocks, _with_zero(ends)

    def _idf(self, stop: Any) -> Tensor:
        """What each piece says of a text: more the rarer it is, nothing for stop words."""
        found = torch.bincount(self.passages.pieces, minlength=self.size).float()
        total = len(self.passages.ends) - 1
        idf = torch.log((total - found + 0.5) / (found + 0.5))
        idf = idf.clamp(min=1e-6)
        idf[self._on_device(stop)] = 0.0
        return idf

    def _bm25_weights(self) -> Tensor:
        """What each piece of each passage is worth to a question that has it."""
        pieces, counts, _ = self.passages
        sizes = self.passages.sizes
        owner = _owners(sizes)
        lengths = torch.zeros(len(sizes), device=self.device)
        lengths.index_add_(0, owner, counts)
        norm = K1 * (1 - B + B * lengths / lengths.mean())
        return self.idf[pieces] * counts * (K1 + 1) / (counts + norm[owner])


def _owners(sizes: Tensor) -> Tensor:
    """The number of the text that each position is in."""
    numbers = torch.arange(len(sizes), device=sizes.device)
    return torch.repeat_interleave(numbers, sizes)


def _with_zero(ends: Tensor) -> Tensor:
    """Ends with a 0 before them, so that a text is between two of them."""
    return torch.cat([ends.new_zeros(1), ends])


def gather(bags: Bags, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Positions of these texts in the flat arrays, where each text begins, each position's text."""
    starts = bags.ends[rows]
    sizes = bags.ends[rows + 1] - starts
    begins = torch.cumsum(sizes, 0) - sizes
    owner = _owners(sizes)
    places = torch.arange(len(owner), device=rows.device)
    places += (starts - begins)[owner]
    return places, begins, owner
