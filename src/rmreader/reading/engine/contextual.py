"""Tags and contextual vectors of one question and its passage, without torch.

A BERT encoder is an ONNX graph that reads one sequence, nothing padded, from its embeddings to the
mix of all its layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError, user_error_on
from rmreader.readers.folder import Folder
from rmreader.readers.weights import TUNED, Shapes, Weights, bert_shapes, misfit, part
from rmreader.reading.engine.inputs import Floats, session
from rmreader.reading.engine.layers import Layers, unknown_setting
from rmreader.reading.engine.onnxfile import FLOAT, HALF, Graph
from rmreader.text.contextual import ENCODER
from rmreader.text.piece_layout import Layout, lay_out
from rmreader.text.pieces import Pieces, encoder_config, encoder_folder, fingerprint
from rmreader.text.tags import Tagger
from rmreader.text.vectors import map_safetensors

ENCODER_WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Bert:
    """An encoder's weights, by the names in its own files, and how they are used."""

    weights: Weights
    heads: int
    epsilon: float
    mix: NDArray[np.float32]
    """The share of every layer, that of the embeddings first."""
    half: bool
    """Round layers to 16 bits before they are mixed, as the cache of frozen vectors has them."""

    @property
    def embeddings(self) -> list[NDArray[np.float32]]:
        """Of pieces, of segments, of places: a piece begins as the sum of its three."""
        kinds = ("word", "token_type", "position")
        return [self.weights[f"embeddings.{kind}_embeddings.weight"] for kind in kinds]


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

    def __init__(self, folder: Folder, weights: Weights, int8: bool) -> None:
        inputs = folder.recipe.inputs
        self.tagger: Tagger | None = None
        self.encoder: BertEncoder | None = None
        self._tag_tables: list[Floats] = []
        self._tagging = Lock()  # a spaCy pipeline serves one thread at a time

        if inputs.tags:
            self.tagger = Tagger(inputs.tags, folder.contextual.entities)
            self._tag_tables = [weights["encoder.pos.weight"], weights["encoder.ner.weight"]]

        if inputs.contextual:
            self.encoder = BertEncoder(folder, weights, int8, folder.contextual.fingerprint)

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

    def __init__(self, folder: Folder, weights: Weights, int8: bool, expected: str) -> None:
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
        self._session = cache(partial(session, bert_graph(bert, int8)))  # by the number of threads

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


def bert_graph(bert: Bert, int8: bool = False) -> bytes:
    """The model: ``embeddings`` [s, size] -> ``vectors`` [s, size], the mix of all layers."""
    g = Graph()
    layers = Layers(g, bert.weights, int8)
    size = bert.weights["embeddings.LayerNorm.weight"].shape[0]
    x = g.input("embeddings", "float32", ("s", size))
    x = _norm(layers, "embeddings.LayerNorm", x, bert.epsilon)

    # Every layer adds its share as soon as it is computed.
    vectors = _share(g, x, bert.mix[0], bert.half)
    for number, share in enumerate(bert.mix[1:]):
        x = _layer(layers, f"encoder.layer.{number}", x, bert.heads, bert.epsilon)
        vectors = g.add(vectors, _share(g, x, share, bert.half))

    g.output("vectors", vectors, ("s", size))
    return g.to_bytes()


def _layer(layers: Layers, name: str, x: str, heads: int, epsilon: float) -> str:
    """Self-attention, then two products with a GELU between them, each added to its input and
    normalised."""
    w = layers.w

    attended = _attention(layers, f"{name}.attention.self", x, heads)
    x = _residual(layers, f"{name}.attention.output", attended, x, epsilon)

    dense = f"{name}.intermediate.dense"
    inner = layers.linear(x, w[f"{dense}.weight"].T, w[f"{dense}.bias"])
    # The exact GELU, which ONNX itself has only from opset 20 on.
    activated = layers.g.op("Gelu", inner, domain="com.microsoft")

    return _residual(layers, f"{name}.output", activated, x, epsilon)


def _attention(layers: Layers, name: str, x: str, heads: int) -> str:
    """Self-attention of several heads, x [s, size] -> [s, size]."""
    g = layers.g
    w = layers.w
    size = w[f"{name}.query.weight"].shape[0] // heads  # of one head

    # One product for queries, keys and values; the logits' scale is part of the query's weights.
    weights = []
    biases = []
    for kind, scale in (("query", size**-0.5), ("key", 1), ("value", 1)):
        weights.append(w[f"{name}.{kind}.weight"].T * np.float32(scale))
        biases.append(w[f"{name}.{kind}.bias"] * np.float32(scale))

    q, k, v = layers.linears(x, weights, biases)
    # Q and V are [heads, s, size], K is [heads, size, s].
    by_head = np.array([-1, heads, size])
    Q = g.transpose(g.op("Reshape", q, by_head), 1, 0, 2)
    V = g.transpose(g.op("Reshape", v, by_head), 1, 0, 2)
    K = g.transpose(g.op("Reshape", k, by_head), 1, 2, 0)

    logits = g.matmul(Q, K)
    attention = g.softmax(logits)
    attended = g.matmul(attention, V)
    # Back to [s, size], the heads side by side.
    by_word = g.transpose(attended, 1, 0, 2)

    return g.op("Reshape", by_word, np.array([-1, heads * size]))


def _residual(layers: Layers, name: str, inner: str, x: str, epsilon: float) -> str:
    """A product of ``inner``, added to x and normalised."""
    w = layers.w
    product = layers.linear(inner, w[f"{name}.dense.weight"].T, w[f"{name}.dense.bias"])
    total = layers.g.add(product, x)
    return _norm(layers, f"{name}.LayerNorm", total, epsilon)


def _norm(layers: Layers, name: str, x: str, epsilon: float) -> str:
    """Every row of x with mean 0 and variance 1, times a scale, plus a bias."""
    scale = layers.w[f"{name}.weight"]
    bias = layers.w[f"{name}.bias"]
    return layers.g.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=epsilon)


def _share(g: Graph, x: str, share: np.float32, half: bool) -> str:
    """One layer's part of the mix."""
    if half:
        rounded = g.op("Cast", x, to=HALF)
        x = g.op("Cast", rounded, to=FLOAT)
    return g.mul(x, np.array(share, np.float32))
