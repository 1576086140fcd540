"""Tags and contextual vectors of one question and its passage, without torch."""

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError, user_error_on
from rmreader.readers.folder import Folder
from rmreader.readers.weights import TUNED, Shapes, Weights, bert_shapes, misfit, part
from rmreader.reading.engine.bert import Bert, bert_graph
from rmreader.reading.engine.inputs import Floats, session
from rmreader.reading.engine.layers import unknown_setting
from rmreader.text.contextual import ENCODER
from rmreader.text.piece_layout import Layout, lay_out
from rmreader.text.pieces import Pieces, encoder_config, encoder_folder, fingerprint
from rmreader.text.tags import Tagger
from rmreader.text.vectors import map_safetensors

ENCODER_WEIGHTS = "model.safetensors"


def why_torch(folder: Folder) -> str | None:
    """Why a reader's extra inputs must be computed by torch; None where they need not."""
    inputs = folder.recipe.inputs
    if not inputs.contextual:
        return None

    if inputs.contextual.startswith("elmo:"):
        return "ELMo"

    # The graph below is BERT's, and no other encoder's.
    source = _source(folder)
    config = encoder_config(source)
    kind = config.get("model_type")
    positions = config.get("position_embedding_type", "absolute")
    if kind != "bert" or config.get("hidden_act") != "gelu" or positions != "absolute":
        return f"an encoder of the kind {kind}"

    if inputs.contextual_mode == "frozen" and not (source / ENCODER_WEIGHTS).is_file():
        return f"an encoder without {ENCODER_WEIGHTS}"

    return None


class ContextualColumns:
    """The columns after the words' own inputs: embeddings of tags, then contextual vectors."""

    def __init__(self, folder: Folder, weights: Weights, in_c: bool) -> None:
        inputs = folder.recipe.inputs
        self.tagger: Tagger | None = None
        self.encoder: BertEncoder | None = None
        self._tag_tables: list[Floats] = []
        self._tagging = Lock()  # a spaCy pipeline serves one thread at a time

        if inputs.tags:
            self.tagger = Tagger(inputs.tags, folder.contextual.entities)
            self._tag_tables = [weights["encoder.pos.weight"], weights["encoder.ner.weight"]]

        if inputs.contextual:
            self.encoder = BertEncoder(folder, weights, in_c, folder.contextual.fingerprint)

    def join(
        self,
        texts: tuple[Sequence[str], Sequence[str]],
        known: tuple[Floats, Floats],
        threads: int = 1,
    ) -> tuple[Floats, Floats]:
        """The words' inputs [n, width] and [m, width] with these after them."""
        question = [known[0]]
        context = [known[1]]

        if self.tagger is not None:
            with self._tagging:
                question_tags, context_tags = self.tagger.tag(texts)

            question += self._embed(question_tags)
            context += self._embed(context_tags)

        if self.encoder is not None:
            question_vectors, context_vectors = self.encoder(*texts, threads)
            question.append(question_vectors)
            context.append(context_vectors)

        return np.concatenate(question, axis=1), np.concatenate(context, axis=1)

    def _embed(self, tags: NDArray[Any]) -> list[Floats]:
        """The embeddings of both kinds of tags [n, 2]."""
        return [table[tags[:, column]] for column, table in enumerate(self._tag_tables)]


class BertEncoder:
    """A BERT encoder, frozen or tuned, apart or on pairs; long texts in overlapping windows."""

    def __init__(self, folder: Folder, weights: Weights, in_c: bool, expected: str) -> None:
        inputs = folder.recipe.inputs
        source = _source(folder)
        self.pieces = Pieces(source)
        self.pairing = inputs.contextual_pairing
        is_frozen = inputs.contextual_mode == "frozen"
        if is_frozen and fingerprint(source, self.pieces.window) != expected:
            raise UserError(
                f"{folder.path}: it was trained with another encoder than {inputs.contextual} is "
                "now; put that one back."
            )

        # The graph holds the other weights; here only the embeddings are kept.
        bert = load_bert(folder, weights)
        self._embeddings = bert.embeddings
        self._session = cache(partial(session, bert_graph(bert, in_c)))  # by the number of threads

    def __call__(
        self,
        question: Sequence[str],
        context: Sequence[str],
        threads: int = 1,
    ) -> tuple[Floats, Floats]:
        """Contextual vectors of the words of both texts."""
        layout = self.lay_out(question, context)
        main = self._read(layout.pieces, layout.piece_types, layout.piece_mask, threads)
        query = main

        # Apart, the question has a sequence of its own.
        if layout.query_pieces is not None and layout.query_mask is not None:
            types = np.zeros_like(layout.query_pieces)
            query = self._read(layout.query_pieces, types, layout.query_mask, threads)

        return query[layout.question_pieces[0]], main[layout.context_pieces[0]]

    def lay_out(self, question: Sequence[str], context: Sequence[str]) -> Layout[NDArray[Any]]:
        """The sequences that are read, and where the words are in them."""
        # Row 0 of the table is padding.
        words = list(dict.fromkeys([*question, *context]))
        rows = {word: row for row, word in enumerate(words, start=1)}

        question_rows = np.array([rows[word] for word in question])
        context_rows = np.array([rows[word] for word in context])
        table = self.pieces.table(words)

        return lay_out(self.pieces, table, [question_rows], [context_rows], self.pairing)

    def _read(
        self,
        pieces: NDArray[Any],
        types: NDArray[Any],
        mask: NDArray[np.bool_],
        threads: int,
    ) -> Floats:
        """[R, s] each -> [R·s, size]; every row is read without its padding, whose places hold
        nothing of meaning."""
        run = self._session(threads).run
        words, segments, places = self._embeddings
        out = np.zeros((*pieces.shape, words.shape[1]), np.float32)
        for row, length in enumerate(mask.sum(axis=1).tolist()):
            own = pieces[row, :length]
            kinds = types[row, :length]
            x = words[own] + segments[kinds] + places[:length]
            out[row, :length] = run(None, {"embeddings": x})[0]

        return out.reshape(-1, out.shape[-1])


def load_bert(folder: Folder, weights: Weights) -> Bert:
    """A reader's encoder: from its own folder if frozen, else from the network's ``weights``."""
    source = _source(folder)
    config = encoder_config(source)
    is_frozen = folder.recipe.inputs.contextual_mode == "frozen"
    if is_frozen:
        own: Weights = _frozen(source, bert_shapes(config))
    else:
        own = part(weights, TUNED)

    # The mix is a softmax over the layers, times γ.
    mix = weights["encoder.mix.weights"]
    layers = config["num_hidden_layers"] + 1
    if len(mix) != layers:
        raise ValueError(f"a mix of {len(mix)} layers of {layers}")

    shares = np.exp(mix - mix.max())
    return Bert(
        weights=own,
        heads=int(config["num_attention_heads"]),
        epsilon=float(config["layer_norm_eps"]),
        mix=weights["encoder.mix.gamma"] * shares / shares.sum(),
        half=is_frozen,
    )


def _source(folder: Folder) -> Path:
    """Where the encoder's files are: with a tuned reader, or in a folder of its own."""
    inputs = folder.recipe.inputs
    match inputs.contextual_mode:
        case "tuned":
            return folder.path / ENCODER
        case "frozen":
            return encoder_folder(inputs.contextual)
        case other:
            raise unknown_setting("inputs.contextual_mode", other)


def _frozen(source: Path, expected: Shapes) -> dict[str, NDArray[np.float32]]:
    """The weights of an encoder's own folder, whether or not a task's head is above them."""
    path = source / ENCODER_WEIGHTS
    with user_error_on(f"{path}: damaged ({{why}}); fetch the encoder again.", OSError, ValueError):
        stored = map_safetensors(path)

    # The names begin with "bert." where a task's head is above the encoder.
    stored = part(stored, "bert.") or stored

    own = {name: stored[name] for name in expected if name in stored}
    why = misfit(own, expected)
    if why is not None:
        raise UserError(f"{path}: not what its config.json says ({why}); fetch the encoder again.")

    return {name: stored[name].astype(np.float32) for name in expected}
