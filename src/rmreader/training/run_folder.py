"""The folder of a run: who may write to it, what it was started with, and what to do when asked to
stop.

``run/`` says what the run is (recipe, lexicon, training data), ``last/`` is the newest checkpoint,
``best/`` the reader, ``log.jsonl`` the log, ``bad/`` the questions of the steps that were skipped.
"""

import contextlib
import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from rmreader.core.console import say
from rmreader.core.errors import UserError
from rmreader.core.files.atomic import lock
from rmreader.core.files.manifest import damage, read_manifest, settle, write_folder
from rmreader.core.recipe import Recipe, load_recipe, save_recipe, to_tree
from rmreader.readers.folder import MANIFEST, RECIPE, SHIPPED
from rmreader.text.lexicon import Lexicon
from rmreader.training.contextual import ContextualInputs

CHECKPOINT = "checkpoint.json"
_RUN = "run.json"
_TENSORS = "tensors.safetensors"
_STATE = "state.json"
INIT_REMEDY = (
    "give a run's or a reader's folder, or the name of a reader that comes with rmreader, as small."
)


def claim(out: Path, recipe: Recipe, train_sha256: str, resume: bool) -> dict[str, Any] | None:
    """Make the folder ours or say why not; what was recorded of the run to go on with, None for a
    new one."""
    places = {"run": _RUN, "last": CHECKPOINT, "best": MANIFEST}
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file; give a folder for the run.")
    if not resume and _holds_a_run(out, [*places, "log.jsonl"]):
        raise UserError(
            f"{out}: already holds a run; add --resume to go on with it, or give another folder."
        )
    out.mkdir(parents=True, exist_ok=True)
    for name, manifest in places.items():
        for note in settle(out / name, manifest):
            say(note)
    if not (out / "run").exists():
        left = [f"{name}/" for name in ("last", "best") if (out / name).exists()]
        if left:
            raise UserError(
                f"{out}: holds {' and '.join(left)} but not run/, which says what was trained; "
                "restore it, or give another folder."
            )
        return None
    about: dict[str, Any] = read_manifest(out / "run" / _RUN)
    _same_run(out, about, recipe, train_sha256)
    return about


def _holds_a_run(out: Path, names: Sequence[str]) -> bool:
    """Whether anything of a run is there, be it half written."""
    for name in names:
        for suffix in ("", ".new", ".old"):
            if (out / f"{name}{suffix}").exists():
                return True
    return False


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Within, no other process trains into this folder; a folder that is made for it and stays
    empty is removed."""
    made = not out.exists()
    if made:
        out.mkdir(parents=True)
    if not out.is_dir():  # ``claim`` says what is wrong
        yield
        return
    try:
        with lock(out, "another process is training into it; wait for it, or give another folder."):
            yield
    finally:
        if made:
            with contextlib.suppress(OSError):  # not empty
                out.rmdir()


def record(
    out: Path,
    recipe: Recipe,
    lexicon: Lexicon,
    contextual: ContextualInputs,
    train_sha256: str,
    temperature: float,
) -> None:
    """Write down what the run is started with."""

    def fill(folder: Path) -> dict[str, Any]:
        save_recipe(recipe, folder / RECIPE)
        lexicon.save(folder)
        contextual.save(folder)
        init = fingerprint(recipe.training.init)
        return {"format": 1, "train_sha256": train_sha256, "init": init, "temperature": temperature}

    write_folder(out / "run", _RUN, fill)


def save_checkpoint(target: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Write tensors and plain data as one checkpoint; the one before is kept as ``NAME.old``."""

    def fill(folder: Path) -> dict[str, Any]:
        on_host = {}
        for name, tensor in tensors.items():
            on_host[name] = tensor.detach().cpu().contiguous()
        save_file(on_host, folder / _TENSORS)
        (folder / _STATE).write_text(json.dumps(state), encoding="utf-8")
        return {"format": 1, "step": state.get("step")}

    write_folder(target, CHECKPOINT, fill, keep_previous=True)


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the plain data of a checkpoint, refused unless every byte is as it was
    written."""
    if (problem := damage(folder, CHECKPOINT)) is not None:
        raise UserError(f"{folder}/{problem}; this checkpoint cannot be loaded.")
    return load_file(folder / _TENSORS), json.loads((folder / _STATE).read_text(encoding="utf-8"))


def find_init(init: str | Path) -> Path | None:
    """The manifest of what ``training.init`` names: a checkpoint, a run (its best), a reader by
    folder or, if it comes with the package, by name; None where it is none of them."""
    folder = Path(init)
    places = (
        folder / CHECKPOINT,
        folder / "best" / MANIFEST,
        folder / MANIFEST,
        SHIPPED / folder / MANIFEST,
    )
    if not str(init):
        return None
    return next((path for path in places if path.is_file()), None)


def fingerprint(init: str | Path) -> str:
    """The checksums of the weights that ``training.init`` names, by whatever path; empty where
    there are none."""
    manifest = find_init(init)
    try:
        sums = read_manifest(manifest)["checksums"] if manifest else {}
    except (OSError, ValueError):  # damaged
        return ""
    return " ".join(value for name, value in sorted(sums.items()) if name.endswith(".safetensors"))


def _same_run(out: Path, about: Mapping[str, Any], recipe: Recipe, train_sha256: str) -> None:
    before = flat(load_recipe(out / "run" / RECIPE))
    now = flat(recipe)
    began = about.get("init")
    present = fingerprint(recipe.training.init)
    if began and present == began:
        # the same weights, moved or named otherwise
        before["training.init"] = recipe.training.init
    changed = []
    for key, value in now.items():
        if value != before.get(key):
            changed.append(f"{key} (was {before.get(key)}, is {value})")
    if changed:
        raise UserError(
            f"{out}: the run was started with another recipe: {', '.join(changed)}; resume with "
            "its own."
        )
    # without a checkpoint the weights are read again
    is_read_again = not (out / "last").exists()
    if began and is_read_again and present not in (began, ""):
        raise UserError(
            f"{out}: training.init={recipe.training.init} has other weights than when the run was "
            "started; restore them, or give another folder."
        )
    if about["train_sha256"] != train_sha256:
        raise UserError(
            f"{out}: the run was started on other training data; resume with the same file."
        )


def flat(recipe: Recipe) -> dict[str, Any]:
    """Every setting of a recipe, as ``network.blocks``, with its value."""
    settings = {}
    for section, part in to_tree(recipe).items():
        for key, value in part.items():
            settings[f"{section}.{key}"] = value
    return settings


class Stop:
    """Whether somebody asked the run to stop."""

    asked = False

    def __bool__(self) -> bool:
        return self.asked


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Within, SIGINT and SIGTERM ask for a stop after the step; a second one stops at once."""
    stop = Stop()

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True

    with on_signals(ask, "SIGINT", "SIGTERM"):
        yield stop


@contextmanager
def on_signals(handler: Callable[[int, FrameType | None], None], *names: str) -> Iterator[None]:
    """Within, these signals, where the system has them, are handled so; in the main thread alone,
    as Python does."""
    main = threading.current_thread() is threading.main_thread()
    numbers = [getattr(signal, name) for name in names if main and hasattr(signal, name)]
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
