"""Recipes: frozen dataclasses, read from YAML, changed by overrides such as ``network.blocks=2``.

The docstring under a field is its help text (``rmreader recipe`` prints it), so this file is the
reference of every setting there is. An unknown key is an error that names the nearest one.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from rmreader.core.errors import UserError, quoted, user_error_on
from rmreader.core.files.reading import read_bytes
from rmreader.core.files.yaml import parse_yaml
from rmreader.core.settings import (
    Count,
    Natural,
    NonNegative,
    Positive,
    Range,
    Seed,
    Share,
    build_settings,
)


@dataclass(frozen=True)
class Inputs:
    """What the encoder is told about each word (design: Encoder)."""

    vectors: str = "pieces"
    """Word vectors: a shipped table by name, a .safetensors table, a GloVe file; empty for none."""
    characters: bool = True
    """Character BiLSTM over the letters of each word."""
    character_size: Count = 50
    """Size of a character embedding and of the character LSTM, per direction."""
    max_characters: Count = 16
    """Longer words are read up to this many characters."""
    exact_match: bool = True
    """One binary feature: is the word also in the other text, ignoring case?"""
    tags: str = ""
    """Part-of-speech and entity tags: name or folder of a spaCy pipeline; empty for none."""
    tag_size: Count = 16
    """Size of each of the two tag embeddings."""
    contextual: str = ""
    """Contextual vectors: 'elmo:FOLDER', or a Hugging Face encoder, name or folder; empty: none."""
    contextual_mode: Literal["frozen", "tuned"] = "frozen"
    """'frozen': the encoder runs once per text; 'tuned': it is trained too, at its own rate."""
    contextual_pairing: Literal["apart", "together"] = "apart"
    """Question and passage encoded apart, or together, so that the encoder itself compares them."""
    contextual_layer_dropout: Share = 0.0
    """Chance that a layer is left out in a step: of the mix and, if tuned, of the encoder."""
    contextual_cache: Literal["disk", "memory", "none"] = "disk"
    """Frozen vectors are computed once (disk), once per run (memory), or once per batch (none)."""


@dataclass(frozen=True)
class NetworkConfig:
    """The network of the paper and every variant of its ablation table."""

    hidden: Count = 100
    """Hidden size d per direction; vectors are 2d wide."""
    blocks: Count = 3
    """Number of aligning blocks (Eq. 14)."""
    attention: Literal["relu", "dot"] = "relu"
    """Similarity f: relu(W1 a) . relu(W2 b), or the plain dot product."""
    align: Literal["both", "interactive", "self"] = "both"
    """What a block aligns the passage with: both (the paper), or one of them alone (Table 1)."""
    reattention: bool = True
    """Refine E and B with the attentions of the block before (Eq. 4-5)."""
    gamma: float = 3.0
    """Initial weight of the reattention; trained, for E and for B in each block after the first."""
    diagonal: Literal["zero", "mask", "none"] = "zero"
    """Diagonal of B: logit 0 (the paper), left out of the softmax, or untouched."""
    fusion: Literal["highway", "gate", "mlp"] = "highway"
    """Fusion function (Eq. 13) or one of its two simpler forms."""
    fusion_mul: bool = True
    """Feed x*y to the fusion."""
    fusion_sub: bool = True
    """Feed x-y to the fusion."""
    no_answer: bool = False
    """A no-answer logit in one softmax with all spans (Hu et al., AAAI 2019); off is the paper."""
    dropout: Share = 0.3
    """Variational dropout: one mask per sequence, on the input of every LSTM and attention."""
    lstm: Literal["auto", "plain", "fused"] = "auto"
    """LSTM kernel: 'fused' needs a GPU and Triton; 'auto' takes it where it is there."""


@dataclass(frozen=True)
class Training:
    """How a network is trained."""

    objective: Literal["ml", "scst", "dcrl"] = "ml"
    """Maximum likelihood (Eq. 7), alone or with self-critical or dynamic-critical RL (Eq. 9-10)."""
    init: str = ""
    """Start from the weights of this checkpoint or reader folder instead of at random."""
    seed: Seed = 1
    """Seed of everything random."""
    epochs: Positive = 20.0
    """Passes over the training questions."""
    batch_size: Count = 48
    """Questions per step."""
    parts: Count = 1
    """Parts of a step's questions, read one by one to save memory; torchrun's ranks share them."""
    rate: Positive = 8e-4
    """Initial learning rate of Adam."""
    contextual_rate: NonNegative = 5e-5
    """Learning rate of a tuned contextual encoder."""
    schedule: Literal["halve", "anneal", "constant"] = "halve"
    """'halve': halved when selection F1 does not improve; 'anneal': cosine to zero; 'constant'."""
    warmup: Natural = 0
    """Steps over which the rate rises from zero."""
    patience: Natural = 4
    """With 'halve': stop after this many halvings."""
    betas: tuple[Share, Share] = (0.9, 0.999)
    """Adam's decay rates."""
    weight_decay: NonNegative = 0.0
    """Decoupled weight decay (AdamW); 0 is plain Adam."""
    clip: NonNegative = 5.0
    """Largest norm of the gradient; 0 switches clipping off."""
    ema: Share = 0.0
    """Decay of the moving average of the weights, which is what is kept; 0 switches it off."""
    holdout: Share = 0.05
    """Share of training articles held out for selection; 0 trains on all, on a fixed schedule."""
    evaluate_every: Positive = 1.0
    """Epochs between evaluations."""
    checkpoint_every: Count = 500
    """Steps between checkpoints (one is also written at every evaluation)."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """'bf16': matrix products in bfloat16 on a GPU; weights, softmaxes and losses stay float32."""
    deterministic: bool = False
    """Only deterministic algorithms."""
    graphs: bool = True
    """On a GPU, replay each training step as a captured graph, one for each padded shape."""
    compile: bool = False
    """On a GPU, compile the aligning blocks into few kernels; takes half a minute."""
    max_bad_steps: Count = 10
    """Stop after this many steps with a non-finite loss or gradient; their batches are saved."""
    max_context: Count = 400
    """Training passages of more tokens are cut to a window with the answer; scoring cuts none."""
    top_k: Annotated[int, Range(least=2)] = 8
    """Length K of the answer list that reinforcement samples from."""
    sampler: Literal["top_k", "plain"] = "top_k"
    """Samples come from the rest of the top-K list (footnote 1), or the whole distribution."""
    task_weights: Literal["learned", "fixed"] = "learned"
    """Weights of ML and reinforcement: learned variances (Eq. 11), or fixed by reward_weight."""
    reward_weight: NonNegative = 1.0
    """With fixed task weights: weight of the reinforcement term beside ML's 1."""
    no_answer_weight: NonNegative = 1.0
    """With network.no_answer: weight of deciding whether there is an answer; pointing has 1."""
    shared_norm: bool = False
    """One softmax over all paragraphs of a question (rmreader data negatives)."""
    teacher: str = ""
    """Learn from these readers too: folders or shipped names, with commas; empty for none."""
    teacher_weight: Share = 0.7
    """Share of the teacher's distributions in the loss; the rest is the references'."""
    teacher_temperature: Positive = 1.0
    """The teacher's and the student's log-probabilities are divided by this, then compared."""
    teacher_states: str = ""
    """Learn a teacher's states of every word too: a file that `lab/foundry` makes; empty: none."""
    teacher_states_weight: NonNegative = 1.0
    """Weight of learning those states at the first step; it falls to 0 at the last."""
    inherit: str = ""
    """Start the aligner and the pointer from this reader's; all else starts as without it."""
    holdout_seed: Annotated[int, Range(least=-1, below=2**63)] = -1
    """Seed of the choice of held-out articles; -1: training.seed. Give it again with init."""


@dataclass(frozen=True)
class Decoding:
    """How an answer is read off the pointers."""

    max_length: Count = 15
    """Longest answer, in tokens."""


@dataclass(frozen=True)
class Recipe:
    """One whole run."""

    inputs: Inputs = field(default_factory=Inputs)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    training: Training = field(default_factory=Training)
    decoding: Decoding = field(default_factory=Decoding)


SHIPPED = Path(__file__).parent.parent / "recipes"


def load_recipe(source: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe, a YAML file or one that comes with the package, and apply overrides to it."""
    import yaml  # here, since the command line starts with this module and most verbs need no YAML

    path = find_recipe(source)
    refusal = f"{path}: not valid YAML ({{why}}); fix the file."
    # ValueError: not UTF-8, or a date such as 2026-13-45.
    with user_error_on(refusal, yaml.YAMLError, ValueError):
        tree = parse_yaml(read_bytes(path, 1 << 16).decode())
    return recipe_from(tree or {}, overrides, str(path))


def find_recipe(source: str | Path) -> Path:
    """Find the file of a recipe by its path, or by its name where it comes with the package."""
    for path in (Path(source), SHIPPED / f"{source}.yaml"):
        if path.is_file():
            return path
    names = ", ".join(sorted(path.stem for path in SHIPPED.glob("*.yaml")))
    raise UserError(f"{source}: no such recipe; there are {names}; or give a YAML file.")


def recipe_from(tree: Any, overrides: Sequence[str] = (), where: str = "recipe") -> Recipe:
    """Build a recipe from plain data, such as parsed YAML or JSON, and overrides.

    An override is ``section.key=value``, its value in YAML. A recipe that contradicts itself is
    refused.
    """
    if not isinstance(tree, Mapping):
        raise UserError(f"{where}: a recipe is a mapping of sections; see `rmreader recipe`.")
    sections: dict[Any, Any] = {}
    for name, section in tree.items():
        sections[name] = dict(section) if isinstance(section, Mapping) else section
    for override in overrides:
        name, key, value = _parse_override(override)
        section = sections.setdefault(name, {})
        if not isinstance(section, dict):
            raise UserError(f"{where}: section {quoted(name)} must be a mapping.")
        section[key] = value
    recipe: Recipe = build_settings(Recipe, sections, where)
    contradiction = _contradiction(recipe)
    if contradiction is not None:
        raise UserError(f"{where}: {contradiction}")
    return recipe


def _parse_override(override: str) -> tuple[str, str, Any]:
    """Split ``section.key=value``."""
    import yaml

    name, equals, text = override.partition("=")
    section, dot, key = name.strip().partition(".")
    if not equals or not dot:
        raise UserError(
            f"override {quoted(override)}: write it as section.key=value, "
            "for example network.blocks=2."
        )
    if not text.strip():
        return section, key, ""
    refusal = f"override {quoted(override)}: the value is not valid YAML; quote it if it is a text."
    with user_error_on(refusal, yaml.YAMLError, ValueError):
        return section, key, parse_yaml(text)


def _contradiction(recipe: Recipe) -> str | None:
    """Say what in a recipe does not go together, and the remedy; every such rule is below."""
    return _of_inputs(recipe) or _of_training(recipe)


def _of_inputs(recipe: Recipe) -> str | None:
    """What of the inputs and the network does not go together."""
    inputs = recipe.inputs
    network = recipe.network
    word_inputs = (inputs.vectors, inputs.characters, inputs.exact_match, inputs.tags)
    if not any(word_inputs) and not inputs.contextual:
        return "inputs: all are off, and so is reading; turn one on, as inputs.characters=true."
    tuned = inputs.contextual_mode == "tuned"
    if inputs.contextual and not tuned and inputs.contextual_pairing == "together":
        return "inputs.contextual_pairing=together: only a tuned encoder reads pairs; set apart."
    if inputs.contextual.startswith("elmo:") and tuned:
        return "inputs.contextual_mode=tuned: ELMo is read frozen only; set contextual_mode=frozen."
    if network.align != "both" and network.reattention:
        return (
            f"network.align={network.align}: reattention needs both; set network.reattention=false."
        )
    return None


def _of_training(recipe: Recipe) -> str | None:
    """What of the training does not go together."""
    training = recipe.training
    if training.schedule == "halve" and training.holdout <= 0:
        return (
            "training.schedule=halve: halving is decided on held-out articles, and "
            "training.holdout is 0; set training.schedule=anneal, or hold some out."
        )
    if training.teacher_states and not training.teacher:
        return "training.teacher_states: a student of states has a teacher; set training.teacher."
    if training.init and training.inherit:
        return "training.inherit: the aligner and the pointer come from training.init; leave one."
    return None


def to_tree(recipe: Recipe) -> dict[str, Any]:
    """Return the recipe as plain data; ``recipe_from`` is its inverse."""
    return dataclasses.asdict(recipe)


def save_recipe(recipe: Recipe, path: Path) -> None:
    """Write the recipe, every setting spelled out."""
    import yaml

    tree = to_tree(recipe)
    tree["training"]["betas"] = list(recipe.training.betas)
    path.write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
