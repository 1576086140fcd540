"""Everything a run needs before its first step: data, lexicon, network, rewards, on the right device."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from rmreader.config import Recipe
from rmreader.data.batches import Padding
from rmreader.data.encode import encode_file
from rmreader.data.encoded import Encoded
from rmreader.data.split import split, split_seed
from rmreader.data.squad import skipped
from rmreader.errors import UserError
from rmreader.files import file_sha256
from rmreader.kernels.products import check_share
from rmreader.learning import checkpoint, outfolder, readerfolder
from rmreader.learning.extras import Extras
from rmreader.learning.feed import Feed
from rmreader.learning.log import say
from rmreader.learning.rewards import Rewards, build_rewards
from rmreader.learning.step import part
from rmreader.learning.teacher import teach
from rmreader.model.network import Network
from rmreader.readers.folder import MANIFEST, open_folder
from rmreader.text.lexicon import Lexicon

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
    train_name: str
    train_sha256: str
    extras: Extras
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
    """Check what is asked for, claim the folder, read the data, build the network."""
    device = pick_device(device_name)
    if recipe.training.precision == "bf16":
        check_share(recipe.training.batch_size, 2 * recipe.network.hidden, device)
    extras = Extras(recipe.inputs, device, cache_dir)
    encoded = _read(train_path, cache_dir)
    dev = _read(dev_path, cache_dir) if dev_path else None
    if dev is not None and not len(dev):
        raise UserError(f"{dev_path}: has no question to report scores on; leave --dev out, or mend the file.")
    if not len(encoded):
        raise UserError(f"{train_path}: has no question to learn from; check it: rmreader data check.")
    learned, held = split(encoded, recipe.training.holdout, split_seed(recipe.training), recipe.network.no_answer)
    train_sha256 = file_sha256(train_path)
    found = outfolder.claim(out, recipe, train_sha256, resume)
    weights = None
    if recipe.training.init and not (found and (out / "last").exists()):  # else the beginning is left behind
        weights, lexicon = read_init(Path(recipe.training.init))
    if found:
        lexicon = Lexicon.load(out / "run")
    elif not recipe.training.init:
        also = [*encoded.vocabulary, *(dev.vocabulary if dev else ())]
        lexicon = Lexicon.build(word_counts(learned), recipe.inputs, also)
    torch.manual_seed(recipe.training.seed)
    network = readerfolder.make_network(recipe, lexicon, extras.shape, extras.tuned)
    if weights is not None:
        if network.contextual is not None and not part(weights, "contextual."):
            # from a reader with frozen vectors: their encoder begins as it is
            weights |= {f"contextual.{name}": tensor for name, tensor in network.contextual.state_dict().items()}
        fresh = part(network.state_dict(), "pointer.no_answer.")  # a reader without the logit starts it at random
        weights = {f"pointer.no_answer.{name}": tensor for name, tensor in fresh.items()} | weights
        readerfolder.load_weights(network, weights, f"training.init={recipe.training.init}")
    if not found:
        outfolder.record(out, recipe, lexicon, train_sha256)
    teacher = None
    if recipe.training.teacher:
        teacher = teach(recipe.training.teacher, learned, recipe.training.max_context, device, cache_dir)
    graphs = device.type == "cuda" and recipe.training.graphs
    pad = Padding(**_SHAPES, characters=lexicon.max_characters) if graphs else None
    reinforced = recipe.training.objective != "ml"
    return Setup(
        recipe=recipe,
        out=out,
        device=device,
        lexicon=lexicon,
        network=network.to(device),
        train=Feed(learned, lexicon, device, pad, recipe.training.max_context, extras, teacher=teacher),
        selection=Feed(held, lexicon, device, extras=extras) if held else None,
        dev=Feed(dev, lexicon, device, extras=extras) if dev else None,
        rewards=rewards_of(learned, recipe).to(device) if reinforced else None,
        train_name=train_path.name,
        train_sha256=train_sha256,
        extras=extras,
        read_every=50 if device.type == "cuda" else 1,
    )


def _read(path: Path, cache_dir: str | Path | None) -> Encoded:
    """The questions of a file, and a sentence on each of the first that had to be left out."""
    encoded = encode_file(path, cache_dir)
    for sentence in skipped(encoded.problems):
        say(sentence)
    return encoded


def pick_device(name: str | None) -> torch.device:
    """The device of that name; by default the GPU, where there is one."""
    device: torch.device | None
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise UserError(f"--device {name}: no such device to train on; take cpu, cuda or cuda:N.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"--device {name}: PyTorch sees no GPU here; take cpu.")
    return device


def word_counts(encoded: Encoded) -> dict[str, int]:
    """How often each word stands in the questions and passages of these questions."""
    counts = np.zeros(len(encoded.vocabulary) + 1, np.int64)
    _, one_a_passage = np.unique(encoded.paragraph, return_index=True)
    for i in one_a_passage.tolist():
        np.add.at(counts, encoded.context_tokens(i), 1)
    for i in range(len(encoded)):
        np.add.at(counts, encoded.question_tokens(i), 1)
    return {word: count for word, count in zip(encoded.vocabulary, counts[1:].tolist(), strict=True) if count}


def rewards_of(encoded: Encoded, recipe: Recipe) -> Rewards:
    """The reward tables of these questions."""
    _, one_a_passage, passage_of = np.unique(encoded.paragraph, return_index=True, return_inverse=True)
    passages = ((encoded.passage(i), *encoded.spans(i)) for i in one_a_passage.tolist())
    longest = recipe.decoding.max_length if recipe.training.sampler == "top_k" else None
    return build_rewards(passages, passage_of, (encoded.references(i) for i in range(len(encoded))), longest)


def read_init(folder: Path) -> tuple[dict[str, torch.Tensor], Lexicon]:
    """Weights and lexicon to start from: of a reader folder, of a run (its best), or of a run's checkpoint ``last``."""
    if (folder / checkpoint.MANIFEST).is_file():
        tensors, _ = checkpoint.load_checkpoint(folder)
        kept = part(tensors, "average.") or part(tensors, "network.")
        return kept, Lexicon.load(folder.parent / "run")
    reader = open_folder(folder / "best" if (folder / "best" / MANIFEST).is_file() else folder)
    return readerfolder.read_weights(reader), reader.lexicon
