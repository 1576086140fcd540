"""Make a reader fit to ship: in 8 bits, with its card, scores and signature.

It is one trained folder or the mean of several.

    python -m lab.scripts.ship_reader OUT/best [OUT/best ...] --out src/rmreader/readers/small \\
        --held-out heldout.json.gz --dev dev-v1.1.json.gz \\
        --adversarial addsent.json.gz addonesent.json.gz \\
        --doubt held-squad.json.gz held-everyday.json.gz --recipe recipes/small.yaml \\
        --summary "Runs on a laptop's processor with nothing to download."

Everything in the folder is written here: the temperature is fitted on the held-out questions where
the readers have none of their own, 8-bit products are measured on them, and the scores are those
that `rmreader evaluate` gives for the very files that ship. Nothing is written where any step
fails.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from lab.scripts.data_names import called
from lab.scripts.doubt import Counts, count, judge
from rmreader.core.errors import UserError
from rmreader.core.files.manifest import CARD, sign
from rmreader.core.files.outputs import folder_to_write
from rmreader.core.recipe import save_recipe
from rmreader.core.version import commit
from rmreader.readers.card import HELD_OUT, card
from rmreader.readers.folder import MANIFEST, RECIPE, open_folder
from rmreader.readers.write import update
from rmreader.reading import export
from rmreader.reading.calibrate import calibrate, questions_of
from rmreader.reading.reader import Reader
from rmreader.training.average import average


def ship(args: argparse.Namespace) -> None:
    """All steps, in a folder beside the place, and then into it."""
    reported = [called(data) for data in (args.dev, *args.also, *args.adversarial)]
    if len({*reported}) < len(reported):
        raise UserError("two of the files to report on have the same name; rename one.")
    sources = [open_folder(source).path for source in args.trained]
    folder_to_write(args.out, *sources)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    export.ALLOWED_LOSS = args.allowed_loss
    with tempfile.TemporaryDirectory(dir=args.out.parent, prefix=f".{args.out.name}-") as place:
        whole, small = Path(place) / "whole", Path(place) / args.out.name
        if len(sources) > 1:
            average(sources, whole)
        else:
            shutil.copytree(sources[0], whole)
        forget_places(whole)
        export.shrink(whole, small, "int8", "int8", args.held_out)
        if (
            "calibration" not in (about := open_folder(small)).about
        ):  # by the very engine that ships
            rows = questions_of(args.held_out, about.recipe.network.no_answer)
            calibrate(small, rows, answered=args.answered, balanced=True)
        scores = {called(data): measured(small, data) for data in (args.dev, *args.also)}
        if about.recipe.network.no_answer:
            scores[HELD_OUT] = measured(small, args.held_out)
        scores |= {
            called(data): measured(small, data, "--adversarial") for data in args.adversarial
        }
        describe(small, scores, doubts(small, args.doubt), args)
        os.rename(small, args.out)


def forget_places(folder: Path) -> None:
    """Keep only the last names of the paths that a reader started and learned from: they say
    nothing to others."""
    reader = open_folder(folder)
    training = reader.recipe.training
    teacher = ",".join(Path(one).name for one in training.teacher.split(",") if one)
    training = dataclasses.replace(
        training,
        init=Path(training.init).name,
        teacher=teacher,
        teacher_states=Path(training.teacher_states).name,
        inherit="/".join(Path(training.inherit).parts[-2:]),
    )
    save_recipe(dataclasses.replace(reader.recipe, training=training), folder / RECIPE)
    sign(folder, MANIFEST, reader.about)


def measured(folder: Path, data: Path, *options: str) -> dict[str, float]:
    """What `rmreader evaluate` says of the files, on this machine."""
    words = [
        sys.executable,
        "-m",
        "rmreader",
        "evaluate",
        str(data),
        "--model",
        str(folder),
        "--json",
        *options,
    ]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"{data}: could not be scored: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    return {
        name: found[name]
        for name in ("exact_match", "f1", "total", "ece", "no_answer", "decided")
        if name in found
    }


def doubts(folder: Path, files: list[Path]) -> dict[str, Counts]:
    """How often each word of doubt is right on these files, by the very files that ship."""
    if not files:
        return {}
    reader = Reader.load(folder)
    return {called(path): count(judge(reader, path)) for path in files}


def describe(
    folder: Path,
    scores: dict[str, Any],
    doubt: dict[str, Counts],
    args: argparse.Namespace,
) -> None:
    """Write manifest and card; scores from training stay under their names, after those of the
    files."""
    reader = open_folder(folder)
    about = {
        "summary": args.summary,
        "learned_from": args.learned_from,
        "hub": hub(args),
        "scores": scores
        | {name: score for name, score in reader.about["scores"].items() if name == "selection"},
        "measured_from_files": sorted(scores),
        "doubt": doubt,
        "provenance": reader.about["provenance"]
        | {"commit": args.commit or commit(), "recipe": args.recipe},
    }
    write_card(folder, args.out.name, about)


def write_card(folder: Path, name: str, changes: dict[str, Any]) -> None:
    """Write what is new into the manifest, and the card of all that is in it."""
    reader = open_folder(folder)
    about = reader.about | changes
    count = sum(int(weight.size) for weight in reader.weights().values())
    text = card(name, reader.recipe, about, count)
    (folder / CARD).write_text(text, encoding="utf-8")
    update(folder, **changes)
    open_folder(folder)


def hub(args: argparse.Namespace) -> dict[str, Any]:
    """What the head of the card says beside the scores."""
    known: dict[str, Any] = {"license": args.license, "datasets": args.datasets}
    if args.base_model:
        known["base_model"] = args.base_model
    return known


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "trained", nargs="+", help="reader folders; the mean of several, all from one start"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="the folder to write; its name is the reader's"
    )
    parser.add_argument(
        "--held-out", type=Path, required=True, help="questions that no reader learned from"
    )
    parser.add_argument("--dev", type=Path, required=True, help="questions to report scores on")
    parser.add_argument(
        "--also", type=Path, nargs="*", default=[], help="more files to report scores on"
    )
    parser.add_argument(
        "--adversarial", type=Path, nargs="*", default=[], help="AddSent-like files to report on"
    )
    parser.add_argument(
        "--doubt", type=Path, nargs="*", default=[], help="files to count the words of doubt on"
    )
    parser.add_argument(
        "--recipe", required=True, help="the recipe it was trained by, as the card names it"
    )
    parser.add_argument("--summary", default="", help="a sentence for the card")
    parser.add_argument("--learned-from", default="", help="a sentence on its data, for the card")
    parser.add_argument(
        "--license", default="cc-by-sa-4.0", help="the licence of the weights, as the hub calls it"
    )
    parser.add_argument(
        "--datasets",
        nargs="*",
        default=["rajpurkar/squad", "rajpurkar/squad_v2"],
        help="the data that it learned from, as the hub calls them",
    )
    parser.add_argument(
        "--base-model", default="", help="the encoder that it began from, as the hub calls it"
    )
    parser.add_argument(
        "--commit", default="", help="the commit it was trained at, where that is not this one"
    )
    parser.add_argument(
        "--allowed-loss", type=float, default=export.ALLOWED_LOSS, help="of F1, for 8 bits"
    )
    parser.add_argument(
        "--answered",
        type=float,
        default=0.95,
        help="of the held-out questions with an answer, the share that must get one",
    )
    args = parser.parse_args()
    try:
        ship(args)
    except UserError as error:
        sys.exit(f"error: {error}")
    print((args.out / CARD).read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
