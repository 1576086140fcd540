"""Everything a run needs before its first step: data, lexicon, network, rewards, on its device."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rmreader.core.errors import UserError
from rmreader.core.files.manifest import file_sha256
from rmreader.core.processes import stdout_of
from rmreader.core.recipe import Recipe
from rmreader.data.batch import Batch
from rmreader.data.batches import Padding
from rmreader.data.encode import encode_file
from rmreader.data.encoded import Encoded
from rmreader.data.negatives import asked_together
from rmreader.data.split import split, split_seed
from rmreader.data.squad import report_problems, why_none
from rmreader.kernels.gpu_share import check_share
from rmreader.model.network import Network
from rmreader.readers.folder import MANIFEST, open_folder
from rmreader.readers.weights import part
from rmreader.text.contextual import ENCODER
from rmreader.text.lexicon import Lexicon
from rmreader.training import reader_folder, run_folder
from rmreader.training.contextual import ContextualInputs
from rmreader.training.feed import Attach, Feed
from rmreader.training.rewards import Rewards, build_rewards
from rmreader.training.states import TaughtStates
from rmreader.training.teacher import attach, teach

# about 40 shapes on SQuAD, 10 % more passage than needed
_SHAPES = {"question": 16, "context": 32, "words": 1024}


@dataclass(frozen=True)
class TrainingData:
    """The questions of a run."""

    learned: Encoded
    held: Encoded | None
    """Held-out articles of the training file, which everything is chosen by."""
    dev: Encoded | None
    vocabulary: list[str]
    """Every word of all files."""
    groups: NDArray[np.int64] | None
    """With a shared normalisation, the number of each question's group."""
    name: str
    sha256: str
    """Of the training file."""


@dataclass(frozen=True)
class Claim:
    """A folder that this run may write to."""

    out: Path
    recorded: dict[str, Any] | None
    """What was recorded when the run began; None for a new run."""

    @property
    def has_checkpoint(self) -> bool:
        """Whether the run goes on from a checkpoint, so that ``training.init`` is long left."""
        return self.recorded is not None and (self.out / "last").exists()


@dataclass(frozen=True)
class Start:
    """What a run begins with."""

    lexicon: Lexicon
    weights: dict[str, Tensor] | None
    """Those of ``training.init``; None to begin at random, or where a checkpoint has them."""
    temperature: float


@dataclass(frozen=True)
class Setup:
    """A run, ready to go."""

    recipe: Recipe
    out: Path
    device: torch.device
    lexicon: Lexicon
    network: Network
    train: Feed
    selection: Feed | None
    dev: Feed | None
    rewards: Rewards | None
    groups: NDArray[np.int64] | None
    """With a shared normalisation, the number of each question's group."""
    train_name: str
    train_sha256: str
    contextual: ContextualInputs
    temperature: float
    """Of the confidences, until they are fitted: that of ``training.init``, else 1."""
    read_every: int
    """Steps between looks at the device; on a GPU each look waits for it."""


def prepare(
    recipe: Recipe,
    train_path: Path,
    dev_path: Path | None,
    out: Path,
    resume: bool,
    device_name: str | None,
    cache_dir: str | Path | None,
) -> Setup:
    """Read the data, claim the folder, find what to start from, build the network."""
    device = reader_folder.pick_device(device_name)
    if recipe.training.precision == "bf16":
        check_share(recipe.training.batch_size, 2 * recipe.network.hidden, device)
    encoder = _own_encoder(recipe.training.init, out)
    contextual = ContextualInputs(recipe.inputs, device, cache_dir, encoder=encoder)
    data = read_data(recipe, train_path, dev_path, cache_dir)
    claim = Claim(out, run_folder.claim(out, recipe, data.sha256, resume))
    start = start_from(recipe, claim, data)
    return build(recipe, device, contextual, data, claim, start, cache_dir)


def read_data(
    recipe: Recipe, train_path: Path, dev_path: Path | None, cache_dir: str | Path | None
) -> TrainingData:
    """Read the questions and hold some articles out; refused where there is nothing to learn."""
    training = recipe.training
    encoded = report_problems(encode_file(train_path, cache_dir))
    dev = None
    if dev_path is not None:
        dev = report_problems(encode_file(dev_path, cache_dir))
        if not len(dev):
            raise UserError(
                f"{dev_path}: has no question to report scores on{why_none(dev.problems)}; "
                "leave --dev out, or fix the file."
            )
    if not len(encoded):
        raise UserError(
            f"{train_path}: has no question to learn from{why_none(encoded.problems)}; "
            "check it: rmreader data check."
        )
    keeps_unanswered = recipe.network.no_answer or training.shared_norm
    learned, held = split(encoded, training.holdout, split_seed(training), keeps_unanswered)
    vocabulary = [*encoded.vocabulary]
    if dev is not None:
        vocabulary += dev.vocabulary
    return TrainingData(
        learned=learned,
        held=held,
        dev=dev,
        vocabulary=vocabulary,
        groups=groups_of(learned, recipe) if training.shared_norm else None,
        name=train_path.name,
        sha256=file_sha256(train_path),
    )


def start_from(recipe: Recipe, claim: Claim, data: TrainingData) -> Start:
    """The lexicon, weights and temperature that a run begins or goes on with."""
    init = recipe.training.init
    weights = None
    lexicon = None
    if init and not claim.has_checkpoint:
        weights, lexicon = read_init(init)
    if claim.recorded is not None:
        lexicon = Lexicon.load(claim.out / "run")
        return Start(lexicon, weights, claim.recorded.get("temperature", 1.0))
    if lexicon is None:
        lexicon = Lexicon.build(word_counts(data.learned), recipe.inputs, data.vocabulary)
    return Start(lexicon, weights, _temperature(init))


def build(
    recipe: Recipe,
    device: torch.device,
    contextual: ContextualInputs,
    data: TrainingData,
    claim: Claim,
    start: Start,
    cache_dir: str | Path | None,
) -> Setup:
    """Build the network, record what a new run begins with, and put all on the device."""
    training = recipe.training
    lexicon = start.lexicon
    torch.manual_seed(training.seed)
    network = reader_folder.make_network(recipe, lexicon, contextual.shape, contextual.tuned)
    # before the first step: a reader whose weights cannot be checked would be lost at the end
    reader_folder.check_weights(network, recipe, lexicon, contextual.shape)
    if start.weights is not None:
        weights = _fitting(start.weights, network)
        reader_folder.load_weights(network, weights, f"training.init={training.init}")
    elif training.inherit and not claim.has_checkpoint:
        inherit(network, training.inherit)
    if claim.recorded is None:
        run_folder.record(claim.out, recipe, lexicon, contextual, data.sha256, start.temperature)
    is_captured = device.type == "cuda" and training.graphs
    pad = Padding(**_SHAPES, characters=lexicon.max_characters) if is_captured else None
    teacher = _teacher(recipe, data.learned, device, cache_dir)
    rewards = None
    if training.objective != "ml":
        rewards = rewards_of(data.learned, recipe).to(device)

    def feed(encoded: Encoded | None) -> Feed | None:
        """Questions to score."""
        if not encoded:
            return None
        return Feed(encoded, lexicon, device, contextual=contextual)

    return Setup(
        recipe=recipe,
        out=claim.out,
        device=device,
        lexicon=lexicon,
        network=network.to(device),
        train=Feed(
            data.learned, lexicon, device, pad, training.max_context, contextual, teacher=teacher
        ),
        selection=feed(data.held),
        dev=feed(data.dev),
        rewards=rewards,
        groups=data.groups,
        train_name=data.name,
        train_sha256=data.sha256,
        contextual=contextual,
        temperature=start.temperature,
        read_every=50 if device.type == "cuda" else 1,
    )


def _fitting(weights: dict[str, Tensor], network: Network) -> dict[str, Tensor]:
    """Weights to start from, fitted to a network that may differ from theirs in two ways."""
    own = network.state_dict()
    weights = dict(weights)
    if network.contextual is not None and not part(weights, "contextual."):
        # from a reader with frozen vectors: their encoder begins as it is
        for name, tensor in network.contextual.state_dict().items():
            weights[f"contextual.{name}"] = tensor
    # a reader without the logit of no answer starts it at random; a network without it leaves
    # another's aside
    logit = "pointer.no_answer."
    for name in [name for name in weights if name.startswith(logit)]:
        if name not in own:
            del weights[name]
    for name, tensor in own.items():
        if name.startswith(logit):
            weights.setdefault(name, tensor)
    return weights


def inherit(network: Network, reader: str) -> None:
    """Start the aligner and the pointer from those of a reader, whatever its encoder is."""
    inherited = {}
    for name, weight in read_init(reader)[0].items():
        if name.startswith(("aligner.", "pointer.")):
            inherited[name] = weight
    weights = network.state_dict() | inherited
    reader_folder.load_weights(network, weights, f"training.inherit={reader}")


def _teacher(
    recipe: Recipe, learned: Encoded, device: torch.device, cache_dir: str | Path | None
) -> Attach | None:
    """What puts the teacher's distributions beside a batch."""
    training = recipe.training
    if not training.teacher:
        return None
    distributions = teach(training.teacher, learned, training.max_context, device, cache_dir)
    if not training.teacher_states:
        return partial(attach, distributions)
    folder = Path(training.teacher_states)
    states = TaughtStates(folder, learned, training.max_context, 2 * recipe.network.hidden)

    def attach_both(batch: Batch[Any], index: NDArray[Any]) -> Batch[Any]:
        return states.attach(attach(distributions, batch, index), index)

    return attach_both


def device_name(device: str | None) -> str:
    """What trainings run on, found without CUDA: a process that uses it would delay the end of
    MPS."""
    names = ""
    if device != "cpu":
        names = stdout_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    return names.partition("\n")[0] or "CPU"


def word_counts(encoded: Encoded) -> dict[str, int]:
    """How often each word is in the questions and passages of these questions."""
    _, one_per_passage = np.unique(encoded.paragraph, return_index=True)
    texts = [encoded.context_tokens(i) for i in one_per_passage.tolist()]
    texts += [encoded.question_tokens(i) for i in range(len(encoded))]
    counts = np.bincount(np.concatenate(texts), minlength=len(encoded.vocabulary) + 1)
    by_word = zip(encoded.vocabulary, counts[1:].tolist(), strict=True)
    return {word: count for word, count in by_word if count}


def rewards_of(encoded: Encoded, recipe: Recipe) -> Rewards:
    """The reward tables of these questions."""
    _, one_per_passage, passage_of = np.unique(
        encoded.paragraph, return_index=True, return_inverse=True
    )
    passages = ((encoded.passage(i), *encoded.spans(i)) for i in one_per_passage.tolist())
    references = (encoded.references(i) for i in range(len(encoded)))
    longest = recipe.decoding.max_length if recipe.training.sampler == "top_k" else None
    return build_rewards(passages, passage_of, references, longest)


def groups_of(encoded: Encoded, recipe: Recipe) -> NDArray[np.int64]:
    """The number of each question's group, all of whose paragraphs are normalised together."""
    groups = asked_together(encoded.ids)
    largest = int(np.bincount(groups).max())
    batch_size = recipe.training.batch_size
    if largest < 2:
        raise UserError(
            "training.shared_norm=true: the training file asks no question of several paragraphs; "
            "add some: rmreader data negatives."
        )
    if largest > batch_size:
        raise UserError(
            f"training.batch_size={batch_size}: training.shared_norm=true keeps all {largest} "
            f"paragraphs of a question in one batch; set {largest} or more."
        )
    return groups


def read_init(init: str | Path) -> tuple[dict[str, Tensor], Lexicon]:
    """Weights and lexicon to start from: of a reader, by folder or by the name of a shipped one, of
    a run (its best), or of a run's checkpoint ``last``."""
    manifest = run_folder.find_init(init)
    if manifest is None and not Path(init).exists():
        raise UserError(f"training.init={init}: no such reader or run; {run_folder.INIT_REMEDY}")
    folder = manifest.parent if manifest else Path(init)
    if manifest and manifest.name == run_folder.CHECKPOINT:
        tensors, _ = run_folder.load_checkpoint(folder)
        weights = part(tensors, "average.") or part(tensors, "network.")
        return weights, Lexicon.load(folder.parent / "run")
    reader = open_folder(folder)
    return reader_folder.read_weights(reader), reader.lexicon


def _temperature(init: str) -> float:
    """That of the reader to start from; 1 where it is none."""
    manifest = run_folder.find_init(init)
    if manifest is None or manifest.name != MANIFEST:
        return 1.0
    return open_folder(manifest.parent).temperature


def _own_encoder(init: str, out: Path) -> Path | None:
    """The folder with the shape and vocabulary of a tuned encoder whose weights come with the
    network's, from a checkpoint or a reader: it is tuned further without another copy of it."""
    folders = []
    if (out / "last").exists():
        folders.append(out / "run")
    manifest = run_folder.find_init(init)
    if manifest is not None:
        folders += [manifest.parent, manifest.parent.parent / "run"]
    for folder in folders:
        if (folder / ENCODER).is_dir():
            return folder / ENCODER
    return None
