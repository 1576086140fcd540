"""Everything a run needs before its first step: data, lexicon, network, rewards, on the right device."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from rmreader.core.console import say
from rmreader.core.errors import UserError
from rmreader.core.files.manifest import file_sha256
from rmreader.core.processes import stdout_of
from rmreader.core.recipe import Recipe
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
from rmreader.training.contextual import TextInputs
from rmreader.training.feed import Feed
from rmreader.training.parallel import ALONE, World
from rmreader.training.rewards import Rewards, build_rewards
from rmreader.training.teacher import attach, teach

_SHAPES = {"question": 16, "context": 32, "words": 1024}  # about 40 shapes on SQuAD, 10 % more passage than needed


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
    text_inputs: TextInputs
    temperature: float
    """Of the confidences, until they are fitted: that of the reader which the run started from, else 1."""
    read_every: int
    """Steps between looks at the device; on a GPU each look waits for it."""
    world: World = ALONE
    """The processes that train together."""


def prepare(
    recipe: Recipe,
    train_path: Path,
    dev_path: Path | None,
    out: Path,
    resume: bool,
    device_name: str | None,
    cache_dir: str | Path | None,
    world: World = ALONE,
) -> Setup:
    """Check what is asked for, claim the folder, read the data, build the network."""
    device = reader_folder.pick_device(device_name)
    if world.size > 1 and not (recipe.inputs.contextual and recipe.inputs.contextual_mode == "tuned"):
        say(
            f"{world.size} processes train together; without a tuned encoder a network is so small that this "
            "seldom pays (an epoch of SQuAD takes 8 s on one GPU)."
        )
    if recipe.training.precision == "bf16":
        check_share(recipe.training.batch_size, 2 * recipe.network.hidden, device)
    init = recipe.training.init
    text_inputs = TextInputs(recipe.inputs, device, cache_dir, encoder=_own_encoder(init, out))
    encoded = report_problems(encode_file(train_path, cache_dir))
    dev = report_problems(encode_file(dev_path, cache_dir)) if dev_path else None
    if dev is not None and not len(dev):
        why = why_none(dev.problems)
        raise UserError(f"{dev_path}: has no question to report scores on{why}; leave --dev out, or fix the file.")
    if not len(encoded):
        why = why_none(encoded.problems)
        raise UserError(f"{train_path}: has no question to learn from{why}; check it: rmreader data check.")
    unanswered = recipe.network.no_answer or recipe.training.shared_norm
    learned, held = split(encoded, recipe.training.holdout, split_seed(recipe.training), unanswered)
    groups = groups_of(learned, recipe) if recipe.training.shared_norm else None
    train_sha256 = file_sha256(train_path)
    found = run_folder.claim(out, recipe, train_sha256, resume)
    weights = None
    if init and not (found and (out / "last").exists()):  # else it is long left
        weights, lexicon = read_init(init)
    if found:
        lexicon = Lexicon.load(out / "run")
    elif not init:
        also = [*encoded.vocabulary, *(dev.vocabulary if dev else ())]
        lexicon = Lexicon.build(word_counts(learned), recipe.inputs, also)
    temperature = found.get("temperature", 1.0) if found else _temperature(init)
    torch.manual_seed(recipe.training.seed)
    network = reader_folder.make_network(recipe, lexicon, text_inputs.shape, text_inputs.tuned)
    # before the first step: a reader whose weights cannot be checked would be lost at the end
    reader_folder.check_weights(network, recipe, lexicon, text_inputs.shape)
    if weights is not None:
        if network.contextual is not None and not part(weights, "contextual."):
            # from a reader with frozen vectors: their encoder begins as it is
            weights |= {f"contextual.{name}": tensor for name, tensor in network.contextual.state_dict().items()}
        # a reader without the logit of no answer starts it at random; the paper's network leaves that of another aside
        fresh, logit = network.state_dict(), "pointer.no_answer."
        weights = {name: tensor for name, tensor in fresh.items() if name.startswith(logit)} | weights
        weights = {name: tensor for name, tensor in weights.items() if name in fresh or not name.startswith(logit)}
        reader_folder.load_weights(network, weights, f"training.init={init}")
    if not found:
        run_folder.record(out, recipe, lexicon, text_inputs, train_sha256, temperature)
    teacher = None
    if recipe.training.teacher:
        said = teach(recipe.training.teacher, learned, recipe.training.max_context, device, cache_dir)
        teacher = partial(attach, said)
    graphs = device.type == "cuda" and recipe.training.graphs
    pad = Padding(**_SHAPES, characters=lexicon.max_characters) if graphs else None
    reinforced = recipe.training.objective != "ml"
    return Setup(
        recipe=recipe,
        out=out,
        device=device,
        lexicon=lexicon,
        network=network.to(device),
        train=Feed(learned, lexicon, device, pad, recipe.training.max_context, text_inputs, teacher=teacher),
        selection=Feed(held, lexicon, device, text_inputs=text_inputs) if held else None,
        dev=Feed(dev, lexicon, device, text_inputs=text_inputs) if dev else None,
        rewards=rewards_of(learned, recipe).to(device) if reinforced else None,
        groups=groups,
        train_name=train_path.name,
        train_sha256=train_sha256,
        text_inputs=text_inputs,
        temperature=temperature,
        read_every=50 if device.type == "cuda" else 1,
        world=world,
    )


def device_name(device: str | None) -> str:
    """What trainings run on, asked without CUDA, since a process that uses it would hold up the end of MPS."""
    names = "" if device == "cpu" else stdout_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    return names.partition("\n")[0] or "CPU"


def word_counts(encoded: Encoded) -> dict[str, int]:
    """How often each word is in the questions and passages of these questions."""
    _, one_per_passage = np.unique(encoded.paragraph, return_index=True)
    texts = [encoded.context_tokens(i) for i in one_per_passage.tolist()]
    texts += [encoded.question_tokens(i) for i in range(len(encoded))]
    counts = np.bincount(np.concatenate(texts), minlength=len(encoded.vocabulary) + 1)
    return {word: count for word, count in zip(encoded.vocabulary, counts[1:].tolist(), strict=True) if count}


def rewards_of(encoded: Encoded, recipe: Recipe) -> Rewards:
    """The reward tables of these questions."""
    _, one_per_passage, passage_of = np.unique(encoded.paragraph, return_index=True, return_inverse=True)
    passages = ((encoded.passage(i), *encoded.spans(i)) for i in one_per_passage.tolist())
    longest = recipe.decoding.max_length if recipe.training.sampler == "top_k" else None
    return build_rewards(passages, passage_of, (encoded.references(i) for i in range(len(encoded))), longest)


def groups_of(encoded: Encoded, recipe: Recipe) -> NDArray[np.int64]:
    """The number of each question's group, all of whose paragraphs are normalised together."""
    groups = asked_together(encoded.ids)
    most = int(np.bincount(groups).max())
    if most < 2:
        raise UserError(
            "training.shared_norm=true: the training file asks no question of several paragraphs; add some: rmreader "
            "data negatives."
        )
    if most > recipe.training.batch_size:
        raise UserError(
            f"training.batch_size={recipe.training.batch_size}: training.shared_norm=true keeps all {most} paragraphs "
            f"of a question in one batch; set {most} or more."
        )
    return groups


def read_init(init: str | Path) -> tuple[dict[str, torch.Tensor], Lexicon]:
    """Weights and lexicon to start from: of a reader, by folder or by the name of one that comes with the package, of a
    run (its best), or of a run's checkpoint ``last``."""
    manifest = run_folder.find_init(init)
    if manifest is None and not Path(init).exists():
        raise UserError(f"training.init={init}: no such reader or run; {run_folder.INIT_REMEDY}")
    folder = manifest.parent if manifest else Path(init)
    if manifest and manifest.name == run_folder.CHECKPOINT:
        tensors, _ = run_folder.load_checkpoint(folder)
        return part(tensors, "average.") or part(tensors, "network."), Lexicon.load(folder.parent / "run")
    reader = open_folder(folder)
    return reader_folder.read_weights(reader), reader.lexicon


def _temperature(init: str) -> float:
    """That of the reader to start from; 1 where it is none."""
    manifest = run_folder.find_init(init)
    return open_folder(manifest.parent).temperature if manifest and manifest.name == MANIFEST else 1.0


def _own_encoder(init: str, out: Path) -> Path | None:
    """The folder with the shape and vocabulary of a tuned encoder whose weights come with the network's, from a
    checkpoint or a reader: so a tuned encoder is tuned further without another copy of it."""
    begun = [out / "run"] if (out / "last").exists() else []
    if (manifest := run_folder.find_init(init)) is not None:
        begun += [manifest.parent, manifest.parent.parent / "run"]
    return next((folder / ENCODER for folder in begun if (folder / ENCODER).is_dir()), None)
