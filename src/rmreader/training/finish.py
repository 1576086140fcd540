"""What is done with a reader once it is trained: its confidences are fitted, and files of questions
answered."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from rmreader.core.console import say
from rmreader.core.errors import UserError
from rmreader.core.files.atomic import write_whole
from rmreader.core.recipe import Recipe
from rmreader.data.encode import encode_file
from rmreader.data.encoded import Encoded
from rmreader.readers.folder import MANIFEST, open_folder
from rmreader.readers.write import update
from rmreader.reading.calibrate import ENOUGH, calibrate, rows_in
from rmreader.reading.compare import compare_with_torch
from rmreader.text.tags import can_tag
from rmreader.training.contextual import ContextualInputs
from rmreader.training.evaluate import predict
from rmreader.training.feed import Feed
from rmreader.training.prepare import Setup
from rmreader.training.reader_folder import load_network, pick_device
from rmreader.training.run_folder import find_init

_COMPARED = 4  # questions that a trained reader is read with both engines on
_NO_SPACY = "to tag other texts needs spaCy, which is not installed"


def calibrate_best(setup: Setup) -> None:
    """Fit the reader's temperature on the held-out articles, unless that was done before.

    A reader that cannot be calibrated is whole all the same, and its training was long: it is only
    said.
    """
    best = setup.out / "best"
    init = setup.recipe.training.init
    if "calibration" in open_folder(best).about:
        return
    if setup.selection is None:
        state = "not calibrated"
        if init:
            state = f"as sure as training.init={init}, temperature {setup.temperature:.3f}"
        say(
            f"{best}: confidences are {state}, since no articles are held out to fit them on "
            "(training.holdout=0); fit them on questions of yours: rmreader calibrate."
        )
        update(best, **_decision_of(setup.recipe))
        return
    can_refuse = setup.recipe.network.no_answer
    rows = rows_in(setup.selection.encoded)
    questions = [row for row in rows if row.references or can_refuse]
    if init and len(questions) < ENOUGH:
        say(
            f"{best}: {len(questions)} held-out questions are too few to fit confidences on; those "
            f"of {init} stay."
        )
        calibration = {"inherited": init, "questions": len(questions)}
        update(best, calibration=calibration, **_decision_of(setup.recipe))
        return
    if setup.recipe.inputs.tags and not can_tag():
        # The run itself had its tags from the cache, made where spaCy is.
        say(f"{best}: confidences are not calibrated: {_NO_SPACY}; rmreader calibrate does it.")
        update(best, calibration={"skipped": _NO_SPACY})
        return
    try:
        calibrate(best, questions, engine="torch")
    except UserError as error:
        say(f"{best}: confidences are not calibrated: {error}")


def compare_best(setup: Setup) -> None:
    """Compare the trained reader's two engines, with and without torch, on a few held-out
    questions; refused where they differ. Unless that was done when the run first ended, or these
    texts cannot be tagged here."""
    best = setup.out / "best"
    folder = open_folder(best)
    if "engines" in folder.about or (setup.recipe.inputs.tags and not can_tag()):
        return
    feed = setup.selection or setup.train
    agreement = compare_with_torch(folder, _some_questions(feed.encoded, setup.recipe))
    if agreement is not None:
        update(best, engines=dataclasses.asdict(agreement))


def _some_questions(encoded: Encoded, recipe: Recipe) -> list[tuple[str, str]]:
    """A few questions with passages as long as those learned from, spread over the data."""
    fits = encoded.context_lengths <= recipe.training.max_context
    numbers = np.flatnonzero(fits)
    places = np.linspace(0, len(numbers) - 1, min(_COMPARED, len(numbers))).astype(int)
    return [(encoded.question(i), encoded.passage(i)) for i in numbers[places].tolist()]


def _decision_of(recipe: Recipe) -> dict[str, Any]:
    """What the reader that a run started from decides by, for a network that can say that there is
    no answer."""
    if not recipe.network.no_answer:
        return {}
    manifest = find_init(recipe.training.init)
    if manifest is None or manifest.name != MANIFEST:
        return {}
    about = open_folder(manifest.parent).about
    return {"no_answer": about["no_answer"]} if "no_answer" in about else {}


def answer_file(
    reader: Path,
    questions: Path,
    out: Path,
    device: str | None,
    cache_dir: str | Path | None = None,
) -> None:
    """Write a reader's answers by id, in the official format, unless they are there."""
    if out.exists():
        return
    place = pick_device(device)
    network, lexicon, recipe = load_network(reader, place)
    encoded = encode_file(questions, cache_dir)
    contextual = ContextualInputs(recipe.inputs, place, cache_dir, reader)
    feed = Feed(encoded, lexicon, place, contextual=contextual)
    texts, _ = predict(network, feed, recipe.decoding.max_length)
    answers = dict(zip(encoded.ids, texts, strict=True))
    write_whole(out, json.dumps(answers).encode())
