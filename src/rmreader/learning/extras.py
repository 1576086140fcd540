"""Tags and contextual vectors in a run or a reader: what the network must know of them, and how they join batches."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rmreader.config import Inputs
from rmreader.data.batch import Batch
from rmreader.data.encoded import Encoded
from rmreader.data.tagged import Tagged, tag_encoded, token_rows
from rmreader.errors import UserError
from rmreader.learning.contextual_cache import ContextualCache, open_cache
from rmreader.model.contextual import (
    ENCODER_FILES,
    FrozenElmo,
    FrozenTransformer,
    TunedEncoder,
    frozen_encoder,
    tuned_encoder,
)
from rmreader.text.extras import ENCODER, Shape
from rmreader.text.pieces import Pieces, PieceTable, encoder_folder
from rmreader.text.tags import Tagger
from rmreader.text.windows import Padding, lay_out

_SHAPES = Padding(pieces=32, least=1.2, windows=8)  # SQuAD has 1.08 of MiniLM's pieces a word: half as many shapes more


class Extras:
    """The tagger and the encoder that a recipe names, on a device; they serve any number of data sets."""

    def __init__(
        self, inputs: Inputs, device: torch.device, cache_dir: str | Path | None = None, reader: Path | None = None
    ) -> None:
        """``reader``: the folder of a trained reader, whose labels and encoder these must be."""
        self.inputs, self.device, self.cache_dir = inputs, device, cache_dir
        known = Shape.load(reader, inputs) if reader is not None else None
        self.tagger = Tagger(inputs.tags, known.entities if known else None) if inputs.tags else None
        self.frozen: FrozenTransformer | FrozenElmo | None = None
        self.tuned: TunedEncoder | None = None
        self.pieces: Pieces | None = None
        if inputs.contextual and inputs.contextual_mode == "frozen":
            self.frozen = frozen_encoder(inputs.contextual).to(device)
            if known and known.fingerprint != self.frozen.fingerprint:
                raise UserError(f"{reader}: it was trained with another encoder than {inputs.contextual} is now.")
        elif inputs.contextual:
            self._source = reader / ENCODER if reader is not None else encoder_folder(inputs.contextual)
            self.tuned, self.pieces = tuned_encoder(inputs, self._source if reader is not None else None)
        self._opened: dict[str, tuple[Tagged | None, ContextualCache | None, PieceTable | None]] = {}

    @property
    def shape(self) -> Shape:
        """What the network and its reader must know."""
        encoder = self.frozen or self.tuned
        return Shape(
            entities=self.tagger.entities if self.tagger else (),
            layers=encoder.layers if encoder else 0,
            size=encoder.size if encoder else 0,
            fingerprint=self.frozen.fingerprint if self.frozen else "",
        )

    def save(self, folder: Path) -> None:
        """Write what a reader needs of these into its folder; of a tuned encoder its shape and its vocabulary."""
        if self.inputs.tags or self.inputs.contextual:
            self.shape.save(folder)
        if self.tuned is not None:
            (folder / ENCODER).mkdir(exist_ok=True)
            for name in ENCODER_FILES:
                shutil.copyfile(self._source / name, folder / ENCODER / name)

    def of(self, encoded: Encoded, keep: bool = True, repeat_shapes: bool = False) -> Attachment | None:
        """How batches of a data set get their extra inputs, None where the recipe asks for none.

        ``keep``: what is computed for it is kept on disk. ``repeat_shapes``: sequences are padded so that few
        different shapes occur, for captured graphs.
        """
        if not (self.inputs.tags or self.inputs.contextual):
            return None
        if encoded.content not in self._opened:
            found = self._open(encoded, keep)
            if not keep:
                return Attachment(self, encoded, *found, repeat_shapes)
            self._opened[encoded.content] = found
        return Attachment(self, encoded, *self._opened[encoded.content], repeat_shapes)

    def _open(self, encoded: Encoded, keep: bool) -> tuple[Tagged | None, ContextualCache | None, PieceTable | None]:
        tagged = tag_encoded(encoded, self.tagger, self.cache_dir, keep) if self.tagger else None
        table = self.pieces.table(encoded.vocabulary) if self.pieces else None
        cache = None
        if self.frozen is not None and (self.inputs.contextual_cache != "none" or not keep):
            place = self.device if self._fits(encoded, self.frozen) else "cpu"
            on_disk = keep and self.inputs.contextual_cache == "disk"
            cache = open_cache(encoded, self.frozen, self.cache_dir, place, on_disk)
        return tagged, cache, table

    def _fits(self, encoded: Encoded, encoder: FrozenTransformer | FrozenElmo) -> bool:
        """Whether the vectors may lie on the device: it is a GPU, and half of its free memory holds them."""
        if self.device.type != "cuda":
            return False
        tokens = sum(int(encoded.arrays[f"{part}_bounds"][-1]) for part in ("context", "question"))
        return 2 * tokens * encoder.layers * encoder.size < torch.cuda.mem_get_info(self.device)[0] // 2


class Attachment:
    """The extra inputs of one data set."""

    def __init__(
        self,
        extras: Extras,
        encoded: Encoded,
        tagged: Tagged | None,
        cache: ContextualCache | None,
        table: PieceTable | None,
        repeat_shapes: bool,
    ) -> None:
        self.extras, self.encoded = extras, encoded
        self.tagged, self.cache, self.table = tagged, cache, table
        self._pad = _SHAPES if repeat_shapes else None
        self._words: Any = None  # of an encoder that runs anew for every batch
        self._resident = cache is not None and cache.device.type == "cuda"

    def attach(self, batch: Batch[Any], index: NDArray[Any], begin: NDArray[Any]) -> Batch[Any]:
        """On the host: the batch of the questions ``index``, passages from token ``begin`` on, with its extra inputs.

        Vectors that lie on a GPU come as their rows there; ``fill`` puts them in.
        """
        rows = token_rows(
            self.encoded, index, begin, batch.context_lengths, batch.question.shape[1], batch.context.shape[1]
        )
        found: dict[str, Any] = {}
        if self.tagged is not None:
            found["question_tags"] = self.tagged.questions[rows[0]].astype(np.int64)
            found["context_tags"] = self.tagged.contexts[rows[1]].astype(np.int64)
        if self._resident:
            found["question_layers"], found["context_layers"] = rows
        elif self.cache is not None:
            layers = self.cache.gather(*map(torch.from_numpy, rows))
            found["question_layers"], found["context_layers"] = (part.numpy() for part in layers)
        elif self.extras.frozen is not None:
            found["question_layers"], found["context_layers"] = self._compute(self.extras.frozen, index, rows)
        if self.table is not None:
            found |= self._lay_out(batch, index, begin)
        return dataclasses.replace(batch, **found)

    def fill(self, batch: Batch[Tensor]) -> Batch[Tensor]:
        """On the device, as part of the step."""
        if not self._resident:
            return batch
        assert self.cache is not None
        assert batch.question_layers is not None
        assert batch.context_layers is not None
        question, context = self.cache.gather(batch.question_layers, batch.context_layers)
        return dataclasses.replace(batch, question_layers=question, context_layers=context)

    def _lay_out(self, batch: Batch[Any], index: NDArray[Any], begin: NDArray[Any]) -> dict[str, Any]:
        assert self.extras.pieces is not None
        assert self.table is not None
        questions = [self.encoded.question_tokens(i) for i in index.tolist()]
        spans = zip(index.tolist(), begin.tolist(), batch.context_lengths.tolist(), strict=True)
        contexts = [self.encoded.context_tokens(i)[first : first + length] for i, first, length in spans]
        widths = batch.question.shape[1], batch.context.shape[1]
        pairing = self.extras.inputs.contextual_pairing
        return vars(lay_out(self.extras.pieces, self.table, questions, contexts, pairing, widths, self._pad))

    def _compute(
        self, encoder: FrozenTransformer | FrozenElmo, index: NDArray[Any], rows: tuple[NDArray[Any], NDArray[Any]]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Without a cache: whole texts through the encoder, then the tokens that the batch has of them."""
        if self._words is None:
            self._words = encoder.table(self.encoded.vocabulary)
        encoded, starts = self.encoded, self.encoded.arrays
        questions = [encoded.question_tokens(i) for i in index.tolist()]
        contexts = [encoded.context_tokens(i) for i in index.tolist()]
        first = starts["question_bounds"][encoded.rows[index]], starts["context_bounds"][encoded.paragraph[index]]
        return (
            _scatter(encoder, self._words, questions, rows[0] - first[0][:, None], rows[0] > 0),
            _scatter(encoder, self._words, contexts, rows[1] - first[1][:, None], rows[1] > 0),
        )


def _scatter(
    encoder: FrozenTransformer | FrozenElmo,
    table: Any,
    texts: Sequence[NDArray[Any]],
    numbers: NDArray[Any],
    real: NDArray[np.bool_],
) -> NDArray[np.float16]:
    """[B, n, layers, size]: the vectors of the words that ``numbers`` [B, n] counts from 1 in each text, where real.

    In half precision, as the cache keeps them, so that a run with it and one without are the same.
    """
    ends = np.cumsum([len(text) for text in texts])
    starts = ends - [len(text) for text in texts]
    vectors = encoder.encode(table, texts).half().cpu().numpy()
    out = np.zeros((*numbers.shape, encoder.layers, encoder.size), np.float16)
    out[real] = vectors[(numbers - 1 + starts[:, None])[real]]
    return out
