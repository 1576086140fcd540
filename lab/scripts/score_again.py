"""Score a shipped reader again, as after a change of the engine, and write its card anew.

    python -m lab.scripts.score_again src/rmreader/readers/shipped/base \\
        --dev dev-v1.1.json.gz --adversarial addsent.json.gz addonesent.json.gz \\
        --doubt held-squad.json.gz held-everyday.json.gz test-everyday.json.gz

Weights, temperature and decision stay as they are, and so do the scores on what these were fitted
on. Its manifest is written anew, too.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from lab.scripts.data_names import called
from lab.scripts.ship_reader import doubts, measured, write_card
from rmreader.readers.folder import open_folder


def main() -> None:
    """Read the command line, then score."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("reader", type=Path, help="the folder of a shipped reader")
    parser.add_argument(
        "--dev",
        type=Path,
        required=True,
        help="questions to report scores on",
    )
    parser.add_argument(
        "--adversarial",
        type=Path,
        nargs="*",
        default=[],
        help="attacked sets",
    )
    parser.add_argument(
        "--doubt",
        type=Path,
        nargs="*",
        default=[],
        help="for the words of doubt",
    )
    parser.add_argument("--learned-from", default="", help="a sentence on its data, for the card")
    parser.add_argument("--summary", default="", help="a sentence for the card")
    args = parser.parse_args()

    scores: dict[str, Any] = {called(args.dev): measured(args.reader, args.dev)}
    for path in args.adversarial:
        scores[called(path)] = measured(args.reader, path, "--adversarial")

    about = open_folder(args.reader).about
    files = {*about.get("measured_from_files", []), *scores}
    # Scores that files were not given for stay.
    changes = {
        "scores": about["scores"] | scores,
        "measured_from_files": sorted(files),
        "doubt": doubts(args.reader, args.doubt) or about.get("doubt", {}),
        "learned_from": args.learned_from or about.get("learned_from", ""),
        "summary": args.summary or about.get("summary", ""),
    }
    write_card(args.reader, args.reader.resolve().name, changes)
    print((args.reader / "README.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
