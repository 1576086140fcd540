"""A reader's weights as NumPy arrays: which there must be by the recipe, and how they are stored in
fewer bits."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from rmreader.core.errors import UserError
from rmreader.core.recipe import Inputs, NetworkConfig, Recipe
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
    """The shape of every weight of ``model/network.py`` but a tuned encoder's, by its name in the
    state dict. A setting that is not known here is refused: its weights cannot be checked."""
    inputs = recipe.inputs
    width = lexicon.dim + contextual.size + inputs.exact_match
    if inputs.characters:
        width += 2 * inputs.character_size
    if inputs.tags:
        width += 2 * inputs.tag_size
    return {
        **_input_shapes(inputs, lexicon, contextual),
        **_lstm("encoder.lstm", width, recipe.network.hidden),
        **_aligner_shapes(recipe.network),
        **_pointer_shapes(recipe.network),
    }


def _input_shapes(inputs: Inputs, lexicon: Lexicon, contextual: ContextualShape) -> Shapes:
    """The weights that make input vectors."""
    shapes = Shapes()
    if lexicon.trainable_count > 1:
        shapes["encoder.words.weight"] = (lexicon.trainable_count, lexicon.dim)
    if inputs.characters:
        size = inputs.character_size
        shapes["encoder.characters.embedding.weight"] = (lexicon.character_count, size)
        shapes |= _lstm("encoder.characters.lstm", size, size)
    if inputs.tags:
        sizes = contextual.sizes()
        shapes["encoder.pos.weight"] = (sizes.get("pos_tags", 0), inputs.tag_size)
        shapes["encoder.ner.weight"] = (sizes.get("ner_tags", 0), inputs.tag_size)
    if contextual.layers > 0:
        shapes["encoder.mix.weights"] = (contextual.layers,)
        shapes["encoder.mix.gamma"] = ()
    return shapes


def _aligner_shapes(config: NetworkConfig) -> Shapes:
    """The weights of the aligning blocks (Eq. 14)."""
    match config.align:
        case "both":
            alignments = [("E", "H"), ("B", "Z")]
        case "interactive":
            alignments = [("E", "H")]
        case "self":
            alignments = [("B", "Z")]
        case other:
            raise unknown_setting("network.align", other)
    size = 2 * config.hidden
    shapes = Shapes()
    for index in range(config.blocks):
        block = f"aligner.blocks.{index}"
        for logits, output in alignments:
            shapes |= _similarity(f"{block}.similarity_{logits}", size, config)
            shapes |= _fusion(f"{block}.fusion_{output}", size, config)
            if config.reattention and index > 0:
                shapes[f"{block}.gamma_{logits}"] = ()
        is_last = index == config.blocks - 1
        width = (index + 1) * size if is_last else size
        shapes |= _lstm(f"{block}.evidence", width, config.hidden)
    return shapes


def _pointer_shapes(config: NetworkConfig) -> Shapes:
    """The weights of the answer pointer (Eq. 15-16)."""
    size = 2 * config.hidden
    shapes: Shapes = {"pointer.w": (size, 1)}
    for end in ("start", "end"):
        shapes[f"pointer.{end}.W"] = (size, 4 * size)
        shapes[f"pointer.{end}.w"] = (size, 1)
    if config.no_answer:
        shapes["pointer.no_answer.W"] = (size, 3 * size)
        shapes["pointer.no_answer.b"] = (size,)
        shapes["pointer.no_answer.w"] = (size, 1)
        shapes["pointer.no_answer.c"] = (1,)
    return shapes | _fusion("pointer.fusion", size, config)


def unknown_setting(name: str, value: object) -> UserError:
    """The refusal of a setting whose weights nobody has written down here."""
    return UserError(
        f"{name}={value}: a reader's folder cannot hold such a network yet; "
        "readers/weights.py must list its weights first."
    )


def bert_shapes(config: Mapping[str, Any]) -> Shapes:
    """The shape of every weight of a BERT encoder without a head, by its ``config.json``;
    ``ValueError`` for a config that is none."""
    size = _count(config, "hidden_size")
    inner = _count(config, "intermediate_size")
    heads = _count(config, "num_attention_heads")
    if size % heads:
        raise ValueError(f"config.json says {heads} heads share {size} numbers")
    shapes: Shapes = {
        "embeddings.word_embeddings.weight": (_count(config, "vocab_size"), size),
        "embeddings.token_type_embeddings.weight": (_count(config, "type_vocab_size"), size),
        "embeddings.position_embeddings.weight": (_count(config, "max_position_embeddings"), size),
    }
    shapes |= _pair("embeddings.LayerNorm", size)
    for number in range(_count(config, "num_hidden_layers")):
        layer = f"encoder.layer.{number}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes |= _pair(f"{layer}.attention.{part}", size, size)
        shapes |= _pair(f"{layer}.attention.output.LayerNorm", size)
        shapes |= _pair(f"{layer}.intermediate.dense", inner, size)
        shapes |= _pair(f"{layer}.output.dense", size, inner)
        shapes |= _pair(f"{layer}.output.LayerNorm", size)
    return shapes


def _count(config: Mapping[str, Any], name: str) -> int:
    value = config.get(name)
    if type(value) is not int or value < 1:
        raise ValueError(f"config.json says {name} is {value!r}")
    return value


def _pair(name: str, *shape: int) -> Shapes:
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def _lstm(name: str, width: int, hidden: int) -> Shapes:
    gates = 4 * hidden
    return {
        f"{name}.weight_ih": (2, gates, width),
        f"{name}.weight_hh": (2, gates, hidden),
        f"{name}.bias": (2, gates),
    }


def _similarity(name: str, size: int, config: NetworkConfig) -> Shapes:
    match config.attention:
        case "relu":
            return {f"{name}.weight": (2, size, size)}
        case "dot":
            return {}
        case other:
            raise unknown_setting("network.attention", other)


def _fusion(name: str, size: int, config: NetworkConfig) -> Shapes:
    match config.fusion:
        case "highway" | "gate":
            heads = 2
        case "mlp":
            heads = 1
        case other:
            raise unknown_setting("network.fusion", other)
    parts = 2 + config.fusion_mul + config.fusion_sub
    return _pair(name, heads * size, parts * size)


def misfit(stored: Stored, expected: Shapes, unknown: str | None = None) -> str | None:
    """Why stored weights are not those expected, or None. Names that begin with ``unknown`` may
    have any shape."""
    for name in expected:
        if name not in stored:
            return f"{name} is missing"
    for name, array in stored.items():
        if is_scale(name, stored):
            problem = _scale_misfit(name, stored)
        elif array.dtype.kind != "f" and not _has_scale(name, stored):
            problem = f"{name} is {_described(array)} without a scale"
        elif name in expected:
            fits = array.shape == expected[name]
            problem = None if fits else f"{name} is {_described(array)}, not {list(expected[name])}"
        else:
            known = unknown is not None and name.startswith(unknown)
            problem = None if known else f"{name} has no place in it"
        if problem is not None:
            return problem
    return None


def _scale_misfit(name: str, stored: Stored) -> str | None:
    """Why an array is not the scales of the weight it is named after, one per row."""
    scale = stored[name]
    weight = stored[name.removesuffix(_SCALE)]
    is_quantised = weight.dtype == np.int8 and weight.ndim > 0
    if is_quantised and scale.dtype.kind == "f" and scale.shape == weight.shape[:-1]:
        return None
    return f"{name} is {_described(scale)}, no scale for {_described(weight)}"


def _described(array: NDArray[Any]) -> str:
    return f"{array.dtype} {list(array.shape)}"


def is_scale(name: str, stored: Stored) -> bool:
    """Whether an array is the scales of another one."""
    return name.endswith(_SCALE) and name.removesuffix(_SCALE) in stored


def _has_scale(name: str, stored: Stored) -> bool:
    return stored[name].dtype == np.int8 and f"{name}{_SCALE}" in stored


def part(named: Mapping[str, A], prefix: str) -> dict[str, A]:
    """Those whose names begin with the prefix, by the rest of their names; arrays and tensors."""
    return {name[len(prefix) :]: array for name, array in named.items() if name.startswith(prefix)}


def restored(stored: Stored) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Weights as float32, whether stored as that, in 16 bits, or in 8 with a scale per row."""
    for name, array in stored.items():
        if is_scale(name, stored):
            continue
        weight = array.astype(np.float32)
        scale = stored.get(f"{name}{_SCALE}")
        if scale is not None:
            # an overflow is reported below, by the weight's name
            with np.errstate(invalid="ignore", over="ignore"):
                weight *= scale.astype(np.float32)[..., None]
        if not np.isfinite(weight).all():
            raise ValueError(f"{name} holds a number that is not finite")
        yield name, weight


def quantised(weights: Weights, storage: Storage) -> Iterator[tuple[str, NDArray[Any]]]:
    """Weights to store, perhaps in fewer bits; 1-D weights stay float16: small and sensitive."""
    for name, weight in weights.items():
        if storage == "int8" and weight.ndim > 1:
            scale = np.maximum(np.abs(weight).max(axis=-1), 1e-12) / 127
            yield name, np.rint(weight / scale[..., None]).astype(np.int8, order="C")
            yield f"{name}{_SCALE}", scale.astype(np.float32, order="C")
        else:
            dtype = np.float32 if storage == "float32" else np.float16
            yield name, np.array(weight, dtype, order="C")
