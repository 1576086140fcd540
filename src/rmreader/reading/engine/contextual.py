"""Tags and contextual vectors of one question and its passage, without torch: a BERT encoder is an ONNX graph that
reads one sequence, nothing padded, from its embeddings to the mix of all its layers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError, user_error_on
from rmreader.core.recipe import Inputs
from rmreader.readers.folder import Folder
from rmreader.readers.weights import TUNED, Shapes, Weights, bert_shapes, misfit, part
from rmreader.reading.engine.graph import Layers
from rmreader.reading.engine.inputs import Floats, session
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
    mix: NDArray[np.float32]  # the share of every layer, that of the embeddings first
    half: bool  # layers are rounded to 16 bits before they are mixed, as the cache of frozen vectors has them

    @property
    def embeddings(self) -> list[NDArray[np.float32]]:
        """Of pieces, of segments, of places: a piece begins as the sum of its three."""
        return [self.weights[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "token_type", "position")]


def why_torch(folder: Folder) -> str | None:
    """Why a reader's extra inputs must be computed by torch; None where they need not."""
    inputs = folder.recipe.inputs
    if not inputs.contextual:
        return None
    if inputs.contextual.startswith("elmo:"):
        return "ELMo"
    source = _source(folder)
    config = encoder_config(source)
    plain = config.get("hidden_act") == "gelu" and config.get("position_embedding_type", "absolute") == "absolute"
    if config.get("model_type") != "bert" or not plain:
        return f"an encoder of the kind {config.get('model_type')}"
    if inputs.contextual_mode == "frozen" and not (source / ENCODER_WEIGHTS).is_file():
        return f"an encoder without {ENCODER_WEIGHTS}"
    return None


class AddedInputs:
    """What a recipe adds to the words' own inputs: embeddings of tags, then contextual vectors."""

    def __init__(self, folder: Folder, weights: Weights, int8: bool) -> None:
        inputs = folder.recipe.inputs
        shape = folder.contextual
        self.tagger = Tagger(inputs.tags, shape.entities) if inputs.tags else None
        self._tags = [weights[f"encoder.{kind}.weight"] for kind in ("pos", "ner")] if inputs.tags else []
        self._tagging = Lock()  # a spaCy pipeline serves one thread at a time
        self.encoder = BertEncoder(folder, weights, int8, shape.fingerprint) if inputs.contextual else None

    def join(
        self, texts: tuple[Sequence[str], Sequence[str]], known: tuple[Floats, Floats], threads: int = 1
    ) -> tuple[Floats, Floats]:
        """The words' inputs [n, width] and [m, width] with these after them."""
        parts: list[list[Any]] = [[known[0]], [known[1]]]
        if self.tagger is not None:
            with self._tagging:
                tags = list(self.tagger.tag(texts))
            for part, ids in zip(parts, tags, strict=True):
                part += [table[ids[:, column]] for column, table in enumerate(self._tags)]
        if self.encoder is not None:
            for part, vectors in zip(parts, self.encoder(*texts, threads), strict=True):
                part.append(vectors)
        question, context = (np.concatenate(part, axis=1) for part in parts)
        return question, context


class BertEncoder:
    """A BERT encoder, frozen or tuned, apart or on pairs; long texts in overlapping windows."""

    def __init__(self, folder: Folder, weights: Weights, int8: bool, expected: str) -> None:
        inputs, source = folder.recipe.inputs, _source(folder)
        self.pieces, self.pairing = Pieces(source), inputs.contextual_pairing
        if inputs.contextual_mode == "frozen" and fingerprint(source, self.pieces.window) != expected:
            raise UserError(f"{folder.path}: it was trained with another encoder than {inputs.contextual} is now.")
        bert = load_bert(folder, weights)
        self._embeddings = bert.embeddings  # of the weights no more is kept
        self._session = cache(partial(session, bert_graph(bert, int8)))  # by the number of threads

    def __call__(self, question: Sequence[str], context: Sequence[str], threads: int = 1) -> tuple[Floats, Floats]:
        """Contextual vectors of the words of both texts."""
        laid = self.lay_out(question, context)
        main = query = self._read(laid.pieces, laid.piece_types, laid.piece_mask, threads)
        if laid.query_pieces is not None and laid.query_mask is not None:
            query = self._read(laid.query_pieces, np.zeros_like(laid.query_pieces), laid.query_mask, threads)
        return query[laid.question_pieces[0]], main[laid.context_pieces[0]]

    def lay_out(self, question: Sequence[str], context: Sequence[str]) -> Layout:
        """The sequences that are read, and where the words are in them."""
        numbers = {word: row for row, word in enumerate(dict.fromkeys([*question, *context]), start=1)}
        rows = [np.array([numbers[word] for word in text]) for text in (question, context)]
        return lay_out(self.pieces, self.pieces.table(list(numbers)), [rows[0]], [rows[1]], self.pairing)

    def _read(self, pieces: NDArray[Any], types: NDArray[Any], mask: NDArray[np.bool_], threads: int) -> Floats:
        """[R, s] each -> [R·s, size]; every row is read without its padding, whose places hold nothing of meaning."""
        run, (words, segments, places) = self._session(threads).run, self._embeddings
        out = np.zeros((*pieces.shape, words.shape[1]), np.float32)
        for row, length in enumerate(mask.sum(axis=1).tolist()):
            x = words[pieces[row, :length]] + segments[types[row, :length]] + places[:length]
            out[row, :length] = run(None, {"embeddings": x})[0]
        return out.reshape(-1, out.shape[-1])


def load_bert(folder: Folder, weights: Weights) -> Bert:
    """A reader's encoder, from its own folder if frozen, else from among the network's ``weights``."""
    source, frozen = _source(folder), folder.recipe.inputs.contextual_mode == "frozen"
    config = encoder_config(source)
    own = _frozen(source, bert_shapes(config)) if frozen else part(weights, TUNED)
    if len(weights["encoder.mix.weights"]) != config["num_hidden_layers"] + 1:
        raise ValueError(f"a mix of {len(weights['encoder.mix.weights'])} layers of {config['num_hidden_layers'] + 1}")
    shares = np.exp(weights["encoder.mix.weights"] - weights["encoder.mix.weights"].max())
    mix = weights["encoder.mix.gamma"] * shares / shares.sum()
    return Bert(own, int(config["num_attention_heads"]), float(config["layer_norm_eps"]), mix, half=frozen)


def _source(folder: Folder) -> Path:
    """Where the encoder's files are: with a tuned reader, or in a folder of its own."""
    inputs: Inputs = folder.recipe.inputs
    return folder.path / ENCODER if inputs.contextual_mode == "tuned" else encoder_folder(inputs.contextual)


def _frozen(source: Path, expected: Shapes) -> dict[str, NDArray[np.float32]]:
    """The weights of an encoder's own folder, whether or not a task's head is above them."""
    path = source / ENCODER_WEIGHTS
    with user_error_on(f"{path}: damaged ({{why}}); fetch the encoder again.", OSError, ValueError):
        stored = map_safetensors(path)
    stored = part(stored, "bert.") or stored
    if why := misfit({name: stored[name] for name in expected if name in stored}, expected):
        raise UserError(f"{path}: not what its config.json says ({why}); fetch the encoder again.")
    return {name: stored[name].astype(np.float32) for name in expected}


def bert_graph(bert: Bert, int8: bool = False) -> bytes:
    """The model: ``embeddings`` [s, size] -> ``vectors`` [s, size]."""
    g, size = Graph(), bert.weights["embeddings.LayerNorm.weight"].shape[0]
    g.output("vectors", encode(g, bert, g.input("embeddings", "float32", ("s", size)), int8), ("s", size))
    return g.to_bytes()


def embed(g: Graph, bert: Bert, pieces: str, types: str) -> str:
    """Pieces and their segments [s] -> [s, size]."""
    words, segments, places = bert.embeddings
    length = g.op("Shape", pieces)
    place = g.op("Slice", places, np.array([0]), length, np.array([0]))
    return g.op("Add", g.op("Add", g.op("Gather", words, pieces), g.op("Gather", segments, types)), place)


def encode(g: Graph, bert: Bert, x: str, int8: bool = False) -> str:
    """Embeddings [s, size] -> the mix of all layers [s, size]."""
    layers = Layers(g, bert.weights, int8)
    x = _norm(layers, "embeddings.LayerNorm", x, bert.epsilon)
    vectors = _share(g, x, bert.mix[0], bert.half)
    for number, share in enumerate(bert.mix[1:]):
        x = _layer(layers, f"encoder.layer.{number}", x, bert.heads, bert.epsilon)
        vectors = g.op("Add", vectors, _share(g, x, share, bert.half))
    return vectors


def _layer(layers: Layers, name: str, x: str, heads: int, epsilon: float) -> str:
    """Self-attention, then two products with a GELU between them, each beside its input and normalised."""
    g, w = layers.g, layers.w
    size = w[f"{name}.attention.self.query.weight"].shape[0] // heads
    parts = [
        (f"{name}.attention.self.{part}", scale) for part, scale in (("query", size**-0.5), ("key", 1), ("value", 1))
    ]
    turned = [w[f"{part}.weight"].T * np.float32(scale) for part, scale in parts]
    q, k, v = layers.linears(x, turned, [w[f"{part}.bias"] * np.float32(scale) for part, scale in parts])
    split = np.array([-1, heads, size])
    Q, V = (g.op("Transpose", g.op("Reshape", part, split), perm=[1, 0, 2]) for part in (q, v))  # [heads, s, size]
    K = g.op("Transpose", g.op("Reshape", k, split), perm=[1, 2, 0])
    attended = g.op("MatMul", g.op("Softmax", g.op("MatMul", Q, K), axis=-1), V)
    joined = g.op("Reshape", g.op("Transpose", attended, perm=[1, 0, 2]), np.array([-1, heads * size]))
    x = _beside(layers, f"{name}.attention.output", joined, x, epsilon)
    inner = layers.linear(x, w[f"{name}.intermediate.dense.weight"].T, w[f"{name}.intermediate.dense.bias"])
    return _beside(layers, f"{name}.output", g.op("Gelu", inner, domain="com.microsoft"), x, epsilon)


def _beside(layers: Layers, name: str, inner: str, x: str, epsilon: float) -> str:
    product = layers.linear(inner, layers.w[f"{name}.dense.weight"].T, layers.w[f"{name}.dense.bias"])
    return _norm(layers, f"{name}.LayerNorm", layers.g.op("Add", product, x), epsilon)


def _norm(layers: Layers, name: str, x: str, epsilon: float) -> str:
    scale, bias = layers.w[f"{name}.weight"], layers.w[f"{name}.bias"]
    return layers.g.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=epsilon)


def _share(g: Graph, x: str, share: np.float32, half: bool) -> str:
    if half:
        x = g.op("Cast", g.op("Cast", x, to=HALF), to=FLOAT)
    return g.op("Mul", x, np.array(share, np.float32))
