"""The iterative aligner, Eq. 14: blocks that align context
with question and with itself, each refining the last."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from rmreader.core.errors import UserError
from rmreader.core.recipe import NetworkConfig
from rmreader.model.attention import Similarity, attend, column_attention, overlap, without_diagonal
from rmreader.model.compiled import compile_for_lengths
from rmreader.model.fusion import Fusion
from rmreader.model.lstm import BiLSTM
from rmreader.model.masking import VariationalDropout


@dataclass(frozen=True)
class Round:
    """The attentions of one block; 0 everywhere where it does not align so."""

    E: Tensor  # [B, n, m]: question rows, context columns; unnormalised
    # [B, m, m]; unnormalised, and with its diagonal: taken out where it is read, that costs nothing
    whole_B: Tensor
    A: Tensor  # [B, m, m]: softmax(B_:j), which this block attends by and the next one reads again
    diagonal: Literal["zero", "mask", "none"]

    @property
    def B(self) -> Tensor:
        """[B, m, m]: unnormalised, by Eq. 2 without its diagonal."""
        return without_diagonal(self.whole_B, self.diagonal)


class AligningBlock(nn.Module):
    """align^t of Eq. 14: interactive alignment, self alignment, evidence collection."""

    def __init__(self, config: NetworkConfig, index: int) -> None:
        super().__init__()
        size = 2 * config.hidden
        last = index == config.blocks - 1
        if config.align not in ("both", "interactive", "self"):
            raise UserError(f"network.align={config.align}: the network cannot align in this way.")

        self.diagonal = config.diagonal
        self.aligned = config.align
        if self.aligned != "self":
            self.similarity_E = Similarity(size, config.attention)
            self.fusion_H = Fusion(size, config.fusion, config.fusion_mul, config.fusion_sub)

        if self.aligned != "interactive":
            self.similarity_B = Similarity(size, config.attention)
            self.fusion_Z = Fusion(size, config.fusion, config.fusion_mul, config.fusion_sub)

        self.evidence = BiLSTM(
            (index + 1) * size if last else size,
            config.hidden,
            config.lstm,
            config.dropout,
        )
        self.drop = VariationalDropout(config.dropout)
        self.reattention = config.reattention and index > 0
        if self.reattention:
            self.gamma_E = nn.Parameter(torch.tensor(config.gamma))
            self.gamma_B = nn.Parameter(torch.tensor(config.gamma))

    def forward(
        self,
        U: Tensor,
        V: Tensor,
        context: Tensor,
        question: Tensor,
        past: Round | None,
        earlier: Sequence[Tensor],
    ) -> tuple[Tensor, Tensor, Round]:
        """U [B, m, 2d], V [B, n, 2d], true words of each (bool),
        the round before, Zs to read again -> R, Z, (E, B)."""
        Z, E, B, A = self.align(
            U,
            V,
            context,
            question,
            *((past.E, past.whole_B, past.A) if past is not None else ()),
        )
        R, _ = self.evidence([*earlier, Z], context.sum(dim=1))

        return R, Z, Round(E, B, A, self.diagonal)

    def align(
        self,
        U: Tensor,
        V: Tensor,
        context: Tensor,
        question: Tensor,
        past_E: Tensor | None = None,
        past_B: Tensor | None = None,
        past_A: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The two alignments, all of the block but its BiLSTM -> Z, E, B with its diagonal, A."""
        if self.aligned == "self":
            H = U
            E = U.new_zeros(len(U), V.shape[1], U.shape[1])
        else:
            u = self.drop(U)
            v = self.drop(V)
            E = self.similarity_E(v, u)  # Eq. 1
            if self.reattention and past_E is not None and past_A is not None:
                E = E + self.gamma_E * overlap(past_E, past_A, context)  # Eq. 4

            attended = attend(column_attention(E, question), v)  # ṽ_j = V·softmax(E_:j)
            H = self.fusion_H(U, attended)

        if self.aligned == "interactive":
            nothing = U.new_zeros(len(U), U.shape[1], U.shape[1])
            return H, E, nothing, nothing

        h = self.drop(H)
        B: Tensor = self.similarity_B(h, h)
        if self.reattention and past_B is not None and past_A is not None:
            # Eq. 5
            B = B + self.gamma_B * overlap(without_diagonal(past_B, self.diagonal), past_A, context)

        # the indicator of Eq. 2 and 5
        A = column_attention(without_diagonal(B, self.diagonal), context)
        Z: Tensor = self.fusion_Z(H, attend(A, h))  # h̃_j = H·softmax(B_:j)
        return Z, E, B, A


class Aligner(nn.Module):
    """All blocks of Eq. 14; the last one's BiLSTM reads [z¹; z²; …; zᵗ]."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(AligningBlock(config, index) for index in range(config.blocks))

    def compile_blocks(self) -> None:
        """Fuse what each block does outside its BiLSTM
        into few kernels, the same ones for any lengths."""
        for block in self.blocks:
            align = cast(AligningBlock, block).align
            block.align = compile_for_lengths(align, "bmd", "bnd", "bm", "bn", "bnm", "bmm", "bmm")  # type: ignore[assignment]

    def forward(
        self,
        U: Tensor,
        V: Tensor,
        context: Tensor,
        question: Tensor,
    ) -> tuple[Tensor, list[Round]]:
        """U [B, m, 2d], V [B, n, 2d], true words of each ->
        R of the last block [B, m, 2d] and every round."""
        R = U
        rounds = list[Round]()
        Zs = list[Tensor]()
        for index, block in enumerate(self.blocks):
            earlier = Zs if index == len(self.blocks) - 1 else []
            R, Z, made = block(R, V, context, question, rounds[-1] if rounds else None, earlier)
            rounds.append(made)
            Zs.append(Z)

        return R, rounds
