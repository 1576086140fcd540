"""A reader's weights as NumPy arrays: which there must be by the recipe, and how they are kept in fewer bits."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from rmreader.core.recipe import NetworkConfig, Recipe
from rmreader.text.contextual import ContextualShape
from rmreader.text.lexicon import Lexicon

A = TypeVar("A")
Weights = Mapping[str, NDArray[np.float32]]
Stored = Mapping[str, NDArray[Any]]
Shapes = dict[str, tuple[int, ...]]
Storage = Literal["float32", "float16", "int8"]

TUNED = "contextual.transformer.model."  # where a tuned encoder's weights are among the network's
_SCALE = ".scale"


def network_shapes(recipe: Recipe, lexicon: Lexicon, contextual: ContextualShape) -> Shapes:
    """The shape of every weight of ``model/network.py`` but a tuned encoder's, by its name in the state dict."""
    inputs, config, sizes = recipe.inputs, recipe.network, contextual.sizes()
    size, shapes = 2 * config.hidden, Shapes()
    width = lexicon.dim + contextual.size + inputs.exact_match
    if lexicon.trainable_count > 1:
        shapes["encoder.words.weight"] = (lexicon.trainable_count, lexicon.dim)
    if inputs.characters:
        letters = inputs.character_size
        shapes["encoder.characters.embedding.weight"] = (lexicon.character_count, letters)
        shapes |= _lstm("encoder.characters.lstm", letters, letters)
        width += 2 * letters
    if inputs.tags:
        for kind in ("pos", "ner"):
            shapes[f"encoder.{kind}.weight"] = (sizes.get(f"{kind}_tags", 0), inputs.tag_size)
        width += 2 * inputs.tag_size
    if contextual.layers > 0:
        shapes |= {"encoder.mix.weights": (contextual.layers,), "encoder.mix.gamma": ()}
    shapes |= _lstm("encoder.lstm", width, config.hidden)
    for index in range(config.blocks):
        block, last = f"aligner.blocks.{index}", index == config.blocks - 1
        halves = {"self": ("H", "E"), "interactive": ("Z", "B")}  # by what a network without them aligns
        for half, similarity in (pair for align, pair in halves.items() if align != config.align):
            if config.attention == "relu":
                shapes[f"{block}.similarity_{similarity}.weight"] = (2, size, size)
            shapes |= _fusion(f"{block}.fusion_{half}", size, config)
            if config.reattention and index > 0:
                shapes[f"{block}.gamma_{similarity}"] = ()
        shapes |= _lstm(f"{block}.evidence", (index + 1) * size if last else size, config.hidden)
    for end in ("start", "end"):
        shapes |= {f"pointer.{end}.W": (size, 4 * size), f"pointer.{end}.w": (size, 1)}
    if config.no_answer:
        whole = {"W": (size, 3 * size), "b": (size,), "w": (size, 1), "c": (1,)}
        shapes |= {f"pointer.no_answer.{name}": shape for name, shape in whole.items()}
    return shapes | {"pointer.w": (size, 1)} | _fusion("pointer.fusion", size, config)


def bert_shapes(config: Mapping[str, Any]) -> Shapes:
    """The shape of every weight of a BERT encoder without a head, by its ``config.json``; ``ValueError`` for a config
    that is none."""
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    tables = {"word": "vocab_size", "token_type": "type_vocab_size", "position": "max_position_embeddings"}
    for name in (*names, *tables.values()):
        if type(config.get(name)) is not int or config[name] < 1:
            raise ValueError(f"config.json says {name} is {config.get(name)!r}")
    size, inner, layers, heads = (int(config[name]) for name in names)
    if size % heads:
        raise ValueError(f"config.json says {heads} heads share {size} numbers")
    shapes: Shapes = {f"embeddings.{kind}_embeddings.weight": (config[name], size) for kind, name in tables.items()}
    shapes |= _pair("embeddings.LayerNorm", size)
    for number in range(layers):
        layer = f"encoder.layer.{number}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes |= _pair(f"{layer}.attention.{part}", size, size)
        shapes |= _pair(f"{layer}.intermediate.dense", inner, size) | _pair(f"{layer}.output.dense", size, inner)
        shapes |= _pair(f"{layer}.attention.output.LayerNorm", size) | _pair(f"{layer}.output.LayerNorm", size)
    return shapes


def _pair(name: str, *shape: int) -> Shapes:
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def _lstm(name: str, width: int, hidden: int) -> Shapes:
    gates = 4 * hidden
    return {f"{name}.weight_ih": (2, gates, width), f"{name}.weight_hh": (2, gates, hidden), f"{name}.bias": (2, gates)}


def _fusion(name: str, size: int, config: NetworkConfig) -> Shapes:
    heads, parts = 1 if config.fusion == "mlp" else 2, 2 + config.fusion_mul + config.fusion_sub
    return {f"{name}.weight": (heads * size, parts * size), f"{name}.bias": (heads * size,)}


def misfit(stored: Stored, expected: Shapes, unknown: str | None = None) -> str | None:
    """Why stored weights are not those expected, or None. Names that begin with ``unknown`` may have any shape."""
    if missing := next((name for name in expected if name not in stored), None):
        return f"{missing} is missing"
    for name, array in stored.items():
        if _is_scale(name, stored):
            of = stored[name.removesuffix(_SCALE)]
            if of.dtype != np.int8 or not of.ndim or array.dtype.kind != "f" or array.shape != of.shape[:-1]:
                return f"{name} is {_said(array)}, no scale for {_said(of)}"
            continue
        if array.dtype.kind != "f" and not (array.dtype == np.int8 and f"{name}{_SCALE}" in stored):
            return f"{name} is {_said(array)} without a scale"
        if name in expected and array.shape != expected[name]:
            return f"{name} is {_said(array)}, not {list(expected[name])}"
        if name not in expected and not (unknown and name.startswith(unknown)):
            return f"{name} has no place in it"
    return None


def _said(array: NDArray[Any]) -> str:
    return f"{array.dtype} {list(array.shape)}"


def _is_scale(name: str, stored: Stored) -> bool:
    return name.endswith(_SCALE) and name.removesuffix(_SCALE) in stored


def part(named: Mapping[str, A], prefix: str) -> dict[str, A]:
    """Those whose names begin with the prefix, by the rest of their names; arrays and tensors alike."""
    return {name[len(prefix) :]: array for name, array in named.items() if name.startswith(prefix)}


def restored(stored: Stored) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Weights as float32, whether they are stored as that, in 16 bits, or in 8 with a scale per row."""
    for name, array in stored.items():
        if _is_scale(name, stored):
            continue
        weight = array.astype(np.float32)
        if (scale := stored.get(f"{name}{_SCALE}")) is not None:
            with np.errstate(invalid="ignore", over="ignore"):  # said below
                weight *= scale.astype(np.float32)[..., None]
        if not np.isfinite(weight).all():
            raise ValueError(f"{name} holds a number that is not finite")
        yield name, weight


def quantised(weights: Weights, storage: Storage) -> Iterator[tuple[str, NDArray[Any]]]:
    """Weights to store, perhaps in fewer bits; what has one dimension stays in 16, being small and touchy."""
    for name, weight in weights.items():
        if storage == "int8" and weight.ndim > 1:
            scale = np.maximum(np.abs(weight).max(axis=-1), 1e-12) / 127
            yield name, np.rint(weight / scale[..., None]).astype(np.int8, order="C")
            yield f"{name}{_SCALE}", scale.astype(np.float32, order="C")
        else:
            yield name, np.array(weight, np.float32 if storage == "float32" else np.float16, order="C")
