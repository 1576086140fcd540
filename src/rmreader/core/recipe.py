"""Recipes: frozen dataclasses, read from YAML, changed by dotted overrides such as ``network.blocks=2``.

The docstring under a field is its help text (``rmreader recipe`` prints it), so this file is the reference of
every setting there is. An unknown key is an error that names the nearest one that exists.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from rmreader.core.errors import UserError, quoted, user_error_on
from rmreader.core.files import parse_yaml, read_bytes
from rmreader.core.settings import Count, Natural, NonNegative, Positive, Range, Seed, Share, build_settings


@dataclass(frozen=True)
class Inputs:
    """What the encoder is told about each word (design: Encoder)."""

    vectors: str = "pieces"
    """Word vectors: a shipped subword table by name, a table (.safetensors), GloVe (.txt, .gz), or empty for none."""
    characters: bool = True
    """Character BiLSTM over the letters of each word."""
    character_size: Count = 50
    """Size of a character embedding and of the character LSTM, per direction."""
    max_characters: Count = 16
    """Longer words are read up to this many characters."""
    exact_match: bool = True
    """One binary feature: is the word also in the other text, ignoring case?"""
    tags: str = ""
    """Part-of-speech and entity tags: empty for none, or the name or folder of a spaCy pipeline."""
    tag_size: Count = 16
    """Size of each of the two tag embeddings."""
    contextual: str = ""
    """Contextual vectors: empty for none, 'elmo:FOLDER', or a Hugging Face encoder's folder or name."""
    contextual_mode: Literal["frozen", "tuned"] = "frozen"
    """A scalar mix of all layers of an encoder that is 'frozen' (run once per text) or 'tuned', at its own rate."""
    contextual_pairing: Literal["apart", "together"] = "apart"
    """Question and passage encoded each alone, or as one pair so that the encoder itself compares them."""
    contextual_layer_dropout: Share = 0.0
    """Chance that a layer is left out in a training step: of the mix and, if tuned, on the way up too."""
    contextual_cache: Literal["disk", "memory", "none"] = "disk"
    """Frozen contextual vectors: computed once and kept on disk, once per run and kept in memory, or per batch."""


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
    """What a block aligns the passage with: the question and itself (the paper), or one of them alone (Table 1)."""
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
    no_answer: bool = False
    """A no-answer logit beside the pointers, in one softmax with all spans (Hu et al., AAAI 2019); off is the paper."""
    dropout: Share = 0.3
    """Variational dropout: one mask per sequence, on the input of every LSTM and attention."""
    lstm: Literal["auto", "plain", "fused"] = "auto"
    """LSTM kernel: 'fused' needs a GPU and Triton; 'auto' takes it where it is there."""


@dataclass(frozen=True)
class Training:
    """How a network is trained."""

    objective: Literal["ml", "scst", "dcrl"] = "ml"
    """Maximum likelihood (Eq. 7), alone or with self-critical (Eq. 9) or dynamic-critical (Eq. 10) reinforcement."""
    init: str = ""
    """Start from the weights of this checkpoint or reader folder instead of at random."""
    seed: Seed = 1
    """Seed of everything random."""
    epochs: Positive = 20.0
    """Passes over the training questions."""
    batch_size: Count = 48
    """Questions per step."""
    parts: Count = 1
    """Parts that a step's questions are read in, one after another, to save memory; torchrun's processes share them."""
    rate: Positive = 8e-4
    """Initial learning rate of Adam."""
    contextual_rate: NonNegative = 5e-5
    """Learning rate of a tuned contextual encoder."""
    schedule: Literal["halve", "anneal", "constant"] = "halve"
    """'halve': halved when selection F1 fails to improve; 'anneal': cosine to zero over the run; 'constant'."""
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
    """Decay of the moving average of the weights that is evaluated and kept; 0 switches it off."""
    holdout: Share = 0.05
    """Share of training articles held out for selection; 0 trains on everything, on a fixed schedule."""
    evaluate_every: Positive = 1.0
    """Epochs between evaluations."""
    checkpoint_every: Count = 500
    """Steps between checkpoints (one is also written at every evaluation)."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """'bf16': matrix products in bfloat16 on a GPU; weights, softmaxes and losses stay in float32."""
    deterministic: bool = False
    """Only deterministic algorithms."""
    graphs: bool = True
    """On a GPU, replay each training step as a captured graph, one for each padded shape."""
    compile: bool = False
    """On a GPU, compile the aligning blocks into few kernels; worth its half minute in long runs."""
    max_bad_steps: Count = 10
    """Stop after this many steps with a non-finite loss or gradient; each one is skipped and its batch saved."""
    max_context: Count = 400
    """Longer training passages, in tokens, are cut to a window that holds the answer; scoring cuts nothing."""
    top_k: Annotated[int, Range(least=2)] = 8
    """Length K of the answer list that reinforcement samples from."""
    sampler: Literal["top_k", "plain"] = "top_k"
    """Where the sampled answer comes from: the rest of the top-K list (footnote 1), or the whole distribution."""
    task_weights: Literal["learned", "fixed"] = "learned"
    """Weights of ML and reinforcement: learned variances (Eq. 11), or fixed by reward_weight."""
    reward_weight: NonNegative = 1.0
    """With fixed task weights: weight of the reinforcement term beside ML's 1."""
    no_answer_weight: NonNegative = 1.0
    """With network.no_answer: weight of deciding whether there is an answer, beside pointing's 1."""
    shared_norm: bool = False
    """One softmax over all paragraphs of a question (rmreader data negatives), so that answers can be compared."""
    teacher: str = ""
    """Learn from these readers too: their folders or shipped names, with commas between them; empty for none."""
    teacher_weight: Share = 0.7
    """Share of the teacher's distributions in the loss; the rest is the references'."""
    teacher_temperature: Positive = 1.0
    """Both the teacher's and the student's log-probabilities are divided by this before they are compared."""
    holdout_seed: Annotated[int, Range(least=-1, below=2**63)] = -1
    """Seed of the choice of held-out articles; -1 takes training.seed. With init, give that of the run started from."""


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
    """Read a recipe, a YAML file or the name of one that comes with the package, and apply overrides to it."""
    import yaml  # here, since the command line starts with this module and most verbs need no YAML

    path = find_recipe(source)
    wrong = yaml.YAMLError, ValueError  # ValueError: not UTF-8, or a date such as 2026-13-45
    with user_error_on(f"{path}: not valid YAML ({{why}}); fix the file.", *wrong):
        tree = parse_yaml(read_bytes(path, 1 << 16).decode())
    return recipe_from(tree or {}, overrides, str(path))


def find_recipe(source: str | Path) -> Path:
    """The file of a recipe given by its path or by the name of one that comes with the package."""
    for path in (Path(source), SHIPPED / f"{source}.yaml"):
        if path.is_file():
            return path
    names = ", ".join(sorted(path.stem for path in SHIPPED.glob("*.yaml")))
    raise UserError(f"{source}: no such recipe; there are {names}; or give a YAML file.")


def recipe_from(tree: Any, overrides: Sequence[str] = (), where: str = "recipe") -> Recipe:
    """Build a recipe from plain data, such as parsed YAML or JSON, and overrides; refused where it contradicts itself.

    An override is ``section.key=value``, its value in YAML.
    """
    import yaml

    if not isinstance(tree, Mapping):
        raise UserError(f"{where}: a recipe is a mapping of sections; see `rmreader recipe`.")
    tree = {key: dict(value) if isinstance(value, Mapping) else value for key, value in tree.items()}
    for override in overrides:
        name, equals, text = override.partition("=")
        section, dot, key = name.strip().partition(".")
        if not equals or not dot:
            raise UserError(
                f"override {quoted(override)}: write it as section.key=value, for example network.blocks=2."
            )
        sentence = f"override {quoted(override)}: the value is not valid YAML; quote it if it is a text."
        with user_error_on(sentence, yaml.YAMLError, ValueError):
            value = parse_yaml(text) if text.strip() else ""
        branch = tree.setdefault(section, {})
        if not isinstance(branch, dict):
            raise UserError(f"{where}: section {quoted(section)} must be a mapping.")
        branch[key] = value
    recipe: Recipe = build_settings(Recipe, tree, where)
    for contradiction in _contradictions(recipe):
        raise UserError(f"{where}: {contradiction}")
    return recipe


def _contradictions(recipe: Recipe) -> Iterator[str]:
    """What in a recipe does not go together, and the remedy; every such rule there is."""
    inputs, training = recipe.inputs, recipe.training
    contextual, tuned = inputs.contextual, inputs.contextual_mode == "tuned"
    if not (inputs.vectors or inputs.characters or inputs.exact_match or inputs.tags or contextual):
        yield "inputs: all are off, and so is reading; turn one on, as inputs.characters=true."
    if contextual and not tuned and inputs.contextual_pairing == "together":
        yield "inputs.contextual_pairing=together: only a tuned encoder reads pairs; set apart."
    if contextual.startswith("elmo:") and tuned:
        yield "inputs.contextual_mode=tuned: ELMo is read frozen only; set contextual_mode=frozen."
    if recipe.network.align != "both" and recipe.network.reattention:
        yield f"network.align={recipe.network.align}: reattention needs both; set network.reattention=false."
    if training.schedule == "halve" and training.holdout <= 0:
        yield (
            "training.schedule=halve: halving is decided on held-out articles, and training.holdout is 0; "
            "set training.schedule=anneal, or hold some out."
        )


def to_tree(recipe: Recipe) -> dict[str, Any]:
    """The recipe as plain data; ``recipe_from`` is its inverse."""
    return dataclasses.asdict(recipe)


def save_recipe(recipe: Recipe, path: Path) -> None:
    """Write the recipe, every setting spelled out."""
    import yaml

    tree = to_tree(recipe)
    tree["training"]["betas"] = list(recipe.training.betas)
    path.write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
