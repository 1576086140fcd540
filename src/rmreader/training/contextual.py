"""Inputs that depend on the whole text a word is in, tags and contextual vectors: what the network
must know of them, and how they join batches. (What a word is told of wherever it is,
``text/words.py`` has.)"""

from __future__ import annotations

import dataclasses
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rmreader.core.errors import UserError
from rmreader.core.recipe import Inputs
from rmreader.data.batch import Batch, FrozenLayers, LayerRows, QuestionSource, Tags, required
from rmreader.data.batches import crop, token_rows
from rmreader.data.encoded import Encoded
from rmreader.data.tagged import Tagged, tag_encoded
from rmreader.model.contextual import (
    ENCODER_FILES,
    FrozenEncoder,
    TunedEncoder,
    frozen_encoder,
    tuned_encoder,
)
from rmreader.text.contextual import ENCODER, ContextualShape
from rmreader.text.piece_layout import Layout, PiecePadding, lay_out
from rmreader.text.pieces import Pieces, PieceTable, encoder_folder
from rmreader.text.tags import Tagger
from rmreader.training.frozen_vectors import FrozenVectors, open_vectors

# batches are sorted by their pieces, so that few are longer than one piece per padded word
_SHAPES = PiecePadding(pieces=32, least=1.0, windows=8)


class ContextualInputs:
    """The tagger and the encoder that a recipe names, on a device; they serve any number of data
    sets."""

    def __init__(
        self,
        inputs: Inputs,
        device: torch.device,
        cache_dir: str | Path | None = None,
        reader: Path | None = None,
        encoder: Path | None = None,
    ) -> None:
        """``reader``: the folder of a trained reader, whose labels and encoder these must be.
        ``encoder``: a reader's copy of a tuned encoder, shape and vocabulary; its weights are then
        loaded with the network's."""
        self.inputs = inputs
        self.device = device
        self.cache_dir = cache_dir
        known = ContextualShape.load(reader, inputs) if reader is not None else None
        self.tagger: Tagger | None = None
        if inputs.tags:
            self.tagger = Tagger(inputs.tags, known.entities if known else None)

        self.frozen: FrozenEncoder | None = None
        self.tuned: TunedEncoder | None = None
        self.pieces: Pieces | None = None
        if inputs.contextual and inputs.contextual_mode == "frozen":
            self.frozen = frozen_encoder(inputs.contextual).to(device)
            if known and known.fingerprint != self.frozen.fingerprint:
                raise UserError(
                    f"{reader}: it was trained with another encoder than {inputs.contextual} is "
                    "now; put that one back."
                )
        elif inputs.contextual:
            own = reader / ENCODER if reader is not None else encoder
            self._source = own or encoder_folder(inputs.contextual)
            self.tuned, self.pieces = tuned_encoder(inputs, own)

        self._opened: dict[str, Attachment] = {}

    @property
    def shape(self) -> ContextualShape:
        """What the network and its reader must know."""
        encoder = self.frozen or self.tuned
        return ContextualShape(
            entities=self.tagger.entities if self.tagger else (),
            layers=encoder.layers if encoder else 0,
            size=encoder.size if encoder else 0,
            fingerprint=self.frozen.fingerprint if self.frozen else "",
        )

    def save(self, folder: Path) -> None:
        """Write what a reader needs of these into its folder; of a tuned encoder its shape and its
        vocabulary."""
        if self.inputs.tags or self.inputs.contextual:
            self.shape.save(folder)

        if self.tuned is not None:
            (folder / ENCODER).mkdir(exist_ok=True)
            for name in ENCODER_FILES:
                shutil.copyfile(self._source / name, folder / ENCODER / name)

    def of(
        self,
        encoded: Encoded,
        keep: bool = True,
        repeat_shapes: bool = False,
    ) -> Attachment | None:
        """How batches of a data set get these inputs, None where the recipe asks for none.

        ``keep``: what is computed for it is kept on disk. ``repeat_shapes``: sequences are padded
        so that few different shapes occur, for captured graphs.
        """
        if not (self.inputs.tags or self.inputs.contextual):
            return None

        attachment = self._opened.get(encoded.content) or self._open(encoded, keep)
        if keep:
            self._opened[encoded.content] = attachment

        return dataclasses.replace(attachment, encoded=encoded, repeat_shapes=repeat_shapes)

    def _open(self, encoded: Encoded, keep: bool) -> Attachment:
        tagged = tag_encoded(encoded, self.tagger, self.cache_dir, keep) if self.tagger else None
        table = self.pieces.table(encoded.vocabulary) if self.pieces else None
        vectors = None
        if self.frozen is not None and (self.inputs.contextual_cache != "none" or not keep):
            place = self.device if self._fits(encoded, self.frozen) else "cpu"
            on_disk = keep and self.inputs.contextual_cache == "disk"
            vectors = open_vectors(encoded, self.frozen, self.cache_dir, place, on_disk)

        return Attachment(self, encoded, tagged, vectors, table)

    def _fits(self, encoded: Encoded, encoder: FrozenEncoder) -> bool:
        """Whether the vectors may be on the device: it is a GPU, and half of its free memory holds
        them."""
        if self.device.type != "cuda":
            return False

        tokens = sum(int(encoded.arrays[f"{part}_bounds"][-1]) for part in ("context", "question"))
        size = 2 * tokens * encoder.layers * encoder.size
        free, _ = torch.cuda.mem_get_info(self.device)

        return size < free // 2


@dataclass
class Attachment:
    """The text inputs of one data set."""

    inputs: ContextualInputs
    encoded: Encoded
    tagged: Tagged | None
    vectors: FrozenVectors | None
    table: PieceTable | None
    repeat_shapes: bool = False
    words: Any = None  # of an encoder that runs anew for every batch

    def __post_init__(self) -> None:
        self.resident = self.vectors is not None and self.vectors.device.type == "cuda"

    def attach(self, batch: Batch[Any]) -> Batch[Any]:
        """On the host: a batch with its text inputs; of vectors that are on a GPU the rows, which
        ``fill`` looks up."""
        source = required(batch.source, "numbers of questions")
        widths = batch.question.shape[1], batch.context.shape[1]
        rows = token_rows(self.encoded, source.index, source.offset, batch.context_lengths, *widths)
        if self.tagged is not None:
            question_tags = self.tagged.questions[rows[0]].astype(np.int64)
            context_tags = self.tagged.contexts[rows[1]].astype(np.int64)
            batch = dataclasses.replace(batch, tags=Tags(question_tags, context_tags))

        if self.resident:
            return dataclasses.replace(batch, contextual=LayerRows(*rows))

        if self.vectors is not None:
            question, context = self.vectors.gather(*map(torch.from_numpy, rows))
            layers: FrozenLayers[Any] = FrozenLayers(question.numpy(), context.numpy())
            return dataclasses.replace(batch, contextual=layers)

        if self.inputs.frozen is not None:
            texts = self.encoded.rows[source.index], self.encoded.paragraph[source.index]
            layers = FrozenLayers(
                self._compute("question", texts[0], rows[0]),
                self._compute("context", texts[1], rows[1]),
            )
            return dataclasses.replace(batch, contextual=layers)

        if self.table is not None:
            return dataclasses.replace(batch, contextual=self._lay_out(batch, source, self.table))

        return batch

    def _lay_out(
        self,
        batch: Batch[Any],
        source: QuestionSource[Any],
        table: PieceTable,
    ) -> Layout[NDArray[Any]]:
        """The sequences that a tuned encoder reads."""
        contexts = []
        questions = []
        lengths = batch.context_lengths.tolist()
        for i, first, length in zip(
            source.index.tolist(),
            source.offset.tolist(),
            lengths,
            strict=True,
        ):
            contexts.append(self.encoded.context_tokens(i)[first : first + length])
            questions.append(self.encoded.question_tokens(i))

        return lay_out(
            required(self.inputs.pieces, "pieces"),
            table,
            questions,
            contexts,
            self.inputs.inputs.contextual_pairing,
            (batch.question.shape[1], batch.context.shape[1]),
            _SHAPES if self.repeat_shapes else None,
        )

    def lengths(self, max_context: int) -> NDArray[np.int64] | None:
        """How many pieces a tuned encoder reads of each question with its passage.

        None without such an encoder.
        """
        if self.table is None:
            return None

        encoded = self.encoded
        every = np.arange(len(encoded))
        begin, words = crop(encoded, every, max_context)
        passages = encoded.arrays["context_bounds"][encoded.paragraph]
        context = self._count_pieces("context_tokens", passages + begin, words)

        questions = encoded.arrays["question_bounds"][encoded.rows]
        question = self._count_pieces(
            "question_tokens",
            questions,
            encoded.question_lengths,
        )

        pieces: NDArray[np.int64] = context + question
        return pieces

    def _count_pieces(self, name: str, first: NDArray[Any], words: NDArray[Any]) -> NDArray[Any]:
        """The pieces of so many words from each first one on."""
        table = required(self.table, "pieces")
        tokens = self.encoded.arrays[name]
        of_each = np.diff(table.offsets)[tokens]

        # Pieces before each word, so that a difference is a sum.
        before = np.concatenate([[0], np.cumsum(of_each)])
        counts: NDArray[Any] = before[first + words] - before[first]

        return counts

    def fill(self, batch: Batch[Tensor]) -> Batch[Tensor]:
        """On the device, as part of the step: the vectors in place of their rows."""
        rows = batch.contextual
        if not isinstance(rows, LayerRows) or self.vectors is None:
            return batch
        layers = FrozenLayers(*self.vectors.gather(rows.question, rows.context))
        return dataclasses.replace(batch, contextual=layers)

    def _compute(self, part: str, texts: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.float16]:
        """[B, n, layers, size] without a cache: whole texts through the encoder, then the tokens of
        ``rows``.

        In half precision, as the cache keeps them, so that a run with it and one without are the
        same.
        """
        encoder = self.inputs.frozen
        assert encoder is not None
        if self.words is None:
            self.words = encoder.table(self.encoded.vocabulary)

        tokens = self.encoded.arrays[f"{part}_tokens"]
        bounds = self.encoded.arrays[f"{part}_bounds"]
        first = bounds[texts]
        after = bounds[texts + 1]
        whole = [np.asarray(tokens[begin:end]) for begin, end in zip(first, after, strict=True)]
        vectors = encoder.encode(self.words, whole).half().cpu().numpy()
        vectors = np.concatenate([np.zeros_like(vectors[:1]), vectors])  # row 0 is padding's
        starts = np.cumsum(after - first) - (after - first)

        return vectors[np.where(rows > 0, rows + (starts - first)[:, None], 0)]
