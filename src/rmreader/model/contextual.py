"""Contextual vectors of our words, every layer, from ELMo or a transformer:
frozen (computed once per text) or tuned (trained along with the network)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rmreader.core.recipe import Inputs
from rmreader.data.batch import Batch
from rmreader.model.elmo import Elmo, character_ids, elmo_files, read_elmo
from rmreader.model.encoder import ScalarMix, take_rows
from rmreader.model.transformer import Transformer, load_transformer
from rmreader.text.piece_layout import Layout, lay_out_alone
from rmreader.text.pieces import Pieces, PieceTable, digest, encoder_folder, fingerprint

# files that make a reader with a tuned encoder independent of the encoder's own folder
ENCODER_FILES = ("config.json", "tokenizer.json")


class FrozenTransformer(nn.Module):
    """A transformer, each text read alone, in overlapping windows where it is long."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.pieces = Pieces(folder)
        self.transformer = load_transformer(folder).requires_grad_(False)
        self.layers = self.transformer.layers
        self.size = self.transformer.size
        # of the files and the rules by which it is read
        self.fingerprint = fingerprint(folder, self.pieces.window)

    def table(self, words: Sequence[str]) -> PieceTable:
        """What it needs to know about these words, their
        pieces; texts are given as rows, word k is row k + 1."""
        return self.pieces.table(words)

    @torch.no_grad()
    def encode(self, table: PieceTable, texts: Sequence[NDArray[Any]]) -> Tensor:
        """The words of the texts end to end: float32 [tokens, layers, size].

        On the CPU one text after the other, so that a text's vectors are
        the same to the last bit whatever else is read; products of other
        sizes may round otherwise, and a training run makes much of little.
        """
        device = next(self.transformer.parameters()).device
        groups = [[text] for text in texts] if device.type == "cpu" else [list(texts)]

        return torch.cat([self._encode(table, group, device) for group in groups])

    def _encode(self, table: PieceTable, texts: list[NDArray[Any]], device: torch.device) -> Tensor:
        laid = lay_out_alone(self.pieces, table, texts)
        pieces, types, mask = (
            torch.from_numpy(array).to(device) for array in (laid.pieces, laid.types, laid.mask)
        )
        layers = self.transformer(pieces, types, mask)
        every = torch.stack(layers, dim=2).flatten(0, 1)
        places = np.concatenate(
            [row[: len(text)] for row, text in zip(laid.places, texts, strict=True)]
        )

        return every[torch.from_numpy(places).to(device)]


class FrozenElmo(nn.Module):
    """ELMo, each text read alone between its sentence markers."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        files = elmo_files(folder)
        self.elmo: Elmo = read_elmo(*files)
        self.layers = self.elmo.layers
        self.size = self.elmo.size
        self.fingerprint = digest(files, "elmo/1")

    def table(self, words: Sequence[str]) -> NDArray[np.int16]:
        """The words' characters."""
        return character_ids(["", *words], self.elmo.options.max_characters)

    @torch.no_grad()
    def encode(self, table: NDArray[np.int16], texts: Sequence[NDArray[Any]]) -> Tensor:
        """[tokens, layers, size]."""
        every = self.elmo.read(table, texts)
        own = [layers[: len(text)] for layers, text in zip(every, texts, strict=True)]
        return torch.cat(own)


FrozenEncoder = FrozenTransformer | FrozenElmo


def frozen_encoder(name: str) -> FrozenEncoder:
    """The encoder that ``inputs.contextual`` names, ready to be moved to a device."""
    if name.startswith("elmo:"):
        return FrozenElmo(Path(name.removeprefix("elmo:")).expanduser())
    return FrozenTransformer(encoder_folder(name))


class TunedEncoder(nn.Module):
    """A transformer that is trained with the network. Reads
    the sequences that ``text/piece_layout.py`` lays out."""

    def __init__(self, transformer: Transformer) -> None:
        super().__init__()
        self.transformer = transformer
        self.layers = transformer.layers
        self.size = transformer.size

    def forward(self, batch: Batch[Tensor], mix: ScalarMix) -> tuple[Tensor, Tensor]:
        """The vectors of the question's and of the
        context's words, [B, n, size] each; zero at padding.

        The layers are mixed before a word's vector is looked up: the
        same sum, with one row to copy instead of one for every layer.
        """
        layout = batch.contextual
        if not isinstance(layout, Layout):
            raise ValueError("the batch has no pieces, which are needed here")

        # A question that is read apart has sequences of its own.
        main = self._mixed(mix, layout.pieces, layout.piece_types, layout.piece_mask)
        query = main
        if layout.query_pieces is not None and layout.query_mask is not None:
            query = self._mixed(mix, layout.query_pieces, None, layout.query_mask)

        is_question = (batch.question != 0)[..., None]
        is_context = (batch.context != 0)[..., None]
        question = take_rows(query, layout.question_pieces) * is_question

        return question, take_rows(main, layout.context_pieces) * is_context

    def _mixed(self, mix: ScalarMix, pieces: Tensor, types: Tensor | None, mask: Tensor) -> Tensor:
        """One vector for each piece, the sequences end to end: [R · s, size]."""
        return mix.of_layers(self.transformer(pieces, types, mask)).flatten(0, 1)


def tuned_encoder(inputs: Inputs, folder: Path | None = None) -> tuple[TunedEncoder, Pieces]:
    """The encoder to tune and its tokenizer; from ``folder``,
    a reader's own copy, shape and pieces without weights."""
    source = folder or encoder_folder(inputs.contextual)
    transformer = load_transformer(source, inputs.contextual_layer_dropout, weights=folder is None)
    return TunedEncoder(transformer), Pieces(source)
