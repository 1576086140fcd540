"""Recipes: frozen dataclasses, read from YAML, changed by dotted overrides such as ``network.blocks=2``.

The docstring under a field is its help text (``rmreader recipe`` prints it), so this file is the reference of
every setting there is. An unknown key is an error that names the nearest one that exists.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import inspect
import textwrap
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from rmreader.errors import UserError


@dataclass(frozen=True)
class Inputs:
    """What the encoder is told about each word (design: Encoder)."""

    vectors: str = "pieces"
    """Word vectors: a shipped subword table by name, a table (.safetensors), GloVe (.txt, .gz), or empty for none."""
    characters: bool = True
    """Character BiLSTM over the letters of each word."""
    character_size: int = 50
    """Size of a character embedding and of the character LSTM, per direction."""
    max_characters: int = 16
    """Longer words are read up to this many characters."""
    exact_match: bool = True
    """One binary feature: does the word also stand in the other text, ignoring case?"""
    tags: str = ""
    """Part-of-speech and entity tags: empty for none, or the name or folder of a spaCy pipeline."""
    tag_size: int = 16
    """Size of each of the two tag embeddings."""
    contextual: str = ""
    """Contextual vectors: empty for none, 'elmo:FOLDER', or a Hugging Face encoder's folder or name."""
    contextual_mode: Literal["frozen", "tuned"] = "frozen"
    """A scalar mix of all layers of an encoder that is 'frozen' (run once a text) or 'tuned', at a rate of its own."""
    contextual_pairing: Literal["apart", "together"] = "apart"
    """Question and passage encoded each alone, or as one pair so that the encoder itself compares them."""
    contextual_layer_dropout: float = 0.0
    """Chance that a layer is left out in a training step: of the mix and, if tuned, on the way up too."""
    contextual_cache: Literal["disk", "memory", "none"] = "disk"
    """Frozen contextual vectors: computed once and kept on disk, once a run and kept in memory, or for every batch."""


@dataclass(frozen=True)
class NetworkConfig:
    """The network of the paper and every variant of its ablation table."""

    hidden: int = 100
    """Hidden size d per direction; vectors are 2d wide."""
    blocks: int = 3
    """Number of aligning blocks (Eq. 14)."""
    attention: Literal["relu", "dot"] = "relu"
    """Similarity f: relu(W1 a) . relu(W2 b), or the plain dot product."""
    reattention: bool = True
    """Refine E and B with the attentions of the block before (Eq. 4-5)."""
    gamma: float = 3.0
    """Initial weight of the reattention; trained, one for E and one for B in every block after the first."""
    diagonal: Literal["zero", "mask", "none"] = "zero"
    """Diagonal of B: logit 0 (the paper), left out of the softmax, or untouched."""
    fusion: Literal["highway", "gate", "mlp"] = "highway"
    """Fusion function (Eq. 13) or one of its two simpler forms."""
    fusion_mul: bool = True
    """Feed x*y to the fusion."""
    fusion_sub: bool = True
    """Feed x-y to the fusion."""
    dropout: float = 0.3
    """Variational dropout: one mask a sequence, on the input of every LSTM and attention."""
    lstm: Literal["auto", "plain", "fused"] = "auto"
    """LSTM kernel: 'fused' needs a GPU and Triton; 'auto' takes it where it is there."""


@dataclass(frozen=True)
class Training:
    """How a network is trained."""

    objective: Literal["ml", "scst", "dcrl"] = "ml"
    """Maximum likelihood (Eq. 7), alone or with self-critical (Eq. 9) or dynamic-critical (Eq. 10) reinforcement."""
    init: str = ""
    """Start from the weights of this checkpoint or reader folder instead of at random."""
    seed: int = 1
    """Seed of everything random."""
    epochs: float = 20.0
    """Passes over the training questions."""
    batch_size: int = 48
    """Questions a step."""
    rate: float = 8e-4
    """Initial learning rate of Adam."""
    contextual_rate: float = 5e-5
    """Learning rate of a tuned contextual encoder."""
    schedule: Literal["halve", "anneal", "constant"] = "halve"
    """'halve': halved when selection F1 fails to improve; 'anneal': cosine to zero over the run; 'constant'."""
    warmup: int = 0
    """Steps over which the rate rises from zero."""
    patience: int = 4
    """With 'halve': stop after this many halvings."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Adam's decay rates."""
    weight_decay: float = 0.0
    """Decoupled weight decay (AdamW); 0 is plain Adam."""
    clip: float = 5.0
    """Largest norm of the gradient; 0 switches clipping off."""
    ema: float = 0.0
    """Decay of the moving average of the weights that is evaluated and kept; 0 switches it off."""
    holdout: float = 0.05
    """Share of training articles held out for selection; 0 trains on everything, on a fixed schedule."""
    evaluate_every: float = 1.0
    """Epochs between evaluations."""
    checkpoint_every: int = 500
    """Steps between checkpoints (one is also written at every evaluation)."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """'bf16': matrix products in bfloat16 on a GPU; weights, softmaxes and losses stay in float32."""
    deterministic: bool = False
    """Only deterministic algorithms."""
    graphs: bool = True
    """On a GPU, replay each training step as a captured graph, one for each padded shape."""
    compile: bool = False
    """On a GPU, compile the aligning blocks into few kernels; worth its half minute in long runs."""
    max_bad_steps: int = 10
    """Stop after this many steps with a non-finite loss or gradient; each one is skipped and its batch saved."""
    max_context: int = 400
    """Longer training passages, in tokens, are cut to a window that holds the answer; scoring cuts nothing."""
    top_k: int = 8
    """Length K of the answer list that reinforcement samples from."""
    sampler: Literal["top_k", "plain"] = "top_k"
    """Where the sampled answer comes from: the rest of the top-K list (footnote 1), or the whole distribution."""
    task_weights: Literal["learned", "fixed"] = "learned"
    """Weights of ML and reinforcement: learned variances (Eq. 11), or fixed by reward_weight."""
    reward_weight: float = 1.0
    """With fixed task weights: weight of the reinforcement term beside ML's 1."""
    holdout_seed: int = -1
    """Seed of the choice of held-out articles; -1 takes training.seed. With init, give that of the run started from."""


@dataclass(frozen=True)
class Decoding:
    """How an answer is read off the pointers."""

    max_length: int = 15
    """Longest answer, in tokens."""


@dataclass(frozen=True)
class Recipe:
    """One whole run."""

    inputs: Inputs = field(default_factory=Inputs)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    training: Training = field(default_factory=Training)
    decoding: Decoding = field(default_factory=Decoding)


T = TypeVar("T")


def load_recipe(source: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a YAML recipe and apply ``section.key=value`` overrides to it."""
    import yaml  # here, since the command line starts with this module and most verbs need no YAML

    path = Path(source)
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{path}: no such recipe; recipes/ in the repository holds the ones that come with it."
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid YAML ({' '.join(str(error).split())}); mend the file.") from None
    return recipe_from(tree or {}, overrides, str(path))


def recipe_from(tree: Any, overrides: Sequence[str] = (), where: str = "recipe") -> Recipe:
    """Build a recipe from plain data, such as parsed YAML or JSON, and overrides."""
    import yaml

    if not isinstance(tree, Mapping):
        raise UserError(f"{where}: a recipe is a mapping of sections; see `rmreader recipe`.")
    tree = {key: dict(value) if isinstance(value, Mapping) else value for key, value in tree.items()}
    for override in overrides:
        name, equals, text = override.partition("=")
        section, dot, key = name.strip().partition(".")
        if not equals or not dot:
            raise UserError(f"override {override!r}: write it as section.key=value, for example network.blocks=2.")
        try:
            value = yaml.safe_load(text) if text.strip() else ""
        except yaml.YAMLError:
            raise UserError(f"override {override!r}: the value is not valid YAML; quote it if it is a text.") from None
        branch = tree.setdefault(section, {})
        if not isinstance(branch, dict):
            raise UserError(f"{where}: section {section!r} must be a mapping.")
        branch[key] = value
    return _build(Recipe, tree, where)


def to_tree(recipe: Recipe) -> dict[str, Any]:
    """The recipe as plain data; ``recipe_from`` is its inverse."""
    return dataclasses.asdict(recipe)


def save_recipe(recipe: Recipe, path: Path) -> None:
    """Write the recipe, every setting spelled out."""
    import yaml

    tree = to_tree(recipe)
    tree["training"]["betas"] = list(recipe.training.betas)
    path.write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")


def field_help(cls: type) -> dict[str, str]:
    """The docstring that follows each field of a dataclass in its source."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    helps: dict[str, str] = {}
    for statement, following in zip(body.body, body.body[1:], strict=False):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=text)):
                helps[name] = str(text)
    return helps


def _build(cls: type[T], tree: Mapping[str, Any], where: str) -> T:
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, value in tree.items():
        if key not in hints:
            near = difflib.get_close_matches(str(key), hints, n=1, cutoff=0.0)
            raise UserError(f"{where}: unknown key {key!r}; the nearest is {near[0]!r}.")
        place = f"{where}: {key}"
        if dataclasses.is_dataclass(hints[key]):
            if not isinstance(value, Mapping):
                raise UserError(f"{place} must be a mapping.")
            values[key] = _build(typing.cast(type, hints[key]), value, place)
        else:
            values[key] = _coerce(hints[key], value, place)
    return cls(**values)


def _coerce(hint: Any, value: Any, place: str) -> Any:
    """The value as the field's type, or one clear sentence."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        if value in args:
            return value
        raise UserError(f"{place} must be one of {', '.join(map(str, args))}; it is {value!r}.")
    if origin is tuple and isinstance(value, Sequence) and not isinstance(value, str) and len(value) == len(args):
        return tuple(_coerce(a, v, place) for a, v in zip(args, value, strict=True))
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _coerce(next(a for a in args if a is not type(None)), value, place)
    if hint is bool and isinstance(value, bool):
        return value
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint is float and isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return float(value)  # YAML reads 1e-4 as a string
        except ValueError:
            pass
    if hint is str and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return str(value)
    if hint is str and value is None:
        return ""
    wanted = getattr(hint, "__name__", str(hint))
    raise UserError(f"{place} must be of type {wanted}; it is {value!r}.")
