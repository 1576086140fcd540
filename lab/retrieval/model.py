"""The table that is learned, and how it makes vectors of questions, passages and their parts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from lab.retrieval.data import Bags, TrainingData, gather

LONGEST_QUESTION = 48  # pieces that the network looks at


class Model:
    """The table, the weights of pieces in questions, and how sharply scores are compared.

    With ``layers`` the pieces of a question also look at each other, in a small network whose
    sum is added to theirs.
    """

    def __init__(self, data: TrainingData, dim: int, layers: int) -> None:
        device = data.device
        # A good place to begin: rare pieces count more.
        vectors = data.table[:, :dim]
        vectors = vectors / np.linalg.norm(vectors, axis=1).mean()
        rarity = data.idf.cpu().numpy()[:, None]
        vectors = vectors * (rarity + 0.3) / 8
        self.table = torch.tensor(
            vectors,
            dtype=torch.float32,
            device=device,
            requires_grad=True,
        )
        self.weights = torch.zeros(
            len(vectors),
            device=device,
            requires_grad=True,
        )
        self.sharpness = torch.full(
            (3,),
            math.log(20.0),
            device=device,
            requires_grad=True,
        )
        self.network: nn.TransformerEncoder | None = None
        if layers:
            self._add_network(dim, layers, device)

    def _add_network(self, dim: int, layers: int, device: str) -> None:
        """Add the network that questions go through; it begins by adding nothing."""
        layer = nn.TransformerEncoderLayer(
            dim,
            nhead=4,
            dim_feedforward=2 * dim,
            dropout=0.1,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        network = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        places = torch.randn(LONGEST_QUESTION, dim, device=device)
        self.places = nn.Parameter(0.02 * places)
        self.out = nn.Linear(dim, dim, bias=False)
        nn.init.zeros_(self.out.weight)
        self.network = network.to(device)
        self.out.to(device)

    def parameters(self) -> list[Any]:
        """What is learned."""
        some = [self.table, self.weights, self.sharpness]
        if self.network is not None:
            some += [self.places, self.out.weight, *self.network.parameters()]
        return some

    def train(self, mode: bool) -> None:
        """Whether parts of the network are left out by chance."""
        if self.network is not None:
            self.network.train(mode)

    def encode_questions(self, data: TrainingData, rows: Any, drop: float = 0.0) -> Any:
        """Vectors of length one."""
        sums = self._sums(
            data.questions,
            rows,
            True,
            drop,
        )
        if self.network is not None:
            sums = sums + self._context(data, rows)
        return functional.normalize(sums, dim=1, eps=1e-6)

    def encode_passages(self, data: TrainingData, rows: Any, drop: float = 0.0) -> Any:
        """Vectors of length one."""
        sums = self._sums(
            data.passages,
            rows,
            False,
            drop,
        )
        return functional.normalize(sums, dim=1, eps=1e-6)

    def encode_parts(self, data: TrainingData, rows: Any) -> Any:
        """Vectors of length one of every two blocks; a passage has as many as the longest."""
        begins = data.block_ends[rows]
        counts = data.block_ends[rows + 1] - begins
        most = int(counts.max())
        places = torch.arange(most, device=data.device)
        real = places[None] < counts[:, None]
        numbers = (begins[:, None] + places[None])[real]
        sums = self._sums(data.blocks, numbers, False)
        padded = sums.new_zeros(len(rows), most, sums.shape[1])
        padded[real] = sums

        # A part is a block and the one before it.
        with_last = padded.clone()
        with_last[:, 1:] += padded[:, :-1]
        return functional.normalize(with_last * real[:, :, None], dim=2, eps=1e-6)

    def _sums(
        self,
        bags: Bags,
        rows: Any,
        question: bool,
        drop: float = 0.0,
    ) -> Any:
        """The sum of the vectors of each text's pieces; ``drop`` leaves some out by chance."""
        places, begins, _ = gather(bags, rows)
        pieces = bags.pieces[places]
        weights = bags.counts[places].sqrt()
        if question:
            weights = weights * self.weights[pieces].exp()
        if drop:
            weights = weights * (torch.rand_like(weights) > drop)
        return functional.embedding_bag(
            pieces,
            self.table,
            begins,
            mode="sum",
            per_sample_weights=weights,
        )

    def _context(self, data: TrainingData, rows: Any) -> Any:
        """What the pieces of questions say together."""
        assert self.network is not None
        pieces, ends = data.sequences
        begins = ends[rows]
        sizes = (ends[rows + 1] - begins).clamp(max=LONGEST_QUESTION)
        places = torch.arange(int(sizes.max()), device=data.device)
        real = places[None] < sizes[:, None]
        flat = (begins[:, None] + places[None]).clamp(max=len(pieces) - 1)

        # Lengths of vectors say what pieces count: here each is as long as the others.
        states = functional.normalize(self.table[pieces[flat]], dim=2)
        states = states + self.places[: len(places)]
        states = self.network(states, src_key_padding_mask=~real)
        means = (states * real[:, :, None]).sum(1) / sizes[:, None]
        return self.out(means)
